"""Zeros for buffers: a kernel on GPUs, where a driver's own fill takes up to three times as long as the memory needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.runtime.calls import Calls, check
from femgpu.runtime.device import Device
from femgpu.runtime.programs import Programs

_ZERO = np.zeros(1, np.uint32)
# Work-items of a group, and groups per compute unit.
_GROUP, _GROUPS_PER_UNIT = 256, 4
_SOURCE = """
// words first * 4 to n, four of them at a time
__kernel void zero(__global uint *d, const ulong first, const ulong n) {
  for (ulong i = first + get_global_id(0); i < n / 4; i += get_global_size(0)) ((__global uint4 *)d)[i] = (uint4)(0);
  for (ulong i = max(first, n / 4) * 4 + get_global_id(0); i < n; i += get_global_size(0)) d[i] = 0;
}
"""


class Fills:
    """Zeroes buffers of a device.

    Args:
        device: its properties.
        programs: that build the kernel when it is first needed.
        calls: launches on the queue of the time.
    """

    def __init__(self, device: Device, programs: Programs, calls: Calls):
        self._programs, self._calls = programs, calls
        self._size = _GROUP * _GROUPS_PER_UNIT * device.units if device.is_gpu else 0
        self._kernel: cl.Kernel | None = None
        # Source and name of what it launches.
        self.programs = [(_SOURCE, "zero")] if self._size else []

    def enqueue(self, buffer: Any, num_bytes: int, first: int = 0) -> None:
        """Zeroes the first bytes, a multiple of four, but for some at the beginning, a multiple of 16."""
        if kernel := self._set(buffer, num_bytes, first):
            check(self._launch(), f"the launch of {kernel.function_name}")
        else:
            cl.enqueue_fill_buffer(self._calls.queue, buffer, _ZERO, first, num_bytes - first)

    def event(self, buffer: Any, num_bytes: int, first: int = 0) -> cl.Event:
        """The same, with its event."""
        if kernel := self._set(buffer, num_bytes, first):
            return cl.enqueue_nd_range_kernel(self._calls.queue, kernel, (self._size,), (_GROUP,))
        return cl.enqueue_fill_buffer(self._calls.queue, buffer, _ZERO, first, num_bytes - first)

    def _set(self, buffer: Any, num_bytes: int, first: int) -> cl.Kernel | None:
        """The kernel with its arguments; None where the driver's fill is taken."""
        if not self._size:
            return None
        if self._kernel is None:
            self._kernel = cl.Kernel(self._programs.get(_SOURCE, "zero"), "zero")
            self._launch = self._calls.launch(self._kernel, self._size, _GROUP)
        for index, argument in enumerate((buffer, np.uint64(first // 16), np.uint64(num_bytes // 4))):
            check(self._calls.set_argument(self._kernel, index, argument), "an argument of zero")
        return self._kernel
