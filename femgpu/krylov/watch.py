"""Sums of iterations, kept on the device and read several at a time while the next iterations are under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.krylov.outcome import Outcome
from femgpu.krylov.vectors import Vectors

Judge = Callable[[int, npt.NDArray[np.float64]], Outcome | None]

# Iterations that are read together at most where nobody says how many.
_MOST = 8
# What a read takes from the device (H200), what an iteration takes at least, and what it takes for each entry of a vector,
# between those of a fast and of a slow operator; seconds.
_READ, _LEAST, _ENTRY = 15e-6, 30e-6, 60e-12


class Watch:
    """Looks at the sums of every iteration, in order.

    The sums of an iteration have a slot in a ring on the device, from where those of several are read at once; the host waits for
    them when half as many iterations more have been handed over, so that the device has work meanwhile. With a check of 1 it
    waits for each.

    A solve of m iterations of time t, of which k are read at a time, loses m / k reads and ends about k iterations late: by
    default k follows (m read / t)^(1/2), with m the iterations so far and t guessed from the length of the vectors.

    Args:
        vectors: kernels and lengths.
        rows: sums of an iteration.
        check: iterations that are read together, 0 for the default: at most these in any solve.
        parts: partial sums of each row; None: as many as a launch has groups.

    Attributes:
        slots: buffers of partial sums (rows, parts); iteration i has number i modulo their number, which is even.
    """

    def __init__(self, vectors: Vectors, rows: int, check: int, parts: int | None = None):
        self._runtime, self._shape = vectors.runtime, (rows, parts or vectors.num_groups)
        count = 2 * (check or _MOST)
        self._ring, self.slots, self._stride = vectors.parts(count, 8 * rows * self._shape[1])
        self._host = self._runtime.pinned(count * self._stride // 8)
        self._worth = _READ / (_LEAST + _ENTRY * vectors.num_owned)
        self._pending: deque[tuple[int, int, int, Any]] = deque()

    def begin(self, check: int, limit: int, first: int = 0) -> None:
        """Forgets what a solve before has left; all sums become zero.

        Args:
            check: for this solve: 1, or what was given at first.
            limit: the last iteration, at which nothing is left unread.
            first: iteration.
        """
        self._pending.clear()
        self._runtime.zero(self._ring, len(self.slots) * self._stride)
        self._check, self._limit = check, limit
        self._start(first)

    def __call__(self, iteration: int, judge: Judge) -> Outcome | None:
        """To be called when an iteration's sums were handed over; the outcome when those that were read say stop.

        Args:
            iteration: one after the other.
            judge: gets an iteration and its sums (rows,), and returns the outcome where it is time to stop.
        """
        last = iteration == self._limit
        if last or iteration == self._last:
            self._read(iteration)
        while self._pending and (last or iteration >= self._pending[0][2]):
            first, size, _, event = self._pending.popleft()
            event.wait()
            for number, sums in enumerate(self._sums(first, size), first):
                if outcome := judge(number, sums):
                    return outcome
        return None

    def _start(self, first: int) -> None:
        """Chooses the iterations that are read next, which lie one after the other in the ring."""
        size = self._check or min(_MOST, max(1, int((self._worth * first) ** 0.5)))
        count = len(self.slots)
        self._first, self._last = first, first + min(size, count - first % count) - 1

    def _read(self, last: int) -> None:
        """Asks for the sums of the iterations since the last ones that were read."""
        size, begin = last + 1 - self._first, self._first % len(self.slots) * self._stride
        event = self._runtime.read_later(self._ring, self._host[begin // 8 :][: size * self._stride // 8], begin)
        self._pending.append((self._first, size, last + (0 if self._check == 1 else max(1, size // 2)), event))
        self._start(last + 1)

    def _sums(self, first: int, size: int) -> npt.NDArray[np.float64]:
        """The sums of this rank that have come to the host, (size, rows)."""
        numbers = self._host.reshape(len(self.slots), -1)[first % len(self.slots) :][:size, : np.prod(self._shape)]
        sums: npt.NDArray[np.float64] = numbers.reshape(size, *self._shape).sum(2)
        return sums
