"""Which points of a DMPlex several ranks have."""

from __future__ import annotations

import numpy as np
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
