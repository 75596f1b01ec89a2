"""The types of the cells of a DMPlex, agreed on by all ranks; refusals of what femgpu cannot integrate over."""

from __future__ import annotations

from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import CELL_NAMES
from femgpu.errors import MeshError, collective
from femgpu.mesh.shared_points import shared_leaves
from femgpu.mesh.topology import POLYTOPES, points_between

_POLYTOPE_NAMES = {value: name.lower().replace("_", " ") for name, value in vars(PETSc.DM.PolytopeType).items() if name.isupper()}
_TENSOR_HINT = (
    ". createFromCellList and -dm_plex_transform_extrude_use_tensor 1 make tensor prisms: extrude with "
    "-dm_plex_transform_extrude_use_tensor 0, read gmsh files with -dm_plex_gmsh_hybrid 0, or set the cell types to TRI_PRISM "
    "before dm.interpolate()"
)


def cell_names(dm: PETSc.DMPlex, mpi: Any) -> tuple[str, ...]:
    """The names of the cell types of a mesh; collective.

    Args:
        dm: the DMPlex.
        mpi: its mpi4py communicator.

    Returns:
        Names of `femgpu.element.CELL_NAMES` in the order of that list, the same on all ranks.

    Raises:
        MeshError: for meshes that are not interpolated, overlap, lie on a surface, are empty, or hold cells that are not
            supported.
    """
    with collective(mpi):
        _check_supported(dm)
    start, end = dm.getHeightStratum(0)
    label = dm.getCellTypeLabel()
    here = [int(value) for value in label.getValueIS().getIndices() if len(points_between(label, int(value), start, end))]
    types = sorted({value for values in mpi.allgather(here if end > start else []) for value in values})
    if not types:
        raise MeshError("the mesh has no cells; expected at least one")
    wrong = [_POLYTOPE_NAMES.get(value, str(value)) for value in types if POLYTOPES.get(value) not in CELL_NAMES]
    if wrong:
        hint = _TENSOR_HINT if any("tensor" in name for name in wrong) else ""
        raise MeshError(f"cells of type {', '.join(wrong)} are not supported; expected {', '.join(CELL_NAMES)}{hint}")
    return tuple(sorted((POLYTOPES[value] for value in types), key=CELL_NAMES.index))


def has_petsc_elements(cells: tuple[str, ...]) -> bool:
    """Whether PETSc's own finite elements are right on a mesh of these cell types: on one simplex or tensor type."""
    return len(cells) == 1 and cells[0] != "prism"


def _check_supported(dm: PETSc.DMPlex) -> None:
    if not isinstance(dm, PETSc.DMPlex) and dm.getType() != PETSc.DM.Type.PLEX:
        raise MeshError(f"a DM of type {dm.getType()} was given; expected a DMPlex")
    dim, geometric = dm.getDimension(), dm.getCoordinateDim()
    if dim != geometric:
        raise MeshError(
            f"the mesh has dimension {dim} in a space of dimension {geometric}; expected equal dimensions "
            "(for a plane mesh from a file, set -dm_plex_gmsh_spacedim 2 or drop the third coordinate)"
        )
    if not 1 <= dim <= 3:
        raise MeshError(f"the mesh has dimension {dim}; expected 1, 2 or 3")
    start, end = dm.getHeightStratum(0)
    if end > start and dm.getDepth() != dim:
        raise MeshError("the mesh has cells and vertices only; call dm.interpolate() to build its faces and edges")
    if petsc_c.overlap(dm) > 0 or _has_ghost_cells(dm, start, end):
        raise MeshError("the mesh is distributed with overlapping cells; expected overlap 0: dm.distribute(overlap=0)")


def _has_ghost_cells(dm: PETSc.DMPlex, start: int, end: int) -> bool:
    if dm.getComm().getSize() == 1:
        return False
    leaves = shared_leaves(dm)
    return bool(np.any((leaves >= start) & (leaves < end)))
