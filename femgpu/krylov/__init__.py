"""Krylov methods on device buffers; no PETSc objects."""

from femgpu.krylov.bicgstab import BiCGStab
from femgpu.krylov.blocks import PRECONDITIONERS, block_diagonal
from femgpu.krylov.cg import CG
from femgpu.krylov.chebyshev import Chebyshev
from femgpu.krylov.gmres import GMRES
from femgpu.krylov.minres import MINRES
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import (
    BREAKDOWN,
    EXACT,
    INDEFINITE_OPERATOR,
    INDEFINITE_PRECONDITIONER,
    NOT_FINITE,
    Outcome,
    Test,
)
from femgpu.krylov.spectrum import Spectrum
from femgpu.krylov.vectors import Vectors, programs

__all__ = [
    "BREAKDOWN",
    "CG",
    "EXACT",
    "GMRES",
    "INDEFINITE_OPERATOR",
    "INDEFINITE_PRECONDITIONER",
    "MINRES",
    "NOT_FINITE",
    "PRECONDITIONERS",
    "BiCGStab",
    "Chebyshev",
    "Operator",
    "Outcome",
    "Preconditioner",
    "Spectrum",
    "Test",
    "Vectors",
    "block_diagonal",
    "programs",
]
