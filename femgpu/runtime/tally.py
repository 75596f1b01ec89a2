"""How often a kernel was launched, and how long that took."""

from __future__ import annotations

import pyopencl as cl

# Launches whose times are taken together.
_PENDING = 64


class Tally:
    """Launches of a kernel through all of its bindings, and the device time of those that were timed.

    Attributes:
        launches: so far.
        timed: whether launches are timed.
    """

    def __init__(self) -> None:
        self.launches = 0
        self.timed = False
        self._pending: list[cl.Event] = []
        self._seconds = 0.0
        self._count = 0

    def add(self, event: cl.Event) -> None:
        """Takes a launch whose time counts."""
        self._pending.append(event)
        if len(self._pending) >= _PENDING:
            self._resolve()

    @property
    def mean_seconds(self) -> float:
        """Mean device time of the launches timed so far; NaN where none was."""
        self._resolve()
        return self._seconds / self._count if self._count else float("nan")

    def _resolve(self) -> None:
        for event in self._pending:
            event.wait()
            self._seconds += 1e-9 * (event.profile.end - event.profile.start)
            self._count += 1
        self._pending.clear()
