"""Local memory whose neighbouring items read from different banks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

# Bytes that the banks hand out at a time (NVIDIA: 32 banks of 4), and so what items that are served together ask for.
_BANK_BYTES = 128


@cache
def lattice_strides(
    width: int, dim: int, cells: int, lattices: int, axes: Sequence[tuple[int, ...]], itemsize: int
) -> tuple[int, ...]:
    """Numbers between rows, between planes (of three directions) and between cells, for fewest accesses one after the other.

    Args:
        width: numbers on a line of a lattice.
        dim: directions, 2 or 3.
        cells: cells of a work-group.
        lattices: of a cell.
        axes: for each way in which items share a lattice the directions along which they count, the fastest first.
        itemsize: bytes of a number.

    Returns:
        The strides; the last one counts the cell's lattices.
    """
    rows = np.arange(width, width + 3)
    planes = np.arange(6)[:, None] + rows * width if dim == 3 else rows[None, :] * 0
    row, plane, pad = np.broadcast_arrays(rows[None, :, None], planes[:, :, None], np.arange(8))
    cell = lattices * width * (plane if dim == 3 else row) + pad
    strides = np.stack([np.ones_like(row), row, plane][:dim]).reshape(dim, -1)
    words, cell = _BANK_BYTES // itemsize, cell.ravel()
    turns = np.zeros(len(cell))
    for along in axes:
        places = np.indices((cells, *(width,) * len(along))).reshape(1 + len(along), -1)
        starts = cell[:, None] * places[0]
        for axis, place in zip(along, places[:0:-1], strict=True):
            starts = starts + strides[axis][:, None] * place
        starts = starts[:, : max(words, starts.shape[1] // words * words)]
        groups = starts.reshape(len(cell), -1, min(words, starts.shape[1])) % words
        taken = (groups[..., None] == np.arange(words)).sum(axis=2)
        turns += taken.max(axis=2).mean(axis=1)
    best = np.lexsort((cell, turns))[0]
    return (*map(int, strides[1:, best]), int(cell[best]))
