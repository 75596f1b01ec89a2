"""L2 projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petsc4py import PETSc

from femgpu import options
from femgpu.errors import DataError
from femgpu.forms.ufl import builders
from femgpu.solver.petsc_errors import petsc_errors
from femgpu.solver.problem import NonlinearProblem
from femgpu.spaces import DirichletBC, Function, FunctionSpace


def project(
    expr: Any, V: FunctionSpace, bcs: Sequence[DirichletBC] | DirichletBC = (), options_prefix: str = "project_"
) -> Function:
    """The function of a space that is nearest to an expression in the L2 norm; collective.

    Solves with the mass matrix, matrix-free on the device, by conjugate gradients with Jacobi preconditioning to a relative
    residual of 1e-12 (1e-6 where kernels compute in single precision), unless the options say otherwise: -project_ksp_rtol, ...

    Args:
        expr: a UFL expression of the space's value shape, a callable of x (dim, num_points), or numbers. A callable is interpolated
            first, cell by cell, with a degree larger by 3 than the space's.
        V: a scalar, vector- or tensor-valued FunctionSpace.
        bcs: conditions that the result meets, on V.
        options_prefix: prefix of the options.

    Returns:
        A new Function named "projection".

    Raises:
        DataError: for a mixed space, an expression of another shape or mesh, or numbers that are not finite.
        FormError: for expressions that are not supported.
        SolverError: when the solver diverged.
    """
    if not isinstance(V, FunctionSpace):
        raise DataError(
            f"projection into {V}: expected a FunctionSpace; project the fields of a mixed space into spaces of their own"
        )
    expression = builders.as_expression(expr, V.mesh, V.value_shape, V.degree, "the expression to project")
    u = Function(V, "projection")
    problem = NonlinearProblem(builders.projection(u, expression), u, bcs, snes=_solver(V, options_prefix))
    problem.solve()
    problem.snes.destroy()
    return u


def _solver(V: FunctionSpace, prefix: str) -> PETSc.SNES:
    """One linear solve, with PETSc's options above these choices."""
    snes = PETSc.SNES().create(comm=V.comm)
    snes.setOptionsPrefix(prefix)
    snes.setType(PETSc.SNES.Type.KSPONLY)
    ksp = snes.getKSP()
    ksp.setType(PETSc.KSP.Type.CG)
    ksp.setTolerances(rtol=1e-12 if options.read(prefix).precision == "double" else 1e-6, atol=0.0)
    ksp.getPC().setType(PETSc.PC.Type.JACOBI)
    with petsc_errors(snes, reading=True):
        snes.setFromOptions()
    return snes
