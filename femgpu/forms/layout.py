"""Slots of a lowered integrand to entries of PETSc's output arrays, and those to a printed pointwise function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from femgpu.forms.evaluate import Evaluation
from femgpu.forms.graph import INPUT, Graph
from femgpu.forms.inputs import Locate, width
from femgpu.forms.linear import Slot, Slots
from femgpu.forms.printer import print_body
from femgpu.forms.records import Kind, Pointwise, Read

# Orders of the derivatives of test function and direction.
_OUTPUTS = {
    (): "f0", (0,): "f0", (1,): "f1",
    (0, 0): "g0", (0, 1): "g1", (1, 0): "g2", (1, 1): "g3", (0, 2): "g4", (1, 2): "g5",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Sizes that flat indices depend on.

    Attributes:
        dim: dimension of space.
        num_comp: components of the test function and of the direction; 1 for a functional.
        locate: maps an input of a graph to its C array and the index there.
    """

    dim: int
    num_comp: int
    locate: Locate

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each output at one point."""
        comp, dim = (self.num_comp,), (self.dim,)
        return {
            "f0": comp,
            "f1": comp + dim,
            "g0": comp + comp,
            "g1": comp + comp + dim,
            "g2": comp + comp + dim,
            "g3": comp + comp + dim + dim,
            "g4": comp + comp + dim + dim,
            "g5": comp + comp + dim + dim + dim,
        }

    def entry(self, slots: tuple[Slot, ...]) -> tuple[str, int]:
        """The output array and the flat index there that a product of arguments belongs to."""
        index = 0
        for slot in slots:
            index = index * self.num_comp + slot.component
        for slot in slots:
            for derivative in slot.derivative:
                index = index * self.dim + derivative
        return _OUTPUTS[tuple(len(slot.derivative) for slot in slots)], index

    def pointwise(self, kind: Kind, graph: Graph, slots: Slots) -> Pointwise | None:
        """Prints what the slots need of a graph; None if there are no slots."""
        if not slots:
            return None
        return self.write(kind, graph, sorted((*self.entry(key), node) for key, node in slots.items()))

    def write(self, kind: Kind, graph: Graph, entries: Iterable[tuple[str, int, int]]) -> Pointwise:
        """Prints what entries (output name, flat index, node) need of a graph."""
        roots = tuple(entries)
        nodes = [node for _, _, node in roots]
        return Pointwise(
            kind=kind,
            body=print_body(graph, roots, self.locate),
            reads=reads(graph, nodes, self.locate, self.dim),
            writes=frozenset((name, index // (prod(self.shapes[name]) // self.num_comp)) for name, index, _ in roots),
            flops=graph.flops(nodes),
            evaluate=Evaluation(graph, roots, self.shapes, self.locate),
        )


def reads(graph: Graph, nodes: Iterable[int], locate: Locate, dim: int) -> frozenset[Read]:
    """The input arrays and components that nodes need, as in `Pointwise.reads`."""
    found: set[Read] = set()
    for node in graph.live(nodes):
        kind, *rest = graph.nodes[node]
        if kind == INPUT:
            array, index = locate(*rest)
            size = width(array, dim)
            found.add((array, index // size if size else 0))
    return frozenset(entry for entry in found if entry[0] != "constants")
