"""Vectors of one length in device buffers, and sums over them that no launch waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.kernels import krylov_kernels
from femgpu.runtime import Kernel, Runtime

# Work-groups per compute unit: enough to keep a GPU's memory busy, few enough that every group adds all partial sums itself.
_GROUPS_PER_UNIT = 4


class Vectors:
    """The kernels between vectors of `num_owned` doubles on each rank.

    Sums over vectors stay on the device as partial sums, `rows` of them in one buffer. On several ranks the host adds them
    up (`complete`): the buffers then hold the sum over all ranks, and kernels read them as on one.

    Args:
        runtime: the device.
        num_owned: entries on this rank.
        mpi: mpi4py communicator.

    Attributes:
        num_bytes: of a vector.
    """

    def __init__(self, runtime: Runtime, num_owned: int, mpi: Any):
        limits = runtime.device.limits
        self.runtime = runtime
        self.mpi = mpi
        self.num_owned = num_owned
        self.num_bytes = 8 * num_owned
        self._group = min(limits.items, 256 if runtime.device.is_gpu else 64)
        self.num_groups = _GROUPS_PER_UNIT * runtime.device.units if runtime.device.is_gpu else runtime.device.units
        self._source = krylov_kernels(self._group, self.num_groups)
        self._parts: dict[int, npt.NDArray[np.float64]] = {}

    def empty(self) -> Any:
        """A vector with undefined entries."""
        return self.runtime.empty(self.num_bytes)

    def sums(self, rows: int) -> Any:
        """A buffer for some sums."""
        self._parts.setdefault(rows, np.zeros((rows, self.num_groups)))
        return self.runtime.upload(np.zeros(rows * self.num_groups))

    def kernel(self, name: str, *arguments: Any) -> Kernel:
        """A kernel of `cl/krylov.cl` with its arguments after n."""
        size = self.num_groups * self._group
        return Kernel(self.runtime, self._source, name, [np.int32(self.num_owned), *arguments], size, self._group)

    def totals(self, parts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sums of what was read from a buffer of partial sums, (rows,), of this rank."""
        sums: npt.NDArray[np.float64] = parts.reshape(-1, self.num_groups).sum(1)
        return sums

    def complete(self, sums: Any, rows: int) -> None:
        """Makes the first `rows` of some sums those over all ranks; does nothing on one."""
        if self.mpi.size == 1:
            return
        parts = self._parts[max(self._parts)][:rows]
        parts[:, 0] = self.mpi.allreduce(self.totals(self.runtime.read(sums, parts)))
        parts[:, 1:] = 0
        self.runtime.write(sums, parts)
