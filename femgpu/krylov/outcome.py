"""How a Krylov method ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# Why a method itself stops, besides the caller's test; the caller's reasons are its own numbers.
INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE = "indefinite operator", "indefinite preconditioner", "not finite"
BREAKDOWN, EXACT = "breakdown", "exact"


@dataclass(frozen=True)
class Outcome:
    """How a solve ended.

    Attributes:
        iterations: up to the norm that ended it; the solution may have seen more.
        norm: the one that ended it.
        reason: what the caller's test returned, or one of the words above.
    """

    iterations: int
    norm: float
    reason: int | str


class Test(Protocol):
    """What a caller does with the norm of each iteration; a call reports and checks.

    Attributes:
        limit: most iterations; there, each check gives a reason to stop.
    """

    limit: int

    def __call__(self, iteration: int, norm: float) -> int:
        """Reports and checks."""

    def report(self, iteration: int, norm: float) -> None:
        """Takes note of a norm."""

    def check(self, iteration: int, norm: float) -> int:
        """A reason to stop other than 0."""
