"""The inverse blocks on the diagonal of a Jacobian, computed and kept on the device: what point-block Jacobi multiplies with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import SolverError, collective
from femgpu.kernels import block_kernels
from femgpu.operators import DiagonalBlocks
from femgpu.runtime import Kernel
from femgpu.solver.device_operator import DeviceOperator

_GROUP_SIZE = 64
# Items that invert a block, on a GPU.
_INVERTING = 32


class BlockJacobi:
    """Blocks of successive rows of this rank and their columns, inverted; every call is collective.

    With PETSc's block sizes they are the cells' in discontinuous spaces, and the nodes' where a field has several components.

    Args:
        operator: the operators between T-buffers.
        size: rows of a block, which divides all ranks' numbers of owned dofs.

    Attributes:
        size: rows of a block.
        inverses: device buffer (num_blocks, size, size) float64, column by column; undefined before `compute`.
    """

    def __init__(self, operator: DeviceOperator, size: int):
        local, self._operator, self.size = operator.local, operator, size
        self._runtime = runtime = local.runtime
        self._num_owned, rows = operator.transfer.num_owned, operator.transfer.rows
        group = min(_INVERTING, runtime.device.limits.items) if runtime.device.is_gpu else 1
        source = block_kernels(local.settings.precision, group)
        with collective(local.mpi):
            # Blocks of nodes are diagonals, too; larger ones are taken out of element matrices.
            nodes = size in (1, operator.transfer.block_size)
            self._blocks = None if nodes else DiagonalBlocks(local, size, rows.mask(), source)
            runtime.require(8 * size * self._num_owned, f"the inverse blocks of {size} rows on the diagonal")
            self.inverses = runtime.empty(8 * size * self._num_owned)
            self._diagonal, self._failed = runtime.empty(8 * self._num_owned), runtime.empty(4)
            pivots = runtime.empty(4 * self._num_owned)

        def each(name: str, count: int, *arguments: Any) -> Kernel:
            return Kernel(runtime, source, name, [np.int32(count), np.int32(size), *arguments], count, _GROUP_SIZE)

        zero = np.float64(0)
        self._place = each("place_diagonal", self._num_owned, np.int32(0), zero, self._diagonal, self.inverses)
        self._fill = each("fill_diagonal", len(rows.owned), zero, runtime.upload(rows.owned), self.inverses)
        self._host: npt.NDArray[np.float64] | None = None
        count = self._num_owned // size
        given = [np.int32(count), np.int32(size), self.inverses, pivots, self._failed]
        self._invert = Kernel(runtime, source, "invert_blocks", given, count * group, group)

    def compute(self, factor: float = 1.0) -> None:
        """Brings them to the state of the Jacobian, times a factor.

        Raises:
            SolverError: where a block has no inverse.
        """
        operator, runtime = self._operator, self._runtime
        if self._blocks is not None:
            self._blocks.compute()
        for shift in range(self.size):
            if self._blocks is None:
                operator.diagonal(self._diagonal, shift)
            else:
                operator.transfer.to_global(self._blocks.diagonals[shift], self._diagonal)
            self._place.bound({2: np.int32(shift), 3: np.float64(factor)})()
        self._fill.bound({2: np.float64(factor * operator.transfer.scale)})()
        runtime.zero(self._failed, 4)
        self._invert()
        failed = int(runtime.read(self._failed, np.empty(1, np.int32))[0])
        with collective(operator.local.mpi):
            if failed:
                first = operator.transfer.rows.storage.numbering.first + (failed - 1) * self.size
                raise SolverError(
                    f"point-block Jacobi: the diagonal block of rows {first} to {first + self.size - 1} of the Jacobian has no "
                    "inverse; take another preconditioner, -pc_type jacobi or none"
                )

    def read(self) -> npt.NDArray[np.float64]:
        """(num_owned * size,) the inverse blocks on the host, in an array that stays the same."""
        if self._host is None:
            self._host = np.empty(self.size * self._num_owned)
        return self._runtime.read(self.inverses, self._host)
