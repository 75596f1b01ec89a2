"""Launches and kernel arguments by the driver's own functions: no event per launch, no search for an argument's type."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.errors import DeviceError

_SMALLER = "choose smaller work-groups, by -femgpu_schedule cell:group_size=N"
# What to do about an error, by the name that OpenCL gives it.
_REMEDIES = {
    "INVALID_WORK_GROUP_SIZE": _SMALLER,
    "INVALID_WORK_ITEM_SIZE": _SMALLER,
    "OUT_OF_RESOURCES": f"{_SMALLER}; a kernel launched before may also have failed",
    "MEM_OBJECT_ALLOCATION_FAILURE": "use more ranks and devices, or a smaller mesh",
    "OUT_OF_HOST_MEMORY": "use more ranks and devices, or a smaller mesh",
}
_BUG = "this is a bug unless a kernel launched before has failed: please report it with the output of `femgpu doctor`"


def library() -> ctypes.CDLL | None:
    """The OpenCL loader that pyopencl is linked to; None where ctypes does not find its functions."""
    try:
        found = ctypes.CDLL(cl._cl.__file__)
        _ = found.clEnqueueNDRangeKernel, found.clSetKernelArg, found.clEnqueueCopyBuffer
        found.clCreateKernel.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    return found


@dataclass(frozen=True)
class Command:
    """What can be measured, as a `Launch` can.

    Attributes:
        enqueue: hands it over without an event.
        event: hands it over and returns its event.
    """

    enqueue: Callable[[], Any]
    event: Callable[[], cl.Event]


class RawKernel:
    """A kernel object of the driver's; pyopencl looks up or writes a Python function for each of its own, which nobody calls here.

    Args:
        library: whose function releases it.
        handle: the `cl_kernel`.

    Attributes:
        int_ptr: the handle.
    """

    def __init__(self, library: ctypes.CDLL, handle: int):
        # At the interpreter's end modules are gone before the last kernels.
        self.int_ptr, self._release = handle, partial(library.clReleaseKernel, ctypes.c_void_p(handle))

    def __del__(self) -> None:
        self._release()

    @cached_property
    def full(self) -> cl.Kernel:
        """The same as an object of pyopencl's."""
        return cl.Kernel.from_int_ptr(self.int_ptr, retain=True)


class Calls:
    """The functions that a hot path calls, all on one queue; whether they are the driver's or pyopencl's is decided once.

    Args:
        queue: that launches go to, until `use` names another.
    """

    def __init__(self, queue: cl.CommandQueue):
        self._library = library()
        self._queue = queue
        # One object for all launches, whose value changes with the queue.
        self._handle = ctypes.c_void_p(queue.int_ptr)

    @property
    def queue(self) -> cl.CommandQueue:
        """That launches go to now."""
        return self._queue

    @property
    def raw(self) -> bool:
        """Whether the driver's functions are called directly."""
        return self._library is not None

    def use(self, queue: cl.CommandQueue) -> None:
        """Sends what is launched from now on to another queue, launches made before included."""
        self._queue = queue
        self._handle.value = queue.int_ptr

    def kernel(self, program: cl.Program, name: str) -> RawKernel | cl.Kernel:
        """A new kernel object of a program.

        Raises:
            DeviceError: when the driver refuses.
        """
        if self._library is None:
            return cl.Kernel(program, name)
        code = ctypes.c_int(0)
        handle = self._library.clCreateKernel(ctypes.c_void_p(program.int_ptr), name.encode(), ctypes.byref(code))
        check(code.value, f"kernel {name}")
        return RawKernel(self._library, handle)

    def launch(self, kernel: RawKernel | cl.Kernel, global_size: int, group_size: int) -> Callable[[], int]:
        """What enqueues a kernel, without an event, and returns OpenCL's error code, 0 when all is well.

        Args:
            kernel: which the caller keeps alive.
            global_size: work-items, a multiple of the group size.
            group_size: work-items per work-group.
        """
        if self._library is None:
            return partial(self._enqueue, kernel, (global_size,), (group_size,))
        sizes = (ctypes.byref(ctypes.c_size_t(size)) for size in (global_size, group_size))
        # Made once and passed as they are: without argtypes ctypes converts nothing at a call.
        return partial(
            self._library.clEnqueueNDRangeKernel,
            self._handle,
            ctypes.c_void_p(kernel.int_ptr),
            ctypes.c_uint(1),
            None,
            *sizes,
            ctypes.c_uint(0),
            None,
            None,
        )

    def _enqueue(self, kernel: cl.Kernel, global_size: tuple[int], group_size: tuple[int]) -> int:
        try:
            cl.enqueue_nd_range_kernel(self._queue, kernel, global_size, group_size)
        except cl.Error as error:
            return int(error.code)
        return 0

    def copy(self, source: Any, target: Any, num_bytes: int, first: int = 0) -> int:
        """Enqueues a copy between buffers, from byte `first` of the target on, without an event; returns OpenCL's error code."""
        if self._library is not None:
            handles = (ctypes.c_void_p(buffer.int_ptr) for buffer in (source, target))
            sizes = (ctypes.c_size_t(size) for size in (0, first, num_bytes))
            return int(self._library.clEnqueueCopyBuffer(self._handle, *handles, *sizes, ctypes.c_uint(0), None, None))
        try:
            cl.enqueue_copy(self._queue, target, source, byte_count=num_bytes, dst_offset=first)
        except cl.Error as error:
            return int(error.code)
        return 0

    def set_argument(self, kernel: Any, index: int, argument: Any) -> int:
        """Sets an argument, a buffer, None for none, local memory, or a numpy scalar, and returns OpenCL's error code.

        pyopencl finds buffers at once, but tries much before it takes a scalar.
        """
        if self._library is not None:
            if isinstance(argument, cl.LocalMemory):
                value, num_bytes = None, argument.size
            else:
                value = argument.tobytes() if isinstance(argument, np.generic) else _pointer(argument)
                num_bytes = len(value)
            handle, size = ctypes.c_void_p(kernel.int_ptr), ctypes.c_size_t(num_bytes)
            return int(self._library.clSetKernelArg(handle, ctypes.c_uint(index), size, value))
        try:
            kernel.set_arg(index, argument)
        except cl.Error as error:
            return int(error.code)
        return 0


def _pointer(buffer: Any) -> bytes:
    """The handle of a buffer as the driver reads it, of None no buffer's."""
    return bytes(ctypes.c_void_p(None if buffer is None else buffer.int_ptr))


def check(code: int, what: str) -> None:
    """Makes an exception of OpenCL's error code.

    Args:
        code: 0 when all is well.
        what: was asked of the driver; for the message.

    Raises:
        DeviceError: with the name of the error and the remedy.
    """
    if code:
        name = cl.status_code.to_string(code, "error %d")
        raise DeviceError(f"the driver refuses {what}: {name}; {_REMEDIES.get(name, _BUG)}")


@contextmanager
def waiting() -> Iterator[None]:
    """Around what waits for the queue, where it shows that a kernel has failed: says what that means.

    Raises:
        DeviceError: with the driver's error and the remedy.
    """
    try:
        yield
    except cl.RuntimeError as error:
        raise DeviceError(
            f"a kernel that was launched has failed on the device ({error}), as where it reads or writes outside of its memory; "
            "the device does nothing more for this process. Run with -femgpu_debug, which waits for each kernel and names the one"
        ) from None
