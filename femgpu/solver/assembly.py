"""Forms as PETSc's objects: numbers, vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from petsc4py import PETSc

from femgpu import options
from femgpu.errors import DataError, FormError, collective, meet
from femgpu.forms import Form, LinearSystem, bilinear_form, check_inputs, is_equation, lower_form, rank
from femgpu.operators import integrate
from femgpu.operators.device import choose_runtime
from femgpu.solver.arguments import check_diagonal
from femgpu.solver.conditions import Conditions
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.jacobian_pair import refuse_mixed_vectors
from femgpu.solver.matrix import AssembledJacobian
from femgpu.solver.unknowns import Unknowns
from femgpu.spaces import Function, Space


def assemble(form: Any, bcs: Conditions = None, diagonal: float = 1.0, options_prefix: str = "") -> Any:
    """Assembles a form on the device; collective.

    | form | result |
    |---|---|
    | without arguments, `(u - exact) ** 2 * dx` | its value, a float |
    | linear, `f * v * dx` | a PETSc.Vec, a T-vector of v's space |
    | bilinear, `inner(grad(u), grad(v)) * dx` with a TrialFunction u | a PETSc.Mat, AIJ |
    | `a == L` of both, or `F == 0` with both in F | Mat and Vec (A, b): the solution of A x = b meets the conditions |

    Boundary conditions eliminate rows and columns of prescribed dofs: the matrix has `diagonal` there, so that symmetric forms
    give symmetric matrices. A vector alone has zeros there, which is right for conditions of value zero; others move columns of
    the matrix to the right-hand side, which takes both forms.

    Rows and columns of a form with `TestFunctions` of a `ufl.MixedFunctionSpace`, which has those of all parts, are the dofs of a
    MixedSpace of its parts; boundary conditions are on their spaces.

    Quadrature is that of problems and functionals; `dx(degree=n)` sets another.

    Args:
        form: ufl.Form or an equation, over dx, ds, and the values of labels: dx(1), ds((2, 3)).
        bcs: Dirichlet conditions, or a single one, on the space of the test function.
        diagonal: what the matrix has on the diagonal of prescribed rows; b then has `diagonal` times the value.
        options_prefix: prefix of femgpu's options.

    Returns:
        A float, the same on all ranks; a new Vec; a new Mat; or Mat and Vec. They are the caller's.

    Raises:
        FormError: for what is not supported.
        MeshError: for values that the mesh's labels lack; lists those that exist.
        DataError: when a coefficient or an integral is not finite, when a linear form stands alone with conditions that are not
            zero, or a form without arguments with any.
    """
    if (unknowns := Unknowns.of_forms(form)) is not None:
        form, bcs = unknowns.form(form), unknowns.conditions(bcs)
    if is_equation(form):
        system = LinearSystem.of(form)
        u = Function(_checked(system.space))
        operator = _operator(lower_form(system.residual(u), u), u.vec, bcs, diagonal, options_prefix)
        operator.local.build_ahead(("residual", operator.local.assembly_target))
        # At zero the residual is that of the boundary values, up to the sign.
        vector = _residual(operator, u.vec)
        vector.scale(-1.0)
        return _matrix(operator, u.vec, options_prefix), vector
    number = rank(form)
    if number in (1, 2):
        lowered = lower_form(form) if number == 1 else bilinear_form(form)
        zero = _checked(lowered.space).create_vec()
        operator = _operator(lowered, zero, bcs, diagonal, options_prefix)
        if number == 2:
            return _matrix(operator, zero, options_prefix)
        _refuse_values(operator)
        return _residual(operator, zero)
    if bcs:
        raise DataError("boundary conditions for a form without arguments; expected a linear or bilinear form")
    return integrate(form, options_prefix)


def _operator(form: Form, zero: PETSc.Vec, bcs: Conditions, diagonal: float, prefix: str) -> GlobalOperator:
    mpi = form.space.mesh.mpi
    with collective(mpi):
        check_diagonal(diagonal)
        settings = options.read(prefix)
        check_inputs(form)
    return GlobalOperator(form, bcs, settings, choose_runtime(settings, [zero], mpi), scale=float(diagonal))


def _checked(space: Any) -> Space:
    """The space of a test function; collective."""
    if not isinstance(space, Space) or space.root is not space:
        raise FormError(f"the test function lives in {space}; expected femgpu's FunctionSpace or MixedSpace, no part of one")
    meet(space.mesh.mpi)
    return space


def _residual(operator: GlobalOperator, zero: PETSc.Vec) -> PETSc.Vec:
    """The residual at zero, a new vector."""
    result = zero.duplicate()
    operator.residual(zero, result)
    return result


def _matrix(operator: GlobalOperator, zero: PETSc.Vec, prefix: str) -> PETSc.Mat:
    refuse_mixed_vectors(zero, prefix)
    assembled = AssembledJacobian(operator, zero)
    operator.linearise(zero)
    assembled.fill()
    assembled.mat.assemble()
    return assembled.mat


def _refuse_values(operator: GlobalOperator) -> None:
    """A vector alone does not know the columns that boundary values multiply."""
    largest = float(np.abs(operator.rows.values).max(initial=0.0))
    if operator.local.mpi.allreduce(largest, op=MPI.MAX):
        raise DataError(
            "a linear form alone with boundary values that are not zero: they multiply columns of a matrix; expected both forms: "
            "A, b = femgpu.assemble(a == L, bcs)"
        )
