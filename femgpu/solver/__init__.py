"""Problems over SNES: the operators of a form between PETSc vectors."""

from femgpu.solver.matrix import JacobianContext
from femgpu.solver.problem import NonlinearProblem
from femgpu.solver.projection import project
from femgpu.solver.python_types import AssembledPC, FormMatrix

__all__ = ["AssembledPC", "FormMatrix", "JacobianContext", "NonlinearProblem", "project"]
