"""What every schedule answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from femgpu.kernels.plan import Plan, Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits


class Schedule(Protocol):
    """A way to lay work out on a device.

    Attributes:
        name: as `-femgpu_schedule` calls it.
        parameters: what `-femgpu_schedule name:parameter=value,...` may set.
    """

    name: str
    parameters: tuple[str, ...]

    def refuses(self, work: Work, limits: Limits) -> str:
        """Why the schedule does not serve a work on a device, a sentence for the user; empty: it does."""
        ...

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[Plan]:
        """The legal plans, the default first.

        Raises:
            PlanError: when a parameter of the wish is illegal.
        """
        ...
