"""A scalar expression graph in which equal nodes exist once.

A node is a number; operands always have smaller numbers than what uses them. Constructors share what exists already,
fold constants, and keep signs and constant factors in one place so that more is shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from femgpu.errors import FormError
from femgpu.forms.graph.operations import LENGTH, OPERATIONS

CONSTANT, INPUT = "constant", "input"


class Graph:
    """The graph.

    Attributes:
        nodes: one tuple per node: ("constant", value), ("input", name, index) or (operation, operand, ...).
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self._number: dict[tuple[Any, ...], int] = {}
        self._operands: list[tuple[int, ...]] = []

    def operands(self, node: int) -> tuple[int, ...]:
        """The nodes that a node is computed from."""
        return self._operands[node]

    def value(self, node: int) -> float | None:
        """The value of a constant node, None for any other node."""
        entry = self.nodes[node]
        return entry[1] if entry[0] == CONSTANT else None

    def live(self, roots: Iterable[int], available: Iterable[int] = ()) -> list[int]:
        """The nodes that must be computed for the roots if some are available, operands before what uses them."""
        operands, available = self._operands, set(available)
        found, new = set[int](), set(roots) - available
        while new:
            found |= new
            new = {operand for node in new for operand in operands[node]} - found - available
        return sorted(found)

    def flops(self, roots: Iterable[int]) -> int:
        """Floating-point operations that the roots need, shared nodes counted once."""
        return sum(OPERATIONS[kind].flops for kind in self._operations(roots))

    def size(self, roots: Iterable[int]) -> int:
        """Instructions that the roots become, about."""
        return sum(LENGTH.get(kind, OPERATIONS[kind].flops) for kind in self._operations(roots))

    def _operations(self, roots: Iterable[int]) -> Iterator[str]:
        kinds = (self.nodes[node][0] for node in self.live(roots))
        return (kind for kind in kinds if kind not in (CONSTANT, INPUT))

    def constant(self, value: float) -> int:
        """A constant.

        Raises:
            FormError: if the value is infinite or not a number.
        """
        if not math.isfinite(value):
            raise FormError(f"a constant part of the form is {value}; expected a finite number: check divisions and powers")
        return self._make(CONSTANT, float(value))

    def input(self, name: Any, index: int) -> int:
        """Entry `index` of the input array `name`."""
        return self._make(INPUT, name, index)

    def add(self, a: int, b: int) -> int:
        """The sum a + b."""
        if self.value(a) is not None and self.value(b) is not None:
            return self._fold("+", a, b)
        if self.value(a) == 0:
            return b
        if self.value(b) == 0:
            return a
        (factor_a, base_a), (factor_b, base_b) = self._factor(a), self._factor(b)
        if base_a == base_b:
            return self.scale(factor_a + factor_b, base_a)
        if factor_a == factor_b == -1:
            return self.neg(self.add(base_a, base_b))
        if self._is(b, "neg"):
            return self._subtract(a, base_b)
        if self._is(a, "neg"):
            return self._subtract(b, base_a)
        return self._make("+", *sorted((a, b)))

    def neg(self, a: int) -> int:
        """-a."""
        return self.scale(-1.0, a)

    def mul(self, a: int, b: int) -> int:
        """The product a b; a zero factor makes it zero."""
        if self.value(a) is not None:
            return self.scale(self.value(a), b)
        if self.value(b) is not None:
            return self.scale(self.value(b), a)
        (factor_a, base_a), (factor_b, base_b) = self._factor(a), self._factor(b)
        if abs(factor_a * factor_b) == 1 and (a, b) != (base_a, base_b):  # factors that cancel; signs move out
            return self.scale(factor_a * factor_b, self.mul(base_a, base_b))
        if factor_a == -1:
            return self.neg(self.mul(base_a, b))
        if factor_b == -1:
            return self.neg(self.mul(a, base_b))
        return self._make("*", *sorted((a, b)))

    def scale(self, factor: float | None, a: int) -> int:
        """The product of a number and a; the constant stands first and there is only one."""
        assert factor is not None
        inner, base = self._factor(a)
        factor *= inner
        value = self.value(base)
        if value is not None:
            return self.constant(factor * value)
        if factor == 0:
            return self.constant(0.0)
        if factor == 1:
            return base
        if factor != -1:
            return self._make("*", self.constant(factor), base)
        if self._is(base, "-"):
            return self._subtract(self.nodes[base][2], self.nodes[base][1])
        return self._make("neg", base)

    def div(self, a: int, b: int) -> int:
        """The quotient a / b, through the reciprocal of b, which is shared by all quotients.

        Raises:
            FormError: if b is the constant zero.
        """
        divisor = self.value(b)
        if divisor == 0:
            raise FormError("the form divides by zero; expected a divisor that does not vanish identically")
        if divisor is not None:
            return self.scale(1.0 / divisor, a)
        return self.mul(a, self.function("rcp", b))

    def power(self, a: int, b: int) -> int:
        """The power of a to b; small multiples of 1/4 become products and square roots."""
        exponent = self.value(b)
        if exponent is None or self.value(a) is not None or abs(exponent) > 8 or exponent * 4 != int(exponent * 4):
            return self.function("pow", a, b)
        if exponent < 0:
            return self.function("rcp", self.power(a, self.constant(-exponent)))
        whole = int(exponent)
        result = self._whole_power(a, whole)
        if exponent != whole:
            root = self.function("sqrt", a)
            fourth = self.function("sqrt", root) if (exponent - whole) != 0.5 else None
            if exponent - whole != 0.25:
                result = self.mul(result, root)
            if fourth is not None:
                result = self.mul(result, fourth)
        return result

    def function(self, name: str, *operands: int) -> int:
        """Any other operation of the table on its operands."""
        if all(self.value(operand) is not None for operand in operands):
            return self._fold(name, *operands)
        if name == "rcp":
            factor, base = self._factor(operands[0])
            if factor != 1:  # the reciprocal of the rest is more likely to be shared
                return self.scale(1.0 / factor, self.function("rcp", base))
        if name == "fabs" and self._is(operands[0], "neg"):
            return self.function("fabs", self.nodes[operands[0]][1])
        return self._make(name, *operands)

    def select(self, condition: int, a: int, b: int) -> int:
        """One of a, where the condition holds, and b."""
        if a == b:
            return a
        if self.value(condition) is not None:
            return a if self.value(condition) else b
        return self._make("?", condition, a, b)

    def _make(self, *key: Any) -> int:
        node = self._number.get(key)
        return self._append(key) if node is None else node

    def _append(self, key: tuple[Any, ...]) -> int:
        node = self._number[key] = len(self.nodes)
        self.nodes.append(key)
        self._operands.append(() if key[0] in (CONSTANT, INPUT) else key[1:])
        return node

    def _is(self, node: int, kind: str) -> bool:
        return self.nodes[node][0] == kind

    def _factor(self, node: int) -> tuple[float, int]:
        """Splits a node into a constant factor and the rest."""
        entry = self.nodes[node]
        if entry[0] == "neg":
            return -1.0, entry[1]
        if entry[0] == "*" and self.value(entry[1]) is not None:
            return self.nodes[entry[1]][1], entry[2]
        return 1.0, node

    def _subtract(self, a: int, b: int) -> int:
        reverse = self._number.get(("-", b, a))
        return self._make("-", a, b) if reverse is None else self._make("neg", reverse)

    def _whole_power(self, a: int, exponent: int) -> int:
        if exponent == 0:
            return self.constant(1.0)
        half = self._whole_power(a, exponent // 2)
        square = self.mul(half, half)
        return self.mul(square, a) if exponent % 2 else square

    def _fold(self, name: str, *operands: int) -> int:
        with np.errstate(all="ignore"):
            return self.constant(float(OPERATIONS[name].numpy(*(self.value(operand) for operand in operands))))
