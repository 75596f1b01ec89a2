"""The points of a DMPlex in bulk arrays: their types, cones, and the closures of cells with orientations.

PETSc's own functions go point by point. Here everything is computed from the cone arrays of the whole mesh. A point's own
frame is the order of its vertices that its cone defines; it is the same for all cells and on all ranks that have the point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import ReferenceCell, reference_cell
from femgpu.errors import MeshError

_Ints = npt.NDArray[np.int32]

POLYTOPES = {
    PETSc.DM.PolytopeType.POINT: "point",
    PETSc.DM.PolytopeType.SEGMENT: "interval",
    PETSc.DM.PolytopeType.TRIANGLE: "triangle",
    PETSc.DM.PolytopeType.QUADRILATERAL: "quadrilateral",
    PETSc.DM.PolytopeType.TETRAHEDRON: "tetrahedron",
    PETSc.DM.PolytopeType.HEXAHEDRON: "hexahedron",
    PETSc.DM.PolytopeType.TRI_PRISM: "prism",
}
# The order of types in `Topology.types`.
TYPE_NAMES = tuple(POLYTOPES.values())
_CONE_SIZES = np.array([0, *(len(reference_cell(name).loops) for name in TYPE_NAMES[1:])])


@dataclass(frozen=True, eq=False)
class Topology:
    """The points of a rank.

    Attributes:
        start: the first point.
        types: (num_points,) positions in `TYPE_NAMES`, int8.
        offsets: (num_points + 1,) where the cone of each point begins.
        cones: (num_entries,) points of the cones, int32.
        orientations: (num_entries,) their orientations, int32.
    """

    start: int
    types: npt.NDArray[np.int8]
    offsets: npt.NDArray[np.int64]
    cones: _Ints
    orientations: _Ints

    @classmethod
    def of(cls, dm: PETSc.DMPlex) -> Topology:
        """Reads an interpolated DMPlex.

        Raises:
            MeshError: for points of a type that is not supported.
        """
        start, end = dm.getChart()
        types = point_types(dm, start, end)
        offsets = cone_offsets(types)
        cones = petsc_c.cones(dm, start, end)
        if len(cones) != offsets[-1]:
            raise MeshError(f"the DMPlex has {len(cones)} cone entries; its cell types need {offsets[-1]}")
        return cls(start, types, offsets, cones, petsc_c.cone_orientations(dm, start, end))

    def of_type(self, name: str) -> _Ints:
        """The points of a type, increasing."""
        return (np.flatnonzero(self.types == TYPE_NAMES.index(name)) + self.start).astype(np.int32)

    def cone(self, points: npt.NDArray, name: str) -> tuple[_Ints, _Ints]:
        """Cones of points of one type.

        Args:
            points: (n,) points.
            name: their type.

        Returns:
            Points and orientations, both (n, cone_size).
        """
        where = self.offsets[points - self.start][:, None] + np.arange(_CONE_SIZES[TYPE_NAMES.index(name)])
        return self.cones[where], self.orientations[where]

    def frame(self, points: npt.NDArray, name: str) -> _Ints:
        """(n, num_vertices) vertices of segments, triangles or quadrilaterals in their own frame."""
        if name == "interval":
            return self.cone(points, name)[0]
        edges, orientations = self.cone(points, name)
        ends = self.cone(edges.ravel(), "interval")[0].reshape(*edges.shape, 2)
        # Edge j of the cone runs from vertex j to the next one.
        return np.where(orientations < 0, ends[..., 1], ends[..., 0])


def point_types(dm: PETSc.DMPlex, start: int, end: int) -> npt.NDArray[np.int8]:
    """(end - start,) positions in `TYPE_NAMES` of the types of points.

    Raises:
        MeshError: for a type that is not supported.
    """
    types = np.full(end - start, -1, np.int8)
    label = dm.getCellTypeLabel()
    for value in label.getValueIS().getIndices():
        name = POLYTOPES.get(int(value))
        if name is not None:
            points = label.getStratumIS(value).getIndices()
            types[points[(points >= start) & (points < end)] - start] = TYPE_NAMES.index(name)
    if (types < 0).any():
        raise MeshError(
            f"{np.count_nonzero(types < 0)} points of the DMPlex are of a type that is not supported; expected points, "
            f"segments, {', '.join(TYPE_NAMES[2:])}"
        )
    return types


def cone_offsets(types: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """(num_points + 1,) where the cones of points of given types begin, one after the other."""
    return np.concatenate([[0], np.cumsum(_CONE_SIZES[types])])


def first_repeated(rows: npt.NDArray[np.integer]) -> int | None:
    """The number of a row (num_rows, width) that holds the same integers as one before, in any order; None where none does."""
    ordered = np.sort(rows, axis=1)
    order = np.lexsort(ordered.T)
    same = np.flatnonzero((ordered[order[1:]] == ordered[order[:-1]]).all(axis=1))
    return int(order[same[0] + 1]) if len(same) else None


def check_cells_once(dm: PETSc.DMPlex) -> None:
    """Refuses cells of this rank with the same facets, which would count twice, with a MeshError."""
    start, end = dm.getHeightStratum(0)
    cones, sizes = petsc_c.cones(dm, start, end), np.diff(cone_offsets(point_types(dm, start, end)))
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        cells = np.flatnonzero(sizes == size)
        twice = first_repeated(cones[starts[cells][:, None] + np.arange(size)])
        if twice is not None:
            raise MeshError(
                f"cell {cells[twice]} of the mesh has the facets of another cell; expected each cell once in a list of cells"
            )


@dataclass(frozen=True, eq=False)
class Closure:
    """The parts of the cells of one type, without the cells themselves.

    Attributes:
        cell: name of the cell type.
        cells: (num_cells,) points of the cells.
        parts: (num_cells, num_entities - 1) points in the order of `ReferenceCell.entities`, the cell left out.
        turns: (num_cells, num_entities - 1) index of the part's own frame among `arrangements` of the part's type, int8.
    """

    cell: str
    cells: npt.NDArray[np.int32]
    parts: _Ints
    turns: npt.NDArray[np.int8]

    @property
    def vertices(self) -> _Ints:
        """(num_cells, num_vertices) vertices in closure order."""
        return self.parts[:, -reference_cell(self.cell).num_vertices :]


class Corners(NamedTuple):
    """The vertices of the cells of one type.

    Attributes:
        cell: name of the cell type.
        cells: (num_cells,) points of the cells.
        vertices: (num_cells, num_vertices) vertices in closure order.
    """

    cell: str
    cells: _Ints
    vertices: _Ints


@cache
def arrangements(num_vertices: int) -> npt.NDArray[np.int64]:
    """How a part of a cell can lie in it.

    Args:
        num_vertices: of the part: 1, 2, 3 or 4.

    Returns:
        (num_orientations, num_vertices): row t says which vertices of the part's own frame are those of the cell's entity, in
        the order of the entity. Rows are in the order of PETSc's orientations, negative ones first.
    """
    if num_vertices == 1:
        return np.zeros((1, 1), np.int64)
    if num_vertices == 2:
        return np.array([[1, 0], [0, 1]])
    turn = np.arange(num_vertices)
    forward = [(turn + first) % num_vertices for first in range(num_vertices)]
    # Orientation -1 - k starts at vertex -k - 1 and goes backwards, as in PETSc's DMPolytopeTypeGetVertexArrangement.
    backward = [(second - turn) % num_vertices for second in _BACKWARD[num_vertices]]
    return np.array(backward + forward)


# First vertex of the arrangements with negative orientation, from the most negative one.
_BACKWARD = {3: (1, 0, 2), 4: (2, 1, 0, 3)}


def closure(topology: Topology, cell: str, cells: _Ints) -> Closure:
    """Finds the parts of cells.

    Args:
        topology: the points of the mesh.
        cell: name of the cell type.
        cells: (n,) points of cells of that type.

    Returns:
        The closure.
    """
    reference = reference_cell(cell)
    if reference.dim == 1:
        vertices = topology.cone(cells, cell)[0]
        return Closure(cell, cells, vertices, np.zeros(vertices.shape, np.int8))
    if reference.dim == 2:
        facets, orientations = topology.cone(cells, cell)
        vertices = topology.frame(cells, cell)
        turns = np.concatenate([orientations + 1, np.zeros_like(vertices)], axis=1)
        return Closure(cell, cells, np.concatenate([facets, vertices], axis=1), turns.astype(np.int8))
    return _solid_closure(topology, reference, cells)


def corners(topology: Topology, cell: str) -> Corners:
    """The vertices of all cells of a type: that part of their `closure`, at a third of the cost."""
    reference, cells = reference_cell(cell), topology.of_type(cell)
    if reference.dim < 3:
        return Corners(cell, cells, topology.frame(cells, cell))
    return Corners(cell, cells, _solid_vertices(topology, reference, *_turned_facets(topology, reference, cells)))


def _turned_facets(topology: Topology, reference: ReferenceCell, cells: _Ints) -> tuple[_Ints, _Ints]:
    """Facets of solid cells, and how each lies in its cell, a row of `arrangements`."""
    facets, orientations = topology.cone(cells, reference.name)
    return facets, orientations + np.array([len(loop) for loop in reference.loops], np.int32)


def _solid_vertices(topology: Topology, reference: ReferenceCell, facets: _Ints, turns: _Ints) -> _Ints:
    vertices = np.empty((len(facets), reference.num_vertices), np.int32)
    missing = set(range(reference.num_vertices))
    for i, loop in enumerate(reference.loops):
        if missing & set(loop):
            own = topology.frame(facets[:, i], reference.facet_cells[i])
            vertices[:, loop] = np.take_along_axis(own, arrangements(len(loop))[turns[:, i]], axis=1)
            missing -= set(loop)
    return vertices


def _solid_closure(topology: Topology, reference: ReferenceCell, cells: _Ints) -> Closure:
    facets, turns = _turned_facets(topology, reference, cells)
    vertices = _solid_vertices(topology, reference, facets, turns)
    pairs = [entity for entity in reference.entities if len(entity) == 2]
    edges, edge_turns = np.empty((len(facets), len(pairs)), np.int32), np.empty((len(facets), len(pairs)), np.int8)
    for number, pair in enumerate(pairs):
        edges[:, number] = _edge(topology, reference, facets, turns, pair)
        first = topology.cone(edges[:, number], "interval")[0][:, 0]
        edge_turns[:, number] = first == vertices[:, pair[0]]
    parts = np.concatenate([facets, edges, vertices], axis=1)
    every = np.concatenate([turns.astype(np.int8), edge_turns, np.zeros(vertices.shape, np.int8)], axis=1)
    return Closure(reference.name, cells, parts, every)


def _edge(topology: Topology, reference: ReferenceCell, facets: _Ints, turns: _Ints, pair: tuple[int, ...]) -> _Ints:
    """The points of one edge in all cells, found in the first facet that has it."""
    facet, position = next(
        (i, j) for i, loop in enumerate(reference.loops) for j in range(len(loop)) if (loop[j], loop[(j + 1) % len(loop)]) == pair
    )
    cone = topology.cone(facets[:, facet], reference.facet_cells[facet])[0]
    turn = arrangements(cone.shape[1])[turns[:, facet]]
    here, there = turn[:, position], turn[:, (position + 1) % cone.shape[1]]
    # The facet's own edge j joins its own vertices j and j + 1.
    own = np.where(there == (here + 1) % cone.shape[1], here, there)
    return np.take_along_axis(cone, own[:, None], axis=1)[:, 0]
