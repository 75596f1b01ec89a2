"""The OpenCL devices of a node, and which of them a process takes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyopencl as cl
from pyopencl.characterize import nv_compute_capability

from femgpu.caches import cache_folder, load_record, pocl_folder, refusal, store_record
from femgpu.errors import DeviceError
from femgpu.model import Ceiling, Limits, ceiling, measured

# The compute capability from which on PTX has `fence` and `nanosleep`.
_VOLTA = (7, 0)
# Local memory that NVIDIA's driver accepts per work-group although it reports 48 KB (measured on an H200).
_NVIDIA_LOCAL_BYTES = 200 * 1024
# Registers of a work-group of NVIDIA's.
_NVIDIA_REGISTERS = 65536
# Private arrays of a work-group that plans may count on where threads have stacks of 8 MB: half of them, for what kernels need
# beside these arrays is not known exactly.
_STACK_BYTES = 4 << 20
# Instructions of a point up to which its loops are unrolled, which bounds builds: the slowest of the drivers' kernels then takes
# 2.6 s of processor time or so on an H200's node; with 3072, 28 took more than 3 s, up to 8.6 (`docs/benchmarks`, build).
_UNROLL = 2048
# More than `pthread_attr_t` has anywhere.
_ATTRIBUTE_BYTES = 256
# Of an index of a device, leading zeros and all.
_DIGITS = 9
# Numbers in double precision that a GPU's item accumulates in registers, of which it has 255 of 32 bits.
_TILE = 84
# Cells whose words a GPU interleaves: as many as items that read memory together.
_BLOCK = 32
# Cells that a CPU has side by side: numbers in double precision that a vector of AVX holds.
_LANES = 4


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
        starts_in_order: whether work-groups start in the order of their numbers, and PTX has what those need that wait for others.
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
    starts_in_order: bool
    fp64: bool
    units: int
    global_bytes: int
    max_alloc_bytes: int
    local_bytes: int
    max_group: int

    @property
    def limits(self) -> Limits:
        """What plans need to know of the device."""
        top = _known_ceiling(self, cache_folder()) or ceiling(self.name, self.is_gpu)
        return Limits(
            items=self.max_group,
            local_bytes=self.local_bytes,
            stack_bytes=0 if self.is_gpu else min(_STACK_BYTES, _thread_stack() // 2),
            atomics="ptx" if self.is_nvidia else "cas",
            native_atomics=self.is_nvidia,
            in_order=self.starts_in_order,
            mma=top.mma if self.is_nvidia else 0,
            registers=_NVIDIA_REGISTERS if self.is_nvidia else 0,
            unroll=_UNROLL if self.is_gpu else 0,
            tile=_TILE if self.is_gpu else 32,
            block=_BLOCK if self.is_gpu else 1,
            lanes=1 if self.is_gpu else _LANES,
            group=128 if self.is_gpu else 64,
            ceiling=top,
        )

    @property
    def kind(self) -> dict[str, str]:
        """What measurements are stored for: all devices of a kind with as many units and the same driver.

        PoCL's name says nothing of the number of cores; what it is asked besides counts, too.
        """
        flags = os.environ.get("POCL_EXTRA_BUILD_FLAGS", "")
        return {
            "platform": self.platform,
            "device": self.name,
            "units": str(self.units),
            "driver": f"{self.driver} {flags}".strip(),
        }

    def stored_rates(self) -> dict[str, Any] | None:
        """What `store_rates` kept; None: nothing."""
        return load_record(self._record)

    def store_rates(self, record: dict[str, Any]) -> None:
        """Keeps what `femgpu roofline` found: `rates`, all that was measured, and `ceiling`, which `limits` have from then on."""
        store_record(self._record, record | self.kind)
        _known_ceiling.cache_clear()

    @property
    def _record(self) -> str:
        return f"ceilings-{hashlib.sha256(repr(sorted(self.kind.items())).encode()).hexdigest()[:16]}.json"

    @property
    def caches_programs(self) -> bool:
        """Whether the driver keeps compiled programs itself. PoCL does, and compiles again to hand out a binary."""
        return "Portable Computing Language" in self.platform

    def __str__(self) -> str:
        memory = f"{self.global_bytes / 2**30:.1f} GiB"
        return f"[{self.index}] {self.name} ({self.platform}, driver {self.driver}), {self.units} units, {memory}"


@lru_cache
def _known_ceiling(device: Device, folder: Path | None) -> Ceiling | None:
    """The stored one, in a cache folder."""
    record = device.stored_rates()
    return measured(device.name, record.get("ceiling")) if record else None


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
        starts_in_order=nvidia and (nv_compute_capability(handle) or (0, 0)) >= _VOLTA,
        fp64="cl_khr_fp64" in handle.extensions.split(),
        units=handle.max_compute_units,
        global_bytes=handle.global_mem_size,
        max_alloc_bytes=handle.max_mem_alloc_size,
        local_bytes=max(handle.local_mem_size, _NVIDIA_LOCAL_BYTES if nvidia else 0),
        max_group=handle.max_work_group_size,
    )


def _thread_stack() -> int:
    """Bytes of a new thread's stack unless it is told otherwise (`ulimit -s`), as PoCL's threads are made.

    These are made when anybody first asks for devices; Open MPI's hwloc does when MPI starts, so that more cannot be arranged.
    """
    library, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(_ATTRIBUTE_BYTES), ctypes.c_size_t()
    library.pthread_attr_init(attributes)
    library.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value


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
        why = refusal(pocl_folder())
        full = f" (PoCL offers none where it cannot write its cache: {why}; set POCL_CACHE_DIR to another folder)" if why else ""
        raise DeviceError(f"OpenCL platforms are installed but none offers a device{full}; run `femgpu doctor`")
    return [(describe(handle, index), handle) for index, handle in enumerate(handles)]


def select(selector: str, rank: int) -> Device:
    """The device that a process would take, without taking it.

    Args:
        selector: the value of `-femgpu_device`.
        rank: node-local rank.

    Raises:
        DeviceError: when no device fits.
    """
    return choose(devices(), selector, rank)[0]


def require_fp64(device: Device, found: list[Device]) -> None:
    """Refuses a device without double precision: PETSc's vectors are double, whatever the kernels compute in.

    Args:
        device: the device that was chosen.
        found: all devices, of which the message lists those that would do.

    Raises:
        DeviceError: when it has none.
    """
    if not device.fp64:
        able = "; ".join(str(other) for other in found if other.fp64)
        remedy = f"choose another by -femgpu_device: {able}" if able else "install pocl-opencl-icd, which uses the CPU"
        raise DeviceError(f"{device} has no double precision (cl_khr_fp64), which every -femgpu_precision needs; {remedy}")


def choose(found: list[tuple[Device, cl.Device]], selector: str, rank: int) -> tuple[Device, cl.Device]:
    """As `select`, among the devices that were found; with pyopencl's handle."""
    listing = "; ".join(str(device) for device, _ in found)
    if not selector:
        gpus = [entry for entry in found if entry[0].is_gpu]
        return (gpus or found)[rank % len(gpus or found)]
    if selector.isdecimal() and selector.isascii():
        if len(selector) > _DIGITS or int(selector) >= len(found):
            raise DeviceError(f"-femgpu_device {selector}: no such index; devices are {listing}")
        return found[int(selector)]
    for entry in found:
        if selector.lower() in f"{entry[0].name} {entry[0].platform}".lower():
            return entry
    raise DeviceError(f"-femgpu_device {selector!r}: no device has this in its name; devices are {listing}")


def local_rank(comm: Any) -> tuple[int, int]:
    """The rank among the processes of this node, and how many of the communicator's processes are on it.

    Launchers say the rank in the environment; that also counts processes outside the communicator.

    Args:
        comm: mpi4py communicator; all its ranks must call.
    """
    # Imported here: `femgpu doctor` looks at devices also where mpi4py does not load.
    from mpi4py import MPI

    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    rank, size = node.rank, node.size
    node.Free()
    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name]), size
    return rank, size


def warn_shared(device: Device, rank: int, num_local: int) -> None:
    """Warns once when several ranks of a node share a GPU."""
    count = sum(1 for entry, _ in devices() if entry.is_gpu)
    if device.is_gpu and rank == 0 and num_local > count:
        warnings.warn(f"{num_local} ranks share {count} GPU(s); one rank per GPU is faster", stacklevel=2)
