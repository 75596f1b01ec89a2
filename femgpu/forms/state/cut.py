"""Minimum cuts of directed networks with real capacities, which may grow from cut to cut."""

from __future__ import annotations

import math
from collections.abc import Hashable

SOURCE, SINK = "source", "sink"
# Capacities are rounded to a thousandth: sums of integers are exact, and which of two cuts costs less is no matter of roundings.
_FINEST = 1000.0


class Cut:
    """A network from SOURCE to SINK whose vertices have any names.

    All edges from the source need a finite capacity.

    The largest flow is found by Dinic's method. Networks of forms have some hundred vertices, for which that takes a millisecond;
    a library that brings it takes two tenths of a second to import, which every problem would wait for. Where capacities grow, a
    flow stays one: the next cut goes on from there.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {SOURCE: 0, SINK: 1}
        self._edges: dict[tuple[Hashable, Hashable], int] = {}
        # What the flow leaves of capacities. Each edge stands beside the one that takes back its flow.
        self._heads, self._left = list[int](), list[float]()
        self._leaving: list[list[int]] = [[], []]

    def edge(self, tail: Hashable, head: Hashable, capacity: float) -> None:
        """Adds an edge or raises its capacity: of several between two vertices the largest counts."""
        edge = self._edges.get((tail, head))
        if edge is None:
            edge = self._edges[tail, head] = self._add(self._number(tail), self._number(head))
        flow = self._left[edge + 1]
        self._left[edge] = max(self._left[edge], _rounded(capacity) - flow)

    def source_side(self) -> dict[Hashable, None]:
        """The vertices on the source's side of a minimum cut, as few as possible, in the order of their edges."""
        while (levels := self._levels())[1] >= 0:
            self._fill(levels)
        # The same for every largest flow.
        return {name: None for name, level in zip(self._numbers, levels, strict=True) if level >= 0}

    def _number(self, vertex: Hashable) -> int:
        number = self._numbers.setdefault(vertex, len(self._numbers))
        if number == len(self._leaving):
            self._leaving.append([])
        return number

    def _add(self, tail: int, head: int) -> int:
        edge = len(self._heads)
        self._heads += (head, tail)
        self._left += (0, 0)
        self._leaving[tail].append(edge)
        self._leaving[head].append(edge + 1)
        return edge

    def _levels(self) -> list[int]:
        """How many edges with something left lead to each vertex, to the sink's level at least; -1: none do."""
        heads, left, leaving = self._heads, self._left, self._leaving
        found, reached = [-1] * len(leaving), [0]
        found[0] = 0
        for tail in reached:
            if found[1] >= 0:
                break
            for edge in leaving[tail]:
                if left[edge] and found[heads[edge]] < 0:
                    found[heads[edge]] = found[tail] + 1
                    reached.append(heads[edge])
        return found

    def _fill(self, levels: list[int]) -> None:
        """Adds flow along shortest paths until there is none of them left."""
        heads, left = self._heads, self._left
        ahead, path, vertex = [list(edges) for edges in self._leaving], list[int](), 0
        while vertex or ahead[0]:
            if vertex == 1:
                flow = min([left[edge] for edge in path])
                for edge in path:
                    left[edge] -= flow
                    left[edge ^ 1] += flow
                full = next(place for place, edge in enumerate(path) if not left[edge])
                vertex, path = heads[path[full] ^ 1], path[:full]
            elif not ahead[vertex]:
                vertex = heads[path.pop() ^ 1]
                ahead[vertex].pop()
            elif left[edge := ahead[vertex][-1]] and levels[heads[edge]] == levels[vertex] + 1:
                path.append(edge)
                vertex = heads[edge]
            else:
                ahead[vertex].pop()


def _rounded(capacity: float) -> float:
    """An integer, or infinite."""
    finest = capacity * _FINEST
    # An edge that costs something keeps a capacity, so that nothing is cut in vain.
    return finest if finest in (0, math.inf) else max(1, round(finest))
