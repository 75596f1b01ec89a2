"""Buffers that hold NaN before they are written and guard words behind their ends, by which faults of kernels show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

# Every bit set is NaN in either precision, and as an offset -1.
POISON = 0xFF
# Behind numbers numbers, so that what is added to them shows: 1.0 in single precision; behind integers small ones, so that what
# is read with them as an offset is memory of the process.
_NUMBERS, _INTEGERS = (np.full(64, word, np.uint32) for word in (0x3F800000, 1))


def poison(queue: cl.CommandQueue, buffer: Any, num_bytes: int) -> None:
    """Fills the first bytes of a buffer with NaN."""
    cl.enqueue_fill_buffer(queue, buffer, np.full(1, POISON, np.uint8), 0, num_bytes)


class Guards:
    """The guard words of a runtime's buffers, which are known by their handles."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, np.ndarray]] = {}

    @staticmethod
    def padded(num_bytes: int) -> int:
        """Bytes of a buffer that is asked for with some, guard words included."""
        return _whole(num_bytes) + _NUMBERS.nbytes

    def place(self, queue: cl.CommandQueue, buffer: Any, num_bytes: int) -> None:
        """Poisons a new buffer with room for some bytes and guards it."""
        poison(queue, buffer, _whole(num_bytes))
        buffer.asked = num_bytes
        self._guard(queue, buffer, num_bytes, _NUMBERS)

    def holds_integers(self, queue: cl.CommandQueue, buffer: Any) -> None:
        """Guards a buffer as one of integers."""
        self._guard(queue, buffer, buffer.size, _INTEGERS)

    def forget(self, handle: int) -> None:
        """Says that a buffer is gone, whose handle may become another's."""
        self._known.pop(handle, None)

    def _guard(self, queue: cl.CommandQueue, buffer: Any, num_bytes: int, guard: np.ndarray) -> None:
        self._known[buffer.int_ptr] = num_bytes, guard
        cl.enqueue_copy(queue, buffer, guard, dst_offset=_whole(num_bytes))

    def size(self, buffer: Any) -> int:
        """Bytes that a buffer was asked for with; all of one that is not guarded."""
        num_bytes, _ = self._known.get(buffer.int_ptr, (int(buffer.size), None))
        return num_bytes

    def damage(self, queue: cl.CommandQueue, buffer: Any) -> np.ndarray:
        """Numbers of the words behind a buffer that were written over; none where it is not guarded."""
        num_bytes, guard = self._known.get(buffer.int_ptr, (0, _NUMBERS[:0]))
        found = np.empty_like(guard)
        if len(guard):
            cl.enqueue_copy(queue, found, buffer, src_offset=_whole(num_bytes))
        return np.flatnonzero(found != guard)


def _whole(num_bytes: int) -> int:
    """A number of bytes that guard words may follow."""
    return -(-max(num_bytes, 8) // 4) * 4
