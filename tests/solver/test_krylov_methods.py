"""femgpu's Krylov methods besides CG against PETSc's: the same history, and a clear reason where there is no solution."""

import numpy as np
import pytest
from krylov_support import ASSEMBLED, check_same, jacobian, own, random_vec, solve, solver
from petsc4py import PETSc

from femgpu.errors import OptionError

Reason = PETSc.KSP.ConvergedReason
NATIVE = {"GMRES": "gmres", "FGMRES": "fgmres", "BiCGStab": "bcgs", "MINRES": "minres", "Chebyshev": "chebyshev"}
# Chebyshev's default range is a smoother's.
RANGE = {"ksp_chebyshev_esteig": "0.3,0.05,0,1.1"}


def both(name, problem, b, options, x=None):
    """femgpu's solve and PETSc's."""
    return [solve(problem, b, {**options, **kind}, x) for kind in (own(name), {"ksp_type": NATIVE[name]})]


def nudge(b):
    """The vector with its last digits changed."""
    other = b.copy()
    signs = np.random.default_rng(1).choice([-1, 1], other.getSize())
    other.array *= 1 + 2.2e-16 * signs[slice(*other.getOwnershipRange())]
    return other


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("name", NATIVE)
def test_the_history_is_that_of_petsc(name):
    """Every preconditioner, side and norm; the solution of 40 steps where there are more."""
    problem = jacobian()
    b = random_vec(problem)
    sides = {"GMRES": ("left", "right"), "BiCGStab": ("left", "right")}.get(name, (None,))
    norms = {"MINRES": ("preconditioned", "unpreconditioned"), "Chebyshev": ("preconditioned", "unpreconditioned")}.get(
        name, (None,)
    )
    for pc in ({"pc_type": "none"}, {"pc_type": "jacobi"}, ASSEMBLED):
        for side in sides:
            for norm in norms:
                given = {"ksp_pc_side": side, "ksp_norm_type": norm}
                options = pc | RANGE | {option: value for option, value in given.items() if value} | {"ksp_max_it": 40}
                mine, native = both(name, problem, b, options)
                nudged = solve(problem, nudge(b), {**options, "ksp_type": "bcgs"})[1] if name == "BiCGStab" else None
                # |b - A x| itself has the roundings of A x: PETSc's moves by as much where a last digit of b changes.
                floor = 1e-14 if (name, norm) == ("MINRES", "unpreconditioned") else 2e-15
                check_same(mine, native, converged=native[2] > 0, nudged=nudged, floor=floor)
                if pc is ASSEMBLED and name != "Chebyshev":
                    assert mine[2] > 0


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("name", ["GMRES", "FGMRES", "BiCGStab"])
def test_unsymmetric_operators(name):
    problem = jacobian(wind=30.0)
    b, x = random_vec(problem), random_vec(problem, 8)
    for guess in (None, x):
        options = {"pc_type": "jacobi", "ksp_gmres_restart": 200}
        nudged = solve(problem, nudge(b), {**options, "ksp_type": "bcgs"}, guess)[1] if name == "BiCGStab" else None
        check_same(*both(name, problem, b, options, guess), nudged=nudged)


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"ksp_orthogonalization": "mgs"},
        {"ksp_orthogonalization_cgs_refinement_type": "refine_always"},
        {"ksp_orthogonalization_cgs_refinement_type": "refine_ifneeded"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_gmres_with_restarts(options):
    """Past a restart the norms are computed anew, in PETSc too."""
    problem = jacobian(wind=10.0)
    b = random_vec(problem)
    for name in ("GMRES", "FGMRES"):
        mine, native = both(name, problem, b, {"pc_type": "jacobi", "ksp_gmres_restart": 7, "ksp_max_it": 30, **options})
        check_same(mine, native, count=31, converged=False)
        np.testing.assert_allclose(mine[0], native[0], atol=1e-9)


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("name", ["MINRES", "GMRES"])
def test_indefinite_operators(name):
    problem = jacobian(shift=-60.0, degree=1)
    # With norms that are read together a solve goes beyond the last iteration, which shows at so large a tolerance.
    options = {"pc_type": "none", "ksp_gmres_restart": 300, "ksp_rtol": 1e-4, "femgpu_ksp_check": 1}
    b = random_vec(problem)
    mine, native = both(name, problem, b, options)
    other = solve(problem, nudge(b), {**options, "ksp_type": NATIVE[name]})
    check_same(mine, native, rounding=np.abs(native[0] - other[0]).max())


def test_a_preconditioner_that_changes():
    problem = jacobian()
    b = random_vec(problem)
    options = {"pc_type": "ksp", "ksp_ksp_type": "cg", "ksp_ksp_max_it": 4, "ksp_pc_type": "jacobi"}
    check_same(*both("FGMRES", problem, b, options))


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("norm", ["preconditioned", "unpreconditioned", "natural"])
def test_conjugate_gradients_with_a_preconditioner_that_changes(norm):
    problem = jacobian()
    b = random_vec(problem)
    options = {"pc_type": "ksp", "ksp_ksp_type": "cg", "ksp_ksp_max_it": 4, "ksp_pc_type": "jacobi", "ksp_norm_type": norm}
    native = {"ksp_type": "fcg", "ksp_fcg_mmax": 1, "ksp_fcg_truncation_type": "standard"}
    check_same(*(solve(problem, b, {**options, **kind}) for kind in (own("FCG"), native)))


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("name", [*NATIVE, "GMRES-right"])
def test_null_spaces_and_guesses(name):
    problem = jacobian(shift=0.0, prescribed=False)
    null = PETSc.NullSpace().create(constant=True, comm=problem.u.vec.comm)
    problem.jacobian.setNullSpace(null)
    b, x = random_vec(problem), random_vec(problem, 8)
    null.remove(b)
    side = {"ksp_pc_side": "right"} if "right" in name else {}
    options = {"pc_type": "jacobi", "ksp_rtol": 1e-6, "ksp_gmres_restart": 300, "ksp_max_it": 800, **RANGE, **side}
    for guess in (None, x):
        mine, native = both(name.removesuffix("-right"), problem, b, options, guess)
        assert mine[2] == native[2] > 0
        np.testing.assert_allclose(mine[1][:15], native[1][:15], rtol=1e-8)
        total = problem.u.space.mesh.mpi.allreduce((mine[0] - native[0]).sum())
        if not side:
            assert abs(total) < 1e-7


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("name", NATIVE)
def test_it_says_why_there_is_no_solution(name):
    problem = jacobian(degree=1)
    b, zero = random_vec(problem), random_vec(problem)
    zero.set(0.0)
    options = {"pc_type": "jacobi", **own(name)}
    x, norms, reason = solve(problem, zero, options)
    assert reason == Reason.CONVERGED_ATOL and not x.any() and list(norms) == [0.0]
    assert solve(problem, b, {**options, "ksp_max_it": 3})[2] == Reason.DIVERGED_MAX_IT
    assert solve(problem, b, {**options, "ksp_rtol": 1e-30, "ksp_atol": 1e3})[2] == Reason.CONVERGED_ATOL
    b.setValue(0, np.nan)
    b.assemble()
    assert solve(problem, b, options)[2] == Reason.DIVERGED_NANORINF


@pytest.mark.parallel([1, 2])
def test_operators_with_a_nan_end_at_the_first_look():
    problem = jacobian(degree=1)
    state = problem.u.vec.duplicate()
    b = random_vec(problem)
    nan = PETSc.Mat().createPython((problem.jacobian.getSizes()), NanMatrix(), comm=b.comm)
    nan.setUp()
    for name in ("CG", *NATIVE):
        with solver([nan], {"pc_type": "none", "ksp_max_it": 100, **own(name)}) as ksp:
            ksp.solve(b, state)
            assert ksp.getConvergedReason() == Reason.DIVERGED_NANORINF and ksp.getIterationNumber() <= 2


@pytest.mark.parallel([1, 2])
def test_norms_may_be_looked_at_together():
    """History, reason and number of iterations stay, and the solution but for what more steps do to it; a NaN is found in the
    first look."""
    problem = jacobian(degree=1)
    b = random_vec(problem)
    for name in ("CG", "FCG", *NATIVE):
        options = {"pc_type": "jacobi", "ksp_gmres_restart": 7, "ksp_rtol": 1e-6, **RANGE, **own(name)}
        one, several = (solve(problem, b, {**options, "femgpu_ksp_check": check}) for check in (1, 5))
        assert several[2] == one[2] > 0
        np.testing.assert_allclose(several[1], one[1], rtol=1e-6)
        np.testing.assert_allclose(several[0], one[0], atol=1e-4 * np.abs(one[0]).max())
    nan = PETSc.Mat().createPython((problem.jacobian.getSizes()), NanMatrix(), comm=b.comm)
    nan.setUp()
    for name in ("CG", *NATIVE):
        with solver([nan], {"pc_type": "none", "femgpu_ksp_check": 5, **own(name)}) as ksp:
            ksp.solve(b, b.duplicate())
            assert ksp.getConvergedReason() == Reason.DIVERGED_NANORINF and len(ksp.getConvergenceHistory()) <= 2


class NanMatrix:
    """Makes NaN of everything."""

    def mult(self, mat, x, y):
        y.set(np.nan)


def test_preconditioners_that_fail_or_are_indefinite():
    problem = jacobian(degree=1)
    b = random_vec(problem)
    singular = PETSc.Mat().createAIJ(problem.jacobian.getSizes(), nnz=1, comm=b.comm)
    singular.setUp()
    for row in range(*singular.getOwnershipRange()):
        singular.setValue(row, row, 0.0 if row == 3 else -1.0)
    singular.assemble()
    for name in NATIVE:
        with solver([problem.jacobian, singular], {"pc_type": "none", **own(name)}) as ksp:
            ksp.getPC().setType("lu")
            ksp.solve(b, b.duplicate())
            assert ksp.getConvergedReason() == Reason.DIVERGED_PCSETUP_FAILED
    with solver([problem.jacobian, singular], {"pc_type": "jacobi", **own("MINRES")}) as ksp:
        ksp.solve(b, b.duplicate())
        assert ksp.getConvergedReason() == Reason.DIVERGED_INDEFINITE_PC


def test_an_exact_solution_ends_it():
    """A multiple of the identity: the first direction is the solution; PETSc's MINRES and BiCGStab end with the same reason."""
    b = PETSc.Vec().createSeq(20)
    b.setRandom()
    identity = PETSc.Mat().createConstantDiagonal(((20, 20), (20, 20)), 2.0, comm=PETSc.COMM_SELF)
    for name in ("GMRES", "FGMRES", "BiCGStab", "MINRES"):
        x = b.duplicate()
        with solver([identity], {"pc_type": "none", **own(name)}) as ksp:
            ksp.solve(b, x)
            assert ksp.getConvergedReason() > 0 and ksp.getIterationNumber() <= 1
            np.testing.assert_allclose(x.array, b.array / 2, rtol=1e-14)


def test_singular_operators_break_down():
    """A zero operator: no direction leads anywhere."""
    zero = PETSc.Mat().createConstantDiagonal(((20, 20), (20, 20)), 0.0, comm=PETSc.COMM_SELF)
    b = PETSc.Vec().createSeq(20)
    b.set(1.0)
    for name in ("GMRES", "FGMRES", "BiCGStab", "MINRES", "Chebyshev"):
        with solver([zero], {"pc_type": "none", **own(name)}) as ksp:
            ksp.solve(b, b.duplicate())
            assert ksp.getConvergedReason() == Reason.DIVERGED_BREAKDOWN, name


@pytest.mark.parametrize(
    "options",
    [
        {"ksp_chebyshev_eigenvalues": "0.05,2.2"},
        {"ksp_chebyshev_esteig": "0.05,1.2", "ksp_chebyshev_esteig_steps": 6},
        {"ksp_chebyshev_esteig_noisy": 0},
        {"ksp_chebyshev_kind": "fourth"},
    ],
    ids=["given", "steps", "rhs", "fourth"],
)
def test_chebyshev_reads_the_options_of_petsc(options):
    problem = jacobian()
    b = random_vec(problem)
    for pc in ({"pc_type": "jacobi"}, ASSEMBLED):
        mine, native = both("Chebyshev", problem, b, {"ksp_max_it": 12, "ksp_rtol": 1e-14, **pc, **options})
        check_same(mine, native, converged=False)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("GMRES", {"ksp_gmres_restart": 0}, "expected an integer of at least 1"),
        ("Chebyshev", {"ksp_chebyshev_esteig_steps": 0}, "expected an integer of at least 1"),
        ("Chebyshev", {"ksp_chebyshev_kind": "opt_fourth"}, "expected one of first, fourth"),
        ("Chebyshev", {"ksp_chebyshev_eigenvalues": "2,1"}, "expected a range of one sign"),
        ("Chebyshev", {"ksp_chebyshev_esteig": "1,2,3"}, "expected 0, 2 or 4 numbers"),
    ],
)
def test_options_that_are_refused(name, options, message):
    problem = jacobian(degree=1)
    with pytest.raises(PETSc.Error) as caught:
        with solver([problem.jacobian], {**own(name), **options}):
            pass
    assert isinstance(caught.value.__cause__, OptionError) and message in str(caught.value.__cause__)


@pytest.mark.parametrize("kind", ["first", "fourth"])
def test_chebyshev_as_a_smoother(kind):
    """Multigrid asks for a number of steps and no norm; the residuals of the outer method are the same."""
    problem = jacobian(degree=1)
    b = random_vec(problem)
    histories = []
    for smoother in ({"ksp_type": "chebyshev"}, own("Chebyshev")):
        options = {**ASSEMBLED, "ksp_type": "cg"}
        options |= {f"assembled_mg_levels_{name}": value for name, value in smoother.items()}
        options |= {"assembled_mg_levels_pc_type": "jacobi", "assembled_mg_levels_ksp_chebyshev_kind": kind}
        options |= {"assembled_mg_levels_ksp_chebyshev_eigenvalues": "0.2,2.2"}
        histories.append(solve(problem, b, options)[1])
    np.testing.assert_allclose(histories[1][:8], histories[0][:8], rtol=1e-8)
