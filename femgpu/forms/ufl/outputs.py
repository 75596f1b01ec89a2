"""Slots of a lowered integrand to entries of PETSc's output arrays, and those to a pointwise function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from femgpu.forms.graph.arrays import Locate, output_shapes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import Graph
from femgpu.forms.graph.pointwise import pointwise
from femgpu.forms.records import Kind, Pointwise
from femgpu.forms.ufl.linear import Slot, Slots

# Orders of the derivatives of test function and direction.
_OUTPUTS = {
    (): "f0", (0,): "f0", (1,): "f1", (2,): "f2",
    (0, 0): "g0", (0, 1): "g1", (1, 0): "g2", (1, 1): "g3", (0, 2): "g4", (1, 2): "g5", (2, 0): "g6", (2, 1): "g7", (2, 2): "g8",
}  # fmt: skip


@dataclass(frozen=True)
class Outputs:
    """Where the values of a graph go.

    Attributes:
        dim: dimension of space.
        num_comp: components of the test function and of the direction; 1 for a functional.
        locate: maps an input of a graph to its C array and the index there.
    """

    dim: int
    num_comp: int
    locate: Locate

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
        """The function that computes what slots need of a graph; None if there are no slots."""
        if not slots:
            return None
        return self.write(kind, graph, sorted((*self.entry(key), node) for key, node in slots.items()))

    def write(self, kind: Kind, graph: Graph, entries: Iterable[tuple[str, int, int]]) -> Pointwise:
        """The function that computes entries (output name, flat index, node) of a graph."""
        shapes = output_shapes(self.dim, self.num_comp)
        return pointwise(kind, Evaluation(graph, tuple(entries), shapes, self.locate), self.dim)
