"""The one runtime of this process: its device is chosen once, by whoever comes first."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from femgpu import forks
from femgpu.errors import DeviceError, collective, meet
from femgpu.runtime.device import choose, describe, devices, local_rank, require_fp64, warn_shared
from femgpu.runtime.runtime import Runtime

_current: Runtime | None = None


def current() -> Runtime:
    """The runtime of this process, started with the defaults where nothing chose it before."""
    return _current if _current is not None else start()


def started() -> Runtime | None:
    """The runtime of this process; None where nothing has asked for one."""
    return _current


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
    forks.refuse()
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
        _current = Runtime(device, context)
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
    meet(comm)
    rank, num_local = local_rank(comm)
    with collective(comm):
        first = _current is None
        runtime = start(selector, rank)
        runtime.programs.place = rank % num_local, num_local
        if first and not selector:
            warn_shared(runtime.device, rank, num_local)
    return runtime
