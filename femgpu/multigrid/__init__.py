"""Multigrid on device buffers: levels, smoothers, transfers; no PETSc objects."""

from femgpu.multigrid.cycle import FILE, Bind, Calls, Cycle, Level
from femgpu.multigrid.polynomials import KINDS
from femgpu.multigrid.sparse import SparseMatrix, programs

__all__ = ["FILE", "KINDS", "Bind", "Calls", "Cycle", "Level", "SparseMatrix", "programs"]
