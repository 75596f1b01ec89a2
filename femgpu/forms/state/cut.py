"""Minimum cuts of directed networks with real capacities."""

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
    a library that brings it takes two tenths of a second to import, which every problem would wait for.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {SOURCE: 0, SINK: 1}
        self._capacities: dict[tuple[int, int], float] = {}

    def edge(self, tail: Hashable, head: Hashable, capacity: float) -> None:
        """Adds an edge; of several between two vertices the last counts."""
        number = self._numbers
        ends = number.setdefault(tail, len(number)), number.setdefault(head, len(number))
        self._capacities[ends] = capacity

    def source_side(self) -> dict[Hashable, None]:
        """The vertices on the source's side of a minimum cut, as few as possible, in the order of their edges."""
        edges = _Residual(len(self._numbers))
        for (tail, head), capacity in zip(self._capacities, self._integers(), strict=True):
            edges.add(tail, head, capacity)
        while (levels := edges.levels())[1] >= 0:
            edges.fill(levels)
        return {name: None for name, level in zip(self._numbers, levels, strict=True) if level >= 0}

    def _integers(self) -> list[int]:
        total = sum(value for (tail, _), value in self._capacities.items() if tail == 0)
        # No flow exceeds the total: an edge of more than that is never cut.
        uncut = math.ceil(total * _FINEST) + len(self._capacities)
        # An edge that costs something keeps a capacity, so that nothing is cut in vain.
        return [0 if value == 0 else max(1, round(min(value * _FINEST, uncut))) for value in self._capacities.values()]


class _Residual:
    """What capacities a flow leaves, from vertex 0 to vertex 1; each edge stands beside the one that takes back its flow."""

    def __init__(self, size: int):
        self._heads, self._left = list[int](), list[int]()
        self._edges: list[list[int]] = [[] for _ in range(size)]

    def add(self, tail: int, head: int, capacity: int) -> None:
        """Adds an edge."""
        for one, other, left in ((tail, head, capacity), (head, tail, 0)):
            self._edges[one].append(len(self._heads))
            self._heads.append(other)
            self._left.append(left)

    def levels(self) -> list[int]:
        """How many edges with something left lead to each vertex; -1: none do."""
        found, reached = [0, *[-1] * (len(self._edges) - 1)], [0]
        for tail in reached:
            for edge in self._edges[tail]:
                if self._left[edge] and found[self._heads[edge]] < 0:
                    found[self._heads[edge]] = found[tail] + 1
                    reached.append(self._heads[edge])
        return found

    def fill(self, levels: list[int]) -> None:
        """Adds flow along shortest paths until there is none of them left."""
        ahead, path, vertex = [list(edges) for edges in self._edges], list[int](), 0
        while vertex or ahead[0]:
            if vertex == 1:
                flow = min(self._left[edge] for edge in path)
                for edge in path:
                    self._left[edge] -= flow
                    self._left[edge ^ 1] += flow
                full = next(place for place, edge in enumerate(path) if not self._left[edge])
                vertex, path = self._heads[path[full] ^ 1], path[:full]
            elif not ahead[vertex]:
                vertex = self._heads[path.pop() ^ 1]
                ahead[vertex].pop()
            elif self._left[edge := ahead[vertex][-1]] and levels[self._heads[edge]] == levels[vertex] + 1:
                path.append(edge)
                vertex = self._heads[edge]
            else:
                ahead[vertex].pop()
