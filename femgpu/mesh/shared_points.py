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
    leaves[:] = roots
    sf.bcastBegin(MPI.INT, roots, leaves, MPI.REPLACE)
    sf.bcastEnd(MPI.INT, roots, leaves, MPI.REPLACE)
    return leaves[start:] > 0
