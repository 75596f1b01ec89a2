"""Problems over SNES and TS: the operators of a form between PETSc vectors."""

from femgpu.solver.ahead import start
from femgpu.solver.assembly import assemble
from femgpu.solver.chebyshev_type import Chebyshev
from femgpu.solver.field_split import FieldSplit
from femgpu.solver.krylov_types import CG, FCG, FGMRES, GMRES, MINRES, BiCGStab
from femgpu.solver.linear_problem import LinearProblem
from femgpu.solver.matrix import JacobianContext
from femgpu.solver.pmg import PMG
from femgpu.solver.problem import NonlinearProblem
from femgpu.solver.projection import project
from femgpu.solver.python_types import AssembledPC, FormMatrix
from femgpu.solver.time_problem import TimeProblem

__all__ = [
    "CG",
    "FCG",
    "FGMRES",
    "GMRES",
    "MINRES",
    "PMG",
    "AssembledPC",
    "BiCGStab",
    "Chebyshev",
    "FieldSplit",
    "FormMatrix",
    "JacobianContext",
    "LinearProblem",
    "NonlinearProblem",
    "TimeProblem",
    "assemble",
    "project",
    "start",
]
