"""Periods of a mesh: PETSc knows them, and keeps coordinates of their own for the cells across them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc


def is_periodic(dm: PETSc.DMPlex) -> bool:
    """Whether PETSc knows periods of the mesh."""
    return bool(np.any(np.asarray(dm.getPeriodicity()[2]) > 0))


def set_periods(dm: PETSc.DMPlex, lower: npt.ArrayLike, period: npt.ArrayLike) -> None:
    """Gives a mesh whose vertices are identified its periods, and the cells across them coordinates of their own; collective.

    Args:
        dm: the mesh; its cells are at most a third of the periods wide.
        lower: (dim,) where the periods begin.
        period: (dim,) their lengths; -1 for directions without a period.
    """
    length = np.asarray(period, np.float64)
    # PETSc unwraps cells that are wider than this. Its own refinement halves the limit, while some of the new tetrahedra
    # can be as wide as the old ones: as large as cells of a third of the period allow.
    widest = np.where(length > 0, 0.6 * length, -1.0)
    dm.setPeriodicity(widest, np.asarray(lower, np.float64), length)
    dm.localizeCoordinates()
