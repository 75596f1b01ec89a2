"""Functions as values at the nodes of VTK's Lagrange cells.

All functions of a file share one lattice, that of the highest degree among them and the coordinates; each is tabulated
there, so the file holds the same polynomials. Where all functions are continuous, cells share points, numbered like the
dofs of a Lagrange space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from femgpu.element import LagrangeElement
from femgpu.errors import DataError, told
from femgpu.io import vtk_cells
from femgpu.mesh import Block, FieldShape, Mesh, set_fields
from femgpu.mesh.periods import is_periodic
from femgpu.spaces import Function, Numbering, SubFunction

CHUNK_VALUES = 1 << 20


@dataclass(frozen=True)
class Data:
    """Values of one function: name, (num_rows, num_entries) float64; vectors have 3 entries, tensors 9."""

    name: str
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """This rank's cells of one type.

    Attributes:
        cell: name of the cell type.
        connectivity: (num_cells, num_nodes) int64 point numbers in VTK's order; over all ranks when the grid is shared.
        data: one entry per function of degree 0.
    """

    cell: str
    connectivity: NDArray[np.int64]
    data: tuple[Data, ...]


@dataclass(frozen=True)
class Grid:
    """This rank's part of an unstructured grid.

    Attributes:
        degree: of the Lagrange cells.
        points: (num_points, 3) float64 coordinates of the points that this rank owns.
        cells: one entry per cell type of the mesh.
        point_data: one entry per function.
    """

    degree: int
    points: NDArray[np.float64]
    cells: tuple[Cells, ...]
    point_data: tuple[Data, ...]


@dataclass(frozen=True)
class PointNumbering:
    """Points of this rank's cells.

    Attributes:
        nodes: (num_cells, num_nodes) int32 local point numbers in VTK's order, for each block of the mesh.
        num_local: points that this rank's cells touch.
        numbers: (num_local,) int64 numbers over all ranks.
        local_of_owned: (num_owned,) local numbers of the points that this rank owns, in the order of their numbers over
            all ranks.
    """

    nodes: tuple[NDArray[np.int32], ...]
    num_local: int
    numbers: NDArray[np.int64]
    local_of_owned: NDArray[np.integer]


def check_functions(functions: Sequence[Function | SubFunction]) -> None:
    """Refuses functions that cannot share a file.

    Raises:
        DataError: when there are none, they live on different meshes, or names are empty, repeat or hold control
            characters.
    """
    if not functions:
        raise DataError("no function was given; expected at least one: write(path, u)")
    for u in functions:
        if not isinstance(u, Function | SubFunction):
            raise DataError(f"{told(u)} was given; expected Functions: interpolate or project other things first")
    names = [u.name for u in functions]
    for u in functions:
        if len(u.space.fields) > 1:
            raise DataError(f"function {u.name!r} has several fields; expected one each: {u.name}.sub({u.space.fields[0].name!r})")
        if u.space.mesh is not functions[0].space.mesh:
            raise DataError(
                f"functions {names[0]!r} and {u.name!r} live on different meshes; expected one mesh per file: "
                "write them to two files, or make both spaces on one DM"
            )
        if names.count(u.name) > 1 or not isinstance(u.name, str) or not u.name or not u.name.isprintable():
            raise DataError(f"function name {u.name!r}: expected printable names, each once: Function(V, name=...)")


def name_apart(functions: Sequence[Function | SubFunction]) -> None:
    """Gives functions that were made without a name different ones, in their order, which they keep."""
    for number, u in enumerate(functions):
        if not isinstance(u, Function) or u.has_name or any(u is other for other in functions[:number]):
            continue
        # Names that were given, and those of functions before, stay.
        others = [*functions[:number], *(other for other in functions[number + 1 :] if getattr(other, "has_name", True))]
        taken = {getattr(other, "name", "") for other in others}
        u.name = next(name for name in chain([u.name], (f"u_{i}" for i in count(1))) if name not in taken)


def sample(functions: Sequence[Function | SubFunction], shared: bool) -> Grid:
    """Samples functions at the nodes of Lagrange cells; collective.

    Args:
        functions: what `check_functions` accepts.
        shared: whether points are numbered over all ranks, each owned by one; else every rank gets a grid of its own.

    Returns:
        This rank's part.
    """
    mesh = functions[0].space.mesh
    mesh.update()
    nodal = [u for u in functions if u.space.degree > 0]
    flat = [(u, u.local_array()) for u in functions if u.space.degree == 0]
    degree = max([*(block.coord_element.degree for block in mesh.blocks), *(u.space.degree for u in nodal)])
    degree = min(degree, vtk_cells.MAX_DEGREE)
    merged = all(u.space.field.continuous for u in nodal)
    numbering = _numbering(mesh, degree, merged)
    points = np.zeros((numbering.num_local, 3))
    for block, nodes in zip(mesh.blocks, numbering.nodes, strict=True):
        lattice = vtk_cells.points(block.cell, degree)
        for cells in _chunks(block.num_cells, len(lattice) * 3):
            points[nodes[cells], : mesh.dim] = block.physical_points(lattice, cells)
    keep: Any = numbering.local_of_owned if shared else slice(None)
    return Grid(
        degree=degree,
        points=points[keep],
        cells=tuple(
            Cells(
                block.cell,
                numbering.numbers[nodes] if shared else nodes.astype(np.int64),
                tuple(Data(u.name, _at_cells(u, local, block)) for u, local in flat),
            )
            for block, nodes in zip(mesh.blocks, numbering.nodes, strict=True)
        ),
        point_data=tuple(Data(u.name, _at_points(u, numbering, degree)[keep]) for u in nodal),
    )


def _numbering(mesh: Mesh, degree: int, merged: bool) -> PointNumbering:
    matches = [_matching(block.cell, degree) for block in mesh.blocks]
    if not merged or is_periodic(mesh.dm) or any(match is None for match in matches):
        return _broken_numbering(mesh, degree)
    dm = mesh.clone_dm()
    [offsets], num_local = set_fields(mesh, dm, [FieldShape("points", degree)])
    numbering = Numbering.of(dm)
    nodes = tuple(each[:, match] for each, match in zip(offsets, matches, strict=True))
    return PointNumbering(nodes, num_local, numbering.global_of_local, numbering.local_of_owned)


def _broken_numbering(mesh: Mesh, degree: int) -> PointNumbering:
    """Every cell has points of its own."""
    shapes = [(block.num_cells, len(vtk_cells.lattice(block.cell, degree))) for block in mesh.blocks]
    bounds = np.cumsum([0, *(count * nodes for count, nodes in shapes)])
    num_local = int(bounds[-1])
    first = mesh.mpi.scan(num_local) - num_local
    local = np.arange(num_local, dtype=np.int32)
    nodes = tuple(local[a:b].reshape(shape) for a, b, shape in zip(bounds[:-1], bounds[1:], shapes, strict=True))
    return PointNumbering(nodes, num_local, np.arange(first, first + num_local, dtype=np.int64), local)


def _matching(cell: str, degree: int) -> NDArray[np.int64] | None:
    """(num_nodes,) dof of the Lagrange element that stands for each node of VTK's lattice; None if they do not pair up.

    PETSc's nodes are not equispaced. On a line they are sorted alike; elsewhere the inverse of the line's warp, applied
    to each barycentric (or Cartesian) coordinate, brings every node nearest to its partner.
    """
    lattice = vtk_cells.lattice(cell, degree)
    nodes = 0.5 * (LagrangeElement(cell, degree).nodes + 1.0)
    line = np.sort(0.5 * (LagrangeElement("interval", degree).nodes.ravel() + 1.0))
    # Axes that belong to a simplex: those of the triangle in a prism.
    inside = {"triangle": 2, "tetrahedron": 3, "prism": 2}.get(cell, 0)
    steps = np.interp(nodes, line, np.arange(degree + 1.0))
    if inside:
        rest = np.interp(1.0 - nodes[:, :inside].sum(axis=1), line, np.arange(degree + 1.0))
        steps[:, :inside] *= (degree / (rest + steps[:, :inside].sum(axis=1)))[:, None]
    distance = ((lattice[:, None, :] - steps[None, :, :]) ** 2).sum(axis=2)
    match = distance.argmin(axis=1)
    return match if len(np.unique(match)) == len(lattice) else None


def _at_points(u: Function | SubFunction, numbering: PointNumbering, degree: int) -> NDArray[np.float64]:
    """(num_local, num_entries) values; where cells share a point they agree, and one of them writes it."""
    space = u.space
    values, slots = _entries(space.value_shape, space.mesh.dim)
    rows = np.zeros((numbering.num_local, values))
    local = u.local_array()
    for block, element, offsets, nodes in zip(
        space.mesh.blocks, space.field.elements, space.field.offsets, numbering.nodes, strict=True
    ):
        lattice = vtk_cells.points(block.cell, degree)
        basis = element.tabulate(lattice)[0]
        for cells in _chunks(block.num_cells, max(basis.shape) * space.num_comp):
            dofs = offsets[cells][:, :, None] + space.entry_components
            rows[nodes[cells][:, :, None], slots] = np.matmul(basis, local[dofs])
    return rows


def _at_cells(u: Function | SubFunction, local: NDArray[np.float64], block: Block) -> NDArray[np.float64]:
    """(num_cells, num_entries) values of a function of degree 0 in the cells of a block, from its L-vector."""
    space = u.space
    values, slots = _entries(space.value_shape, space.mesh.dim)
    rows = np.zeros((block.num_cells, values))
    rows[:, slots] = local[space.field.offsets[block.index][:, :1] + space.entry_components]
    return rows


def _entries(shape: tuple[int, ...], dim: int) -> tuple[int, NDArray[np.int64]]:
    """VTK's number of entries for a value shape, and which of them each of its own is; the plane's get zeros for z."""
    num_comp = int(np.prod(shape, dtype=int))
    if shape == (2,) and dim == 2:
        return 3, np.arange(2)
    if shape == (2, 2) and dim == 2:
        return 9, np.array([0, 1, 3, 4])
    return num_comp, np.arange(num_comp)


def _chunks(num_cells: int, values_per_cell: int) -> Iterator[slice]:
    step = max(1, CHUNK_VALUES // values_per_cell)
    return (slice(start, min(start + step, num_cells)) for start in range(0, num_cells, step))
