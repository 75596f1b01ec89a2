"""Numbers that kernels read and that change between launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from femgpu.runtime.runtime import Runtime


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
        self._event: Any = None
        self.buffer = runtime.upload(self._values)

    def set(self, *values: float) -> None:
        """Changes the numbers for the launches that follow; does nothing where they are the same, and does not wait."""
        array = np.array(values, self._values.dtype)
        if array.shape != self._values.shape:
            raise ValueError(f"{len(array)} numbers given, expected {len(self._values)}")
        if array.tobytes() == self._values.tobytes():
            return
        # The event keeps the array until it is read; to let go of the event is to wait for that.
        self._event = cl.enqueue_copy(self._runtime.queue, self.buffer, array, is_blocking=False)
        self._runtime.num_copies += 1
        self._values = array
