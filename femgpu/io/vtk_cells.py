"""VTK's Lagrange cells: their types and the order of their nodes on the equispaced lattice.

A node is a tuple of integers, its position along the axes in steps of 1/degree. The order is vertices, edges, faces,
interior: on tensor cells each with the first axis running fastest, on simplices faces and interior are the same order
again, of degree 3 (triangle) and 4 (tetrahedron) less. Edges of the hexahedron along its last axis come as in files of
formats before 2.2, the first axis running fastest; VTK 9 sorts them when it reads such a file. On the wedge the triangle's
rows run along the first axis, and the axis of the wedge comes last.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MAX_DEGREE = 10
"""The highest degree that VTK interpolates on tensor cells."""

_LINEAR_TYPES = {"interval": 3, "triangle": 5, "quadrilateral": 9, "tetrahedron": 10, "hexahedron": 12, "prism": 13}
_LAGRANGE_TYPES = {"interval": 68, "triangle": 69, "quadrilateral": 70, "tetrahedron": 71, "hexahedron": 72, "prism": 73}

_SIMPLEX_EDGES = {2: ((0, 1), (1, 2), (2, 0)), 3: ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3))}
_TETRAHEDRON_FACES = ((0, 1, 3), (2, 3, 1), (0, 3, 2), (0, 2, 1))
_SQUARE = ((0, 0), (1, 0), (1, 1), (0, 1))


def cell_type(cell: str, degree: int) -> int:
    """VTK's number of a cell: the linear cell for degree 1, the Lagrange cell above."""
    return (_LINEAR_TYPES if degree == 1 else _LAGRANGE_TYPES)[cell]


@lru_cache
def lattice(cell: str, degree: int) -> NDArray[np.int64]:
    """The nodes of a Lagrange cell in VTK's order.

    Args:
        cell: `interval`, `triangle`, `quadrilateral`, `tetrahedron`, `hexahedron` or `prism`.
        degree: at least 1.

    Returns:
        (num_nodes, dim) int64, read-only; entries between 0 and degree.
    """
    if cell in ("triangle", "tetrahedron"):
        dim = 2 if cell == "triangle" else 3
        corners = np.vstack([np.zeros(dim, dtype=np.int64), degree * np.eye(dim, dtype=np.int64)])
        nodes = np.array(_simplex([tuple(corner) for corner in corners], degree), dtype=np.int64)
    else:
        tensor = {"interval": _interval, "quadrilateral": _quadrilateral, "hexahedron": _hexahedron, "prism": _wedge}[cell]
        nodes = np.array(tensor(degree), dtype=np.int64)
    nodes.flags.writeable = False
    return nodes


def points(cell: str, degree: int) -> NDArray[np.float64]:
    """The nodes as points of PETSc's reference cell [-1, 1]^dim.

    Returns:
        (num_nodes, dim) float64.
    """
    return -1.0 + 2.0 * lattice(cell, degree) / degree


def _interval(degree: int) -> list[tuple[int, ...]]:
    return [(0,), (degree,), *((i,) for i in range(1, degree))]


def _quadrilateral(degree: int) -> list[tuple[int, ...]]:
    inner = range(1, degree)
    edges = [
        *((i, 0) for i in inner),
        *((degree, j) for j in inner),
        *((i, degree) for i in inner),
        *((0, j) for j in inner),
    ]
    return [*((degree * i, degree * j) for i, j in _SQUARE), *edges, *((i, j) for j in inner for i in inner)]


def _hexahedron(degree: int) -> list[tuple[int, ...]]:
    inner, ends = range(1, degree), (0, degree)
    square = _quadrilateral(degree)
    corners, edges = square[:4], square[4 : 4 + 4 * (degree - 1)]
    return [
        *((i, j, k) for k in ends for i, j in corners),
        *((i, j, k) for k in ends for i, j in edges),
        *((i, j, k) for j in ends for i in ends for k in inner),
        *((i, j, k) for i in ends for k in inner for j in inner),
        *((i, j, k) for j in ends for k in inner for i in inner),
        *((i, j, k) for k in ends for j in inner for i in inner),
        *((i, j, k) for k in inner for j in inner for i in inner),
    ]


def _wedge(degree: int) -> list[tuple[int, ...]]:
    inner, ends = range(1, degree), (0, degree)
    corners = ((0, 0), (degree, 0), (0, degree))
    edges = [
        *((i, 0) for i in inner),
        *((degree - j, j) for j in inner),
        *((0, degree - j) for j in inner),
    ]
    triangle = [(i, j) for j in inner for i in range(1, degree - j)]
    return [
        *((i, j, k) for k in ends for i, j in corners),
        *((i, j, k) for k in ends for i, j in edges),
        *((i, j, k) for i, j in corners for k in inner),
        *((i, j, k) for k in ends for i, j in triangle),
        *((i, 0, k) for k in inner for i in inner),
        *((degree - j, j, k) for k in inner for j in inner),
        *((0, degree - j, k) for k in inner for j in inner),
        *((i, j, k) for k in inner for i, j in triangle),
    ]


def _simplex(corners: list[tuple[int, ...]], degree: int) -> list[tuple[int, ...]]:
    """Nodes of the simplex with these corners, degree steps apart; empty for a negative degree."""
    if degree < 0:
        return []
    if degree == 0:
        return corners[:1]
    nodes = list(corners)
    for start, end in _SIMPLEX_EDGES[len(corners) - 1]:
        nodes += [_between([corners[start], corners[end]], [degree - i, i]) for i in range(1, degree)]
    faces = _TETRAHEDRON_FACES if len(corners) == 4 else ((0, 1, 2),)
    for face in faces:
        nodes += _simplex(_shrunk([corners[vertex] for vertex in face], degree), degree - 3)
    if len(corners) == 4:
        nodes += _simplex(_shrunk(corners, degree), degree - 4)
    return nodes


def _shrunk(corners: list[tuple[int, ...]], degree: int) -> list[tuple[int, ...]]:
    """Corners of the simplex of the inner nodes: one step away from every facet."""
    number = len(corners)
    last = degree - number + 1
    if last <= 0:
        return []
    return [_between(corners, [last if i == k else 1 for i in range(number)]) for k in range(number)]


def _between(corners: list[tuple[int, ...]], weights: list[int]) -> tuple[int, ...]:
    """The lattice point with these integer barycentric coordinates."""
    sums = np.array(weights) @ np.array(corners)
    return tuple(int(value) for value in sums // sum(weights))
