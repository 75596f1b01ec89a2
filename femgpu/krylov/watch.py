"""Sums of iterations, read while the next ones are under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.krylov.outcome import Outcome
from femgpu.krylov.vectors import Vectors

Judge = Callable[[int, npt.NDArray[np.float64]], tuple[float, int | str]]


class Watch:
    """Looks at the sums of each iteration in order, some iterations late.

    Args:
        vectors: kernels and lengths.
        rows: sums in a buffer.
        lag: iterations that are handed over before the sums of one are looked at, at most.
    """

    def __init__(self, vectors: Vectors, rows: int, lag: int):
        self._vectors = vectors
        self._hosts = [vectors.runtime.pinned(rows * vectors.num_groups) for _ in range(lag + 1)]
        self._pending: deque[tuple[int, Any, Any]] = deque()

    def begin(self, judge: Judge, lag: int, limit: int) -> None:
        """Forgets what a solve before has left.

        Args:
            judge: gets an iteration and its sums (rows,) and returns norm and reason to stop, 0 for none.
            lag: for this solve, no more than the first one given.
            limit: the last iteration, at which nothing is left unread; the judge stops there.
        """
        self._pending.clear()
        self._judge, self._lag, self._limit = judge, lag, limit

    def __call__(self, iteration: int, sums: Any) -> Outcome | None:
        """Takes the sums of an iteration; the outcome when one that was read says stop."""
        host = self._hosts[iteration % len(self._hosts)]
        self._pending.append((iteration, self._vectors.runtime.read_later(sums, host), host))
        while len(self._pending) > (self._lag if iteration < self._limit else 0):
            checked, event, host = self._pending.popleft()
            event.wait()
            norm, reason = self._judge(checked, self._vectors.totals(host))
            if reason:
                return Outcome(iteration, norm, reason)
        return None
