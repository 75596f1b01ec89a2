"""The parts of cells, and how they lie in them, in bulk from the cones of facets and edges.

A point's own frame is the order of its vertices that its cone defines; it is the same for all cells and on all ranks that
have the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from femgpu.element import ReferenceCell, arrangements, reference_cell
from femgpu.mesh.topology import Topology

_Ints = npt.NDArray[np.int32]
# Cells whose parts are found in one piece: temporaries then stay in cache.
CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class Closure:
    """The parts of cells of one type, without the cells themselves.

    Attributes:
        cell: name of the cell type.
        cells: (num_cells,) points of the cells.
        parts: (num_cells, num_entities - 1) points in the order of `ReferenceCell.entities`, the cell left out, int32.
        turns: (num_cells, num_entities - 1) index of the part's own frame among `arrangements` of the part's type, int8.
    """

    cell: str
    cells: npt.NDArray[np.int32]
    parts: _Ints
    turns: npt.NDArray[np.int8]


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


class Parts:
    """The parts of some cells of one type, each found when it is asked for.

    Args:
        topology: the points of the mesh.
        cell: name of the cell type.
        cells: (n,) points of the cells, increasing.
    """

    def __init__(self, topology: Topology, cell: str, cells: _Ints):
        self._topology, self._reference = topology, reference_cell(cell)
        stratum = topology.stratum(cell)
        rows = stratum.rows(cells)
        # Row by row, as wide as numpy wants indices.
        backward = np.array([_num_backward(len(loop)) for loop in self._reference.loops])
        self._facets = stratum.cones[rows].T.astype(np.intp)
        self._turns = stratum.orientations[rows].T + backward[:, None]
        self._found: dict[int, tuple[_Ints, npt.NDArray]] = {}

    def __call__(self, number: int) -> tuple[_Ints, npt.NDArray]:
        """One part of each cell.

        Args:
            number: of the part in `ReferenceCell.entities`; not 0, the cell itself.

        Returns:
            Points (n,) int32, and for each the index of its own frame among the `arrangements` of its type, (n,).
        """
        if number not in self._found:
            entity = self._reference.entities[number]
            if len(entity) == 1:
                self._found[number] = self._vertex(entity[0])
            elif len(entity) == 2 and self._reference.dim == 3:
                self._found[number] = self._edge(entity)
            else:
                self._found[number] = self._facets[number - 1], self._turns[number - 1]
        return self._found[number]

    def _edge(self, pair: tuple[int, ...]) -> tuple[_Ints, npt.NDArray]:
        facet, position = _first_facet(self._reference, pair)
        size, turns = len(self._reference.loops[facet]), self._turns[facet]
        stratum = self._topology.stratum(self._reference.facet_cells[facet])
        own, forward = _own_edges(size)
        entries = stratum.places(self._facets[facet]) * size + own[position][turns]
        against = stratum.orientations.reshape(-1)[entries] < 0
        return stratum.cones.reshape(-1)[entries], (forward[turns] ^ against).view(np.int8)

    def _vertex(self, vertex: int) -> tuple[_Ints, npt.NDArray]:
        reference = self._reference
        if reference.dim == 1:
            points = self._facets[vertex]
        else:
            number, end = _edge_at(reference)[vertex]
            edges, turns = self(number)
            stratum = self._topology.stratum("interval")
            points = stratum.cones.reshape(-1)[2 * stratum.places(edges) + (turns if end else turns ^ 1)]
        return points, np.zeros(len(points), np.int8)


def parts_of(topology: Topology, cell: str) -> Iterator[tuple[slice, Parts]]:
    """All cells of a type in pieces: which they are among those of the type, and their parts."""
    cells = topology.of_type(cell)
    return ((rows, Parts(topology, cell, cells[rows])) for rows in chunks(len(cells)))


def closure(topology: Topology, cell: str, cells: _Ints) -> Closure:
    """Finds all parts of cells.

    Args:
        topology: the points of the mesh.
        cell: name of the cell type.
        cells: (n,) points of cells of that type.

    Returns:
        The closure. Its arrays stand column by column in memory.
    """
    num_parts = len(reference_cell(cell).entities) - 1
    points, turns = np.empty((num_parts, len(cells)), np.int32), np.empty((num_parts, len(cells)), np.int8)
    for rows in chunks(len(cells)):
        parts = Parts(topology, cell, cells[rows])
        for number in range(num_parts):
            points[number, rows], turns[number, rows] = parts(number + 1)
    return Closure(cell, cells, points.T, turns.T)


def corners(topology: Topology, cell: str) -> Corners:
    """The vertices of all cells of a type."""
    reference, cells = reference_cell(cell), topology.of_type(cell)
    vertices = np.empty((len(cells), reference.num_vertices), np.int32)
    first = len(reference.entities) - reference.num_vertices
    for rows, parts in parts_of(topology, cell):
        vertices[rows] = np.stack([parts(first + vertex)[0] for vertex in range(reference.num_vertices)], axis=1)
    return Corners(cell, cells, vertices)


def chunks(num_cells: int) -> Iterator[slice]:
    """Slices that cover range(num_cells) in pieces of `CHUNK` cells."""
    return (slice(start, min(start + CHUNK, num_cells)) for start in range(0, num_cells, CHUNK))


def _num_backward(num_vertices: int) -> int:
    """Orientations of a part that are negative."""
    return len(arrangements(num_vertices)) // 2


@cache
def _first_facet(reference: ReferenceCell, pair: tuple[int, ...]) -> tuple[int, int]:
    """The first facet of a solid cell that has an edge in this direction, and its place among the facet's edges."""
    return next(
        (i, j) for i, loop in enumerate(reference.loops) for j in range(len(loop)) if (loop[j], loop[(j + 1) % len(loop)]) == pair
    )


@cache
def _own_edges(num_vertices: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """How the edges of a facet's own frame, the j-th from vertex j to the next, lie in a cell.

    Returns:
        Which of them each edge of the entity is, by the facet's turn, (num_vertices, num_orientations); and whether they go the
        way of the entity's, (num_orientations,).
    """
    here = arrangements(num_vertices)
    there = np.roll(here, -1, axis=1)
    forward = there == (here + 1) % num_vertices
    return np.where(forward, here, there).T, forward[:, 0]


@cache
def _edge_at(reference: ReferenceCell) -> tuple[tuple[int, int], ...]:
    """For each vertex an edge that has it, by its number in `ReferenceCell.entities`, and at which end; few edges for all."""
    pairs = {number: entity for number, entity in enumerate(reference.entities) if len(entity) == 2}
    found: dict[int, tuple[int, int]] = {}
    for least in (2, 1):
        for number, pair in pairs.items():
            missing = [end for end, vertex in enumerate(pair) if vertex not in found]
            if len(missing) >= least:
                found |= {pair[end]: (number, end) for end in missing}
    return tuple(found[vertex] for vertex in range(reference.num_vertices))
