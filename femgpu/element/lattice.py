"""Lattices: sets of points that are all combinations of 1D ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Positions that differ by less are the same; 1D nodes of any usable degree are farther apart.
_SAME = 1e-10


def find_lattice(points: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]] | None:
    """Tells whether points are all combinations of the same 1D points in every direction.

    Args:
        points: (num_points, dim) the points in any order.

    Returns:
        None if they are not; else the 1D points (count,), increasing, exactly symmetric about 0 if they are but for rounding, and
        the number (num_points,) of the point at each place of the lattice: point[i + count (j + count k)] = (x_i, x_j, x_k).
    """
    num, dim = points.shape
    count = round(num ** (1.0 / dim))
    if count**dim != num:
        return None
    line = np.sort(points[:, 0]).reshape(count, -1).mean(axis=1)
    if same(line, -line[::-1]):
        line = 0.5 * (line - line[::-1])
    places = np.abs(points[:, :, None] - line).argmin(axis=2)
    flat = places @ count ** np.arange(dim)
    if not same(points, line[places]) or (np.bincount(flat, minlength=num) != 1).any():
        return None
    return line, np.argsort(flat).astype(np.int32)


def lattice_places(count: int, dim: int) -> npt.NDArray[np.int64]:
    """(count**dim, dim) the 1D numbers (i, j, k) of each place of a lattice, the first fastest."""
    return np.indices((count,) * dim).reshape(dim, -1)[::-1].T


def same(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    """Whether numbers of the size of positions on a reference cell are equal but for rounding."""
    return one.shape == other.shape and bool((np.abs(one - other) < _SAME).all())
