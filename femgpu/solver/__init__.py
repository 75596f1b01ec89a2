"""Problems over SNES: the operators of a form between PETSc vectors."""

from femgpu.solver.matrix import JacobianContext
from femgpu.solver.problem import NonlinearProblem

__all__ = ["JacobianContext", "NonlinearProblem"]
