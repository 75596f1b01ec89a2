"""What femgpu's Krylov methods keep on the device: preconditioners, state between solves, norms that are looked at late."""

import gc
import re

import numpy as np
import pytest
import ufl
from krylov_support import check_same, jacobian, own, random_vec, solve, solver
from petsc4py import PETSc
from ufl import dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, NonlinearProblem, mesh
from femgpu.krylov import CG, GMRES, MINRES, BiCGStab, Chebyshev, Operator, Preconditioner, Vectors
from femgpu.krylov.basis import Basis
from femgpu.krylov.hessenberg import Hessenberg
from femgpu.mesh.garbage import clean_up
from femgpu.runtime import current, for_comm

METHODS = ("CG", "GMRES", "FGMRES", "BiCGStab", "MINRES", "Chebyshev")


class Halves:
    """A preconditioner that divides by two, and counts how."""

    def __init__(self):
        self.calls = {"vecs": 0, "buffers": 0}

    def apply(self, pc, x, y):
        self.calls["vecs"] += 1
        x.copy(y)
        y.scale(0.5)

    def apply_buffers(self, pc, r, z):
        self.calls["buffers"] += 1
        runtime = current()
        host = np.empty(r.size // 8)
        runtime.write(z, 0.5 * runtime.read(r, host))


@pytest.mark.parametrize("name", METHODS)
def test_python_preconditioners_get_buffers(name):
    problem = jacobian(degree=1)
    b, x = random_vec(problem), problem.u.vec.duplicate()
    with solver([problem.jacobian], {**own(name), "ksp_max_it": 5}) as ksp:
        context = Halves()
        ksp.getPC().setType("python")
        ksp.getPC().setPythonContext(context)
        ksp.solve(b, x)
        assert context.calls["vecs"] == 0 < context.calls["buffers"]


@pytest.mark.parametrize("name", METHODS)
def test_what_a_solve_copies(name):
    """Right-hand side and solution, and numbers of each iteration; nothing is allocated after the first solve."""
    problem = jacobian(degree=1)
    b, x, runtime = random_vec(problem), problem.u.vec.duplicate(), current()
    options = {"pc_type": "jacobi", "ksp_max_it": 6, "ksp_rtol": 1e-30, "ksp_gmres_restart": 10, **own(name)}
    with solver([problem.jacobian], options) as ksp:
        ksp.solve(b, x)
        before = runtime.num_copies, runtime.num_allocations, runtime.programs.num_programs
        ksp.solve(b, x)
        copies = runtime.num_copies - before[0]
        # One read per iteration and one of the first norm, b, x; scalars or coefficients that are set.
        assert ksp.getIterationNumber() == 6 and copies <= 7 + 2 + 1
        assert (runtime.num_allocations, runtime.programs.num_programs) == before[1:]


@pytest.mark.parametrize("name", METHODS)
def test_solvers_let_their_memory_go(name):
    """At once, without Python's collector: nothing that they keep leads back to them."""
    problem = jacobian(degree=1)
    b, x, runtime, held = random_vec(problem), problem.u.vec.duplicate(), current(), []
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):  # what the operator keeps, and no more
            with solver([problem.jacobian], {"pc_type": "none", **own(name)}) as ksp:
                ksp.solve(b, x)
            clean_up(b.comm)
            runtime.drop_dead()
            held.append(runtime.allocated_bytes)
    finally:
        gc.enable()
    assert held[0] == held[1]


@pytest.mark.parallel([1, 2])
def test_the_diagonal_follows_the_matrix():
    """It is computed once for each state of the matrix, as PETSc's is, and stays where the preconditioner shall."""
    problem = jacobian(degree=1)
    b, state = random_vec(problem), random_vec(problem, 3)
    launches = []
    options = {"pc_type": "jacobi", **own("GMRES")}
    with solver([problem.jacobian], options) as ksp:
        for change in (False, False, True):
            if change:
                problem.linearise(state)
            x = b.duplicate()
            before = current().num_launches
            ksp.solve(b, x)
            launches.append((current().num_launches - before) / ksp.getIterationNumber())
    assert launches[1] < launches[0] and launches[2] > launches[1]


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"pc_jacobi_abs": 1},
        {"pc_jacobi_type": "rowl1", "femgpu_pmat": "assembled"},
        {"pc_jacobi_type": "rowmax", "femgpu_pmat": "assembled"},
        {"pc_type": "pbjacobi"},
        {"pc_type": "pbjacobi", "femgpu_pmat": "assembled"},
    ],
    ids=["abs", "rowl1", "rowmax", "blocks", "assembled blocks"],
)
def test_jacobi_and_its_blocks(options):
    """On an elastic body, by its solver; the indefinite one has negative diagonal entries."""
    dm = mesh.box((5, 4), cell="triangle")
    V = FunctionSpace(dm, "Lagrange", 1, shape=(2,))
    u, v = Function(V), ufl.TestFunction(V)
    strain, shift = ufl.sym(grad(u)), -300.0 if "pc_jacobi_abs" in options else 1.0
    F = inner(strain, grad(v)) * dx + 4 * ufl.tr(strain) * ufl.div(v) * dx + shift * inner(u, v) * dx
    histories = []
    for kind in (own("GMRES"), {"ksp_type": "gmres"}):
        given = {"pc_type": "jacobi", "ksp_rtol": 1e-9, "ksp_gmres_restart": 200, **options, **kind}
        problem = NonlinearProblem(F, u, DirichletBC(V, np.zeros(2), 1), petsc_options=given)
        problem.linearise(u.vec)
        ksp, b = problem.snes.getKSP(), random_vec(problem)
        amat, pmat = problem.snes.getJacobian()[:2]
        ksp.setOperators(amat, pmat)
        ksp.setConvergenceHistory(300)
        x = b.duplicate()
        with problem.given_options.inserted():
            ksp.solve(b, x)
        histories.append((x.array.copy(), ksp.getConvergenceHistory().copy(), ksp.getConvergedReason()))
    check_same(*histories)


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_monitors_see_the_solution(name):
    """The residual that PETSc computes from the solution so far has the norm that the method tells."""
    problem = jacobian(degree=1)
    b, x = random_vec(problem), random_vec(problem, 8)
    side = {"ksp_pc_side": "right"} if name in ("GMRES", "BiCGStab") else {}
    options = {"pc_type": "jacobi", "ksp_norm_type": "unpreconditioned", "ksp_max_it": 8, "femgpu_ksp_check": 3}
    options |= {"ksp_gmres_restart": 5, **side, **own(name)}
    pairs = []
    with solver([problem.jacobian], options) as ksp:
        ksp.setMonitor(lambda ksp, iteration, norm: pairs.append((norm, ksp.buildResidual().norm())))
        ksp.setInitialGuessNonzero(True)
        ksp.solve(b, x)
        assert ksp.getIterationNumber() == 8 and len(pairs) == 9
    norms, residuals = np.transpose(pairs)
    np.testing.assert_allclose(residuals, norms, rtol=1e-8)


@pytest.mark.parametrize(("check", "group"), [(0, 64), (1, None), (2, None), (3, 64), (8, None)])
def test_norms_that_are_looked_at_late(check, group, rng):
    """The outcome is that of the iteration that passed; others than GMRES go on, but not past the limit. Past the exact solution
    nothing moves. Groups are also those of a GPU."""
    size, mpi = 301, PETSc.COMM_SELF.tompi4py()
    runtime = for_comm("", mpi)
    entries = rng.uniform(1, 2, size)
    entries[3:] = 1.0  # few eigenvalues: the solution is exact after as many steps
    scales = rng.uniform(1, 2, size)
    vectors = Vectors(runtime, size, mpi, group)
    buffer, b, x = runtime.upload(entries / scales), runtime.upload(rng.standard_normal(size)), vectors.empty()
    multiply = vectors.kernel("multiply", buffer, b, x)
    applied = []

    def apply(p, q):
        applied.append(1)
        multiply.bound({2: p, 3: q})()

    for make in (CG, GMRES, BiCGStab, MINRES, Chebyshev):
        method = make(vectors, check=check)
        if make is Chebyshev:
            method.least, method.most = 0.9, 2.1
        test = Recorder(1e-10)
        applied.clear()
        ended = method.solve(Operator(apply), b, x, Preconditioner(diagonal=runtime.upload(scales)), test)
        assert ended.reason == 1 and test.seen == list(range(len(test.seen))) and ended.iterations == test.seen[-1]
        late = len(applied) / (2 if make is BiCGStab else 1) - ended.iterations
        assert late <= (0 if check == 1 else 2 * (check or 1))
        solution = runtime.read(x, np.empty(size))
        np.testing.assert_allclose(solution * entries / scales, runtime.read(b, np.empty(size)), atol=1e-9)
        test.limit = 1
        assert method.solve(Operator(apply), b, x, Preconditioner(), test).iterations == 1


@pytest.mark.parametrize("norm", ["preconditioned", "unpreconditioned", "natural"])
def test_cg_between_catching_up(norm, rng):
    """x takes several steps at a time: it is that of numpy after any number of them, with prescribed entries and without."""
    size, mpi = 301, PETSc.COMM_SELF.tompi4py()
    runtime, vectors = for_comm("", mpi), Vectors(for_comm("", mpi), size, mpi, 32)
    entries, m, rhs, first = rng.uniform(1, 20, size), rng.uniform(1, 2, size), *rng.standard_normal((2, size))
    mask, scale = (rng.random(size) < 0.3).astype(np.uint8), 3.0
    diagonal = np.where(mask, scale, entries)
    free = runtime.upload(np.where(mask, 0.0, entries))
    b, p, q = runtime.upload(rhs), *(np.empty(size) for _ in range(2))
    method, x = CG(vectors), vectors.empty()
    apply = vectors.kernel("multiply", runtime.upload(diagonal), b, x)

    def add(source, target, dots):
        """q += A p and the slots of p.q, over theta by the host."""
        share = runtime.read(free, np.empty(size)) * runtime.read(source, p)
        slots = runtime.read(dots, np.empty(dots.size // 8))
        runtime.write(target, runtime.read(target, q) + share * slots[-2] / slots[-1])
        slots[7] += share @ p
        runtime.write(dots, slots)

    for given in (None, add):
        operator = Operator(
            lambda p, q: apply.bound({2: p, 3: q})(), given, runtime.upload(mask), runtime.upload(np.array([scale]))
        )
        for count in (0, 1, 7, 8, 9, 17):
            runtime.write(x, first)
            test = Recorder(0.0)
            test.limit = count
            method.solve(operator, b, x, Preconditioner(diagonal=runtime.upload(m)), test, norm=norm, guess=True)
            wanted, norms = conjugate_gradients(diagonal, rhs, first.copy(), m, count, norm)
            np.testing.assert_allclose(runtime.read(x, np.empty(size)), wanted, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(test.norms, norms, rtol=1e-9)


def conjugate_gradients(diagonal, b, x, m, count, norm):
    """The plain method: the iterate and all norms."""
    r = b - diagonal * x
    p, before, norms = 0.0, 1.0, []
    for iteration in range(count + 1):
        z = m * r
        norms.append({"natural": r @ z, "preconditioned": z @ z, "unpreconditioned": r @ r}[norm] ** 0.5)
        if iteration == count:
            return x, norms
        p = z + r @ z / before * p
        before, alpha = r @ z, r @ z / (p @ (diagonal * p))
        x, r = x + alpha * p, r - alpha * diagonal * p


class Recorder:
    """A test for a norm, and the iterations that it saw.

    Args:
        bound: of the norm.
    """

    def __init__(self, bound):
        self.bound, self.limit, self.seen, self.norms = bound, 1000, [], []

    def __call__(self, iteration, norm):
        self.report(iteration, norm)
        return self.check(iteration, norm)

    def report(self, iteration, norm):
        self.seen.append(iteration)
        self.norms.append(norm)

    def check(self, iteration, norm):
        return int(norm < self.bound or iteration >= self.limit)


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("size", [1, 130, 1001])
def test_a_basis_is_that_of_numpy(size, modified, rng):
    """More vectors than one chunk; columns of the triangular factor."""
    mpi = PETSc.COMM_SELF.tompi4py()
    runtime, count = for_comm("", mpi), min(size, 11)
    given = rng.standard_normal((size, count))
    vectors = Vectors(runtime, size, mpi)
    basis = Basis(vectors, count, modified, "always")
    column, upper = runtime.upload(np.zeros(count + 1)), np.zeros((count, count))
    for k in range(count):
        runtime.write(basis.w, np.ascontiguousarray(given[:, k]))
        if k == 0:
            basis.start(column)
        else:
            basis.orthogonalise(k, column)
        upper[: k + 1, k] = runtime.read(column, np.empty(k + 1))
    upper[np.diag_indices(count)] **= 0.5
    expected, factor = np.linalg.qr(given)
    signs = np.sign(np.diag(factor))
    np.testing.assert_allclose(upper, signs[:, None] * factor, atol=1e-12)
    coefficients, target = rng.standard_normal(count), runtime.upload(np.ones(size))
    basis.combine(coefficients, target)
    np.testing.assert_allclose(runtime.read(target, np.empty(size)), 1 + expected @ (signs * coefficients), atol=1e-12)


def test_least_squares_are_those_of_numpy(rng):
    matrix = np.triu(rng.standard_normal((7, 6)), -1)
    problem = Hessenberg(9)
    for _ in range(2):
        problem.begin(2.0)
        for k in range(6):
            assert problem.add(matrix[: k + 1, k], matrix[k + 1, k])
            right = 2.0 * np.eye(k + 2)[0]
            expected, square = np.linalg.lstsq(matrix[: k + 2, : k + 1], right, rcond=None)[:2]
            np.testing.assert_allclose(problem.solution(), expected, atol=1e-10)
            assert problem.norm == pytest.approx(square[0] ** 0.5)
    np.testing.assert_allclose(np.sort(problem.eigenvalues()), np.sort(np.linalg.eigvals(matrix[:6])), atol=1e-10)
    problem.begin(1.0)
    assert not problem.add(np.zeros(1), 0.0) and problem.count == 0


def test_the_view_says_what_is_copied(tmp_path):
    problem = jacobian(degree=1)
    b = random_vec(problem)
    texts = []
    for name, pc in (("GMRES", "jacobi"), ("Chebyshev", "none"), ("BiCGStab", "mat")):
        with solver([problem.jacobian], {**own(name), "pc_type": pc, "ksp_max_it": 2}) as ksp:
            ksp.solve(b, b.duplicate())
            viewer = PETSc.Viewer().createASCII(str(tmp_path / "view"), comm=b.comm)
            ksp.view(viewer)
            viewer.destroy()
            texts.append((tmp_path / "view").read_text())
    assert "restart 30, classical Gram-Schmidt, preconditioned on the device" in texts[0]
    assert "first kind, eigenvalues " in texts[1] and "(estimated in 10 steps of GMRES)" in texts[1]
    assert "preconditioned by PETSc, with two copies per iteration" in texts[2]
    # The view of a problem counts copies, and names vectors that cross at each product only where they do.
    for kind, told in (
        (own("CG"), "right-hand sides and solutions of KSP, copied once each"),
        ({"ksp_type": "cg"}, "SNES and KSP, copied"),
    ):
        with solver([problem.jacobian], kind) as ksp:
            problem.snes.setKSP(ksp)
            assert told in problem.report() and re.search(r"allocations so far; [1-9]\d* copies, [1-9]\d* fills", problem.report())


def test_sides_and_norms_that_are_not_there():
    problem = jacobian(degree=1)
    b = random_vec(problem)
    for name, options in (("CG", {"ksp_pc_side": "right"}), ("FGMRES", {"ksp_norm_type": "preconditioned"})):
        with pytest.raises(PETSc.Error, match="does not support"):
            solve(problem, b, {**own(name), **options})
