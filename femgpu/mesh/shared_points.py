"""Which points of a DMPlex several ranks have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from petsc4py import PETSc


def shared_leaves(dm: PETSc.DMPlex) -> np.ndarray:
    """Points of this rank that another rank owns, int32; empty before distribution."""
    num_roots, leaves, remotes = dm.getPointSF().getGraph()
    if num_roots < 0:
        return np.empty(0, np.int32)
    if leaves is None:
        return np.arange(len(remotes), dtype=np.int32)
    return np.array(leaves, np.int32)


def shared_points(dm: PETSc.DMPlex) -> np.ndarray:
    """Mask over the chart: points that another rank has too; collective."""
    start, end = dm.getChart()
    mask = np.zeros(end, bool)
    if dm.getComm().getSize() > 1 and dm.isDistributed():
        degree = dm.getPointSF().computeDegree()
        mask[: len(degree)] = np.asarray(degree) > 0
        mask[shared_leaves(dm)] = True
    return mask[start:]


def owners(dm: PETSc.DMPlex, rank: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The rank that owns each point of the chart, and its number there; both (num_points,) int32."""
    start, end = dm.getChart()
    ranks, numbers = np.full(end - start, rank, np.int32), np.arange(start, end, dtype=np.int32)
    leaves = shared_leaves(dm)
    if len(leaves):
        ranks[leaves - start], numbers[leaves - start] = np.asarray(dm.getPointSF().getGraph()[2]).reshape(-1, 2).T
    return ranks, numbers


def from_owners(dm: PETSc.DMPlex, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """What the owners of points have of them; collective.

    Args:
        dm: the DMPlex.
        values: (num_points,) int32, over the chart of this rank.
    """
    if dm.getComm().getSize() == 1 or not dm.isDistributed():
        return values
    start, end = dm.getChart()
    roots = np.zeros(end, np.int32)
    roots[start:] = values
    leaves = roots.copy()
    sf = dm.getPointSF()
    sf.bcastBegin(MPI.INT, roots, leaves, MPI.REPLACE)
    sf.bcastEnd(MPI.INT, roots, leaves, MPI.REPLACE)
    return leaves[start:]


def neighbours(
    dm: PETSc.DMPlex, rank: int, points: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The other rank that has each of some points, which no third rank has; collective.

    Args:
        dm: the DMPlex.
        rank: this one.
        points: (n,) points.

    Returns:
        That rank, -1 where there is none; the rank that owns the point; and its number there; (n,) int32 each.
    """
    start, end = dm.getChart()
    owner, number = owners(dm, rank)
    others = np.full(end, -1, np.int32)
    if dm.getComm().getSize() > 1 and dm.isDistributed():
        mine, sf = np.full(end, rank, np.int32), dm.getPointSF()
        sf.reduceBegin(MPI.INT, mine, others, MPI.REPLACE)
        sf.reduceEnd(MPI.INT, mine, others, MPI.REPLACE)
    here = points - np.int32(start)
    return np.where(owner[here] == rank, others[points], owner[here]), owner[here], number[here]


def any_rank(dm: PETSc.DMPlex, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Marks of any rank on all ranks that have the point; collective.

    Args:
        dm: the DMPlex.
        mask: (num_points,) over the chart of this rank.
    """
    if dm.getComm().getSize() == 1 or not dm.isDistributed():
        return mask
    start, end = dm.getChart()
    leaves = np.zeros(end, np.int32)
    leaves[start:] = mask
    roots = leaves.copy()
    sf = dm.getPointSF()
    sf.reduceBegin(MPI.INT, leaves, roots, MPI.MAX)
    sf.reduceEnd(MPI.INT, leaves, roots, MPI.MAX)
    return from_owners(dm, roots[start:]) > 0
