"""Local memory whose neighbouring items read from different banks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

# Bytes that the banks hand out at a time (NVIDIA: 32 banks of 4), and so what items that are served together ask for.
_BANK_BYTES = 128


@cache
def lattice_strides(
    width: int,
    dim: int,
    cells: int,
    lattices: int,
    axes: Sequence[tuple[int, ...]],
    itemsize: int,
    orders: Sequence[bool] = (False,),
    spare: float = np.inf,
) -> tuple[tuple[int, ...], bool]:
    """Numbers between rows, between planes (of three directions) and between cells, for fewest accesses one after the other.

    Args:
        width: numbers on a line of a lattice.
        dim: directions, 2 or 3.
        cells: cells of a work-group.
        lattices: of a cell.
        axes: for each way in which items share a lattice the directions along which they count, the fastest first.
        itemsize: bytes of a number.
        orders: whether neighbouring items may be those of other cells, and whether of their own.
        spare: numbers between lattices, as a share of theirs, up to which they are tried.

    Returns:
        The strides, of which the last one counts the cell's lattices; whether neighbouring items are those of other cells.
    """
    rows = np.arange(width, width + 3)
    planes = np.arange(6)[:, None] + rows * width if dim == 3 else rows[None, :] * 0
    row, plane, pad = np.broadcast_arrays(rows[None, :, None], planes[:, :, None], np.arange(8))
    cell = lattices * width * (plane if dim == 3 else row) + pad
    strides = np.stack([np.ones_like(row), row, plane][:dim]).reshape(dim, -1)
    small = cell.ravel() <= (1 + spare) * lattices * width**dim
    cell, strides = cell.ravel()[small], strides[:, small]
    turns = np.array([[_turns(cell, strides, width, cells, along, itemsize, order) for along in axes] for order in orders])
    order, best = np.divmod(np.lexsort((np.tile(cell, len(orders)), turns.sum(axis=1).ravel()))[0], len(cell))
    return (*map(int, strides[1:, best]), int(cell[best])), orders[order]


def _turns(
    cell: npt.NDArray[np.int_],
    strides: npt.NDArray[np.int_],
    width: int,
    cells: int,
    along: tuple[int, ...],
    itemsize: int,
    cells_first: bool,
) -> npt.NDArray[np.double]:
    """Accesses one after the other of items that are served together, of their kind on average, for each choice of strides."""
    words = _BANK_BYTES // itemsize
    places = np.indices((cells, *(width,) * len(along)))
    starts = np.multiply.outer(cell, places[0])
    for axis, place in zip(along, places[:0:-1], strict=True):
        starts += np.multiply.outer(strides[axis], place)
    starts = (np.moveaxis(starts, 1, -1) if cells_first else starts).reshape(len(cell), -1)
    groups = [starts[:, first : first + words] % words for first in range(0, starts.shape[1], words)]
    return np.mean([(group[..., None] == np.arange(words)).sum(axis=1).max(axis=1) for group in groups], axis=0)


def odd_four(least: int) -> int:
    """The smallest number from `least` on that is four times an odd one."""
    return (least + 3) // 8 * 8 + 4
