"""femgpu's Krylov methods against PETSc's native ones: the same history, and a clear reason where there is no solution."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu import DirichletBC, Function, FunctionSpace, NonlinearProblem, mesh
from femgpu.krylov import CG, Operator, Preconditioner, Vectors
from femgpu.runtime import for_comm

OWN = {"ksp_type": "python", "ksp_python_type": "femgpu.CG"}
Reason = PETSc.KSP.ConvergedReason


def jacobian(shift=1.0, prescribed=True, degree=2):
    """The matrix-free Jacobian of an elliptic problem with Dirichlet rows or none, and its null space where it has one."""
    dm = mesh.box((7, 6), cell="triangle")
    V = FunctionSpace(dm, "Lagrange", degree)
    x, u, v = femgpu.coordinates(dm), Function(V), ufl.TestFunction(V)
    F = inner((1 + x[0]) * grad(u), grad(v)) * dx
    if shift:
        F += shift * u * v * dx
    problem = NonlinearProblem(F, u, [DirichletBC(V, 0.0, 1)] if prescribed else [])
    problem.linearise(u.vec)
    return problem


def solve(problem, b, options, x=None):
    """A KSP with options; (solution, norms, reason)."""
    ksp = PETSc.KSP().create(comm=b.comm)
    ksp.setOptionsPrefix("krylov_")
    database = PETSc.Options("krylov_")
    given = {"ksp_rtol": 1e-9, **options}
    for name, value in given.items():
        database[name] = value
    ksp.setOperators(problem.jacobian)
    ksp.setFromOptions()
    ksp.setConvergenceHistory(1000)
    result = b.duplicate()
    if x is not None:
        x.copy(result)
        ksp.setInitialGuessNonzero(True)
    ksp.solve(b, result)
    for name in given:
        database.delValue(name)
    found = result.array.copy(), ksp.getConvergenceHistory().copy(), ksp.getConvergedReason()
    ksp.destroy()
    return found


def random_vec(problem, seed=7):
    """The same entries by global number on any number of ranks."""
    vec = problem.u.vec.duplicate()
    first, last = vec.getOwnershipRange()
    vec.setArray(np.random.default_rng(seed).standard_normal(vec.getSize())[first:last])
    return vec


def check_same(own, native, count=20):
    count = min(count, len(own[1]), len(native[1]))
    assert abs(len(own[1]) - len(native[1])) <= 1 and own[2] == native[2] > 0
    np.testing.assert_allclose(own[1][:count], native[1][:count], rtol=1e-8)
    np.testing.assert_allclose(own[0], native[0], atol=1e-7 * max(np.abs(native[0]).max(), 1))


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("guess", [False, True])
@pytest.mark.parametrize("pc", ["none", "jacobi", "python"])
def test_cg_has_the_history_of_petsc(pc, guess):
    problem = jacobian()
    b, x = random_vec(problem), random_vec(problem, 8) if guess else None
    norms = ("preconditioned", "unpreconditioned", "natural") if not guess else ("preconditioned",)
    for norm in norms:
        options = {"pc_type": pc, "ksp_norm_type": norm, "pc_python_type": "femgpu.AssembledPC", "assembled_pc_type": "gamg"}
        check_same(solve(problem, b, {**options, **OWN}, x), solve(problem, b, {**options, "ksp_type": "cg"}, x))


@pytest.mark.parallel([1, 2])
def test_cg_with_a_null_space():
    problem = jacobian(shift=0.0, prescribed=False)
    null = PETSc.NullSpace().create(constant=True, comm=problem.u.vec.comm)
    problem.jacobian.setNullSpace(null)
    b = random_vec(problem)
    null.remove(b)
    own, native = (solve(problem, b, {"pc_type": "jacobi", **kind}) for kind in (OWN, {"ksp_type": "cg"}))
    check_same(own, native)
    assert abs(problem.u.space.mesh.mpi.allreduce(own[0].sum())) < 1e-8


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


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_a_lag_only_adds_iterations(lag, rng):
    """Past the exact solution nothing moves: norms that are looked at late do no harm."""
    size, mpi = 50, PETSc.COMM_SELF.tompi4py()
    runtime = for_comm("", mpi)
    diagonal = rng.uniform(1, 2, size)
    diagonal[3:] = 1.0  # few eigenvalues: CG is exact after as many steps
    vectors = Vectors(runtime, size, mpi)
    buffer, b, x = runtime.upload(diagonal), runtime.upload(rng.standard_normal(size)), vectors.empty()
    multiply = vectors.kernel("multiply", buffer, b, x)
    seen = []

    def test(iteration, norm):
        seen.append(iteration)
        return int(norm < 1e-12)

    operator = Operator(lambda p, q: multiply.bound({2: p, 3: q})())
    ended = CG(vectors, lag).solve(operator, b, x, Preconditioner(), test, 1000)
    assert ended.reason == 1 and ended.iterations == seen[-1] + lag and seen == list(range(len(seen)))
    solution = runtime.read(x, np.empty(size))
    np.testing.assert_allclose(solution * diagonal, runtime.read(b, np.empty(size)), atol=1e-12)


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
