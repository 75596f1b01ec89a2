"""Products of a graph, taken apart into factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce

from femgpu.forms.graph.graph import Graph


class Products:
    """The factors of nodes that are products, and sums that keep common factors outside.

    Args:
        graph: holds the products and receives new ones.
    """

    def __init__(self, graph: Graph) -> None:
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
        """The product of nodes."""
        return reduce(self.graph.mul, factors, self.graph.constant(1.0))

    def without(self, node: int, factors: Iterable[int]) -> int:
        """A product without some of its factors."""
        return self.product((Counter(self.factors(node)) - Counter(factors)).elements())

    def add(self, a: int, b: int) -> int:
        """The sum a + b with the factors that both have outside."""
        common = self.common((a, b))
        if not common:
            return self.graph.add(a, b)
        return self.graph.mul(self.product(common), self.graph.add(self.without(a, common), self.without(b, common)))
