"""The facets between two cells, and how both see them, in bulk from the cones of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import arrangements, reference_cell, relative_turns
from femgpu.errors import MeshError, collective
from femgpu.mesh.block import Block
from femgpu.mesh.ghost_cells import CellFacets, GhostCells
from femgpu.mesh.motion import Motion
from femgpu.mesh.regions import FACET_LABEL, Region
from femgpu.mesh.shared_points import any_rank
from femgpu.mesh.topology import TYPE_NAMES, cone_offsets, point_types


class InteriorFacets(NamedTuple):
    """Facets between two cells. The first cell, `'+'` in forms, is the one with the lower number.

    A facet between cells of two ranks is among those of the lower rank, whose cell is the first one: see `GhostCells`.

    Attributes:
        points: (num,) DMPlex points, int32.
        cells: (num, 2) both cells of each, int32.
        local_facets: (num, 2) its numbers within the cones of the cells, int32.
        turns: (num, 2) rows of the `arrangements` of its vertices, int32: that of the first cell with itself, and which vertices of
            the first cell's facet are those of the second one's.
        ghosts: copies of other ranks' cells, which `cells` numbers behind those of this rank.
    """

    points: npt.NDArray[np.int32]
    cells: npt.NDArray[np.int32]
    local_facets: npt.NDArray[np.int32]
    turns: npt.NDArray[np.int32]
    ghosts: GhostCells

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The cells of each type, copies behind those of this rank."""
        return self.ghosts.blocks


def interior_facets(dm: PETSc.DMPlex, blocks: Sequence[Block], motion: Motion, mpi: Any) -> InteriorFacets:
    """Finds the facets between two cells that this rank integrates over; collective.

    Raises:
        MeshError: for a facet of more cells.
    """
    with collective(mpi):
        inside, alone = _cell_facets(dm)
    ghosts = GhostCells(dm, alone, blocks, mpi)
    motion.followers.append(ghosts.follow)
    first, second = (
        CellFacets(*map(np.concatenate, zip(inside.part(slice(side, None, 2)), far, strict=True)))
        for side, far in enumerate((ghosts.here, ghosts.there))
    )
    cells, local_facets, orientations = (np.stack(pair, axis=1) for pair in list(zip(first, second, strict=True))[1:])
    start, end = dm.getHeightStratum(1)
    types = point_types(dm, start, end)[first.points - start] if len(first.points) else np.empty(0, np.int8)
    turns = np.zeros(cells.shape, np.int32)
    for number in np.unique(types):
        size = 1 if TYPE_NAMES[number] == "point" else reference_cell(TYPE_NAMES[number]).num_vertices
        mine = types == number
        half = len(arrangements(size)) // 2
        both = orientations[mine] + half
        turns[mine] = np.stack([np.full(len(both), half), relative_turns(size)[both[:, 0], both[:, 1]]], axis=1)
    return InteriorFacets(first.points, cells, local_facets, turns, ghosts)


def _cell_facets(dm: PETSc.DMPlex) -> tuple[CellFacets, CellFacets]:
    """The facets of this rank's cells: those of two cells, one cell's entry after the other's; and those of one.

    Raises:
        MeshError: for a facet of more cells.
    """
    start, end = dm.getHeightStratum(0)
    first, last = dm.getHeightStratum(1)
    if end <= start:
        return (CellFacets(*[np.empty(0, np.int32)] * 4),) * 2
    facet = petsc_c.cones(dm, start, end) - np.int32(first)
    offsets = cone_offsets(point_types(dm, start, end))
    uses = np.bincount(facet, minlength=max(last - first, 0))
    if uses.max(initial=0) > 2:
        raise MeshError(f"facet {int(uses.argmax()) + first} of the mesh belongs to {uses.max()} cells; expected one or two")
    # Cells follow each other in the list: the lower one of a facet comes first.
    order = np.argsort(facet, kind="stable")
    cells = np.searchsorted(offsets, order, side="right") - 1
    columns = (facet[order] + np.int32(first), cells, order - offsets[cells], petsc_c.cone_orientations(dm, start, end)[order])
    every = CellFacets(*(column.astype(np.int32, copy=False) for column in columns))
    twice = uses[facet[order]] == 2
    return every.part(twice), every.part(~twice)


def labelled_interior(
    dm: PETSc.DMPlex, mpi: Any, interior: InteriorFacets, points: npt.NDArray[np.int32], region: Region
) -> npt.NDArray[np.int64]:
    """Positions in the table of interior facets of those among a region's points on any rank; collective.

    Raises:
        MeshError: on all ranks, when there are none.
    """
    start, end = dm.getChart()
    marked = np.zeros(end - start, bool)
    marked[points - start] = True
    found = np.flatnonzero(any_rank(dm, marked)[interior.points - start])
    if mpi.allreduce(len(found)) == 0:
        raise MeshError(
            f"the region {region!r} marks no facet between two cells; expected a label on such facets, in {FACET_LABEL!r} for "
            "example: femgpu.mesh.mark(dm, name, where, dim) with the mesh's dimension less one marks them, too"
        )
    return found
