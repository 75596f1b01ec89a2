"""Products of a graph, taken apart into factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce

from femgpu.forms.graph.identities import SharedGraph
from femgpu.forms.graph.levels import CELL, UNIFORM


class Products:
    """The factors of nodes that are products, and sums that keep common factors outside.

    Args:
        graph: holds the products and receives new ones.
    """

    def __init__(self, graph: SharedGraph) -> None:
        self.graph = graph
        self._known: dict[int, tuple[int, ...]] = {}

    def factors(self, node: int) -> tuple[int, ...]:
        """The factors of a node, in increasing order, constants among them; a node that is no product is its only one."""
        found = self._known.get(node)
        if found is None:
            kind, *operands = self.graph.nodes[node]
            if kind == "*":
                found = tuple(sorted(self.factors(operands[0]) + self.factors(operands[1])))
            elif kind == "neg":
                found = tuple(sorted((self.graph.constant(-1.0), *self.factors(operands[0]))))
            else:
                found = (node,)
            self._known[node] = found
        return found

    def common(self, nodes: Iterable[int]) -> list[int]:
        """The factors that all nodes have."""
        shared = reduce(Counter.__and__, (Counter(self.factors(node)) for node in nodes))
        return sorted(shared.elements())

    def product(self, factors: Iterable[int]) -> int:
        """The product of nodes; those that are constant on a cell are multiplied first."""
        graph, factors = self.graph, list(factors)
        if all(graph.level[factor] != CELL for factor in factors):
            return reduce(graph.mul, factors, graph.one)
        first = [factor for factor in factors if graph.level[factor] in (UNIFORM, CELL)]
        rest = [factor for factor in factors if graph.level[factor] not in (UNIFORM, CELL)]
        return graph.mul(reduce(graph.mul, first, graph.one), reduce(graph.mul, rest, graph.one))

    def mul(self, a: int, b: int) -> int:
        """The product a b; factors that are constant on a cell are multiplied first."""
        factors = self.factors(a) + self.factors(b)
        levels = {self.graph.level[factor] for factor in factors}
        return self.product(factors) if CELL in levels and levels - {UNIFORM, CELL} else self.graph.mul(a, b)

    def without(self, node: int, factors: Iterable[int]) -> int:
        """A product without some of its factors."""
        return self.product((Counter(self.factors(node)) - Counter(factors)).elements())

    def add(self, a: int, b: int) -> int:
        """The sum a + b with the factors that both have outside."""
        common = self.common((a, b))
        if not common:
            return self.graph.add(a, b)
        return self.mul(self.product(common), self.graph.add(self.without(a, common), self.without(b, common)))
