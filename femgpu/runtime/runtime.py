"""The device of this process: chosen once, with its context, queue, buffers and programs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.errors import DeviceError, collective
from femgpu.runtime import program
from femgpu.runtime.device import Device, choose, describe, devices, local_rank, require_fp64, warn_shared


class Runtime:
    """Context, queue, buffers and programs of the one device that this process uses.

    Attributes:
        device: its properties.
        context: the OpenCL context.
        queue: an in-order queue with profiling (unless it is PETSc's own).
        profiling: whether the queue records times.
        num_compiled: programs that the cache did not hold.
        num_allocations: buffers made so far.
        allocated_bytes: bytes of the buffers alive.
    """

    def __init__(self, device: Device, context: cl.Context, queue: cl.CommandQueue):
        self.device = device
        self.context = context
        self.queue = queue
        self.profiling = bool(queue.properties & cl.command_queue_properties.PROFILING_ENABLE)
        self.num_allocations = 0
        self.allocated_bytes = 0
        self.dump_folder = ""
        self._copy_bandwidth: float | None = None
        self.num_compiled = 0
        self._programs: dict[str, cl.Program] = {}

    @property
    def num_programs(self) -> int:
        """Programs loaded or compiled so far."""
        return len(self._programs)

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
        num_bytes = max(int(num_bytes), 8)
        available = self.device.global_bytes - self.allocated_bytes
        if num_bytes > min(available, self.device.max_alloc_bytes):
            raise DeviceError(
                f"not enough device memory: {num_bytes} bytes needed in one buffer; {available} of {self.device.global_bytes} "
                f"bytes are free and one buffer may have {self.device.max_alloc_bytes}. Use more ranks and devices, or a "
                "smaller mesh"
            )
        try:
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, num_bytes)
        except cl.Error as error:
            raise DeviceError(
                f"the driver of {self.device} refuses a buffer of {num_bytes} bytes ({error}); this process holds "
                f"{self.allocated_bytes} bytes, the rest may belong to other processes. Use more ranks and devices, or a "
                "smaller mesh"
            ) from None
        self.num_allocations += 1
        self.allocated_bytes += num_bytes
        weak = self

        class _Release:
            def __del__(self) -> None:
                weak.allocated_bytes -= num_bytes

        buffer.femgpu_release = _Release()
        return buffer

    def upload(self, array: np.ndarray) -> Any:
        """A buffer with a copy of the array."""
        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        if array.nbytes:
            self.write(buffer, array)
        return buffer

    def pinned(self, count: int) -> np.ndarray:
        """A float64 array (count,) in host memory that the device copies from and to at full speed."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        buffer = cl.Buffer(self.context, flags, max(count, 1) * 8)
        access = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self.queue, buffer, access, 0, (max(count, 1),), np.float64)
        return array[:count]

    def write(self, buffer: Any, array: np.ndarray) -> None:
        """Copies a contiguous array into the buffer; returns when the array may be reused."""
        if array.nbytes:
            cl.enqueue_copy(self.queue, buffer, array, is_blocking=True)

    def read(self, buffer: Any, array: np.ndarray) -> np.ndarray:
        """Copies the buffer's first bytes into a contiguous array; returns it when done."""
        if array.nbytes:
            cl.enqueue_copy(self.queue, array, buffer, is_blocking=True)
        return array

    def copy(self, source: Any, target: Any, num_bytes: int) -> None:
        """Copies between buffers, in order of the queue."""
        if num_bytes:
            cl.enqueue_copy(self.queue, target, source, byte_count=num_bytes)

    def zero(self, buffer: Any, num_bytes: int) -> None:
        """Fills the buffer with zero bytes, in order of the queue."""
        if num_bytes:
            cl.enqueue_fill_buffer(self.queue, buffer, np.zeros(1, np.uint32), 0, num_bytes)

    def copy_bandwidth(self) -> float:
        """Bytes read and written per second by a large copy on the device; measured once. NaN where memory is too full for it."""
        if self._copy_bandwidth is None:
            free = max(0, self.device.global_bytes - self.allocated_bytes)
            size = min(2**30 if self.device.is_gpu else 2**26, self.device.max_alloc_bytes // 4, free // 4)
            if size < 2**20:
                return float("nan")
            source, target = self.empty(size), self.empty(size)
            self.zero(source, size)
            self.zero(target, size)
            times = []
            for _ in range(8):
                self.finish()
                start = time.perf_counter()
                self.copy(source, target, size)
                self.finish()
                times.append(time.perf_counter() - start)
            self._copy_bandwidth = 2 * size / min(times)
        return self._copy_bandwidth

    def measure_zero(self, buffer: Any, num_bytes: int) -> float:
        """Median seconds of ten fills of a buffer with zeros, by device events."""
        times = []
        for _ in range(10):
            event = cl.enqueue_fill_buffer(self.queue, buffer, np.zeros(1, np.uint32), 0, num_bytes)
            event.wait()
            times.append(1e-9 * (event.profile.end - event.profile.start))
        return float(np.median(times))

    def finish(self) -> None:
        """Waits until the queue is empty."""
        self.queue.finish()

    def wrap(self, handle: int) -> Any:
        """The buffer of a raw `cl_mem` handle that stays owned by others."""
        return cl.Buffer.from_int_ptr(handle, retain=True)

    def build(self, source: str, name: str) -> cl.Program:
        """The program of a source, built or taken from the cache.

        Args:
            source: OpenCL C.
            name: for dumps and messages.

        Raises:
            BuildError: with the compiler's log and the path of the source.
        """
        key = program.key(source, self.device)
        if key not in self._programs:
            self._programs[key], compiled = program.build(self.context, self.device, source, name, key, self.dump_folder)
            self.num_compiled += compiled
        return self._programs[key]


_current: Runtime | None = None


def current() -> Runtime:
    """The runtime of this process, started with the defaults where nothing chose it before."""
    return _current if _current is not None else start()


def start(selector: str = "", rank: int = 0, handles: tuple[int, int] | None = None) -> Runtime:
    """Chooses the device of this process; the first call rules.

    Args:
        selector: index of the device or part of its name; empty: `rank` modulo the number of devices.
        rank: node-local rank.
        handles: raw OpenCL context and queue of another library (PETSc's ViennaCL), which then rule.

    Returns:
        The runtime of the process.

    Raises:
        DeviceError: when no device fits, or an earlier choice contradicts this one.
    """
    global _current
    if handles is not None:
        if _current is None or _current.context.int_ptr != handles[0]:
            if _current is not None and _current.allocated_bytes:
                raise DeviceError(
                    "vectors of PETSc's ViennaCL live in another OpenCL context than femgpu's buffers, which came first. "
                    "Give the DM -dm_vec_type viennacl (or dm.setVecType) before the first space is made, or use host vectors"
                )
            _current = _adopt(*handles)
        return _current
    if _current is None:
        found = devices()
        device, handle = choose(found, selector, rank)
        require_fp64(device, [other for other, _ in found])
        context = cl.Context([handle])
        queue = cl.CommandQueue(context, handle, cl.command_queue_properties.PROFILING_ENABLE)
        _current = Runtime(device, context, queue)
    elif selector:
        device, _ = choose(devices(), selector, rank)
        if device != _current.device:
            raise DeviceError(
                f"-femgpu_device {selector} asks for {device}, but this process already uses {_current.device}; "
                "one process has one device"
            )
    return _current


def _adopt(context_handle: int, queue_handle: int) -> Runtime:
    context = cl.Context.from_int_ptr(context_handle, retain=True)
    queue = cl.CommandQueue.from_int_ptr(queue_handle, retain=True)
    handle = context.devices[0]
    found = devices()
    index = next((device.index for device, other in found if other == handle), 0)
    device = describe(handle, index)
    require_fp64(device, [other for other, _ in found])
    return Runtime(device, context, queue)


def for_comm(selector: str, comm: Any) -> Runtime:
    """The runtime of this process, its device chosen by the node-local rank where nothing chose it before; collective.

    Args:
        selector: the value of `-femgpu_device`.
        comm: mpi4py communicator.

    Raises:
        DeviceError: on all ranks, when any has no device that fits.
    """
    rank, num_local = local_rank(comm)
    with collective(comm):
        first = _current is None
        runtime = start(selector, rank)
        if first and not selector:
            warn_shared(runtime.device, rank, num_local)
    return runtime
