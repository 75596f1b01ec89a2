"""PETSc vectors as device buffers: host vectors through a staging buffer, ViennaCL vectors in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import log
from femgpu.errors import DeviceError, collective
from femgpu.options import Settings
from femgpu.runtime import Runtime, devices, for_comm, start
from femgpu.spaces import Function


def on_device(vec: PETSc.Vec) -> bool:
    """Whether a vector is one of PETSc's ViennaCL types."""
    return "viennacl" in vec.getType()


def choose_runtime(settings: Settings, u: Function) -> Runtime:
    """The device of a problem: PETSc's own where the vectors live there, else the one that the options choose; collective.

    Args:
        settings: the options.
        u: the unknown.

    Raises:
        DeviceError: on all ranks, when no device fits.
    """
    mpi = u.space.mesh.mpi
    if not on_device(u.vec):
        return for_comm(settings.device, mpi)
    with collective(mpi):
        count = sum(1 for device, _ in devices() if device.is_gpu)
        if mpi.size > 1 and count > 1:
            raise DeviceError(
                f"PETSc's ViennaCL vectors put all {mpi.size} ranks on the first of {count} GPUs; use host vectors "
                "(without -dm_vec_type viennacl), which give each rank its own GPU"
            )
        return start(handles=(u.vec.getCLContextHandle(), u.vec.getCLQueueHandle()))


class Staging:
    """Device buffers through which host vectors pass; made once.

    Args:
        runtime: the device.
        num_owned: length of the vectors on this rank.
    """

    def __init__(self, runtime: Runtime, num_owned: int):
        self.runtime = runtime
        self.num_owned = num_owned
        self._input, self._output = runtime.empty(8 * num_owned), runtime.empty(8 * num_owned)

    @contextmanager
    def reading(self, vec: PETSc.Vec) -> Iterator[Any]:
        """A buffer with the vector's values."""
        if on_device(vec):
            buffer = self.runtime.wrap(vec.getCLMemHandle("r"))
            yield buffer
            return
        with log.event("FGTransfer"):
            # The values are read without bumping the vector's state: PETSc caches norms by it.
            self.runtime.write(self._input, np.ascontiguousarray(vec.array_r))
        yield self._input

    @contextmanager
    def writing(self, vec: PETSc.Vec) -> Iterator[Any]:
        """A buffer whose values become the vector's when the block ends."""
        if on_device(vec):
            yield self.runtime.wrap(vec.getCLMemHandle("w"))
            vec.restoreCLMemHandle()
            return
        yield self._output
        with log.event("FGTransfer"):
            self.runtime.read(self._output, vec.array_w)
