"""Which entries a matrix has: its rows in compressed form, and where the entries of element matrices go.

Rows are made on the device: each group of dofs (`Groups`) merges the sorted lists of columns of its cells. Nothing is ever as long
as all entries of all element matrices, but the places that are kept of them: 2 bytes for each pair of groups in a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import PlanError
from femgpu.kernels import entry_kernels
from femgpu.operators.columns import Chains, Columns, Groups
from femgpu.operators.lists import Entries, owned, run
from femgpu.operators.term import Term
from femgpu.runtime import Kernel, Runtime

_END = np.int32(2**31 - 1)
# Parts of the values begin at multiples of a device's alignment of sub-buffers.
_ALIGNMENT = 512
_GROUP_SIZE = 64
# Places within shorter rows take two bytes, the mark included.
_SHORT = 2**15
# Position among the arguments of `find_places` of what says whether it counts or marks.
_MARKS = 12

Couples = frozenset[tuple[int, int]]
# Rows that other ranks have computed a share of: their numbers as columns, lengths, and their columns, row after row.
Rows = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]


class Pattern:
    """The entries of a form's matrix on this rank.

    Values stand in one buffer: the entries of this rank's rows and columns, row by row; then those of its rows and other ranks'
    columns; then, to be sent, its shares of other ranks' rows. Prescribed rows have the diagonal alone, prescribed columns
    nothing else. Fields that are not coupled have no entries together but those of each point's own dofs, so that every row
    has a diagonal.

    Args:
        runtime: the device.
        terms: the terms of the form.
        groups: the groups of dofs of its space.
        columns: the columns.
        more: rows of this rank that others add to; None: none.
        shares_only: leaves this rank's rows out but for their diagonals.

    Attributes:
        columns: the columns.
        starts: (num_columns, 2) int32 where the two parts of each row begin among the values.
        lengths: (num_columns, 2) int32 how many entries they have.
        begins: where the three sections of the values begin, and where the last ends.
        dofs: device buffer (num_local, 4) int32: where the two parts of each dof's row begin, -1 where it is prescribed; its number
            among the columns of its group, ~number where another rank owns it.
        place: C type of `places`.
        columns_of_values: device buffer (num_values,) int32 the column of each value; to be deleted by who needs it no more.
        places: by `Term.blocks`, field of the rows and field of the columns: device buffer (num_whole, parts, parts), where the
            columns of one group begin in the rows of another; the highest bit marks those where the cell is the only one with both
            groups.

    Raises:
        PlanError: where there are more entries than 32-bit indices reach.
    """

    def __init__(
        self,
        runtime: Runtime,
        terms: Sequence[Term],
        groups: Groups,
        columns: Columns,
        more: Rows | None = None,
        shares_only: bool = False,
    ):
        self._runtime, self.columns, self._chains = runtime, columns, Chains(groups, columns)
        self._heads, self._following = runtime.upload(self._chains.heads), runtime.upload(self._chains.following)
        self._merge(list(_cell_sets(terms)), groups, more, shares_only)
        self.dofs = runtime.upload(self._dofs())
        self.place = "ushort" if self.lengths.max(initial=0) < _SHORT else "uint"
        self.places: dict[tuple[tuple[int, ...], int, int], Any] = {}

    @property
    def num_values(self) -> int:
        """Numbers in the buffer of the values."""
        return self.begins[3]

    @property
    def alone(self) -> npt.NDArray[np.int32]:
        """(num_alone,) positions of the diagonals of prescribed rows."""
        return self.starts[: self.columns.num_owned, 0][self._alone]

    def indices(self, section: int) -> npt.NDArray[np.int32]:
        """Columns of one of the three sections of the values, read from the device."""
        found = np.empty(self._sizes[section], np.int32)
        return self._runtime.read(self.section(self.columns_of_values, section, 4), found) if found.size else found

    def section(self, buffer: Any, number: int, itemsize: int) -> Any:
        """One of the three sections of a buffer as long as the values; None where it is empty."""
        size = self._sizes[number] * itemsize
        return buffer.get_sub_region(self.begins[number] * itemsize, size) if size else None

    def find_places(self, terms: Sequence[Term], groups: Groups, mark: bool) -> None:
        """Fills `places` for all pairs of fields that terms couple, and lets go of what only that needs.

        Args:
            terms: the terms.
            groups: the groups.
            mark: marks the pairs of groups that one cell has alone, on blocks in `first_terms` whose term has no cell twice.
        """
        runtime, source = self._runtime, entry_kernels(self.place)
        uses, kernels = None, []
        if mark:
            # Behind the last is what is read of pairs that the last row lacks.
            uses = runtime.empty(4 * self.num_values + 4)
            runtime.zero(uses, 4 * self.num_values + 4)
        marked = {block for block, term in first_terms(terms).items() if mark and _once(terms, term)}
        wanted = {(term.blocks, *pair): term for term in terms for pair in term.couples}
        for (blocks, row, column), term in sorted(wanted.items(), key=lambda item: item[0]):
            rows, others = (groups.members_of(term, number) for number in (row, column))
            num_pairs = len(rows) * rows.shape[1] * others.shape[1]
            self.places[blocks, row, column] = runtime.empty(num_pairs * {"ushort": 2, "uint": 4}[self.place])
            given = [np.uint64(num_pairs), *map(np.int32, (rows.shape[1], others.shape[1], self.columns.num_owned))]
            given += [
                runtime.upload_once(rows),
                runtime.upload_once(others),
                self._heads,
                self._counts,
                self._starts,
                self.columns_of_values,
            ]
            given += [self.places[blocks, row, column], uses if len(blocks) == 1 else None, np.int32(0)]
            kernel = Kernel(runtime, source, "find_places", given, num_pairs, _GROUP_SIZE)
            kernel()
            if len(blocks) == 1 and blocks[0] in marked:
                kernels.append(kernel)
            else:
                runtime.finish()
        # All are counted now.
        for kernel in kernels:
            kernel.bound({_MARKS: np.int32(1)})()
        runtime.finish()
        del self._heads, self._following, self._counts, self._chains, self._starts

    def _dofs(self) -> npt.NDArray[np.int32]:
        """(num_local, 4) what `dofs` has."""
        columns, number = self.columns.of_local, self._chains.number
        found = np.zeros((len(columns), 4), np.int32)
        found[:, :2] = np.append(self.starts, [np.array([-1, -1], np.int32)], axis=0)[columns]
        found[:, 2] = np.where(columns < self.columns.num_owned, number, ~number)
        return found

    def _merge(self, sets: list[Any], groups: Groups, more: Rows | None, shares_only: bool) -> None:
        runtime, chains, num_owned = self._runtime, self._chains, self.columns.num_owned
        lists, parts = _lists(runtime, sets, groups, self._heads, None if more is None else _more_lists(more, chains))
        starts, begins, firsts = owned(runtime, parts, groups.count, ordered=False)
        heads = np.where(chains.heads >= num_owned, chains.heads, np.int32(-1)) if shares_only else chains.heads
        self._counts = runtime.empty(8 * groups.count)
        given = [np.int32(groups.count), np.int32(num_owned), runtime.upload(heads)]
        given += [begins, firsts, runtime.empty(4 * int(starts[-1])), lists]
        given += [self._following, self._counts, None, None]
        source = entry_kernels("ushort")
        kernel = Kernel(runtime, source, "merge_lists", given, groups.count, _GROUP_SIZE)
        kernel()
        self._begin(runtime.read(self._counts, np.empty((groups.count, 2), np.int32)))
        self._starts = runtime.upload(self.starts)
        self.columns_of_values = runtime.empty(4 * self.num_values)
        kernel.bound({9: self._starts, 10: self.columns_of_values})()
        alone = np.flatnonzero(self._alone).astype(np.int32)
        given = [np.int32(len(alone)), runtime.upload(alone), self._starts, self.columns_of_values]
        Kernel(runtime, source, "place_alone", given, len(alone), _GROUP_SIZE)()
        runtime.finish()

    def _begin(self, counts: npt.NDArray[np.int32]) -> None:
        """Divides the values among the rows.

        Args:
            counts: (num_groups, 2) entries in a row of each group, in both parts.
        """
        columns, chains, num_owned = self.columns, self._chains, self.columns.num_owned
        self.lengths = np.zeros((columns.count, 2), np.int32)
        self.lengths[chains.column] = counts[chains.group]
        self._alone = self.lengths[:num_owned, 0] == 0
        self.lengths[:num_owned, 0][self._alone] = 1
        own, shares = self.lengths[:num_owned], self.lengths[num_owned:]
        sizes = [int(own[:, 0].sum(dtype=np.int64)), int(own[:, 1].sum(dtype=np.int64)), int(shares.sum(dtype=np.int64))]
        self.begins = [0]
        for size in sizes:
            self.begins.append(-(-(self.begins[-1] + size) // _ALIGNMENT) * _ALIGNMENT)
        self.begins[3] = self.begins[2] + sizes[2]
        self._sizes = sizes
        if self.num_values > _END:
            raise PlanError(
                f"the matrix has {self.num_values} entries on this rank; 32-bit indices reach {_END}: use more ranks, or the "
                "matrix-free Jacobian"
            )
        self.starts = np.empty((columns.count, 2), np.int32)
        for part in range(2):
            self.starts[:num_owned, part] = self.begins[part] + np.cumsum(own[:, part]) - own[:, part]
        both = shares.sum(axis=1)
        self.starts[num_owned:, 0] = self.begins[2] + np.cumsum(both) - both
        self.starts[num_owned:, 1] = self.starts[num_owned:, 0] + shares[:, 0]


def first_terms(terms: Sequence[Term]) -> dict[int, Term]:
    """By number of the block, the first term whose matrices are summed, where it is over cells: they come upon zeros."""
    found: dict[int, Term] = {}
    for term in terms:
        if term.couples:
            # What facets between two cells couple may be in any cell.
            for block in term.blocks if term.other is None else range(len(term.mesh.blocks)):
                found.setdefault(block, term)
    return {block: term for block, term in found.items() if term.facets is None}


def _once(terms: Sequence[Term], term: Term) -> bool:
    """Whether a term's integral has no cell twice, however cells are divided into affine and other ones."""
    same = [other for other in terms if other.integral is term.integral and other.block is term.block]
    cells = np.concatenate([other.subset(np.arange(term.block.num_cells)) for other in same])
    return bool(np.bincount(cells).max(initial=0) <= 1)


def _cell_sets(terms: Sequence[Term]) -> Iterator[tuple[Term, Couples, npt.NDArray[np.int64]]]:
    """The cells of each block, and the facets between two, by what is coupled in them; none that another set has with more couples.

    With each set comes a term of these cells, which `numbers` counts.
    """
    masks: dict[tuple[tuple[int, ...], Couples], tuple[Term, npt.NDArray[np.bool_]]] = {}
    for term in terms:
        if pairs := term.couples:
            _, mask = masks.setdefault((term.blocks, pairs), (term, np.zeros(term.num_whole, bool)))
            mask[slice(None) if term.numbers is None else term.numbers] = True
    for (blocks, pairs), (term, mask) in masks.items():
        for (others, more), (_, cells) in masks.items():
            if others == blocks and more > pairs:
                mask = mask & ~cells
        yield term, pairs, np.flatnonzero(mask)


def _lists(runtime: Runtime, sets: list[Any], groups: Groups, heads: Any, more: Rows | None) -> tuple[Any, list[Entries]]:
    """The heads of each cell's groups, increasing, with `_END` behind; the groups whose rows merge a list, and where it begins.

    Args:
        runtime: the device.
        sets: what `_cell_sets` found.
        groups: the groups.
        heads: device buffer of `Chains.heads`.
        more: lists besides, the groups whose rows merge each, and where it begins among these; None: none.
    """
    parts, sorts, size = list[Entries](), list[tuple[Any, int, int, int]](), 0
    for term, pairs, cells in sets:
        by_columns: dict[tuple[int, ...], list[int]] = {}
        for row in sorted({row for row, _ in pairs}):
            by_columns.setdefault(tuple(sorted(column for r, column in pairs if r == row)), []).append(row)
        every = [groups.members_of(term, number) for number in range(len(term.rows))]
        members = every if len(cells) == term.num_whole else [entry[cells] for entry in every]
        for wanted, rows in by_columns.items():
            whole = members[wanted[0]] if len(wanted) == 1 else np.concatenate([members[column] for column in wanted], axis=1)
            width = whole.shape[1]
            sorts.append((runtime.upload_once(whole), len(cells), width, size))
            for row in rows:
                owners = members[row]
                parts.append(Entries(runtime.upload_once(owners), owners.size, size, owners.shape[1], width + 1))
            size += len(cells) * (width + 1)
    total = size + (0 if more is None else len(more[0]))
    if total > _END or sum(part.size for part in parts) > _END:
        raise PlanError(f"the columns of all cells are {total} numbers; 32-bit indices reach {_END}: use more ranks")
    lists = runtime.empty(4 * total)
    for buffer, count, width, first in sorts:
        run(runtime, "sort_lists", count, np.int32(count), np.int32(width), buffer, heads, np.int32(first), lists)
    if more is not None and len(more[0]):
        added, owners, firsts = more
        runtime.copy(runtime.upload(added), lists, 4 * len(added), 4 * size)
        parts.append(Entries(runtime.upload(owners), len(owners), values=runtime.upload(firsts + np.int32(size))))
    return lists, parts


def _more_lists(more: Rows, chains: Chains) -> Rows:
    """Lists as `_lists` makes them, of rows that others add to; the groups that merge each, and where it begins."""
    rows, lengths, columns = more
    group_of_head = np.full(len(chains.following), -1, np.int32)
    present = np.flatnonzero(chains.heads >= 0)
    group_of_head[chains.heads[present]] = present
    follows = np.zeros(len(chains.following), bool)
    follows[chains.following[chains.following >= 0]] = True
    # Rows of a group have the same columns: that of the head is enough, and so are heads among the columns.
    number = np.repeat(np.arange(len(rows)), lengths)
    wanted = (group_of_head[rows] >= 0)[number] & ~follows[columns]
    keys = np.sort(number[wanted] * np.int64(len(follows)) + columns[wanted])
    number, heads = keys // len(follows), keys % len(follows)
    distinct, index, counts = np.unique(number, return_inverse=True, return_counts=True)
    lists = np.full(len(heads) + len(distinct), _END, np.int32)
    lists[np.arange(len(heads)) + index] = heads
    starts = np.cumsum(counts + 1) - counts - 1
    return lists, group_of_head[rows[distinct]], starts.astype(np.int32)
