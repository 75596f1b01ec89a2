"""femgpu.CG against PETSc's native one: the same history, and a clear reason where there is no solution."""

import numpy as np
import pytest
import ufl
from krylov_support import check_same, jacobian, own, random_vec, solve
from petsc4py import PETSc
from ufl import dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, NonlinearProblem, mesh

OWN = own("CG")
Reason = PETSc.KSP.ConvergedReason


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("guess", [False, True])
@pytest.mark.parametrize("pc", ["none", "jacobi", "python"])
def test_cg_has_the_history_of_petsc(pc, guess):
    problem = jacobian()
    b, x = random_vec(problem), random_vec(problem, 8) if guess else None
    norms = ("preconditioned", "unpreconditioned", "natural") if not guess else ("preconditioned",)
    for norm in norms:
        options = {"pc_type": pc, "ksp_norm_type": norm, "pc_python_type": "femgpu.AssembledPC", "assembled_pc_type": "gamg"}
        check_same(solve(problem, b, {**options, **OWN}, x), solve(problem, b, {**options, "ksp_type": "cg"}, x), floor=0.0)


@pytest.mark.parallel([1, 2])
def test_cg_with_a_null_space():
    problem = jacobian(shift=0.0, prescribed=False)
    null = PETSc.NullSpace().create(constant=True, comm=problem.u.vec.comm)
    problem.jacobian.setNullSpace(null)
    b = random_vec(problem)
    null.remove(b)
    mine, native = (solve(problem, b, {"pc_type": "jacobi", **kind}) for kind in (OWN, {"ksp_type": "cg"}))
    check_same(mine, native, floor=0.0)
    assert abs(problem.u.space.mesh.mpi.allreduce(mine[0].sum())) < 1e-8


@pytest.mark.parallel([1, 2])
def test_cg_says_why_there_is_no_solution():
    problem = jacobian()
    b = random_vec(problem)
    zero = b.duplicate()
    zero.set(0.0)
    x, _, reason = solve(problem, zero, {"pc_type": "jacobi", **OWN})
    assert reason == Reason.CONVERGED_ATOL and not x.any()
    assert solve(problem, b, {"pc_type": "jacobi", "ksp_max_it": 3, **OWN})[2] == Reason.DIVERGED_MAX_IT
    indefinite = jacobian(shift=-40.0)
    assert solve(indefinite, b, {"pc_type": "none", **OWN})[2] == Reason.DIVERGED_INDEFINITE_MAT
    b.setValue(0, np.nan)
    b.assemble()
    assert solve(problem, b, {"pc_type": "jacobi", **OWN})[2] == Reason.DIVERGED_NANORINF


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt])
def test_exceptions_leave_the_problem_usable(exception):
    """PETSc refuses the third solve of a preconditioner whose first two have no end."""
    V = FunctionSpace(mesh.box((4, 4), cell="triangle"), "Lagrange", 1)
    u, v = Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + u**3 * v * dx - v * dx
    problem = NonlinearProblem(F, u, DirichletBC(V, 0.0), petsc_options={**OWN, "pc_type": "jacobi"})
    problem.solve()
    expected, armed = u.vec.array_r.copy(), [True]

    def monitor(ksp, iteration, norm):
        if armed and iteration == 2:
            raise exception("mine")

    problem.snes.getKSP().setMonitor(monitor)
    for _ in range(3):
        u.vec.set(0.0)
        with pytest.raises(exception, match="mine"):
            problem.solve()
    armed.clear()
    u.vec.set(0.0)
    problem.solve()
    assert np.abs(u.vec.array_r - expected).max() <= 1e-9


def test_as_a_smoother_it_computes_no_norm():
    """Multigrid asks its smoothers for a number of iterations and no norm."""
    V = FunctionSpace(mesh.box((12, 12), cell="triangle"), "Lagrange", 1)
    counts = []
    for smoother in ({"ksp_type": "cg"}, OWN):
        u, v = Function(V), ufl.TestFunction(V)
        options = {"ksp_type": "fgmres", "pc_type": "gamg", "mg_levels_pc_type": "jacobi", "mg_levels_ksp_max_it": 2}
        options |= {f"mg_levels_{name}": value for name, value in smoother.items()}
        F = inner(grad(u), grad(v)) * dx + u**3 * v * dx - v * dx
        problem = NonlinearProblem(F, u, DirichletBC(V, 0.0), petsc_options=options)
        problem.solve()
        counts.append(problem.snes.getLinearSolveIterations())
    assert counts[0] == counts[1]
