"""Sparse matrices in device memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from femgpu.kernels import sparse_kernels
from femgpu.runtime import Device, Kernel, Launch, Runtime

_GROUP = 64
# Items that share a row of a GPU's, at most, and entries that one of them adds up, about.
_LANES, _ENTRIES = 32, 4


class Entries(NamedTuple):
    """A matrix by rows, on the host.

    Attributes:
        starts: (num_rows + 1,) int32 where each row begins.
        columns: (num_entries,) int32.
        values: (num_entries,) float64.
    """

    starts: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]


class Rows(NamedTuple):
    """Where the entries of a matrix are.

    Attributes:
        num_rows: of the matrix.
        num_entries: of the matrix.
        starts: device buffer (num_rows + 1,) int32 where each row begins.
        columns: device buffer (num_entries,) int32, row by row.
    """

    num_rows: int
    num_entries: int
    starts: Any
    columns: Any


class SparseMatrix:
    """A matrix by rows.

    Args:
        runtime: the device.
        matrix: the entries; `Rows`: their places, with undefined values.
        source_type: C type of the vectors that it multiplies, `double` or `float`.
        target_type: that of the results.
        value_type: that of the entries, and of sums.
        lanes: items that share a row, a power of 2 up to 64; None: by the length of the rows on a GPU, 1 on a CPU.

    Attributes:
        num_entries: of the matrix.
        values: device buffer of the entries, row by row.
    """

    def __init__(
        self,
        runtime: Runtime,
        matrix: Entries | Rows,
        source_type: str = "double",
        target_type: str = "double",
        value_type: str = "double",
        lanes: int | None = None,
    ):
        self._runtime, self._dtype = runtime, np.float32 if value_type == "float" else np.float64
        if isinstance(matrix, Rows):
            rows = matrix
            self.values = runtime.empty(np.dtype(self._dtype).itemsize * rows.num_entries)
        else:
            structure = (runtime.upload(part.astype(np.int32, copy=False)) for part in (matrix.starts, matrix.columns))
            rows = Rows(len(matrix.starts) - 1, len(matrix.values), *structure)
            self.values = runtime.upload(matrix.values.astype(self._dtype, copy=False))
        num_rows, self.num_entries = rows.num_rows, rows.num_entries
        if lanes is None:
            mean = self.num_entries / max(num_rows, 1)
            lanes = 1 if not runtime.device.is_gpu or mean < _ENTRIES else min(_LANES, 1 << int(np.log2(mean / _ENTRIES)))
        placeholder = runtime.empty(8)
        given = [np.int32(num_rows), rows.starts, rows.columns, self.values, placeholder]
        source = _source(runtime.device, (value_type, source_type, target_type), lanes > 1)
        one, none = np.int32(1), np.int32(0)
        product = [*given, placeholder, np.int32(lanes), none]
        self._kernel = Kernel(runtime, source, "multiply_sparse", product, num_rows * lanes, _GROUP)
        self._diagonal = Kernel(runtime, source, "diagonal_of", [*given, one, none], num_rows, _GROUP)

    def multiply(self, x: Any, y: Any) -> None:
        """Makes y = A x."""
        self.bind(x, y)()

    def diagonal(self, y: Any, size: int = 1, shift: int = 0) -> None:
        """Makes y the diagonal of a square matrix, or what stands `shift` columns further in blocks of `size` rows, in turns."""
        self._diagonal.bound({4: y, 5: np.int32(size), 6: np.int32(shift)})()

    def bind(self, x: Any, y: Any, add: bool = False) -> Launch:
        """The launch of y = A x, or y += A x."""
        return self._kernel.bound({4: x, 5: y, 7: np.int32(add)})

    def set_values(self, values: npt.NDArray[np.float64]) -> None:
        """Other entries in the same places, row by row."""
        self._runtime.write(self.values, values.astype(self._dtype, copy=False))


def programs(device: Device, kinds: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Source and name of the programs that matrices have by default, for C types of values, sources and targets."""
    return [(_source(device, kind), "multiply_sparse") for kind in kinds]


def _source(device: Device, kind: tuple[str, str, str], shared: bool = False) -> str:
    # One text for rows of all lengths on a GPU; none with barriers on a CPU, where nobody shares rows.
    return sparse_kernels(*kind, shared or device.is_gpu, _GROUP)
