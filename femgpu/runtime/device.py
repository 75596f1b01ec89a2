"""The device of this process: chosen once, with its context, queue, buffers and programs."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.errors import DeviceError, collective
from femgpu.runtime import program

# Local memory that NVIDIA's driver accepts per work-group although it reports 48 KB (measured on an H200).
_NVIDIA_LOCAL_BYTES = 200 * 1024


@dataclass(frozen=True)
class Device:
    """What femgpu knows of a device.

    Attributes:
        index: in the list of all devices of the node.
        name: the driver's name of it.
        platform: name of the OpenCL platform.
        driver: version of the driver.
        opencl: version of OpenCL that the device speaks.
        is_gpu: whether it is a GPU.
        is_nvidia: whether inline PTX works.
        fp64: whether it computes in double precision.
        units: compute units.
        global_bytes: device memory.
        max_alloc_bytes: largest single buffer.
        local_bytes: local memory of a work-group.
        max_group: largest work-group.
    """

    index: int
    name: str
    platform: str
    driver: str
    opencl: str
    is_gpu: bool
    is_nvidia: bool
    fp64: bool
    units: int
    global_bytes: int
    max_alloc_bytes: int
    local_bytes: int
    max_group: int

    def __str__(self) -> str:
        memory = self.global_bytes / 2**30
        return f"[{self.index}] {self.name} ({self.platform}, driver {self.driver}), {self.units} units, {memory:.1f} GiB"


def describe(handle: cl.Device, index: int) -> Device:
    """Reads a device's properties."""
    platform = handle.platform.name.strip()
    nvidia = "NVIDIA" in platform
    return Device(
        index=index,
        name=handle.name.strip(),
        platform=platform,
        driver=handle.driver_version.strip(),
        opencl=handle.version.strip(),
        is_gpu=bool(handle.type & cl.device_type.GPU),
        is_nvidia=nvidia,
        fp64="cl_khr_fp64" in handle.extensions.split(),
        units=handle.max_compute_units,
        global_bytes=handle.global_mem_size,
        max_alloc_bytes=handle.max_mem_alloc_size,
        local_bytes=max(handle.local_mem_size, _NVIDIA_LOCAL_BYTES if nvidia else 0),
        max_group=handle.max_work_group_size,
    )


def devices() -> list[tuple[Device, cl.Device]]:
    """All OpenCL devices of the node: GPUs first, then accelerators, then CPUs.

    Raises:
        DeviceError: when no OpenCL platform is installed.
    """
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceError(
            f"no OpenCL platform found ({error}). Install a driver that registers one under /etc/OpenCL/vendors: "
            "the GPU vendor's, or pocl-opencl-icd for the CPU"
        ) from None
    handles = [device for platform in platforms for device in platform.get_devices()]
    order = {cl.device_type.GPU: 0, cl.device_type.ACCELERATOR: 1}
    handles.sort(key=lambda handle: order.get(handle.type, 2))
    if not handles:
        raise DeviceError("OpenCL platforms are installed but none offers a device; run `femgpu doctor`")
    return [(describe(handle, index), handle) for index, handle in enumerate(handles)]


class Runtime:
    """Context, queue, buffers and programs of the one device that this process uses.

    Attributes:
        device: its properties.
        context: the OpenCL context.
        queue: an in-order queue with profiling (unless it is PETSc's own).
        profiling: whether the queue records times.
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
        self._programs: dict[str, cl.Program] = {}

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
        buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, num_bytes)
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
        """Bytes read and written per second by a large copy on the device; measured once."""
        if self._copy_bandwidth is None:
            size = min(2**30 if self.device.is_gpu else 2**26, self.device.max_alloc_bytes // 4)
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
            self._programs[key] = program.build(self.context, self.device, source, name, key, self.dump_folder)
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
            if _current is not None and _current.num_allocations:
                raise DeviceError(
                    "vectors of PETSc's ViennaCL live in another OpenCL context than femgpu's kernels, which were built first. "
                    "Give -vec_type viennacl from the start (before the first problem is made), or use host vectors"
                )
            _current = _adopt(*handles)
        return _current
    if _current is None:
        device, handle = _select(devices(), selector, rank)
        context = cl.Context([handle])
        queue = cl.CommandQueue(context, handle, cl.command_queue_properties.PROFILING_ENABLE)
        _current = Runtime(device, context, queue)
    elif selector:
        device, _ = _select(devices(), selector, rank)
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
    index = next((device.index for device, other in devices() if other == handle), 0)
    return Runtime(describe(handle, index), context, queue)


def _select(found: list[tuple[Device, cl.Device]], selector: str, rank: int) -> tuple[Device, cl.Device]:
    listing = "; ".join(str(device) for device, _ in found)
    if not selector:
        gpus = [entry for entry in found if entry[0].is_gpu]
        return (gpus or found)[rank % len(gpus or found)]
    if selector.isdigit():
        if int(selector) >= len(found):
            raise DeviceError(f"-femgpu_device {selector}: no such index; devices are {listing}")
        return found[int(selector)]
    for entry in found:
        if selector.lower() in f"{entry[0].name} {entry[0].platform}".lower():
            return entry
    raise DeviceError(f"-femgpu_device {selector!r}: no device has this in its name; devices are {listing}")


def local_rank(comm: Any) -> int:
    """The rank among the processes of this node.

    Args:
        comm: mpi4py communicator; all its ranks must call.
    """
    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    node = comm.Split_type(1)  # MPI_COMM_TYPE_SHARED
    rank = node.rank
    node.Free()
    return rank


def for_comm(selector: str, comm: Any) -> Runtime:
    """The runtime of this process, its device chosen by the node-local rank where nothing chose it before; collective.

    Args:
        selector: the value of `-femgpu_device`.
        comm: mpi4py communicator.

    Raises:
        DeviceError: on all ranks, when any has no device that fits.
    """
    rank = local_rank(comm)
    with collective(comm):
        first = _current is None
        runtime = start(selector, rank)
        if first and not selector:
            warn_shared(runtime.device, rank, comm.size)
    return runtime


def warn_shared(device: Device, rank: int, num_local: int) -> None:
    """Warns once when several ranks of a node share a GPU."""
    count = sum(1 for entry, _ in devices() if entry.is_gpu)
    if device.is_gpu and rank == 0 and num_local > count:
        warnings.warn(f"{num_local} ranks share {count} GPU(s); one rank per GPU is faster", stacklevel=2)
