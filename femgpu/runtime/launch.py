"""Kernels with their arguments, launched any number of times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.runtime.calls import RawKernel, check
from femgpu.runtime.program import said
from femgpu.runtime.resources import Resources, parse_log
from femgpu.runtime.runtime import Runtime
from femgpu.runtime.tally import Tally
from femgpu.runtime.watch import Watch

# Launches that a kernel remembers: a Krylov method of as many pairs of vectors finds all of them again.
BINDINGS = 128


class Launch:
    """A kernel with arguments and index space of its own, set once; a call enqueues it.

    The object keeps all of its buffers alive: PoCL crashes when one of a kernel's buffers is freed before a launch.

    Args:
        runtime: the device.
        make: makes the OpenCL kernel; called where there is something to launch.
        arguments: buffers, numpy scalars and local memory, in order.
        sizes: work-items, rounded up to the group size here, and work-items per work-group.
        label: for messages.
        tally: counts the launches.
        kept: what keeps the buffers among the arguments alive.
        watch: of kernels that watch themselves; None: this one does not.

    Attributes:
        global_size: work-items; 0 is an empty index space, which is no launch.
    """

    def __init__(
        self,
        runtime: Runtime,
        make: Callable[[], RawKernel | cl.Kernel],
        arguments: Sequence[Any],
        sizes: tuple[int, int],
        label: str,
        tally: Tally,
        kept: Any,
        watch: Watch | None = None,
    ):
        self.global_size = -(-sizes[0] // sizes[1]) * sizes[1]
        self._kept = kept
        self._runtime = runtime
        self._group_size = sizes[1]
        self._label = label
        self._tally = tally
        self._watch = watch
        self._kernel: Any = None
        self._enqueue: Callable[[], int] | None = None
        if self.global_size:
            self._kernel = make()
            self._enqueue = runtime.calls.launch(self._kernel, self.global_size, self._group_size)
            for index, argument in enumerate(arguments):
                self.set(index, argument)
            if watch is not None:
                self.set(watch.index, watch.buffer)

    def __call__(self) -> None:
        """Enqueues the kernel; an empty index space is no launch.

        Raises:
            DeviceError: when the driver refuses.
            KernelError: of a kernel that watches itself, when it has read or written what it must not.
        """
        if self._enqueue is None:
            return
        tally, runtime, watch = self._tally, self._runtime, self._watch
        if tally.timed and runtime.profiling:
            tally.add(self.event())
        else:
            if watch is not None:
                watch.begin(runtime.queue)
            if code := self._enqueue():
                check(code, self._what())
        tally.launches += 1
        runtime.num_launches += 1
        if watch is not None:
            watch.end(runtime.queue)

    def set(self, index: int, argument: Any) -> None:
        """Replaces one argument, which the caller keeps alive; `Kernel.set` does. Those of bound launches stay as they are.

        Raises:
            DeviceError: when the driver refuses.
        """
        if self._kernel is not None:
            if self._watch is not None:
                self._watch.set(index, argument)
            check(self._runtime.calls.set_argument(self._kernel, index, argument), f"argument {index} of kernel {self._label}")

    def enqueue(self) -> None:
        """Enqueues the kernel without an event; for measuring, not counted, and not watched.

        Raises:
            DeviceError: when the driver refuses.
        """
        if self._enqueue is not None and (code := self._enqueue()):
            check(code, self._what())

    def event(self) -> cl.Event:
        """Enqueues the kernel and returns its event, for an empty index space that of a marker; for measuring, not counted.

        Raises:
            DeviceError: when the driver refuses.
        """
        if self._enqueue is None:
            return cl.enqueue_marker(self._runtime.queue)
        if self._watch is not None:
            self._watch.begin(self._runtime.queue)
        kernel = self._kernel.full if isinstance(self._kernel, RawKernel) else self._kernel
        try:
            return cl.enqueue_nd_range_kernel(self._runtime.queue, kernel, (self.global_size,), (self._group_size,))
        except cl.Error as error:
            check(error.code, self._what())
            raise

    def _what(self) -> str:
        return f"kernel {self._label} with {self.global_size} work-items in groups of {self._group_size}"


class Kernel:
    """One kernel of a program, with arguments of its own and any number of other ones bound besides.

    Where programs are built ahead the first launch waits for this one's, or `build`; elsewhere it is built here.

    Args:
        runtime: the device.
        source: the program's text.
        name: of the kernel function.
        arguments: buffers, numpy scalars and local memory, in order.
        global_size: work-items; rounded up to the group size.
        group_size: work-items per work-group.
        label: for the view and dumps.
        about: the plan and the form of one that evaluates a form, for messages.

    Attributes:
        global_size: work-items of the kernel's own launches.

    Raises:
        BuildError: see `Programs.get`.
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
        about: str = "",
    ):
        self.runtime = runtime
        self.label = label or name
        self.arguments = list(arguments)
        self.group_size = group_size
        self.global_size = -(-global_size // group_size) * group_size
        # As kernels watch themselves now, or do not: another problem may have that changed before the first launch.
        self._text, self._name = runtime.text(source), name
        self._watch = runtime.watch(source, name, self.label, about)
        self._tally = Tally()
        self._bindings = runtime.bindings(BINDINGS)
        self._program: cl.Program | None = None
        self._own: Launch | None = None
        if not runtime.programs.threads:
            self.build()

    def build(self) -> Launch:
        """The launch with the kernel's own arguments, when its program is there.

        Raises:
            BuildError: see `Programs.get`.
        """
        if self._own is None:
            self._own = self._launch(self.arguments, self.global_size, self.arguments)
        return self._own

    @property
    def launches(self) -> int:
        """Launches so far, through all bindings."""
        return self._tally.launches

    @property
    def timed(self) -> bool:
        """Whether launches are timed; to ask for it makes the runtime's queue record times."""
        return self._tally.timed

    @timed.setter
    def timed(self, on: bool) -> None:
        self._tally.timed = on
        if on:
            self.runtime.profile(True)

    @property
    def mean_seconds(self) -> float:
        """Mean device time of the launches timed so far; NaN where none was."""
        return self._tally.mean_seconds

    def set(self, index: int, argument: Any) -> None:
        """Replaces one argument (a buffer or a numpy scalar) of the kernel itself and of what is bound from now on.

        Raises:
            DeviceError: when the driver refuses.
        """
        given = self.arguments[index]
        # A buffer that is held has its handle for itself.
        if given is argument or _identity(given) == _identity(argument):
            return
        self.arguments[index] = argument
        self._bindings.clear()
        if self._own is not None:
            self._own.set(index, argument)

    def __call__(self) -> None:
        """Enqueues the kernel with its own arguments; an empty index space is no launch.

        Raises:
            DeviceError: when the driver refuses.
        """
        (self._own or self.build())()

    def bound(self, arguments: Mapping[int, Any], global_size: int | None = None) -> Launch:
        """The kernel with some arguments replaced, bound once: the same buffers, also wrapped anew, give the same launch.

        The launch holds its buffers, the kernel remembers it as long as others hold them too. An argument that is `set`
        afterwards counts for launches that are bound after it.

        Args:
            arguments: buffers and numpy scalars by position.
            global_size: work-items, rounded up to the group size; None: as many as the kernel itself.

        Raises:
            DeviceError: when the driver refuses an argument.
            IndexError: when the kernel has no argument at a position.
        """
        key = (global_size, *arguments, *map(_identity, arguments.values()))
        launch = self._bindings.get(key)
        if launch is None:
            launch = self._bind(key, arguments, self.global_size if global_size is None else global_size)
        return launch

    @property
    def resources(self) -> Resources | None:
        """What its program's compiler says that an item takes; None where it says nothing."""
        self.build()
        return parse_log(said(self._program)).get(self._name)

    def _bind(self, key: Hashable, arguments: Mapping[int, Any], global_size: int) -> Launch:
        buffers = (value for value in arguments.values() if value is not None and not isinstance(value, np.generic))
        holds = tuple(map(self.runtime.holds, buffers))
        kept = [value for index, value in enumerate(self.arguments) if index not in arguments]
        every = list(self.arguments)
        for index, value in arguments.items():
            every[index] = value
        launch = self._launch(every, global_size, (kept, holds))
        self._bindings.put(key, launch, holds)
        return launch

    def _launch(self, arguments: list[Any], global_size: int, kept: Any) -> Launch:
        runtime, sizes = self.runtime, (global_size, self.group_size)
        if self._program is None:
            self._program = runtime.build(self._text, self.label)
        # Kernels of one program differ in their arguments only; launches do not refer back to this object, so that it and the
        # buffers it holds are freed when its owner goes.
        make = partial(runtime.calls.kernel, self._program, self._name)
        return Launch(runtime, make, arguments, sizes, self.label, self._tally, kept, self._watch())

    def least_seconds(self, launches: int) -> float:
        """The shortest of some launches with the kernel's own arguments after a first one, each of which is waited for.

        By device events where the queue can record them; 0 for an empty index space.
        """
        if not self.global_size:
            return 0.0
        with self.runtime.profiled():
            self.runtime.finish()
            return min([self.runtime.seconds(self.build().event) for _ in range(1 + launches)][1:])


def _identity(argument: Any) -> Any:
    """What tells arguments apart: the handle of a buffer, the bytes of a number."""
    try:
        return argument.int_ptr
    except AttributeError:
        return None if argument is None else argument.tobytes()
