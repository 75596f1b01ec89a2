"""What a tile of schedule matrix reads of a point: words that multiply derivatives of the test function and of the direction."""

from __future__ import annotations

from dataclasses import dataclass

from femgpu.kernels.work import Work

# Outputs that multiply the value, the gradient and the second derivatives of the direction, by those of the test function.
_SLOTS = (("g0", "g1", "g4"), ("g2", "g3", "g5"), ("g6", "g7", "g8"))


@dataclass(frozen=True)
class Slot:
    """What multiplies the values, or a derivative, of the test function at a point: a word for each derivative of the direction.

    Attributes:
        value: the output of the pointwise function that multiplies the direction's value; empty: none.
        gradient: that which multiplies its gradient.
        hessian: that which multiplies its second derivatives.
        first: the slot's first word in a block.
        gradient_at: first word for the gradient, within the slot.
        hessian_at: first word for the second derivatives.
        words: of the slot. Words without an output get what second derivatives bring along in cells whose map bends.
    """

    value: str
    gradient: str
    hessian: str
    first: int
    gradient_at: int
    hessian_at: int
    words: int

    @property
    def has_value(self) -> bool:
        """Whether there is a word for the value."""
        return self.gradient_at > 0

    @property
    def has_gradient(self) -> bool:
        """Whether there are words for the gradient."""
        return self.hessian_at > self.gradient_at

    @property
    def has_hessian(self) -> bool:
        """Whether there are words for second derivatives."""
        return self.words > self.hessian_at


def make_slots(work: Work) -> tuple[Slot, ...]:
    """The slots of values, first and second derivatives of the test function; without words where the form has none."""
    dim, found, first = work.dim, [], 0
    outputs = [[name if name in work.writes else "" for name in names] for names in _SLOTS]
    bends = work.bends
    for order, (value, gradient, hessian) in enumerate(outputs):
        # In cells whose map bends second derivatives bring gradients along, on either side.
        with_second = bends and order > 0 and any(outputs[2])
        has_value, has_gradient, has_hessian = (
            bool(one or (with_second and other)) for one, other in zip(outputs[order], map(str.__add__, *outputs[1:]), strict=True)
        )
        gradient_at = int(has_value)
        hessian_at = gradient_at + dim * (has_gradient or (has_hessian and bends))
        words = hessian_at + dim**2 * has_hessian
        found.append(Slot(value, gradient, hessian, first, gradient_at, hessian_at, words))
        first += dim**order * words
    return tuple(found)
