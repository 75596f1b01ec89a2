"""Numbers that kernels read and that change between launches."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from femgpu.runtime.runtime import Runtime

# Changes that the host may be ahead of the device.
_UNDER_WAY = 64


class Scalars:
    """A few numbers in a device buffer, which is written only when they change; bound launches read the buffer.

    Args:
        runtime: the device.
        count: how many.
        dtype: of the numbers on the device.

    Attributes:
        buffer: (count,) numbers on the device; zeros until `set`.
    """

    def __init__(self, runtime: Runtime, count: int, dtype: npt.DTypeLike = np.float64):
        self._runtime = runtime
        self._values = np.zeros(count, dtype)
        self._events: deque[Any] = deque(maxlen=_UNDER_WAY)
        self.buffer = runtime.upload(self._values)

    def set(self, *values: float) -> None:
        """Changes the numbers for the launches that follow; does nothing where they are the same.

        The host goes on at once, unless it is so many changes ahead of the device that it must wait.
        """
        array = np.array(values, self._values.dtype)
        if array.shape != self._values.shape:
            raise ValueError(f"{len(array)} numbers given, expected {len(self._values)}")
        if array.tobytes() == self._values.tobytes():
            return
        # An event keeps its array until that is read; to let go of an event is to wait for it.
        self._events.append(cl.enqueue_copy(self._runtime.queue, self.buffer, array, is_blocking=False))
        self._runtime.num_copies += 1
        self._values = array
