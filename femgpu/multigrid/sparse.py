"""Sparse matrices in device memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from femgpu.kernels import sparse_kernels
from femgpu.runtime import Device, Kernel, Runtime

_GROUP = 64
# Items that share a row of a GPU's, at most, and entries that one of them adds up, about.
_LANES, _ENTRIES = 32, 4


class SparseMatrix:
    """A matrix by rows, values in double precision.

    Args:
        runtime: the device.
        matrix: the entries.
        source_type: C type of the vectors that it multiplies, `double` or `float`.
        target_type: that of the results.
        lanes: items that share a row, a power of 2 up to 64; None: by the length of the rows on a GPU, 1 on a CPU.
    """

    def __init__(
        self,
        runtime: Runtime,
        matrix: csr_array,
        source_type: str = "double",
        target_type: str = "double",
        lanes: int | None = None,
    ):
        num_rows = matrix.shape[0]
        if lanes is None:
            mean = matrix.nnz / max(num_rows, 1)
            lanes = 1 if not runtime.device.is_gpu or mean < _ENTRIES else min(_LANES, 1 << int(np.log2(mean / _ENTRIES)))
        entries = [matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)]
        placeholder = runtime.empty(8)
        arguments = [np.int32(num_rows), *map(runtime.upload, entries), placeholder, placeholder, np.int32(0), np.int32(lanes)]
        source = _source(runtime.device, source_type, target_type, lanes > 1)
        self._kernel = Kernel(runtime, source, "multiply_sparse", arguments, num_rows * lanes, _GROUP)

    def multiply(self, x: Any, y: Any) -> None:
        """Makes y = A x."""
        self._kernel.bound({4: x, 5: y, 6: np.int32(0)})()

    def add(self, x: Any, y: Any) -> None:
        """Makes y += A x."""
        self._kernel.bound({4: x, 5: y, 6: np.int32(1)})()


def programs(device: Device, kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Source and name of the programs that matrices have by default, for pairs of C types as `SparseMatrix` takes them."""
    return [(_source(device, *pair), "multiply_sparse") for pair in kinds]


def _source(device: Device, source_type: str, target_type: str, shared: bool = False) -> str:
    # One text for rows of all lengths on a GPU; none with barriers on a CPU, where nobody shares rows.
    return sparse_kernels(source_type, target_type, shared or device.is_gpu, _GROUP)
