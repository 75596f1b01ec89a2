"""Linear problems, and the options that a program gives a problem."""

import re

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError, OptionError, SolverError
from femgpu.solver.matrix import AssembledJacobian

LU = {"ksp_type": "preonly", "pc_type": "lu"}


def poisson(cell="triangle"):
    """Forms, a condition and the solution x0^2 + x1 of -div(grad(u)) = -2."""
    dm = femgpu.mesh.box((4, 3), cell=cell)
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v, x = ufl.TrialFunction(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    exact = x[0] ** 2 + x[1]
    return inner(grad(u), grad(v)) * dx, -2 * v * dx, femgpu.DirichletBC(V, exact), exact


def test_all_ways_to_write_it():
    a, L, bc, exact = poisson()
    u = femgpu.Function(bc.space)
    for forms in ((a == L,), (a, L), (a - L == 0,), (a - L,)):
        problem = femgpu.LinearProblem(*forms, bcs=bc, petsc_options=LU)
        assert femgpu.error_norm(problem.solve(), exact) < 1e-13
        assert problem.ksp.getIterationNumber() == 1
    for form in (a == L, a - L, ufl.replace(a, {a.arguments()[1]: u}) - L == 0):
        u.assign(0.0)
        femgpu.NonlinearProblem(form, u, bc, petsc_options=LU).solve()
        assert femgpu.error_norm(u, exact) < 1e-13
    zero = femgpu.LinearProblem(a, bcs=bc).solve()
    assert femgpu.norm(zero, "H1") > 1  # L = 0: a harmonic function


@pytest.mark.parallel(2)
def test_on_ranks_without_options():
    """Matrix-free and assembled, to the tolerance of the docstring."""
    a, L, bc, exact = poisson()
    for options in ({}, {"femgpu_jacobian": "assembled"}, {"ksp_type": "cg", "pc_type": "jacobi"}):
        problem = femgpu.LinearProblem(a, L, bc, petsc_options=options)
        assert femgpu.error_norm(problem.solve(), exact) < 1e-8
        assert (problem.jacobian.getType() == "python") == ("femgpu_jacobian" not in options)


@pytest.mark.parallel([1, 2])
def test_matrix_is_kept_while_what_it_reads_is(monkeypatch):
    """Heat conduction by backward Euler: x t solves u_t = u'' + x; the matrix is made again for another step length."""
    fills = []
    fill = AssembledJacobian.fill
    monkeypatch.setattr(AssembledJacobian, "fill", lambda self: (fills.append(1), fill(self)))
    dm = femgpu.mesh.box((5,), cell="interval")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v, x = ufl.TrialFunction(V), ufl.TestFunction(V), femgpu.coordinates(dm)[0]
    dt, t, k = femgpu.Constant(dm, 0.5), femgpu.Constant(dm, 0.0), femgpu.Function(V, "k")
    k.interpolate(1.0)
    before = femgpu.Function(V, "before")
    a = (u * v / dt + k * u.dx(0) * v.dx(0)) * dx
    bc = femgpu.DirichletBC(V, lambda x: x[0] * t.value)
    problem = femgpu.LinearProblem(a, (before / dt + x) * v * dx, bc)
    for step, fresh in ((0.5, 1), (0.5, 1), (0.25, 2), (0.25, 2)):
        dt.value = step
        t.value += step
        before.assign(problem.solve())
        assert femgpu.error_norm(before, t * x) < 1e-9
        assert len(fills) == fresh
    # A function that is written on one rank counts on all.
    if dm.comm.rank == 0:
        k.vec.array[:] = 2.0
    t.value += dt.value
    problem.solve()
    assert len(fills) == 3


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("pc", ["lu", "jacobi", "none"])
def test_the_matrix_follows_a_moved_mesh(pc):
    """The assembled one, what a preconditioner keeps of it, and a state stored at quadrature points."""
    a, L, bc, exact = poisson()
    dm, (v, u) = bc.space.dm, a.arguments()
    options = {"pc_type": pc if pc != "lu" or dm.comm.size == 1 else "bjacobi", "ksp_rtol": 1e-12, "femgpu_qdata": "store"}
    problem = femgpu.LinearProblem(a + (1 + exact) * u * v * dx, L + (1 + exact) * exact * v * dx, bc, petsc_options=options)
    for factor in (1.0, 1.5, 1.0, 0.5):
        x = dm.getCoordinatesLocal()
        x.scale(factor)
        dm.setCoordinatesLocal(x)
        assert femgpu.error_norm(problem.solve(), exact) < 1e-8


def test_what_is_refused():
    a, L, bc, _ = poisson()
    V = bc.space
    u, v, other = femgpu.Function(V), ufl.TestFunction(V), femgpu.FunctionSpace(V.dm, "Lagrange", 1)
    with pytest.raises(FormError, match=r"contains its unknown u beside the trial function.*u.copy\(\)"):
        femgpu.LinearProblem(a, u * v * dx, bc, u)
    trial, test = ufl.TrialFunction(V), ufl.TestFunction(V)
    for a_of_u in (trial**2 * test, (1 + trial**2) * ufl.inner(ufl.grad(trial), ufl.grad(test)), abs(trial) * test):
        with pytest.raises(FormError, match=r"is not linear in its trial function: .* expected NonlinearProblem\(F, u\)"):
            femgpu.LinearProblem(a_of_u * dx, L, bc)
    with pytest.raises(FormError, match="a Form stands as L beside an equation"):
        femgpu.LinearProblem(a == L, L)
    with pytest.raises(FormError, match="the bilinear form has 1 arguments; expected a test and a trial function"):
        femgpu.LinearProblem(L)
    with pytest.raises(FormError, match="the linear form has 2 arguments; expected one test function"):
        femgpu.LinearProblem(a, a)
    with pytest.raises(FormError, match=r"the linear form: v_0 lives in P1\(triangle\); expected P2"):
        femgpu.LinearProblem(a, ufl.TestFunction(other) * dx)
    with pytest.raises(FormError, match=r"the unknown u lives in P1\(triangle\); expected the trial function's P2"):
        femgpu.LinearProblem(a, L, u=femgpu.Function(other))
    with pytest.raises(DataError, match="the unknown is 3; expected"):
        femgpu.LinearProblem(a, L, u=3)
    for bcs, message in ((3, "bcs is 3; expected a list"), ([3], "bcs holds 3"), ("left", "bcs is 'left'")):
        with pytest.raises(DataError, match=message):
            femgpu.LinearProblem(a, L, bcs)
    with pytest.raises(OptionError, match="options_prefix None of type NoneType; expected a string"):
        femgpu.LinearProblem(a, L, options_prefix=None)
    for options in ("-ksp_type cg", {1: "cg"}):
        with pytest.raises(OptionError, match="petsc_options is .*; expected values by name"):
            femgpu.LinearProblem(a, L, petsc_options=options)
    with pytest.raises(OptionError, match="-femgpu_jacobain: no such option"):
        femgpu.LinearProblem(a, L, petsc_options={"femgpu_jacobain": "assembled"})
    assert not PETSc.Options().hasName("femgpu_jacobain")


def test_given_options_are_one_problems_own(set_options):
    """They reach solvers that read theirs late, leave the database as it was, and give way to the command line."""
    a, L, bc, _ = poisson()
    # The solver inside of the preconditioner reads its options in the first solve.
    inner_options = {"ksp_type": "gmres", "pc_type": "ksp", "ksp_ksp_type": "cg", "ksp_ksp_max_it": 7, "ksp_pc_type": "jacobi"}
    set_options(ksp_type="fgmres")
    before = PETSc.Options().getAll()
    first = femgpu.LinearProblem(a, L, bc, petsc_options=inner_options)
    second = femgpu.LinearProblem(a, L, bc, options_prefix="second_", petsc_options={"ksp_type": "cg"})
    assert PETSc.Options().getAll() == before
    first.solve()
    assert first.ksp.getType() == "fgmres"
    assert first.ksp.getPC().getKSP().getType() == "cg"
    assert first.ksp.getPC().getKSP().getTolerances()[3] == 7
    assert second.ksp.getType() == "cg"
    assert PETSc.Options().getAll() == before


def test_time_problem_takes_options_and_no_conditions():
    dm = femgpu.mesh.box((2,), cell="interval")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = (femgpu.time_derivative(u) - 1) * v * dx
    problem = femgpu.TimeProblem(F, u, bcs=None, petsc_options={"ts_type": "beuler", **LU})
    assert problem.ts.getType() == "beuler"
    problem.solve(t_end=1.0, dt=0.25)
    np.testing.assert_allclose(u.vec.array, 1.0, rtol=1e-10)
    assert problem.snes.getKSP().getPC().getType() == "lu"


def test_given_options_that_nobody_reads_are_named_once(recwarn):
    a, L, bc, _ = poisson()
    problem = femgpu.LinearProblem(a, L, bc, options_prefix="flow_", petsc_options={"ksp_typ": "cg", "pc_type": "jacobi"})
    with pytest.warns(UserWarning, match="petsc_options that no solver has read: -flow_ksp_typ; misspelt"):
        problem.solve()
    recwarn.clear()
    problem.solve()
    # Some are read in the first solve only, by solvers inside of others.
    options = {"pc_type": "ksp", "ksp_ksp_type": "cg", "ksp_pc_type": "jacobi", "ksp_ksp_max_it": 50, "snes_rtol": 1e-3}
    femgpu.LinearProblem(a, L, bc, petsc_options=options).solve()
    u, v = femgpu.Function(bc.space), ufl.TestFunction(bc.space)
    F = (femgpu.time_derivative(u) - 1) * v * dx
    femgpu.TimeProblem(F, u, petsc_options={"ts_type": "beuler", "ts_adapt_type": "none", **LU}).solve(t_end=0.2, dt=0.1)
    assert not [warning for warning in recwarn if "petsc_options" in str(warning.message)]
    wrong = femgpu.TimeProblem(F, u, petsc_options={"ts_typ": "beuler"})
    with pytest.warns(UserWarning, match="no solver has read: -ts_typ;") as said:
        wrong.solve(t_end=0.4, dt=0.1)
    assert said[0].filename == __file__


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("where, what", [("L", "right-hand side"), ("a", "matrix")])
def test_what_is_not_finite_is_named(where, what):
    """Of a problem that is linear no other initial guess helps."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((4, 4)), "Lagrange", 1)
    u, v, f = ufl.TrialFunction(V), ufl.TestFunction(V), femgpu.Function(V, name="f")
    f.vec.set(-1.0)
    root = ufl.sqrt(f)
    a, L = (root * u * v, v) if where == "a" else (u * v, root * v)
    with pytest.raises(
        SolverError, match=f"^KSP diverged: .*The {what} is not finite, .*look at the functions and numbers"
    ) as caught:
        femgpu.LinearProblem(a * dx, L * dx).solve()
    assert "initial guess" not in str(caught.value)


def test_a_failure_tells_the_norm_of_the_linear_solve():
    """Which is not zero; the nonlinear solver of a linear problem computes none."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((6, 5)), "Lagrange", 2)
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    options = {"ksp_type": "cg", "pc_type": "none", "ksp_max_it": 2}
    bc = femgpu.DirichletBC(V, 0.0, "boundary")
    problem = femgpu.LinearProblem(inner(grad(u), grad(v)) * dx, v * dx, bc, petsc_options=options)
    with pytest.raises(SolverError, match="^KSP diverged: KSP_DIVERGED_MAX_IT after 2 iterations, residual norm") as caught:
        problem.solve()
    assert "Look at -ksp_monitor -ksp_converged_reason" in str(caught.value) and "snes" not in str(caught.value).lower()
    (norm,) = re.findall(r"residual norm ([0-9.e+-]*[0-9])", str(caught.value))
    assert float(norm) > 0
