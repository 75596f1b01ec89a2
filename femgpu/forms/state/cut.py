"""Minimum cuts of directed networks with real capacities, which may grow from cut to cut."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable

SOURCE, SINK = "source", "sink"
# Capacities are rounded to a thousandth: sums of integers are exact, and which of two cuts costs less is no matter of roundings.
_FINEST = 1000.0


class Cut:
    """A network from SOURCE to SINK whose vertices have any names.

    All edges from the source need a finite capacity.

    The largest flow is found by Dinic's method. Networks of forms have some hundred vertices, for which that takes a millisecond;
    a library that brings it takes two tenths of a second to import, which every problem would wait for. A flow stays one where
    capacities grow: the next cut goes on from there.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {SOURCE: 0, SINK: 1}
        # Ends of edges and what the flow leaves of their capacities; each edge stands beside the one that takes back its flow.
        self._heads, self._left = list[int](), list[float]()
        self._leaving: dict[int, list[int]] = defaultdict(list)  # the edges from each vertex

    def edge(self, tail: Hashable, head: Hashable, capacity: float) -> int:
        """Adds an edge, beside others between the same vertices, and returns its number."""
        number, edge = self._numbers, len(self._heads)
        start, end = number.setdefault(tail, len(number)), number.setdefault(head, len(number))
        self._heads += (end, start)
        self._left += (_rounded(capacity), 0)
        self._leaving[start].append(edge)
        self._leaving[end].append(edge + 1)
        return edge

    def raise_to(self, edge: int, capacity: float) -> None:
        """Raises the capacity of an edge, if it is lower; the flow stays."""
        flow = self._left[edge + 1]
        self._left[edge] = max(self._left[edge], _rounded(capacity) - flow)

    def source_side(self) -> dict[Hashable, None]:
        """The vertices on the source's side of a minimum cut, as few as possible, in the order of their edges."""
        while (levels := self._levels())[1] >= 0:
            self._fill(levels)
        return {name: None for name, level in zip(self._numbers, levels, strict=True) if level >= 0}

    def _levels(self) -> list[int]:
        """How many edges with something left lead to each vertex that is no further than the sink; -1: none do."""
        heads, left, leaving = self._heads, self._left, self._leaving
        found, reached = [-1] * len(self._numbers), [0]
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
        """Adds flow along shortest paths until there is none of them left, looked for from the sink: few ways back end early."""
        heads, left, leaving = self._heads, self._left, self._leaving
        tried, path, vertex = [0] * len(levels), list[int](), 1
        while vertex != 1 or tried[1] < len(leaving[1]):
            if vertex == 0:
                flow = min([left[edge] for edge in path])
                for edge in path:
                    left[edge] -= flow
                    left[edge ^ 1] += flow
                full = next(place for place, edge in enumerate(path) if not left[edge])
                vertex, path = heads[path[full]], path[:full]
            elif tried[vertex] == len(leaving[vertex]):
                vertex = heads[path.pop()]
                tried[vertex] += 1
            else:
                back = leaving[vertex][tried[vertex]]
                if left[back ^ 1] and levels[heads[back]] == levels[vertex] - 1:
                    path.append(back ^ 1)
                    vertex = heads[back]
                else:
                    tried[vertex] += 1


def _rounded(capacity: float) -> float:
    """How often the finest difference goes into a capacity, an integer unless it is infinite."""
    count = capacity * _FINEST
    # An edge that costs something keeps a capacity, so that nothing is cut in vain.
    return count if count in (0, math.inf) else max(1, round(count))
