"""Slots of a lowered integrand to entries of PETSc's output arrays, and those to a printed pointwise function."""

from __future__ import annotations

from dataclasses import dataclass

from femgpu.forms.evaluate import Evaluation
from femgpu.forms.graph import INPUT, Graph
from femgpu.forms.inputs import Locate
from femgpu.forms.linear import Slot, Slots
from femgpu.forms.printer import print_body
from femgpu.forms.records import Kind, Pointwise, Read


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
        }

    def entry(self, slots: tuple[Slot, ...]) -> tuple[str, int]:
        """The output array and the flat index there that a product of arguments belongs to."""
        index = 0
        for slot in slots:
            index = index * self.num_comp + slot.component
        for slot in slots:
            if slot.derivative >= 0:
                index = index * self.dim + slot.derivative
        differentiated = [slot.derivative >= 0 for slot in slots]
        if len(slots) < 2:
            return f"f{sum(differentiated)}", index
        return f"g{2 * differentiated[0] + differentiated[1]}", index

    def pointwise(self, kind: Kind, graph: Graph, slots: Slots) -> Pointwise | None:
        """Prints what the slots need of a graph; None if there are no slots."""
        if not slots:
            return None
        roots = tuple(sorted((*self.entry(key), node) for key, node in slots.items()))
        nodes = [node for _, _, node in roots]
        return Pointwise(
            kind=kind,
            body=print_body(graph, roots, self.locate),
            reads=_reads(graph, nodes),
            writes=frozenset(name for name, _, _ in roots),
            flops=graph.flops(nodes),
            evaluate=Evaluation(graph, roots, self.shapes, self.locate),
        )


def _reads(graph: Graph, nodes: list[int]) -> frozenset[Read]:
    inputs = {graph.nodes[node][1] for node in graph.live(nodes) if graph.nodes[node][0] == INPUT}
    return frozenset(inputs - {"constants"})
