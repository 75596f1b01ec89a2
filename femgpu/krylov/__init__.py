"""Krylov methods on device buffers; no PETSc objects."""

from femgpu.krylov.cg import CG
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome
from femgpu.krylov.vectors import Vectors

__all__ = [
    "CG",
    "INDEFINITE_OPERATOR",
    "INDEFINITE_PRECONDITIONER",
    "NOT_FINITE",
    "Operator",
    "Outcome",
    "Preconditioner",
    "Vectors",
]
