"""What every schedule answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from femgpu.kernels.plan import Plan
from femgpu.kernels.step import Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits


class Schedule(Protocol):
    """A way to lay work out on a device."""

    @property
    def name(self) -> str:
        """As `-femgpu_schedule` calls it."""
        ...

    @property
    def targets(self) -> tuple[str, ...]:
        """Targets that it is asked for by name; others go to the first schedule that serves them."""
        ...

    @property
    def facets(self) -> bool:
        """Whether it is asked for them by name over facets, too; else these go to the first schedule that serves them."""
        ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """What `-femgpu_schedule name:parameter=value,...` may set."""
        ...

    def refuses(self, work: Work, limits: Limits) -> str:
        """Why the schedule does not serve a work on a device, a sentence for the user; empty: it does."""
        ...

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Whether it is asked where nobody asks for it by name: what it does is worth a trial by the model."""
        ...

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[Plan]:
        """The legal plans, the default first.

        Raises:
            PlanError: when a parameter of the wish is illegal.
        """
        ...
