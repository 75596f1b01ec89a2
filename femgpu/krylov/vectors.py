"""Vectors of one length in device buffers, and sums over them that no launch waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.kernels import DOT_SLOTS, krylov_kernels
from femgpu.runtime import Device, Kernel, Runtime

# Work-items of a group, and groups per compute unit: enough to keep a GPU's memory busy, few enough that every group adds all
# partial sums itself. On an H200 twice as many items take longer for vectors of any length, half as many for long ones.
_GROUP, _GROUPS_PER_UNIT = 512, 2
# Pairs of entries that an item loads before it computes, in kernels that read much: bytes under way hide the memory's latency.
# Their groups have half as many items (H200, 4 M entries: 40.5 us; 45.5 with 512 items and two pairs, 44.4 with four).
_LANES, MERGED = 4, "merged_cg.cl"
# C's names of numpy's types.
C_TYPES = {"float32": "float", "float64": "double"}
# The file with the kernels that all methods use.
KRYLOV = "krylov.cl"
# Bytes: what divides the beginnings of parts of a buffer.
_ALIGNMENT = 512


class Vectors:
    """The kernels between vectors of `num_owned` numbers on each rank.

    Sums over vectors stay on the device as partial sums, `rows` of them in one buffer. On several ranks the host adds them
    up (`complete`): the buffers then hold the sum over all ranks, and kernels read them as on one.

    Args:
        runtime: the device.
        num_owned: entries on this rank.
        mpi: mpi4py communicator.
        group: work-items of a group, a power of 2; None: what suits the device. A CPU takes the items of a group one after the
            other, each through all of memory: one is ten times faster than 64.
        single: whether the numbers are floats, which the kernels of bases, estimates and multigrid know; else they are doubles.

    Attributes:
        dtype: numpy's type of the numbers.
        num_bytes: of a vector.
    """

    def __init__(self, runtime: Runtime, num_owned: int, mpi: Any, group: int | None = None, single: bool = False):
        self.runtime = runtime
        self.mpi = mpi
        self.num_owned = num_owned
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.num_bytes = self.dtype.itemsize * num_owned
        self._group, self.num_groups = _sizes(runtime.device, group)
        self._sources: dict[tuple[str, int], str] = {}
        self._parts: dict[int, npt.NDArray[np.float64]] = {}

    def empty(self) -> Any:
        """A vector with undefined entries."""
        return self.runtime.empty(self.num_bytes)

    def parts(self, count: int, num_bytes: int) -> tuple[Any, list[Any], int]:
        """A buffer of equal parts with undefined entries: the whole, the parts, and the bytes from one to the next."""
        stride = -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
        whole = self.runtime.empty(count * stride)
        return whole, [whole.get_sub_region(number * stride, max(num_bytes, 8)) for number in range(count)], stride

    def sums(self, rows: int) -> Any:
        """A buffer for some sums."""
        return self.runtime.upload(np.zeros(rows * self.num_groups))

    def kernel(self, name: str, *arguments: Any, file: str = KRYLOV, block: int = 1) -> Kernel:
        """A kernel of a file in `kernels/cl` with its arguments after n; `block`: rows that an item takes together."""
        if (file, block) not in self._sources:
            atomics = self.runtime.device.limits.atomics
            sizes = _items(file, self._group), self.num_groups, _LANES, atomics
            self._sources[file, block] = krylov_kernels(*sizes, file, C_TYPES[self.dtype.name], block)
        items, given = _items(file, self._group), [np.int32(self.num_owned), *arguments]
        return Kernel(self.runtime, self._sources[file, block], name, given, self.num_groups * items, items)

    def fill_noise(self, buffer: Any, first: int) -> None:
        """Fills a vector with PETSc's noise for estimates: numbers between -1.1 and 1.1 from those of its entries.

        Args:
            buffer: of the vector.
            first: number of the first entry on this rank.
        """
        self.kernel("noise", np.uint32(first), buffer)()

    def complete(self, sums: Any, first: int, last: int) -> None:
        """Makes sums number `first` to `last` - 1 of a buffer those over all ranks; does nothing on one."""
        if self.mpi.size == 1:
            return
        rows = sums.size // (8 * self.num_groups)
        if rows not in self._parts:
            self._parts[rows] = np.zeros((rows, self.num_groups))
        parts = self._parts[rows]
        self.runtime.read(sums, parts)
        parts[first:last, 0] = self.mpi.allreduce(parts[first:last].sum(1))
        parts[first:last, 1:] = 0
        self.runtime.write(sums, parts)


def programs(device: Device, files: Iterable[str], single: bool = False, block: int = 1) -> list[tuple[str, str]]:
    """Source and name of the programs of files in `kernels/cl`, as `Vectors` of any length have them on a device."""
    (group, count), ctype, atomics = _sizes(device), C_TYPES["float32" if single else "float64"], device.limits.atomics
    return [
        (krylov_kernels(_items(file, group), count, _LANES, atomics, file, ctype, block), file.removesuffix(".cl"))
        for file in files
    ]


def _items(file: str, group: int) -> int:
    """Work-items of a group of the kernels in a file."""
    return max(1, group // 2) if file == MERGED else group


def _sizes(device: Device, group: int | None = None) -> tuple[int, int]:
    """Work-items of a group, and groups: each has a slot among those of an action's dots."""
    items = min(device.limits.items, group or (_GROUP if device.is_gpu else 1))
    return items, min(DOT_SLOTS, device.units * (_GROUPS_PER_UNIT if device.is_gpu else 1))
