"""Multigrid on device buffers: levels, smoothers, transfers; no PETSc objects."""

from femgpu.multigrid.cycle import Cycle, Level
from femgpu.multigrid.sparse import SparseMatrix, programs

__all__ = ["Cycle", "Level", "SparseMatrix", "programs"]
