"""What a kernel that watches itself says after each launch, as an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.errors import KernelError
from femgpu.runtime.checks import Argument, Checked
from femgpu.runtime.guards import Guards

# As in debug.cl: words before those of the arguments, words of each, and kinds of faults.
_HEAD, _WORDS = 3, 3
_READ, _WRITTEN, _UNWRITTEN = 1, 2, 3
_REMEDY = (
    "This is a bug of femgpu, or of a C body of the form that writes where it must not: please report it with the output of "
    "`femgpu doctor` and the kernel's source (-femgpu_kernel_dump DIR); another -femgpu_schedule may do until then"
)
_UNDEFINED = (
    "The integrand is not defined at this state (a logarithm or a root of a negative number, 0/0): start from another initial "
    "guess, or regularise it. Where it is defined the kernel reads local memory that nobody has written: please report that"
)


class Watch:
    """The record of one launch: what its arguments hold, and the first fault.

    Args:
        context: the OpenCL context.
        guards: knows sizes of buffers, and guards them.
        program: the kernel's program.
        name: of the kernel.
        label: of the kernel in messages.
        about: the plan and the form, of kernels that evaluate forms; their results must be numbers where all that they read is.
    """

    def __init__(self, context: cl.Context, guards: Guards, program: Checked, name: str, label: str, about: str):
        self.index = program.counts[name]
        self._guards, self._label, self._about = guards, label, about
        self._arguments = {argument.position: argument for argument in program.arguments[name]}
        self._handles: dict[int, int] = {}
        self._record = np.zeros(_HEAD + _WORDS * self.index, np.int64)
        for argument in program.arguments[name]:
            self._words(argument.position)[1:] = argument.itemsize, argument.floats
        self.buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, self._record.nbytes)
        self._before: dict[int, np.ndarray] = {}

    def set(self, index: int, buffer: Any) -> None:
        """Says what an argument is."""
        if isinstance(buffer, cl.LocalMemory):
            self._words(index)[0] = buffer.size
        elif index in self._arguments:
            self._handles.pop(index, None)
            self._words(index)[0] = 0 if buffer is None else self._guards.size(buffer)
            if buffer is not None:
                self._handles[index] = buffer.int_ptr

    def begin(self, queue: cl.CommandQueue) -> None:
        """Makes the record new and keeps what is in results, before the launch."""
        cl.enqueue_copy(queue, self.buffer, self._record)
        if self._about:
            floats = [index for index in self._handles if self._arguments[index].floats]
            self._before = {index: self._numbers(queue, index) for index in floats}

    def end(self, queue: cl.CommandQueue) -> None:
        """Waits for the launch.

        Raises:
            KernelError: naming the kernel, its plan and form, the argument, the index, and how many entries there are.
        """
        found = np.empty_like(self._record)
        try:
            cl.enqueue_copy(queue, found, self.buffer)
        except cl.RuntimeError as error:
            raise self._error(f"has failed on the device ({error}), as where it leaves its local memory") from None
        # The kind is a 32-bit word, of which the driver's byte order makes the lower half.
        kind, position, entry = (int(word) for word in found[:_HEAD])
        if kind:
            raise self._error(self._fault(kind, self._arguments[position], entry))
        for index, handle in self._handles.items():
            words = self._guards.damage(queue, cl.Buffer.from_int_ptr(handle, retain=True))
            if len(words):
                what = f"{len(words)} words behind the end of {self._of(index)}, from number {words[0]} on"
                raise self._error(f"has written {what}")
        self._check_numbers(queue)

    def _check_numbers(self, queue: cl.CommandQueue) -> None:
        """Refuses a NaN that a launch has made of numbers."""
        before, self._before = self._before, {}
        if any((np.isnan(numbers) & ~_is_poison(numbers)).any() for numbers in before.values()):
            return
        for index in (index for index in before if self._arguments[index].written):
            after = self._numbers(queue, index)
            made = np.flatnonzero(np.isnan(after) & ~_is_poison(after))
            if len(made):
                raise self._error(
                    f"has made NaN of numbers, at {len(made)} entries of {self._of(index)}, of which the first is {made[0]}",
                    _UNDEFINED,
                )

    def _numbers(self, queue: cl.CommandQueue, index: int) -> np.ndarray:
        """What an argument holds."""
        dtype = np.float64 if self._arguments[index].ctype == "double" else np.float32
        numbers = np.empty(self._words(index)[0] // np.dtype(dtype).itemsize, dtype)
        if numbers.nbytes:
            cl.enqueue_copy(queue, numbers, cl.Buffer.from_int_ptr(self._handles[index], retain=True))
        return numbers

    def _fault(self, kind: int, argument: Argument, entry: int) -> str:
        if kind == _UNWRITTEN:
            return f"reads entry {entry} of {self._of(argument.position)}, which nobody has written"
        does = "reads" if kind == _READ else "writes" if argument.written else "points to"
        return f"{does} entry {entry} of {self._of(argument.position)}"

    def _of(self, index: int) -> str:
        argument = self._arguments[index]
        return f"{argument.name} ({self._words(index)[0] // argument.itemsize} entries of {argument.itemsize} bytes)"

    def _words(self, index: int) -> np.ndarray:
        """The record's words about an argument, which may be changed."""
        return self._record[_HEAD + _WORDS * index :][:_WORDS]

    def _error(self, what: str, remedy: str = _REMEDY) -> KernelError:
        about = f" ({self._about})" if self._about else ""
        return KernelError(f"-femgpu_debug: kernel {self._label}{about} {what}. {remedy}")


def _is_poison(numbers: np.ndarray) -> np.ndarray:
    """Which numbers are as those that nobody has written: all bits set."""
    words = numbers.view(np.uint32).reshape(len(numbers), -1)
    found: np.ndarray = (words == 0xFFFFFFFF).all(axis=1)
    return found
