"""PETSc's reference cells: vertices in closure order, facets in cone order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from femgpu.errors import MeshError

# A point on a facet misses its plane by rounding only; distinct nodes of any usable degree are farther apart.
_ON_FACET = 1e-10


@dataclass(frozen=True, eq=False)
class ReferenceCell:
    """A reference cell on [-1, 1]^dim.

    Simplices are x_i >= -1, sum of x_i <= 2 - dim; the prism is the triangle times the interval. PETSc lists vertices such
    that the first facet points outwards, which is why vertices 1 and 2 of the tetrahedron and the prism, and 1 and 3 of
    the hexahedron, are swapped with respect to VTK.

    Attributes:
        name: interval, triangle, quadrilateral, tetrahedron, hexahedron or prism.
        dim: topological dimension.
        vertices: (num_vertices, dim) coordinates in PETSc's closure order.
        loops: vertex numbers of each facet, facets in PETSc's cone order, vertices in PETSc's order around the facet.
        is_simplex: whether the cell is a simplex.
        volume: the measure of the cell.
    """

    name: str
    dim: int
    vertices: npt.NDArray[np.float64]
    loops: tuple[tuple[int, ...], ...]
    is_simplex: bool
    volume: float

    @property
    def num_vertices(self) -> int:
        """Number of vertices."""
        return len(self.vertices)

    @cached_property
    def facets(self) -> tuple[tuple[int, ...], ...]:
        """Vertex numbers of each facet, increasing; facets in PETSc's cone order."""
        return tuple(tuple(sorted(loop)) for loop in self.loops)

    @cached_property
    def facet_cells(self) -> tuple[str, ...]:
        """The cell type of each facet: point, interval, triangle or quadrilateral."""
        return tuple(FACET_NAMES[len(loop)] for loop in self.loops)

    @cached_property
    def entities(self) -> tuple[tuple[int, ...], ...]:
        """Vertex numbers of the cell's parts in PETSc's closure order: itself, then its facets, edges and vertices.

        Vertices of facets go around, those of edges as the first facet with that edge goes.
        """
        corners = tuple((vertex,) for vertex in range(self.num_vertices))
        if self.dim < 3:
            return (tuple(range(self.num_vertices)), *(self.loops if self.dim == 2 else ()), *corners)
        edges: dict[frozenset[int], tuple[int, int]] = {}
        for loop in self.loops:
            for a, b in zip(loop, loop[1:] + loop[:1], strict=True):
                edges.setdefault(frozenset((a, b)), (a, b))
        return (tuple(range(self.num_vertices)), *self.loops, *edges.values(), *corners)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Vertex numbers of each edge."""
        return tuple((entity[0], entity[1]) for entity in self.entities if len(entity) == 2)

    def entity_of(self, points: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Which part of the cell points lie inside of.

        Args:
            points: (num_points, dim) points of the cell.

        Returns:
            (num_points,) numbers into `entities`: of the smallest part that holds the point.
        """
        points = np.asarray(points, np.float64).reshape(-1, self.dim)
        on = np.stack([np.abs(points @ normal - level) < _ON_FACET for normal, level in self._planes], axis=1)
        member = np.array([[vertex in facet for vertex in range(self.num_vertices)] for facet in self.facets])
        # A part has the vertices that all facets through it share; that of no facet is the cell itself.
        shared = ~(on[:, :, None] & ~member[None]).any(axis=1)
        number = {frozenset(entity): i for i, entity in enumerate(self.entities)}
        return np.array([number[frozenset(np.flatnonzero(row).tolist())] for row in shared], np.int64)

    @cached_property
    def _planes(self) -> list[tuple[npt.NDArray[np.float64], float]]:
        """Unit normal of each facet and its product with the facet's points."""
        found = []
        for facet in self.facets:
            origin = self.vertices[facet[0]]
            tangents = self.vertices[list(facet[1:])] - origin
            normal = np.linalg.svd(tangents)[2][-1] if len(tangents) else np.ones(1)
            found.append((normal, float(normal @ origin)))
        return found


# The cell type of a facet by its number of vertices.
FACET_NAMES = {1: "point", 2: "interval", 3: "triangle", 4: "quadrilateral"}

_CELLS: dict[str, tuple[list[list[int]], tuple[tuple[int, ...], ...], bool, float]] = {
    "interval": ([[-1], [1]], ((0,), (1,)), True, 2.0),
    "triangle": ([[-1, -1], [1, -1], [-1, 1]], ((0, 1), (1, 2), (2, 0)), True, 2.0),
    "quadrilateral": ([[-1, -1], [1, -1], [1, 1], [-1, 1]], ((0, 1), (1, 2), (2, 3), (3, 0)), False, 4.0),
    "tetrahedron": (
        [[-1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]],
        ((0, 1, 2), (0, 3, 1), (0, 2, 3), (2, 1, 3)),
        True,
        4.0 / 3.0,
    ),
    "hexahedron": (
        [[-1, -1, -1], [-1, 1, -1], [1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]],
        ((0, 1, 2, 3), (4, 5, 6, 7), (0, 3, 5, 4), (2, 1, 7, 6), (3, 2, 6, 5), (0, 4, 7, 1)),
        False,
        8.0,
    ),
    "prism": (
        [[-1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, 1], [-1, 1, 1]],
        ((0, 1, 2), (3, 4, 5), (0, 2, 4, 3), (2, 1, 5, 4), (1, 0, 3, 5)),
        False,
        4.0,
    ),
}

CELL_NAMES = tuple(_CELLS)
# The cells that are products of intervals.
TENSOR_CELLS = ("interval", "quadrilateral", "hexahedron")


@cache
def reference_cell(name: str) -> ReferenceCell:
    """Looks a reference cell up.

    Args:
        name: one of `CELL_NAMES`.

    Returns:
        The reference cell; the same object for the same name.

    Raises:
        MeshError: for any other name.
    """
    if name not in _CELLS:
        raise MeshError(f"cell {name!r} is not supported; expected one of {', '.join(CELL_NAMES)}")
    vertices, loops, is_simplex, volume = _CELLS[name]
    array = np.array(vertices, np.float64)
    array.flags.writeable = False
    return ReferenceCell(name, array.shape[1], array, loops, is_simplex, volume)


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


@cache
def relative_turns(num_vertices: int) -> npt.NDArray[np.int32]:
    """How a part lies in one cell, as seen from another cell that has it.

    Args:
        num_vertices: of the part.

    Returns:
        (num_orientations, num_orientations) int32: by the part's turns in the other cell and in the one, the row of `arrangements`
        that says which vertices of the other cell's entity are those of the one's.
    """
    rows = arrangements(num_vertices)
    inverse = np.argsort(rows, axis=1)
    found = inverse[:, rows]
    return (found[:, :, None] == rows).all(axis=3).argmax(axis=2).astype(np.int32)
