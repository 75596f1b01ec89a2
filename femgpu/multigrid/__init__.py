"""Multigrid on device buffers: levels, smoothers, transfers; no PETSc objects."""

from femgpu.multigrid.cycle import FILE, Bind, Calls, Cycle, Level
from femgpu.multigrid.polynomials import KINDS
from femgpu.multigrid.sparse import Entries, Rows, SparseMatrix, programs

__all__ = ["FILE", "KINDS", "Bind", "Calls", "Cycle", "Entries", "Level", "Rows", "SparseMatrix", "programs"]
