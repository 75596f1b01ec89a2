"""Which device computes: PETSc's own where its vectors live on one, else the one that the options choose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from petsc4py import PETSc

from femgpu.errors import DeviceError, collective
from femgpu.options import Settings
from femgpu.runtime import Runtime, devices, for_comm, start


def on_device(vec: PETSc.Vec) -> bool:
    """Whether a vector is one of PETSc's ViennaCL types."""
    return "viennacl" in vec.getType()


def choose_runtime(settings: Settings, vectors: Iterable[PETSc.Vec], mpi: Any) -> Runtime:
    """The runtime of this process, which dumps kernels where the options say; PETSc times its events for the view; collective.

    Args:
        settings: the options.
        vectors: the vectors that take part; where one is a ViennaCL vector, PETSc's context and queue are shared.
        mpi: mpi4py communicator.

    Raises:
        DeviceError: on all ranks, when no device fits.
    """
    shared = next((vec for vec in vectors if on_device(vec)), None)
    runtime = for_comm(settings.device, mpi) if shared is None else _of_petsc(shared, mpi)
    runtime.programs.dump_folder = settings.kernel_dump
    runtime.debug(settings.debug)
    if settings.view:
        PETSc.Log.begin()
    return runtime


def _of_petsc(shared: PETSc.Vec, mpi: Any) -> Runtime:
    """The runtime over PETSc's context and queue."""
    with collective(mpi):
        count = sum(1 for device, _ in devices() if device.is_gpu)
        if mpi.size > 1 and count > 1:
            raise DeviceError(
                f"PETSc's ViennaCL vectors put all {mpi.size} ranks on the first of {count} GPUs; use host vectors "
                "(without -dm_vec_type viennacl), which give each rank its own GPU"
            )
        return start(handles=(shared.getCLContextHandle(), shared.getCLQueueHandle()))
