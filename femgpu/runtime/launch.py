"""A kernel with its arguments, launched any number of times."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.runtime.runtime import Runtime


class Kernel:
    """One kernel of a program with its arguments set.

    The object keeps a reference to every buffer it was given: PoCL crashes when one is freed while the kernel may run.

    Args:
        runtime: the device.
        source: the program's text.
        name: of the kernel function.
        arguments: buffers and numpy scalars, in order.
        global_size: work-items; rounded up to the group size.
        group_size: work-items per work-group.
        label: for the view and dumps.
    """

    def __init__(
        self,
        runtime: Runtime,
        source: str,
        name: str,
        arguments: list[Any],
        global_size: int,
        group_size: int,
        label: str = "",
    ):
        self.runtime = runtime
        self.label = label or name
        self.arguments = list(arguments)
        self.global_size = -(-global_size // group_size) * group_size
        self.group_size = group_size
        self._kernel = cl.Kernel(runtime.build(source, self.label), name)
        if self.global_size:
            self._kernel.set_args(*self.arguments)
        self._pending: list[cl.Event] = []
        self.launches = 0
        self._seconds = 0.0
        self._timed = 0
        self.timed = False

    def set(self, index: int, argument: Any) -> None:
        """Replaces one argument (a buffer or a numpy scalar)."""
        if self.arguments[index] is not argument:
            self.arguments[index] = argument
            self._kernel.set_arg(index, argument)

    def __call__(self) -> None:
        """Enqueues the kernel; an empty index space is no launch."""
        if not self.global_size:
            return
        event = cl.enqueue_nd_range_kernel(self.runtime.queue, self._kernel, (self.global_size,), (self.group_size,))
        self.launches += 1
        if self.timed and self.runtime.profiling:
            self._pending.append(event)
            if len(self._pending) >= 64:
                self._resolve()

    def measure(self, warmups: int, repetitions: int, seconds: float) -> np.ndarray:
        """Times of single launches by device events.

        Args:
            warmups: launches before the first that counts.
            repetitions: launches at least.
            seconds: device time in sum at least.

        Returns:
            (launches,) seconds.
        """
        times: list[float] = []
        for number in range(warmups + 10000):
            event = cl.enqueue_nd_range_kernel(self.runtime.queue, self._kernel, (self.global_size,), (self.group_size,))
            event.wait()
            if number >= warmups:
                times.append(1e-9 * (event.profile.end - event.profile.start))
            if len(times) >= repetitions and sum(times) >= seconds:
                break
        return np.array(times)

    def least_seconds(self, launches: int) -> float:
        """The shortest of some launches, which are waited for; 0 for an empty index space."""
        if not self.global_size:
            return 0.0
        if not self.runtime.profiling:
            return self._least_by_clock(launches)
        return float(self.measure(1, launches, 0.0).min())

    def _least_by_clock(self, launches: int) -> float:
        times = []
        for _ in range(launches + 1):
            start = time.perf_counter()
            cl.enqueue_nd_range_kernel(self.runtime.queue, self._kernel, (self.global_size,), (self.group_size,)).wait()
            times.append(time.perf_counter() - start)
        return min(times[1:])

    @property
    def mean_seconds(self) -> float:
        """Mean device time of the launches timed so far; NaN where none was."""
        self._resolve()
        return self._seconds / self._timed if self._timed else float("nan")

    def _resolve(self) -> None:
        for event in self._pending:
            event.wait()
            self._seconds += 1e-9 * (event.profile.end - event.profile.start)
            self._timed += 1
        self._pending.clear()
