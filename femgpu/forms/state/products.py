"""Products of a graph, taken apart into factors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        self._made: dict[tuple[int, ...], int] = {}  # products by their factors

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
        shared = reduce(_shared, map(self.factors, nodes))
        return list(shared)

    def product(self, factors: Iterable[int]) -> int:
        """The product of nodes; those that are constant on a cell are multiplied first."""
        factors = tuple(factors)
        found = self._made.get(factors)
        if found is None:
            level = self.graph.level
            first, rest = list(factors), list[int]()
            if any(level[factor] == CELL for factor in factors):
                first = [factor for factor in factors if level[factor] in (UNIFORM, CELL)]
                rest = [factor for factor in factors if level[factor] not in (UNIFORM, CELL)]
            found = self.graph.mul(self._chain(first), self._chain(rest)) if rest else self._chain(first)
            self._made[factors] = found
        return found

    def mul(self, a: int, b: int) -> int:
        """The product a b; factors that are constant on a cell are multiplied first."""
        factors = self.factors(a) + self.factors(b)
        levels = {self.graph.level[factor] for factor in factors}
        return self.product(factors) if CELL in levels and levels - {UNIFORM, CELL} else self.graph.mul(a, b)

    def without(self, node: int, factors: Iterable[int]) -> int:
        """A product without some of its factors."""
        rest = list(self.factors(node))
        for factor in factors:
            rest.remove(factor)
        return self.product(rest)

    def add(self, a: int, b: int) -> int:
        """The sum a + b with the factors that both have outside."""
        common = self.common((a, b))
        if not common:
            return self.graph.add(a, b)
        return self.mul(self.product(common), self.graph.add(self.without(a, common), self.without(b, common)))

    def _chain(self, factors: Sequence[int]) -> int:
        return reduce(self.graph.mul, factors) if factors else self.graph.one


def _shared(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The entries of a that b has, too, each as often as both do."""
    rest, found = list(b), list[int]()
    for entry in a:
        if entry in rest:
            rest.remove(entry)
            found.append(entry)
    return tuple(found)
