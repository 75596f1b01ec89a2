"""Boxes of any cell type, with PETSc's own numbering of their sides.

PETSc needs a mesh generator for triangles and tetrahedra. Here they come from Kuhn's split of a grid: dim! simplices per
grid cell, one for each order of the axes (Kuhn, Some combinatorial lemmas in topology, 1960); neighbouring grid cells match.
Prisms are the triangles of the plane, extruded. Grid cells of triangles stand in blocks, so that those of a work-group share more
vertices than in a row: 128 triangles have about 92 in place of 130.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element import CELL_NAMES, reference_cell
from femgpu.errors import MeshError, agree, collective
from femgpu.mesh.communicator import communicator
from femgpu.mesh.distribute import distribute
from femgpu.mesh.periods import set_periods
from femgpu.mesh.regions import FACET_LABEL, exterior_facets

# PETSc's value of "Face Sets" on the lower and upper side of each axis.
SIDES = {1: ((1, 2),), 2: ((4, 2), (1, 3)), 3: ((6, 5), (3, 4), (1, 2))}
MARKER_LABEL = "marker"
# With two cells along a period both facets between them are one.
MIN_PERIODIC = 3
# Grid cells of a block in the plane, about: in rows a warp's triangles have their vertices side by side, and 384 triangles of a box
# more than a few cells across have no more than 256 vertices, which groups of schedule `cell` count on.
_BLOCK = (8, 15)
_INT32_MAX = np.iinfo(np.int32).max


def box(
    faces: int | Sequence[int],
    cell: str | None = None,
    lower: float | Sequence[float] | None = None,
    upper: float | Sequence[float] | None = None,
    comm: PETSc.Comm | None = None,
    periodic: bool | Sequence[bool] = False,
) -> PETSc.DMPlex:
    """A box, distributed over the ranks; collective.

    Sides are marked in the label "Face Sets" as PETSc does: x- 1, x+ 2 in 1D; y- 1, x+ 2, y+ 3, x- 4 in 2D; z- 1, z+ 2,
    y- 3, y+ 4, x+ 5, x- 6 in 3D; the label "marker" is 1 on the whole boundary. A periodic direction has no sides: functions
    go on where they come back.

    Args:
        faces: grid cells per direction; simplices split each into dim! cells, prisms (whose axis is z) into two.
        cell: interval, triangle, quadrilateral, tetrahedron, hexahedron or prism; default the simplex of as many directions.
        lower: corner with the smallest coordinates, default the origin.
        upper: corner with the largest coordinates, default all ones.
        comm: a communicator of PETSc or mpi4py, default PETSC_COMM_WORLD.
        periodic: which directions are periodic, or whether all are.

    Returns:
        The DMPlex.

    Raises:
        MeshError: on all ranks, for an unknown cell, a wrong number of entries, an empty box, fewer than three grid cells along a
            period, or another box on another rank.
    """
    if cell is None:
        cell = {1: "interval", 2: "triangle"}.get(int(np.size(faces)), "tetrahedron")
    return distribute(serial_box(faces, cell, lower, upper, comm, periodic))


def serial_box(
    faces: int | Sequence[int],
    cell: str,
    lower: float | Sequence[float] | None = None,
    upper: float | Sequence[float] | None = None,
    comm: PETSc.Comm | None = None,
    periodic: bool | Sequence[bool] = False,
) -> PETSc.DMPlex:
    """As `box`, but all cells are left on the first rank."""
    comm = communicator(comm)
    with collective(comm.tompi4py()):
        shape = _checked(faces, cell, lower, upper, periodic)
    corners = f"from {tuple(shape.lower)} to {tuple(shape.upper)}, periodic {tuple(shape.periodic)}"
    agree(comm.tompi4py(), f"a box of {tuple(shape.counts)} {cell}s {corners}", MeshError)
    if cell in ("triangle", "tetrahedron", "prism"):
        return _cell_list_box(shape, cell, comm)
    # PETSc distributes here only when told to by options that belong to create().
    return PETSc.DMPlex().createBoxMesh(
        shape.counts,
        shape.lower,
        shape.upper,
        simplex=False,
        periodic=shape.periodic if any(shape.periodic) else False,
        interpolate=True,
        comm=comm,
    )


@dataclass(frozen=True)
class _Shape:
    """Grid cells, corners and periods of a box, one entry per direction."""

    counts: list[int]
    lower: list[float]
    upper: list[float]
    periodic: list[bool]


def _checked(faces, cell, lower, upper, periodic) -> _Shape:  # type: ignore[no-untyped-def]
    if cell not in CELL_NAMES:
        raise MeshError(f"box of cell {cell!r}: expected one of {', '.join(CELL_NAMES)}")
    dim = reference_cell(cell).dim
    counts = [faces] if np.ndim(faces) == 0 else list(faces)
    low, high = _corner(lower, 0.0, dim), _corner(upper, 1.0, dim)
    around = [bool(periodic)] * dim if np.ndim(periodic) == 0 else [bool(entry) for entry in periodic]
    for name, entries in (("faces", counts), ("lower", low), ("upper", high), ("periodic", around)):
        if len(entries) != dim:
            raise MeshError(f"box of {cell} cells with {name} {tuple(entries)}: expected {dim} entries")
    if any(int(count) != count or count < 1 for count in counts):
        raise MeshError(f"box with faces {tuple(counts)}: expected integers of at least 1")
    if not all(math.isfinite(a) and math.isfinite(b) and a < b for a, b in zip(low, high, strict=True)):
        raise MeshError(f"box from {tuple(low)} to {tuple(high)}: expected every entry of lower below that of upper")
    counts = [int(count) for count in counts]
    if any(count < MIN_PERIODIC for count, along in zip(counts, around, strict=True) if along):
        raise MeshError(
            f"box with faces {tuple(counts)}, periodic {tuple(around)}: expected at least {MIN_PERIODIC} cells along a period, "
            "with fewer two cells would share more than one facet"
        )
    points = math.prod(count + 1 for count in counts) * math.factorial(dim) * 8
    if points > _INT32_MAX and np.dtype(PETSc.IntType).itemsize == 4:
        raise MeshError(f"box with faces {tuple(counts)} is too large for 32-bit indices: make a coarser one and use -dm_refine")
    return _Shape(counts, low, high, around)


def _corner(values: float | Sequence[float] | None, default: float, dim: int) -> list[float]:
    if values is None:
        return [default] * dim
    try:
        return [float(value) for value in np.atleast_1d(np.asarray(values, float))]
    except (TypeError, ValueError):
        raise MeshError(f"a corner of a box is {values!r}; expected numbers, one per dimension") from None


def _cell_list_box(shape: _Shape, cell: str, comm: PETSc.Comm) -> PETSc.DMPlex:
    """A box of cells that PETSc cannot make, from a list of cells."""
    dim, counts = len(shape.counts), np.array(shape.counts)
    grid, cells, points = (
        np.empty((0, dim), np.int32),
        np.empty((0, reference_cell(cell).num_vertices), np.int32),
        np.empty((0, dim)),
    )
    if comm.getRank() == 0:
        grid, cells = prism_split(shape.counts) if cell == "prism" else kuhn_split(shape.counts)
        points = np.where(grid == counts, shape.upper, shape.lower + grid * ((np.array(shape.upper) - shape.lower) / counts))
    # The vertices at the end of a period are those at its beginning.
    kept = ~((grid == counts) & shape.periodic).any(axis=1)
    number = (np.cumsum(kept) - 1)[_grid_numbers(np.where(shape.periodic, grid % counts, grid), shape.counts)]
    dm = from_cell_list(cell, number[cells].astype(np.int32), points[kept], comm)
    _mark_sides(dm, shape, cell, grid, cells)
    if any(shape.periodic):
        set_periods(dm, shape.lower, np.where(shape.periodic, np.subtract(shape.upper, shape.lower), -1.0))
    return dm


def from_cell_list(cell: str, cells: npt.NDArray[np.int32], points: npt.NDArray[np.float64], comm: PETSc.Comm) -> PETSc.DMPlex:
    """A DMPlex from cells by their vertices in PETSc's closure order; collective.

    Args:
        cell: type of the cells.
        cells: (num_cells, num_vertices) vertices; none but on the first rank.
        points: (num_vertices, dim) coordinates; none but on the first rank.
        comm: communicator.
    """
    dim = reference_cell(cell).dim
    if cell != "prism":
        return PETSc.DMPlex().createFromCellList(dim, cells, points, interpolate=True, comm=comm)
    dm = PETSc.DMPlex().createFromCellList(dim, cells, points, interpolate=False, comm=comm)
    # By itself PETSc takes cells with six vertices for tensor prisms.
    dm.createLabel("celltype")
    label = dm.getCellTypeLabel()
    for kind, (start, end) in (("TRI_PRISM", dm.getHeightStratum(0)), ("POINT", dm.getDepthStratum(0))):
        members = PETSc.IS().createStride(end - start, start, 1, comm=PETSc.COMM_SELF)
        label.insertIS(members, getattr(PETSc.DM.PolytopeType, kind))
    dm.interpolate()
    return dm


def kuhn_split(counts: Sequence[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Splits a grid into simplices, positively oriented in PETSc's vertex order.

    Args:
        counts: grid cells per direction.

    Returns:
        (num_vertices, dim) grid indices of the vertices, and (num_cells, dim + 1) vertices of the cells; the simplices of
        one grid cell follow each other, and of triangles the grid cells of one block. Both int32.
    """
    dim = len(counts)
    axes = [np.arange(count + 1, dtype=np.int32) for count in counts]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim)
    strides = _strides(counts)
    corner = (_by_blocks(counts) @ strides).astype(np.int32)
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


def _by_blocks(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """(num_cells, dim) indices of grid cells: in the plane block by block, else row by row."""
    cells = np.indices(counts).reshape(len(counts), -1).T
    if len(counts) != 2:
        return cells
    # Nearly equal ones: slivers at the sides would have more vertices for each of their cells.
    blocks = np.maximum(np.rint(np.divide(counts, _BLOCK)), 1).astype(int)
    numbers = np.ravel_multi_index(tuple((cells * blocks // counts).T), tuple(blocks))
    return cells[np.argsort(numbers, kind="stable")]


def prism_split(counts: Sequence[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Splits a grid into prisms: triangles of `kuhn_split` in the plane, times z. As `kuhn_split`."""
    base, triangles = kuhn_split(counts[:2])
    layers = np.arange(counts[2] + 1, dtype=np.int32)
    grid = np.concatenate([np.repeat(base, len(layers), axis=0), np.tile(layers, len(base))[:, None]], axis=1)
    bottom = (triangles * len(layers))[:, None, :] + layers[:-1][None, :, None]
    cells = np.concatenate([bottom[..., [0, 2, 1]], bottom + 1], axis=2)
    return grid, cells.reshape(-1, 6).astype(np.int32)


def _strides(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array([math.prod(count + 1 for count in counts[axis + 1 :]) for axis in range(len(counts))])


def _grid_numbers(grid: npt.NDArray[np.int32], counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """(num,) numbers of vertices by their grid indices (num, dim)."""
    return grid @ _strides(counts)


def _mark_sides(dm: PETSc.DMPlex, shape: _Shape, cell: str, grid: npt.NDArray[np.int32], cells: npt.NDArray[np.int32]) -> None:
    """Labels the sides of a box whose cells still have the vertex order that they were made with."""
    dm.createLabel(FACET_LABEL)
    dm.createLabel(MARKER_LABEL)
    sides, marker = dm.getLabel(FACET_LABEL), dm.getLabel(MARKER_LABEL)
    exterior = exterior_facets(dm)
    low, high = np.empty((len(exterior.cells), grid.shape[1]), np.int32), np.empty((len(exterior.cells), grid.shape[1]), np.int32)
    for local, facet in enumerate(reference_cell(cell).facets):
        chosen = exterior.local_facets == local
        corners = grid[cells[exterior.cells[chosen]][:, facet]]
        low[chosen], high[chosen] = corners.min(axis=1), corners.max(axis=1)
    for axis, values in enumerate(SIDES[grid.shape[1]]):
        for value, on_side in zip(values, (high[:, axis] == 0, low[:, axis] == shape.counts[axis]), strict=True):
            if shape.periodic[axis]:
                continue
            # Every rank adds every value, so that labels agree before the mesh is distributed.
            sides.insertIS(PETSc.IS().createGeneral(exterior.points[on_side], comm=PETSc.COMM_SELF), value)
    if not all(shape.periodic):
        marker.insertIS(PETSc.IS().createGeneral(exterior.points, comm=PETSc.COMM_SELF), 1)
    dm.labelComplete(marker)
