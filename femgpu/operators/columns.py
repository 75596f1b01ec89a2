"""What the columns of a matrix are on one rank, and which dofs have the same ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement
from femgpu.mesh.geometry import chunks
from femgpu.operators.term import Term
from femgpu.spaces import Numbering, Storage


@dataclass(frozen=True)
class Columns:
    """Numbers of the columns that this rank knows: its own as in the T-vector, then the others by their global numbers.

    Attributes:
        first: global number of the first owned one.
        num_owned: columns of this rank.
        away: (num_away,) int64 global numbers of the others, increasing.
        of_local: (num_local,) int32 column of each entry of the L-vector; -1 where it is prescribed.
    """

    first: int
    num_owned: int
    away: npt.NDArray[np.int64]
    of_local: npt.NDArray[np.int32]

    @classmethod
    def of(
        cls, numbering: Numbering, prescribed: npt.NDArray[np.uint8] | None, foreign: npt.NDArray[np.int64] | None = None
    ) -> Columns:
        """Numbers the columns.

        Args:
            numbering: the T-L map.
            prescribed: (num_local,) entries without rows and columns; None: none but those that the section constrains.
            foreign: global numbers of columns of other ranks that may not be in the L-vector.
        """
        numbers, first, count = numbering.global_of_local, numbering.first, numbering.num_owned
        free = numbers >= 0 if prescribed is None else (numbers >= 0) & (prescribed == 0)
        mine = free & (numbers >= first) & (numbers < first + count)
        others = free & ~mine
        away = np.unique(numbers[others] if foreign is None else np.concatenate([numbers[others], foreign]))
        found = np.full(len(numbers), -1, np.int32)
        found[mine] = numbers[mine] - first
        found[others] = count + np.searchsorted(away, numbers[others])
        return cls(first, count, away, found)

    @property
    def count(self) -> int:
        """All columns."""
        return self.num_owned + len(self.away)

    def owns(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which global numbers are of this rank's."""
        return (numbers >= self.first) & (numbers < self.first + self.num_owned)

    def numbered(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Columns of global numbers, all of them known."""
        away = self.num_owned + np.searchsorted(self.away, numbers)
        return np.where(self.owns(numbers), numbers - self.first, away).astype(np.int32)

    def globally(self, columns: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Global numbers of columns."""
        numbers = columns.astype(np.int64) + self.first
        others = columns >= self.num_owned
        numbers[others] = self.away[columns[others] - self.num_owned]
        return numbers


class Groups:
    """Dofs that no cell has apart: those of one field on one point of the mesh, which stand together in the L-vector.

    Args:
        space: how L-vectors hold the dofs of the space.

    Attributes:
        members: for each field and block (num_cells, num_parts) int32, the groups of each cell.
        parts: for each field and block (num_basis,) int32, which of these each node belongs to.
        positions: (num_dofs,) int32 the groups' dofs in the L-vector, group after group.
        group_of: (num_dofs,) int32 the group of each.
        count: groups.
    """

    def __init__(self, space: Storage):
        width = np.zeros(space.num_local, np.int32)
        firsts = []
        self.parts = tuple(tuple(map(node_parts, field.elements)) for field in space.fields)
        for field, parts in zip(space.fields, self.parts, strict=True):
            for offsets, part in zip(field.offsets, parts, strict=True):
                nodes = [np.flatnonzero(part == number) for number in range(part.max() + 1)]
                first = offsets
                if not np.array_equal(np.concatenate(nodes), np.arange(len(nodes))):
                    first = np.empty((len(offsets), len(nodes)), np.int32)
                    for rows in chunks(len(offsets)):
                        for column, entry in enumerate(nodes):
                            offsets[rows, entry].min(axis=1, out=first[rows, column])
                for rows in chunks(len(first)):
                    width[first[rows]] = [len(entry) * field.num_comp for entry in nodes]
                firsts.append(first)
        starts = np.flatnonzero(width)
        if len(starts) < space.num_local:
            number = np.zeros(space.num_local, np.int32)
            number[starts] = np.arange(len(starts), dtype=np.int32)
            firsts = [number[first] for first in firsts]
        members = iter(firsts)
        self.members = tuple(tuple(next(members) for _ in field.offsets) for field in space.fields)
        self.count = len(starts)
        widths = width[starts]
        self.group_of = np.repeat(np.arange(self.count, dtype=np.int32), widths)
        before = np.cumsum(widths) - widths
        self.positions = (np.repeat(starts - before, widths) + np.arange(len(self.group_of))).astype(np.int32)

    def members_of(self, term: Term, number: int) -> npt.NDArray[np.int32]:
        """(num_whole, num_parts) the groups of a field of a term's rows in all that `Term.numbers` counts."""
        side, field = divmod(number, len(self.members))
        return term.of_whole(self.members[field], side)

    def parts_of(self, term: Term, number: int) -> npt.NDArray[np.int32]:
        """(num_basis,) which of these each node belongs to."""
        side, field = divmod(number, len(self.parts))
        return self.parts[field][term.blocks[side]]


class Chains:
    """The columns of each group, as lists that lead from one to the next; prescribed dofs have none.

    Args:
        groups: the groups.
        columns: the columns.

    Attributes:
        heads: (num_groups,) int32 the first column of each group, -1 where there is none.
        following: (num_columns,) int32 the next column of the same group, -1 after the last.
        column: (n,) int32 the columns of all groups.
        group: (n,) int32 their groups.
        number: (num_local,) int32 number of each dof's column among those of its group.
    """

    def __init__(self, groups: Groups, columns: Columns):
        found = columns.of_local[groups.positions]
        free = found >= 0
        self.column, self.group = found[free], groups.group_of[free]
        begins = np.ones(len(self.column), bool)
        begins[1:] = self.group[1:] != self.group[:-1]
        self.heads = np.full(groups.count, -1, np.int32)
        self.heads[self.group[begins]] = self.column[begins]
        self.following = np.full(columns.count, -1, np.int32)
        self.following[self.column[:-1][~begins[1:]]] = self.column[1:][~begins[1:]]
        index = np.arange(len(self.column), dtype=np.int32)
        self.number = np.zeros(len(columns.of_local), np.int32)
        self.number[groups.positions[free]] = index - np.maximum.accumulate(np.where(begins, index, 0))


def node_parts(element: LagrangeElement) -> npt.NDArray[np.int32]:
    """(num_basis,) which nodes of an element lie inside of the same part of the cell, parts numbered from 0."""
    if not element.continuous:
        return np.zeros(element.num_basis, np.int32)
    return np.unique(element.reference.entity_of(element.nodes), return_inverse=True)[1].astype(np.int32)
