"""A runtime whose buffers hold NaN before they are written and guard words behind their ends."""

from dataclasses import dataclass, fields

import numpy as np
import pyopencl as cl

from femgpu.model import Limits
from femgpu.runtime import Runtime
from femgpu.runtime.device import Device

# Every bit set is NaN in either precision, and as an offset -1.
POISON = 0xFF
# Behind numbers numbers, so that what is added to them shows: 1.0 in single precision; behind integers small ones, so that what
# is read with them as an offset is memory of the process.
_GUARD, _INTEGERS = (np.full(64, word, np.uint32) for word in (0x3F800000, 1))


@dataclass(frozen=True)
class Limited(Device):
    """A device with limits of its own.

    Attributes:
        given: the limits.
    """

    given: Limits = Limits()

    @property
    def limits(self):
        return self.given


class Guarded(Runtime):
    """A runtime on the device of another one, which builds its programs.

    Args:
        runtime: the other one.
        limits: what plans are told of the device; None: what the device says.

    Attributes:
        given_bytes: bytes of all buffers so far.
    """

    def __init__(self, runtime, limits=None):
        given = runtime.device.limits if limits is None else limits
        known = {field.name: getattr(runtime.device, field.name) for field in fields(Device)}
        super().__init__(Limited(**known, given=given), runtime.context)
        self._builder = runtime
        self._watched = []
        self.given_bytes = 0

    def empty(self, num_bytes):
        """A buffer as every runtime's, but poisoned and guarded."""
        size = -(-max(int(num_bytes), 8) // 4) * 4
        buffer = super().empty(size + _GUARD.nbytes)
        poison(self, buffer, size)
        cl.enqueue_copy(self.queue, buffer, _GUARD, dst_offset=size)
        self._watched.append([buffer, size, _GUARD])
        self.given_bytes += size
        return buffer

    def upload(self, array):
        """A buffer with a copy of the array, guarded."""
        buffer = super().upload(array)
        if array.dtype.kind != "f":
            self._watched[-1][2] = _INTEGERS
            cl.enqueue_copy(self.queue, buffer, _INTEGERS, dst_offset=self._watched[-1][1])
        return buffer

    def build(self, source, name):
        """Programs are shared by all runtimes on the device."""
        return self._builder.build(source, name)

    def check_guards(self, keep=False):
        """Asserts that nothing was written behind the end of any buffer, and forgets the buffers unless told to keep them."""
        found = np.empty_like(_GUARD)
        for buffer, size, guard in self._watched:
            cl.enqueue_copy(self.queue, found, buffer, src_offset=size)
            assert (found == guard).all(), f"words {np.flatnonzero(found != guard)} behind a buffer of {size} bytes are written"
        if not keep:
            self._watched.clear()


def poison(runtime, buffer, num_bytes):
    """Fills a buffer with NaN."""
    cl.enqueue_fill_buffer(runtime.queue, buffer, np.full(1, POISON, np.uint8), 0, num_bytes)
