"""How the L-vectors of a form hold the dofs of a space."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.mesh import Mesh
from femgpu.mesh.cell_dofs import type_dofs
from femgpu.mesh.coordinates import section_offsets
from femgpu.mesh.ghost_cells import swap
from femgpu.mesh.shared_points import from_owners, owners
from femgpu.mesh.topology import point_types
from femgpu.spaces.field import Field
from femgpu.spaces.numbering import Numbering

_Longs = npt.NDArray[np.int64]


class Numbered(Protocol):
    """What is asked of a space; attributes are those of `Space`."""

    mesh: Mesh
    fields: tuple[Field, ...]
    num_local: int

    @property
    def dm(self) -> PETSc.DMPlex:
        """The DM with the section."""

    @property
    def numbering(self) -> Numbering:
        """The T-L map."""


class Storage:
    """The L-vectors of a space as they are.

    Args:
        space: the space, none that is a part of another one.

    Attributes:
        fields: the fields, whose offsets are positions in these L-vectors.
        num_local: their length.
    """

    fields: tuple[Field, ...]
    num_local: int

    def __init__(self, space: Numbered):
        self._space, self.fields, self.num_local = space, space.fields, space.num_local

    @property
    def numbering(self) -> Numbering:
        """The T-L map; the first access is collective."""
        return self._space.numbering

    def extend(self, values: np.ndarray) -> np.ndarray:
        """An L-vector of the space as one of these; collective where these are longer."""
        return values


class WideStorage(Storage):
    """L-vectors of a space, and behind each what only the `GhostCells` of the mesh have; collective to make.

    Forms with integrals over facets between cells of different ranks read and write them, all else is as before: what stands
    behind are ghosts like others.

    A dof is known by the rank that owns it and its position there: those that a section constrains have no global numbers.
    """

    def __init__(self, space: Numbered):
        # The space keeps this, which must not keep the space.
        mpi, ghosts = space.mesh.mpi, space.mesh.interior.ghosts
        self._mpi = mpi
        counts = np.array(mpi.allgather(space.num_local), np.int64)
        starts = np.cumsum(counts) - counts
        here = _origins(space, starts)
        copies = [
            ghosts.bring(lambda block, rows, field=field: here[field.offsets[block.index][rows]])  # type: ignore[misc]
            for field in space.fields
        ]
        every = np.unique(
            np.concatenate([_components(part, field) for field, parts in zip(space.fields, copies, strict=True) for part in parts])
        )
        more = every[~np.isin(every, here)]
        self.num_local = space.num_local + len(more)
        # Dofs of one point stand together at its owner, and so they do here.
        known = np.concatenate([here, more])
        order = np.argsort(known)
        known = known[order]
        self.fields = tuple(
            replace(
                field,
                offsets=tuple(
                    np.concatenate([own, order[np.searchsorted(known, part)].astype(np.int32)])
                    for own, part in zip(field.offsets, parts, strict=True)
                ),
            )
            for field, parts in zip(space.fields, copies, strict=True)
        )
        rank = np.searchsorted(starts, more, side="right") - 1
        self._received = np.bincount(rank, minlength=mpi.size)
        self._sent = np.array(mpi.alltoall(self._received.tolist()))
        self._positions = swap(mpi, (more - starts[rank]).astype(np.int32), self._received, self._sent)
        narrow = space.numbering
        numbers = self.extend(narrow.global_of_local)
        self._numbering = replace(narrow, num_local=self.num_local, global_of_local=numbers)

    @property
    def numbering(self) -> Numbering:
        """The T-L map."""
        return self._numbering

    def extend(self, values: np.ndarray) -> np.ndarray:
        """An L-vector of the space as one of these; collective."""
        return np.concatenate([values, swap(self._mpi, values[self._positions], self._sent, self._received)])


def _origins(space: Numbered, starts: _Longs) -> _Longs:
    """(num_local,) the owner's position of each dof of an L-vector, counted over all ranks' L-vectors; collective.

    Args:
        space: the space.
        starts: (num_ranks,) where each rank's L-vector begins.
    """
    dm, mpi = space.dm, space.mesh.mpi
    start, end = dm.getChart()
    table = sum(field.num_comp * type_dofs(field.elements) for field in space.fields)
    sizes = np.asarray(table)[point_types(dm, start, end)]
    section, first = dm.getLocalSection(), np.zeros(end - start, np.int32)
    low, high = section.getChart()
    first[low - start : high - start] = section_offsets(section, low, high)
    rank, theirs = owners(dm, mpi.rank)[0], from_owners(dm, first)
    away = np.flatnonzero((rank != mpi.rank) & (sizes > 0))
    sizes = sizes[away]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = starts[mpi.rank] + np.arange(space.num_local)
    found[np.repeat(first[away], sizes) + within] = np.repeat(starts[rank[away]] + theirs[away], sizes) + within
    return found


def _components(first: _Longs, field: Field) -> _Longs:
    """All components of nodes, of which the first ones are given."""
    return (first[..., None] + np.arange(field.num_comp)).ravel()
