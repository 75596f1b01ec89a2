"""Boxes of any cell type, with PETSc's own numbering of their sides.

PETSc needs a mesh generator for triangles and tetrahedra. Here they come from Kuhn's split of a grid: dim! simplices per
grid cell, one for each order of the axes (Kuhn, Some combinatorial lemmas in topology, 1960); neighbouring grid cells match.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element import CELL_NAMES, reference_cell
from femgpu.errors import MeshError
from femgpu.mesh.regions import FACET_LABEL, exterior_facets

# PETSc's value of "Face Sets" on the lower and upper side of each axis.
SIDES = {1: ((1, 2),), 2: ((4, 2), (1, 3)), 3: ((6, 5), (3, 4), (1, 2))}
MARKER_LABEL = "marker"
_INT32_MAX = np.iinfo(np.int32).max


def box(
    faces: int | Sequence[int],
    cell: str = "tetrahedron",
    lower: float | Sequence[float] | None = None,
    upper: float | Sequence[float] | None = None,
    comm: PETSc.Comm | None = None,
) -> PETSc.DMPlex:
    """A box, distributed over the ranks; collective.

    Sides are marked in the label "Face Sets" as PETSc does: x- 1, x+ 2 in 1D; y- 1, x+ 2, y+ 3, x- 4 in 2D; z- 1, z+ 2,
    y- 3, y+ 4, x+ 5, x- 6 in 3D; the label "marker" is 1 on the whole boundary.

    Args:
        faces: grid cells per direction; simplices split each into dim! cells.
        cell: interval, triangle, quadrilateral, tetrahedron or hexahedron.
        lower: corner with the smallest coordinates, default the origin.
        upper: corner with the largest coordinates, default all ones.
        comm: communicator, default PETSC_COMM_WORLD.

    Returns:
        The DMPlex.

    Raises:
        MeshError: for an unknown cell, a wrong number of entries, or an empty box.
    """
    return distribute(serial_box(faces, cell, lower, upper, comm))


def serial_box(
    faces: int | Sequence[int],
    cell: str,
    lower: float | Sequence[float] | None = None,
    upper: float | Sequence[float] | None = None,
    comm: PETSc.Comm | None = None,
) -> PETSc.DMPlex:
    """As `box`, but all cells are left on the first rank."""
    counts, low, high = _checked(faces, cell, lower, upper)
    comm = PETSc.COMM_WORLD if comm is None else comm
    if cell in ("triangle", "tetrahedron"):
        return _simplex_box(counts, low, high, comm)
    default = PETSc.DMPlex()
    # PETSc distributes here only when told to by options that belong to create().
    dm = default.createBoxMesh(counts, low, high, simplex=False, interpolate=True, comm=comm)
    return dm


def distribute(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    """Spreads a mesh over the ranks without overlap, with the partitioner of `-petscpartitioner_type`; collective."""
    if dm.getComm().getSize() > 1 and not dm.isDistributed():
        dm.getPartitioner().setFromOptions()
        dm.distribute(overlap=0)
    return dm


def _checked(faces, cell, lower, upper) -> tuple[list[int], list[float], list[float]]:  # type: ignore[no-untyped-def]
    if cell not in CELL_NAMES:
        raise MeshError(f"box of cell {cell!r}: expected one of {', '.join(CELL_NAMES)}")
    dim = reference_cell(cell).dim
    counts = [faces] if np.ndim(faces) == 0 else list(faces)
    low, high = _corner(lower, 0.0, dim), _corner(upper, 1.0, dim)
    for name, entries in (("faces", counts), ("lower", low), ("upper", high)):
        if len(entries) != dim:
            raise MeshError(f"box of {cell} cells with {name} {tuple(entries)}: expected {dim} entries")
    if any(int(count) != count or count < 1 for count in counts):
        raise MeshError(f"box with faces {tuple(counts)}: expected integers of at least 1")
    if not all(math.isfinite(a) and math.isfinite(b) and a < b for a, b in zip(low, high, strict=True)):
        raise MeshError(f"box from {tuple(low)} to {tuple(high)}: expected every entry of lower below that of upper")
    counts = [int(count) for count in counts]
    points = math.prod(count + 1 for count in counts) * math.factorial(dim) * 8
    if points > _INT32_MAX and np.dtype(PETSc.IntType).itemsize == 4:
        raise MeshError(f"box with faces {tuple(counts)} is too large for 32-bit indices: make a coarser one and use -dm_refine")
    return counts, low, high


def _corner(values: float | Sequence[float] | None, default: float, dim: int) -> list[float]:
    if values is None:
        return [default] * dim
    return [float(value) for value in np.atleast_1d(np.asarray(values, float))]


def _simplex_box(counts: list[int], low: list[float], high: list[float], comm: PETSc.Comm) -> PETSc.DMPlex:
    dim = len(counts)
    if comm.getRank() == 0:
        grid, cells = kuhn_split(counts)
        step = (np.array(high) - low) / counts
        points = np.where(grid == counts, high, low + grid * step)
    else:
        grid, cells = np.empty((0, dim), np.int32), np.empty((0, dim + 1), np.int32)
        points = np.empty((0, dim))
    dm = PETSc.DMPlex().createFromCellList(dim, cells, points, interpolate=True, comm=comm)
    _mark_sides(dm, counts, grid, cells)
    return dm


def kuhn_split(counts: Sequence[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Splits a grid into simplices, positively oriented in PETSc's vertex order.

    Args:
        counts: grid cells per direction.

    Returns:
        (num_vertices, dim) grid indices of the vertices, and (num_cells, dim + 1) vertices of the cells; the simplices of
        one grid cell follow each other. Both int32.
    """
    dim = len(counts)
    axes = [np.arange(count + 1, dtype=np.int32) for count in counts]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim)
    strides = np.array([math.prod(count + 1 for count in counts[axis + 1 :]) for axis in range(dim)])
    corner = (np.indices(counts).reshape(dim, -1).T @ strides).astype(np.int32)
    reference = reference_cell("triangle" if dim == 2 else "tetrahedron").vertices
    positive = np.linalg.det(reference[1:] - reference[0]) > 0
    paths = []
    for order in itertools.permutations(range(dim)):
        path = np.zeros((dim + 1, dim), np.int32)
        for step, axis in enumerate(order):
            path[step + 1 :, axis] = 1
        if (np.linalg.det(path[1:] - path[0]) > 0) != positive:
            path[[1, 2]] = path[[2, 1]]
        paths.append(path @ strides)
    cells = corner[:, None, None] + np.array(paths, np.int32)[None]
    return grid, cells.reshape(-1, dim + 1)


def _mark_sides(dm: PETSc.DMPlex, counts: list[int], grid: npt.NDArray[np.int32], cells: npt.NDArray[np.int32]) -> None:
    """Labels the sides of a box whose cells still have the vertex order that they were made with."""
    dim = len(counts)
    dm.createLabel(FACET_LABEL)
    dm.createLabel(MARKER_LABEL)
    sides, marker = dm.getLabel(FACET_LABEL), dm.getLabel(MARKER_LABEL)
    exterior = exterior_facets(dm)
    facets = np.array(reference_cell("triangle" if dim == 2 else "tetrahedron").facets)
    corners = grid[cells[exterior.cells[:, None], facets[exterior.local_facets]]]
    for axis, values in enumerate(SIDES[dim]):
        for value, position in zip(values, (0, counts[axis]), strict=True):
            points = exterior.points[(corners[:, :, axis] == position).all(axis=1)]
            # Every rank adds every value, so that labels agree before the mesh is distributed.
            sides.insertIS(PETSc.IS().createGeneral(points, comm=PETSc.COMM_SELF), value)
    marker.insertIS(PETSc.IS().createGeneral(exterior.points, comm=PETSc.COMM_SELF), 1)
    dm.labelComplete(marker)
