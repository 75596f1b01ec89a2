"""A scalar graph that finds equal values, not only equal expressions.

Every node is also evaluated at one pseudo-random point in the integers modulo a prime: sums, products and reciprocals
exactly, any other function and truth values as a hash of their operands, a choice as the sum of its branches times its
condition and the opposite. Nodes with the same residue are the same rational function of the inputs and of those other
functions, but for a chance of about the degree over 2^61 (Schwartz and Zippel). So the entries of a symmetric tensor are
found equal however they were computed, and sums that cancel are found to vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.levels import Levels

PRIME = 2**61 - 1
# Operations that are not finite, or not a number, for some finite operands.
_PARTIAL = {"rcp", "sqrt", "log", "pow", "asin", "acos", "tan", "atan2"}
_LARGEST_DENOMINATOR = 10**6
_ROUNDING = 2.0**-50


class SharedGraph(Graph):
    """A graph in which nodes of equal value exist once, up to sign.

    A node stands for an equal one only if it is finite wherever the other is (overflow aside), so that a branch which a
    condition does not take stays harmless.

    Args:
        levels: knows the inputs.

    Attributes:
        residue: value of each node modulo PRIME.
        weight_class: a number that is the same for nodes which are equal up to sign; 1 for the constants 1 and -1.
        level: what each node depends on at most, see `levels`.
    """

    def __init__(self, levels: Levels) -> None:
        super().__init__()
        self.levels = levels
        self.residue: list[int] = []
        self.weight_class: list[int] = []
        self.level: list[int] = []
        self._poles: list[int] = []  # one bit for each partial operation that a node's value always goes through
        self._num_poles = 0
        self._equal: dict[int, int] = {}
        self.zero, self.one = self.constant(0.0), self.constant(1.0)

    def safest(self, node: int) -> int:
        """An equal node that goes through as few partial operations as is known by now."""
        for residue, is_opposite in ((self.residue[node], False), (-self.residue[node] % PRIME, True)):
            other = self._equal.get(residue)
            if other is not None and self._poles[other] & self._poles[node] == self._poles[other] != self._poles[node]:
                node = self._make("neg", other) if is_opposite else other
        return node

    def _make(self, *key: Any) -> int:
        known = self._number.get(key)
        if known is not None:
            return known
        kind, *operands = key
        if kind == CONSTANT:
            return self._append_value(key, _residue_of(operands[0]), 0)
        if kind == INPUT:
            return self._append_value(key, _hash(self.levels.locate(*operands)), 0)
        residue, poles = self._residue(kind, operands), self._poles_of(kind, operands)
        equal = self._find(residue, poles)
        if equal is None and kind != "neg":
            opposite = self._find(-residue % PRIME, poles)
            equal = None if opposite is None else self._make("neg", opposite)
        if equal is None:
            return self._append_value(key, residue, poles)
        self._number[key] = equal
        return equal

    def _append_value(self, key: tuple[Any, ...], residue: int, poles: int) -> int:
        node = self._append(key)
        if key[0] in _PARTIAL:
            poles |= 1 << self._num_poles
            self._num_poles += 1
        self.residue.append(residue)
        self.weight_class.append(min(residue, PRIME - residue))
        self._poles.append(poles)
        self.level.append(self.levels.of(key, self.level))
        before = self._equal.get(residue)
        if before is None or key[0] == CONSTANT or not poles & ~self._poles[before]:
            self._equal[residue] = node
        return node

    def _find(self, residue: int, poles: int) -> int | None:
        node = self._equal.get(residue)
        return None if node is None or self._poles[node] & ~poles else node

    def _residue(self, kind: str, operands: Sequence[int]) -> int:
        values = [self.residue[operand] for operand in operands]
        if kind == "*":
            return values[0] * values[1] % PRIME
        if kind == "+":
            return (values[0] + values[1]) % PRIME
        if kind == "-":
            return (values[0] - values[1]) % PRIME
        if kind == "neg":
            return -values[0] % PRIME
        if kind == "?":
            return (values[2] + _hash((kind, values[0])) * (values[1] - values[2])) % PRIME
        if kind == "rcp" and values[0]:
            return pow(values[0], -1, PRIME)
        return _hash((kind, *values))

    def _poles_of(self, kind: str, operands: Sequence[int]) -> int:
        """Partial operations that the operands go through; those in the branches of a condition are not always met."""
        poles = 0
        for operand in operands[:1] if kind == "?" else operands:
            poles |= self._poles[operand]
        return poles


def _residue_of(value: float) -> int:
    # 2/3 and the like are meant, whatever rounding made of them: else what is equal on paper is not.
    exact = Fraction(value)
    simple = exact.limit_denominator(_LARGEST_DENOMINATOR)
    meant = simple if abs(simple - exact) <= _ROUNDING * abs(exact) else exact
    return meant.numerator * pow(meant.denominator, -1, PRIME) % PRIME


def _hash(key: Any) -> int:
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "big") % PRIME
