"""The coordinates of a mesh as arrays: the geometry element, its nodes, and the nodes of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element import LagrangeElement
from femgpu.errors import MeshError, collective
from femgpu.mesh.cell_dofs import PointDofs, cell_dofs, type_dofs
from femgpu.mesh.closures import Corners
from femgpu.mesh.topology import Topology

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int32]


def read_coordinates(dm: PETSc.DMPlex, cell: str, mpi: Any) -> tuple[LagrangeElement, _Floats, _Ints]:
    """Reads the coordinates of a DM that have a finite element; collective.

    Args:
        dm: a DMPlex with cells of one type.
        cell: name of the cell type.
        mpi: its mpi4py communicator.

    Returns:
        The geometry element, the (num_nodes, dim) node coordinates, and the (num_cells, num_basis) nodes of each cell.

    Raises:
        MeshError: when the coordinates are not those of a Lagrange element with one component per dimension, or periodic.
    """
    dim, fe = dm.getDimension(), coordinate_fe(dm)
    assert fe is not None  # else they are straight
    with collective(mpi):
        element = LagrangeElement.of_fe(cell, fe)
        if fe.getNumComponents() != dim:
            raise MeshError(f"the coordinates have {fe.getNumComponents()} components; expected {dim}")
        if dm.getCoordinatesLocalized():
            raise MeshError(
                f"a periodic mesh with {cell} cells of degree {element.degree} is not supported; expected straight "
                "edges: save it with first-order cells"
            )
        topology = Topology(dm)
        first = point_dofs(topology, dm.getCoordinateSection(), element, dim)
        if first is None:
            raise MeshError(
                f"the section of the coordinates is not that of their element, {cell} Lagrange of degree {element.degree}"
            )
        [dofs] = cell_dofs(topology, cell, [PointDofs(element, dim, first)])
        return element, node_values(dm), dofs // np.int32(dim)


def point_dofs(topology: Topology, section: PETSc.Section, element: LagrangeElement, num_comp: int) -> _Ints | None:
    """(num_points,) int32 first dof on each point of a mesh of one cell type; None where a section has not the element's dofs."""
    sizes = (num_comp * type_dofs([element])).astype(np.int32)[topology.types]
    start, end = section.getChart()
    first = np.full(len(sizes), -1, np.int32)
    first[start - topology.start : end - topology.start] = section_offsets(section, start, end)
    used = np.flatnonzero(sizes)
    order = used[np.argsort(first[used], kind="stable")]
    ends = np.cumsum(sizes[order])
    whole = not len(order) or (ends[-1] == section.getStorageSize() and np.array_equal(first[order], ends - sizes[order]))
    return first if whole else None


def read_vertices(dm: PETSc.DMPlex, types: Sequence[Corners], mpi: Any) -> tuple[_Floats, list[_Ints]]:
    """Reads the coordinates of a DM with straight edges and cells of any types, without a finite element; collective.

    Args:
        dm: the DMPlex.
        types: the cells of each type.
        mpi: its mpi4py communicator.

    Returns:
        The (num_nodes, dim) node coordinates, and for each type the (num_cells, num_vertices) nodes of the cells in closure
        order. On a periodic mesh the cells that cross the period have nodes of their own.

    Raises:
        MeshError: when the coordinates are of degree above 1.
    """
    dim, section = dm.getDimension(), dm.getCoordinateSection()
    first, last = dm.getDepthStratum(0)
    values = dm.getCoordinatesLocal().getArray(readonly=True)
    coords = node_values(dm)
    with collective(mpi):
        offsets = section_offsets(section, first, last)
        if len(values) != dim * (last - first):
            raise MeshError(
                f"the mesh has {len(values) // dim} coordinate nodes for {last - first} vertices; expected straight edges where "
                "it has prisms or cells of several types: save it with first-order cells"
            )
        nodes = (offsets // dim).astype(np.int32)
        dofs = [nodes[corners.vertices - np.int32(first)] for corners in types]
        if dm.getCoordinatesLocalized():
            start = dm.getHeightStratum(0)[0]
            _use_cell_coordinates(dm, [(each.cells - start, nodes) for each, nodes in zip(types, dofs, strict=True)])
        return coords, dofs


def coordinate_fe(dm: PETSc.DMPlex) -> PETSc.FE | None:
    """The finite element of the coordinates; None where they have none."""
    coordinate_dm = dm.getCoordinateDM()
    field = coordinate_dm.getField(0)[0] if coordinate_dm.getNumFields() else None
    return field if isinstance(field, PETSc.FE) else None


def set_coordinate_fe(dm: PETSc.DMPlex, fe: PETSc.FE) -> None:
    """Gives coordinates their element, and a section made of it: an equal one without it does not know edges from behind."""
    coordinates = dm.getCoordinateDM()
    fresh = coordinates.clone()
    for each in (coordinates, fresh):
        each.setField(0, fe)
        each.createDS()
    coordinates.setLocalSection(fresh.getLocalSection())


def is_straight(dm: PETSc.DMPlex) -> bool:
    """Whether the coordinates are those of vertices."""
    fe = coordinate_fe(dm)
    return fe is None or (coordinate_degree(dm) == 1 and fe.getDualSpace().getLagrangeContinuity())


def coordinate_degree(dm: PETSc.DMPlex) -> int:
    """The degree of the coordinates; above 1 on curved meshes."""
    fe = coordinate_fe(dm)
    return 1 if fe is None else fe.getBasisSpace().getDegree()[0]


def vectors(dm: PETSc.DMPlex) -> list[PETSc.Vec]:
    """The local vectors of a DM's coordinates: of the nodes, and on a periodic mesh of the cells across the period."""
    cells = dm.getCellCoordinatesLocal()
    return [dm.getCoordinatesLocal(), *([cells] if cells.handle else [])]


def node_values(dm: PETSc.DMPlex) -> _Floats:
    """(num_nodes, dim) a copy of the coordinates, on a periodic mesh with those that cells across the period have of their own."""
    return np.concatenate([vec.array_r for vec in vectors(dm)]).reshape(-1, dm.getDimension())


def _use_cell_coordinates(dm: PETSc.DMPlex, cells: Sequence[tuple[npt.NDArray, _Ints]]) -> None:
    """Gives the cells across the period of a periodic mesh the nodes that PETSc keeps for them, unwrapped, behind the others.

    Args:
        dm: the DMPlex.
        cells: for each cell type the numbers of its cells, and their nodes in closure order; changed in place.
    """
    dim = dm.getDimension()
    num_nodes = dm.getCoordinatesLocal().getLocalSize() // dim
    start, end = dm.getHeightStratum(0)
    values = dm.getCellCoordinatesLocal().getArray(readonly=True)
    bounds = np.append(section_offsets(dm.getCellCoordinateSection(), start, end), len(values))
    sizes = np.diff(bounds)
    for ids, nodes in cells:
        own = np.flatnonzero(sizes[ids])
        if np.any(sizes[ids[own]] != nodes.shape[1] * dim):
            raise MeshError("the cells of a periodic mesh have coordinates beside those of their vertices; expected straight edges")
        first = bounds[ids[own]] // dim
        nodes[own] = num_nodes + first[:, None] + np.arange(nodes.shape[1])
        _check_widths(dm, ids[own], values.reshape(-1, dim)[first[:, None] + np.arange(nodes.shape[1])])


def _check_widths(dm: PETSc.DMPlex, ids: npt.NDArray, x: _Floats) -> None:
    """Refuses cells (num, num_vertices, dim) wider than half a period: fewer than three around it, or wrongly unwrapped."""
    period = np.asarray(dm.getPeriodicity()[2])
    if not len(period) or not len(x):
        return
    wide = (np.ptp(x, axis=1) > np.where(period > 0, 0.5 * period * (1 + 1e-9), np.inf)).any(axis=1)
    if wide.any():
        cell = int(np.argmax(wide))
        raise MeshError(
            f"cell {ids[cell]} of a periodic mesh, with vertices {x[cell].tolist()}, is wider than half of the period "
            f"{period.tolist()}; expected at least three cells along a period: refine such meshes with femgpu.mesh.refine"
        )


def section_offsets(section: PETSc.Section, start: int, end: int) -> npt.NDArray[np.int64]:
    """Offsets of the points [start, end), in one call: broadcasting a section over a star forest returns the roots' offsets."""
    points = np.arange(start, end, dtype=PETSc.IntType)
    forest = PETSc.SF().create(PETSc.COMM_SELF)
    forest.setGraph(end, points, np.stack([np.zeros_like(points), points], axis=1))
    offsets, _ = forest.distributeSection(section)
    return np.asarray(offsets, np.int64)
