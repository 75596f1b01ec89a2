"""Values that are linear in test and trial functions, and their arithmetic over a scalar graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from femgpu.errors import FormError
from femgpu.forms.graph.graph import Graph
from femgpu.forms.ufl.show import show


class Slot(NamedTuple):
    """Where an argument enters: its number (0 test, 1 trial), its component, and the sorted indices of its derivatives."""

    argument: int
    component: int
    derivative: tuple[int, ...]


# A product of arguments, ordered by their number, and the node that multiplies it.
Slots = dict[tuple[Slot, ...], int]
# A node where no argument occurs, else slots.
Value = int | Slots


class Linear:
    """Sums and products of values. Slots that multiply zero are dropped.

    Args:
        graph: holds the nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def add(self, a: Value, b: Value, e: Any) -> Value:
        """The sum a + b, which is the value of the expression e.

        Raises:
            FormError: if only one of them contains arguments.
        """
        if isinstance(a, dict) and isinstance(b, dict):
            return self._add_slots(a, b)
        if isinstance(a, dict) or isinstance(b, dict):
            slots, node = (a, b) if isinstance(a, dict) else (b, a)
            if not self.is_zero(node):
                raise FormError(f"not linear, a sum of terms with and without test or trial function: {show(e)}")
            return slots
        return self.graph.add(a, b)

    def mul(self, a: Value, b: Value, e: Any) -> Value:
        """The product a b, which is the value of the expression e.

        Raises:
            FormError: if the same argument is in both.
        """
        if isinstance(a, dict) and isinstance(b, dict):
            return self._mul_slots(a, b, e)
        if isinstance(a, dict):
            return self.each(a, lambda entry: self.graph.mul(entry, b))  # type: ignore[arg-type]
        if isinstance(b, dict):
            return self.each(b, lambda entry: self.graph.mul(a, entry))
        return self.graph.mul(a, b)

    def each(self, a: Value, function: Callable[[int], int]) -> Value:
        """Applies a linear function of nodes."""
        if isinstance(a, dict):
            return self._drop_zeros({slots: function(node) for slots, node in a.items()})
        return function(a)

    def select(self, condition: int, a: Value, b: Value, e: Any) -> Value:
        """The value a where the condition holds, else b.

        Raises:
            FormError: if only one of them contains arguments and the other is not zero.
        """
        if isinstance(a, int) and isinstance(b, int):
            return self.graph.select(condition, a, b)
        for value in (a, b):
            if isinstance(value, int) and not self.is_zero(value):
                raise FormError(f"not linear in the test or trial function: {show(e)}")
        zero = self.graph.constant(0.0)
        left, right = (value if isinstance(value, dict) else {} for value in (a, b))
        return self._drop_zeros(
            {key: self.graph.select(condition, left.get(key, zero), right.get(key, zero)) for key in {**left, **right}}
        )

    def is_zero(self, a: Value) -> bool:
        """Whether a value vanishes identically."""
        return isinstance(a, int) and self.graph.value(a) == 0

    def _add_slots(self, a: Slots, b: Slots) -> Value:
        result = dict(a)
        for slots, node in b.items():
            result[slots] = self.graph.add(result[slots], node) if slots in result else node
        return self._drop_zeros(result)

    def _mul_slots(self, a: Slots, b: Slots, e: Any) -> Value:
        result: Slots = {}
        for slots_a, node_a in a.items():
            for slots_b, node_b in b.items():
                key = tuple(sorted(slots_a + slots_b))
                if len({slot.argument for slot in key}) < len(key):
                    raise FormError(f"quadratic in the test or trial function: {show(e)}; expected each of them once per term")
                node = self.graph.mul(node_a, node_b)
                result[key] = self.graph.add(result[key], node) if key in result else node
        return self._drop_zeros(result)

    def _drop_zeros(self, slots: Slots) -> Value:
        slots = {key: node for key, node in slots.items() if not self.is_zero(node)}
        return slots or self.graph.constant(0.0)
