"""Functions as values at the nodes of VTK's Lagrange cells.

All functions of a file share one lattice, that of the highest degree among them and the coordinates; each is tabulated
there, so the file holds the same polynomials. Where all functions are continuous, cells share points, numbered like the
dofs of a Lagrange space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from femgpu import petsc_c
from femgpu.element import LagrangeElement
from femgpu.errors import DataError
from femgpu.io import vtk_cells
from femgpu.mesh import Mesh
from femgpu.spaces import Layout

if TYPE_CHECKING:
    from femgpu.spaces import Function, SubFunction

CHUNK_VALUES = 1 << 20


@dataclass(frozen=True)
class Field:
    """Values of one function: name, (num_rows, num_entries) float64; vectors have 3 entries, tensors 9."""

    name: str
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """This rank's part of an unstructured grid.

    Attributes:
        cell: name of the cell type.
        degree: of the Lagrange cells.
        points: (num_points, 3) float64 coordinates of the points that this rank owns.
        connectivity: (num_cells, num_nodes) int64 point numbers in VTK's order; over all ranks when the grid is shared.
        point_data: one field per function.
        cell_data: one field per function of degree 0.
    """

    cell: str
    degree: int
    points: NDArray[np.float64]
    connectivity: NDArray[np.int64]
    point_data: tuple[Field, ...]
    cell_data: tuple[Field, ...]


@dataclass(frozen=True)
class Numbering:
    """Points of this rank's cells.

    Attributes:
        nodes: (num_cells, num_nodes) int32 local point numbers in VTK's order.
        num_local: points that this rank's cells touch.
        numbers: (num_local,) int64 numbers over all ranks.
        local_of_owned: (num_owned,) local numbers of the points that this rank owns, in the order of their numbers over
            all ranks.
    """

    nodes: NDArray[np.int32]
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
    names = [u.name for u in functions]
    for u in functions:
        if u.space.mesh is not functions[0].space.mesh:
            raise DataError(
                f"functions {names[0]!r} and {u.name!r} live on different meshes; expected one mesh per file: "
                "write them to two files, or make both spaces on one DM"
            )
        if names.count(u.name) > 1 or not u.name or not u.name.isprintable():
            raise DataError(f"function name {u.name!r}: expected printable names, each once: Function(V, name=...)")


def sample(functions: Sequence[Function | SubFunction], shared: bool) -> Grid:
    """Samples functions at the nodes of Lagrange cells; collective.

    Args:
        functions: what `check_functions` accepts.
        shared: whether points are numbered over all ranks, each owned by one; else every rank gets a grid of its own.

    Returns:
        This rank's part.
    """
    mesh = functions[0].space.mesh
    nodal = [u for u in functions if u.space.element.degree > 0]
    degree = max([mesh.coord_element.degree, *(u.space.element.degree for u in nodal)])
    degree = min(degree, vtk_cells.MAX_DEGREE)
    merged = all(u.space.element.continuous for u in nodal)
    numbering = _numbering(mesh, degree, merged)
    lattice = vtk_cells.points(mesh.cell, degree)
    points = np.zeros((numbering.num_local, 3))
    for cells in _chunks(mesh.num_cells, len(lattice) * 3):
        points[numbering.nodes[cells], : mesh.dim] = mesh.physical_points(lattice, cells)
    keep: Any = numbering.local_of_owned if shared else slice(None)
    return Grid(
        cell=mesh.cell,
        degree=degree,
        points=points[keep],
        connectivity=numbering.numbers[numbering.nodes] if shared else numbering.nodes.astype(np.int64),
        point_data=tuple(Field(u.name, _at_points(u, numbering, lattice)[keep]) for u in nodal),
        cell_data=tuple(Field(u.name, _at_cells(u)) for u in functions if u.space.element.degree == 0),
    )


def _numbering(mesh: Mesh, degree: int, merged: bool) -> Numbering:
    match = _matching(mesh.cell, degree) if merged and not _periodic(mesh) else None
    if match is None:
        return _broken_numbering(mesh, len(vtk_cells.lattice(mesh.cell, degree)))
    dm = mesh.clone_dm()
    dm.setField(0, LagrangeElement(mesh.cell, degree).petsc_fe(1, mesh.comm))
    dm.createDS()
    offsets, _, num_local = petsc_c.local_offsets(dm)
    layout = Layout.of(dm)
    return Numbering(offsets[:, match], num_local, layout.global_of_local, layout.local_of_owned)


def _broken_numbering(mesh: Mesh, num_nodes: int) -> Numbering:
    """Every cell has points of its own."""
    num_local = mesh.num_cells * num_nodes
    end = mesh.mpi.scan(num_local)
    first = end - num_local
    local = np.arange(num_local, dtype=np.int32)
    return Numbering(local.reshape(mesh.num_cells, num_nodes), num_local, np.arange(first, end, dtype=np.int64), local)


def _periodic(mesh: Mesh) -> bool:
    """Whether a point of the topology may have two places."""
    return bool(np.any(mesh.dm.getPeriodicity()[2] > 0))


def _matching(cell: str, degree: int) -> NDArray[np.int64] | None:
    """(num_nodes,) dof of the Lagrange element that stands for each node of VTK's lattice; None if they do not pair up.

    PETSc's nodes are not equispaced. On a line they are sorted alike; elsewhere the inverse of the line's warp, applied
    to each barycentric (or Cartesian) coordinate, brings every node nearest to its partner.
    """
    lattice = vtk_cells.lattice(cell, degree)
    nodes = 0.5 * (LagrangeElement(cell, degree).nodes + 1.0)
    line = np.sort(0.5 * (LagrangeElement("interval", degree).nodes.ravel() + 1.0))
    simplex = cell in ("triangle", "tetrahedron")
    position = np.c_[1.0 - nodes.sum(axis=1), nodes] if simplex else nodes
    steps = np.interp(position, line, np.arange(degree + 1.0))
    if simplex:
        steps = (steps * (degree / steps.sum(axis=1))[:, None])[:, 1:]
    distance = ((lattice[:, None, :] - steps[None, :, :]) ** 2).sum(axis=2)
    match = distance.argmin(axis=1)
    return match if len(np.unique(match)) == len(lattice) else None


def _at_points(u: Function | SubFunction, numbering: Numbering, lattice: NDArray[np.float64]) -> NDArray[np.float64]:
    """(num_local, num_entries) values; where cells share a point they agree, and one of them writes it."""
    space = u.space
    values, slots = _entries(space.value_shape, space.mesh.dim)
    basis = space.element.tabulate(lattice)[0]
    rows = np.zeros((numbering.num_local, values))
    local = u.local_array()
    for cells in _chunks(space.mesh.num_cells, max(len(lattice), space.element.num_basis) * space.num_comp):
        dofs = space.offsets[cells][:, :, None] + np.arange(space.num_comp, dtype=np.int32)
        rows[numbering.nodes[cells][:, :, None], slots] = np.matmul(basis, local[dofs])
    return rows


def _at_cells(u: Function | SubFunction) -> NDArray[np.float64]:
    """(num_cells, num_entries) values of a function of degree 0."""
    space = u.space
    values, slots = _entries(space.value_shape, space.mesh.dim)
    rows = np.zeros((space.mesh.num_cells, values))
    rows[:, slots] = u.local_array()[space.offsets[:, :1] + np.arange(space.num_comp, dtype=np.int32)]
    return rows


def _entries(shape: tuple[int, ...], dim: int) -> tuple[int, NDArray[np.int64]]:
    """VTK's number of entries for a value shape, and the entry of each component; the plane's get zeros for z."""
    num_comp = int(np.prod(shape, dtype=int))
    if shape == (2,) and dim == 2:
        return 3, np.arange(2)
    if shape == (2, 2) and dim == 2:
        return 9, np.array([0, 1, 3, 4])
    return num_comp, np.arange(num_comp)


def _chunks(num_cells: int, values_per_cell: int) -> Iterator[slice]:
    step = max(1, CHUNK_VALUES // values_per_cell)
    return (slice(start, min(start + step, num_cells)) for start in range(0, num_cells, step))
