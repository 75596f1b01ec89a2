"""Multigrid on device buffers: levels, smoothers, transfers; no PETSc objects."""

from femgpu.multigrid.cycle import FILE, Bind, Calls, Cycle, Diagonal, Level, MakeLevel
from femgpu.multigrid.polynomials import KINDS
from femgpu.multigrid.sparse import Entries, Rows, SparseMatrix, programs

__all__ = [
    "FILE",
    "KINDS",
    "Bind",
    "Calls",
    "Cycle",
    "Diagonal",
    "Entries",
    "Level",
    "MakeLevel",
    "Rows",
    "SparseMatrix",
    "programs",
]
