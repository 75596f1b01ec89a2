"""How a Krylov method ended."""

from __future__ import annotations

from dataclasses import dataclass

# Why a method itself stops, besides the caller's test; the caller's reasons are its own numbers.
INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE = "indefinite operator", "indefinite preconditioner", "not finite"


@dataclass(frozen=True)
class Outcome:
    """How a solve ended.

    Attributes:
        iterations: that the solution has seen.
        norm: the last one that was read.
        reason: what the caller's test returned, or one of the words above.
    """

    iterations: int
    norm: float
    reason: int | str
