"""A device with its context, queues, buffers and programs."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu import forks
from femgpu.errors import DeviceError
from femgpu.runtime.bindings import Bindings, Holds
from femgpu.runtime.buffers import allocate
from femgpu.runtime.calls import Calls, Command, check, waiting
from femgpu.runtime.checks import checked
from femgpu.runtime.device import Device
from femgpu.runtime.fills import Fills
from femgpu.runtime.guards import Guards
from femgpu.runtime.host_copies import HostCopies
from femgpu.runtime.programs import Programs
from femgpu.runtime.watch import Watch

_PROFILING = cl.command_queue_properties.PROFILING_ENABLE


class Runtime:
    """Context, queue, buffers and programs of the one device that this process uses.

    Args:
        device: its properties.
        context: the OpenCL context.
        queue: of another library, which then is the only one; None: queues of the runtime's own.

    Attributes:
        device: its properties.
        context: the OpenCL context.
        queue: the in-order queue that everything goes to now; `profile` changes it.
        calls: launches on that queue.
        holds: what keeps buffers alive for launches that know them by their handles.
        programs: the programs of kernels, and how many have been built.
        num_allocations: buffers made so far.
        allocated_bytes: bytes of the buffers alive.
        num_launches: kernels launched so far, those not counted that only are measured.
        num_copies: copies so far, between buffers and to and from the host.
        num_fills: fills so far.
        guards: of the buffers made from now on; None: they have none.
        checks: whether kernels made from now on watch themselves, for which there must be guards.
    """

    def __init__(self, device: Device, context: cl.Context, queue: cl.CommandQueue | None = None):
        self.device = device
        self.context = context
        self._may_switch = queue is None
        self.queue = cl.CommandQueue(context) if queue is None else queue
        self._queues = {bool(self.queue.properties & _PROFILING): self.queue}
        self.calls = Calls(self.queue)
        self.holds = Holds()
        self._bindings: weakref.WeakSet[Bindings] = weakref.WeakSet()
        self._uploaded: dict[tuple[int, int], tuple[weakref.ref[np.ndarray], weakref.ref[Any]]] = {}
        self.num_allocations = 0
        self.allocated_bytes = 0
        self.num_launches = self.num_copies = self.num_fills = 0
        self.guards: Guards | None = None
        self.checks = False
        self.programs = Programs(context, device)
        self._fills = Fills(device, self.programs, self.calls)
        self._host_copies = HostCopies(device, lambda: self.queue, self.pinned)

    @property
    def profiling(self) -> bool:
        """Whether the queue records times."""
        return self._queues.get(True) is self.queue

    def profile(self, on: bool) -> None:
        """Makes the queue record times, or not: a launch then costs about twice the host time.

        The queue is emptied and another takes its place, so that everything stays in order. The queue of another library stays.
        """
        if self._may_switch:
            self._switch(on)

    @contextmanager
    def profiled(self) -> Iterator[None]:
        """The queue records times inside the block; afterwards it does what it did before.

        The queue of another library is left for one of femgpu's own: what that library launches inside the block stands in no order
        with what femgpu does.
        """
        before = self.profiling
        self._switch(True)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, on: bool) -> None:
        if on == self.profiling:
            return
        if on not in self._queues:
            self._queues[on] = cl.CommandQueue(self.context, properties=_PROFILING if on else None)
        self.queue.finish()
        self.queue = self._queues[on]
        self.calls.use(self.queue)

    def seconds(self, enqueue: Callable[[], cl.Event]) -> float:
        """Time of a command that is waited for: the device's where the queue records times, else the host's.

        Args:
            enqueue: hands the command over; the queue is empty before.
        """
        start = time.perf_counter()
        event = enqueue()
        event.wait()
        return 1e-9 * (event.profile.end - event.profile.start) if self.profiling else time.perf_counter() - start

    @property
    def available_bytes(self) -> int:
        """Device memory that this process has not taken."""
        return self.device.global_bytes - self.allocated_bytes

    def require(self, num_bytes: int, what: str) -> None:
        """Refuses what the device's memory cannot hold, before anything of it is allocated.

        Args:
            num_bytes: the least that is needed.
            what: needs it; for the message.

        Raises:
            DeviceError: naming the bytes that are needed and those that are free.
        """
        available = self.available_bytes
        if num_bytes > available:
            raise DeviceError(
                f"not enough device memory: {what} needs at least {num_bytes} bytes; {available} of the "
                f"{self.device.global_bytes} bytes of {self.device} are free. Use more ranks and devices, a smaller mesh, "
                "or -femgpu_precision single"
            )

    def empty(self, num_bytes: int) -> Any:
        """A buffer with undefined contents.

        Raises:
            DeviceError: when the device lacks the memory; nothing is allocated then.
        """
        forks.refuse()
        self.drop_dead()
        size = max(int(num_bytes), 8) if self.guards is None else self.guards.padded(int(num_bytes))
        buffer = allocate(self.context, self.device, size, self.allocated_bytes)
        self.num_allocations += 1
        self.allocated_bytes += size
        weak, guards, handle = self, self.guards, buffer.int_ptr

        class _Release:
            def __del__(self) -> None:
                weak.allocated_bytes -= size
                if guards is not None:
                    guards.forget(handle)

        buffer.femgpu_release = _Release()
        if guards is not None:
            guards.place(self.queue, buffer, int(num_bytes))
        return buffer

    def upload(self, array: np.ndarray) -> Any:
        """A buffer with a copy of the array."""
        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        if self.guards is not None and array.dtype.kind != "f":
            self.guards.holds_integers(self.queue, buffer)
        if array.nbytes:
            self.write(buffer, array)
        return buffer

    def upload_once(self, array: np.ndarray) -> Any:
        """A buffer with a copy of an array that nobody changes: the same for all who ask while somebody holds it.

        Of a view it is that of the same part of the array behind.
        """
        owner = array if array.base is None else array.base
        if not (array.flags.c_contiguous and isinstance(owner, np.ndarray)):
            return self.upload(array)
        key = array.__array_interface__["data"][0], array.nbytes
        known, kept = self._uploaded.get(key, (None, None))
        found = kept() if known is not None and kept is not None and known() is owner else None
        if found is None:
            found = self.upload(array)
            self._uploaded[key] = weakref.ref(owner), weakref.ref(found, partial(_forget, self._uploaded, key))
        return found

    def pinned(self, count: int) -> np.ndarray:
        """A float64 array (count,) in host memory that the device copies from and to at full speed."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        buffer = cl.Buffer(self.context, flags, max(count, 1) * 8)
        access = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self.queue, buffer, access, 0, (max(count, 1),), np.float64)
        return array[:count]

    @waiting()
    def write(self, buffer: Any, array: np.ndarray) -> None:
        """Copies a contiguous array into the buffer; returns when the array may be reused."""
        forks.refuse()
        if array.nbytes >= self._host_copies.least:
            self._host_copies.write(buffer, array)
        elif array.nbytes:
            cl.enqueue_copy(self.queue, buffer, array, is_blocking=True)
        self.num_copies += bool(array.nbytes)

    @waiting()
    def read(self, buffer: Any, array: np.ndarray) -> np.ndarray:
        """Copies the buffer's first bytes into a contiguous array; returns it when done."""
        forks.refuse()
        if array.nbytes >= self._host_copies.least:
            self._host_copies.read(buffer, array)
        elif array.nbytes:
            cl.enqueue_copy(self.queue, array, buffer, is_blocking=True)
        if array.nbytes:
            self.num_copies += 1
            self.programs.trial.end()
        return array

    def read_later(self, buffer: Any, array: np.ndarray, first: int = 0) -> Any:
        """Asks for the buffer's bytes from number `first` on in a contiguous array.

        They are there once the event that is returned is waited for.
        """
        self.num_copies += 1
        return cl.enqueue_copy(self.queue, array, buffer, src_offset=first, is_blocking=False)

    def copy(self, source: Any, target: Any, num_bytes: int, first: int = 0) -> None:
        """Copies between buffers, to the target's byte number `first` and on, in order of the queue."""
        if num_bytes:
            check(self.calls.copy(source, target, num_bytes, first), f"a copy of {num_bytes} bytes")
            self.num_copies += 1

    def zero(self, buffer: Any, num_bytes: int, first: int = 0) -> None:
        """Fills the buffer with zero bytes, in order of the queue; from byte `first` on, or up to 15 bytes before it."""
        if num_bytes > first:
            self._fills.enqueue(buffer, num_bytes, first // 16 * 16)
            self.num_fills += 1

    def zeroing(self, buffer: Any, num_bytes: int, first: int = 0) -> list[Command]:
        """What `zero` enqueues, for measuring, not counted: one command, or none."""
        given = buffer, num_bytes, first // 16 * 16
        return [Command(partial(self._fills.enqueue, *given), partial(self._fills.event, *given))] if num_bytes > first else []

    @waiting()
    def finish(self) -> None:
        """Waits until the queue is empty."""
        forks.refuse()
        self.queue.finish()
        self.programs.trial.end()

    def wrap(self, handle: int) -> Any:
        """The buffer of a raw `cl_mem` handle that stays owned by others."""
        return cl.Buffer.from_int_ptr(handle, retain=True)

    def bindings(self, limit: int) -> Bindings:
        """A memory of launches, which forgets by itself those whose buffers are no longer used."""
        return Bindings(limit, self._bindings)

    def drop_dead(self) -> None:
        """Gives back the memory of buffers that only remembered launches hold."""
        for bindings in self._bindings:
            bindings.drop_dead()

    def build(self, text: str, name: str) -> cl.Program:
        """The program of a text, see `text`, as `Programs.get`."""
        return self.programs.get(text, name)

    def build_ahead(self, programs: Iterable[tuple[str, str]]) -> None:
        """Starts to build programs that are going to be asked for, as `Programs.start`."""
        self.programs.start([*self._fills.programs, *((self.text(source), name) for source, name in programs)])

    def text(self, source: str) -> str:
        """What is built for a source: where kernels watch themselves, one that does."""
        return checked(source).text if self.checks else source

    def debug(self, on: bool) -> None:
        """Says whether buffers made from now on are poisoned and guarded, and kernels made from now on watch themselves."""
        self.guards = (self.guards or Guards()) if on else None
        self.checks = on

    def watch(self, source: str, name: str, label: str, about: str) -> Callable[[], Watch | None]:
        """What makes the watches of a kernel's launches, from arguments of `Watch`; None where it does not watch itself."""
        known = checked(source) if self.checks else None
        return partial(Watch, self.context, self.guards, known, name, label, about) if known and self.guards else lambda: None


def _forget(known: dict[tuple[int, int], Any], key: tuple[int, int], dead: weakref.ref[Any]) -> None:
    """Forgets an entry whose buffer is gone."""
    if key in known and known[key][1] is dead:
        del known[key]
