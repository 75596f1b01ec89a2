"""The facets between two cells of this rank, and how both see them, in bulk from the cones of the cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import arrangements, reference_cell, relative_turns
from femgpu.errors import MeshError
from femgpu.mesh.regions import FACET_LABEL, Region
from femgpu.mesh.topology import TYPE_NAMES, cone_offsets, point_types


class InteriorFacets(NamedTuple):
    """Facets between two cells, by increasing point number. The first cell, `'+'` in forms, is the one with the lower number.

    Attributes:
        points: (num,) DMPlex points, int32.
        cells: (num, 2) both cells of each, int32.
        local_facets: (num, 2) its numbers within the cones of the cells, int32.
        turns: (num, 2) rows of the `arrangements` of its vertices, int32: that of the first cell with itself, and which vertices of
            the first cell's facet are those of the second one's.
    """

    points: npt.NDArray[np.int32]
    cells: npt.NDArray[np.int32]
    local_facets: npt.NDArray[np.int32]
    turns: npt.NDArray[np.int32]


def interior_facets(dm: PETSc.DMPlex) -> InteriorFacets:
    """Finds the facets that belong to two cells of this rank.

    Raises:
        MeshError: for a facet of more cells.
    """
    start, end = dm.getHeightStratum(0)
    first, last = dm.getHeightStratum(1)
    facet = petsc_c.cones(dm, start, end) - np.int32(first)
    orientations = petsc_c.cone_orientations(dm, start, end)
    offsets = cone_offsets(point_types(dm, start, end))
    uses = np.bincount(facet, minlength=max(last - first, 0))
    if uses.max(initial=0) > 2:
        raise MeshError(f"facet {int(uses.argmax()) + first} of the mesh belongs to {uses.max()} cells; expected one or two")
    shared = np.flatnonzero(uses[facet] == 2)
    # Cells follow each other in the list: the lower one of a facet comes first.
    where = shared[np.argsort(facet[shared], kind="stable")].reshape(-1, 2)
    cells = np.searchsorted(offsets, where, side="right") - 1
    points = facet[where[:, 0]] + np.int32(first)
    types = point_types(dm, first, last)[points - first] if len(points) else np.empty(0, np.int8)
    turns = np.zeros(where.shape, np.int32)
    for number in np.unique(types):
        size = 1 if TYPE_NAMES[number] == "point" else reference_cell(TYPE_NAMES[number]).num_vertices
        mine = types == number
        half = len(arrangements(size)) // 2
        both = orientations[where[mine]] + half
        turns[mine] = np.stack([np.full(len(both), half), relative_turns(size)[both[:, 0], both[:, 1]]], axis=1)
    return InteriorFacets(points, cells.astype(np.int32), (where - offsets[cells]).astype(np.int32), turns)


def labelled_interior(mpi: Any, interior: InteriorFacets, points: npt.NDArray[np.int32], region: Region) -> npt.NDArray[np.int64]:
    """Positions in the table of interior facets of those among a region's points; collective.

    Raises:
        MeshError: on all ranks, when there are none.
    """
    found = np.flatnonzero(np.isin(interior.points, points, assume_unique=True))
    if mpi.allreduce(len(found)) == 0:
        raise MeshError(
            f"the region {region!r} marks no facet between two cells; expected a label on such facets, in {FACET_LABEL!r} for "
            "example: femgpu.mesh.mark(dm, name, where, dim) with the mesh's dimension less one marks them, too"
        )
    return found
