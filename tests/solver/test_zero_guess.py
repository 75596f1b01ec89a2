"""Solves from zero over a preconditioner on the device: PETSc writes no zeros, and nothing that stood in the solution matters."""

import numpy as np
import pytest
import ufl
from krylov_support import solver
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu import petsc_ksp
from femgpu.errors import SolverError

PMG = {"pc_type": "python", "pc_python_type": "femgpu.PMG", "ksp_rtol": 1e-10}
OWN = PMG | {"ksp_type": "python", "ksp_python_type": "femgpu.CG"}


@pytest.fixture
def system(rng):
    """The matrix of a diffusion, a right-hand side, and a solution full of NaN."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((5, 5)), "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    problem = femgpu.NonlinearProblem(inner(grad(u), grad(v)) * dx, u, femgpu.DirichletBC(V, 0.0))
    problem.linearise(u.vec)
    b, x = problem.jacobian.createVecs()
    b.setArray(rng.uniform(-1, 1, b.getLocalSize()))
    problem.insert_boundary_values(b)
    x.set(np.nan)
    return problem, b, x


def solve(ksp, b, x):
    """Times that PETSc filled a vector within KSPSolve, which has to converge."""
    PETSc.Log.begin()
    fills = PETSc.Log.Event("VecSet").getPerfInfo()["count"]
    ksp.solve(b, x)
    assert ksp.getConvergedReason() > 0
    return PETSc.Log.Event("VecSet").getPerfInfo()["count"] - fills


def reference(problem, b, x):
    """The solution, by a method of PETSc's."""
    with solver([problem.jacobian], PMG | {"ksp_type": "cg", "ksp_rtol": 1e-13}) as ksp:
        ksp.solve(b, x)
        return x.copy()


def test_nothing_is_zeroed(system):
    problem, b, x = system
    with solver([problem.jacobian], OWN) as ksp:
        solve(ksp, b, x)
        first, iterations = x.array.copy(), ksp.getIterationNumber()
        assert np.isfinite(first).all() and iterations > 2
        x.set(np.nan)
        assert solve(ksp, b, x) == 0 and not ksp.getInitialGuessNonzero()
        assert ksp.getIterationNumber() == iterations and np.array_equal(x.array, first)
    # PETSc's own methods get their zeros.
    with solver([problem.jacobian], PMG | {"ksp_type": "cg"}) as ksp:
        x.set(np.nan)
        assert solve(ksp, b, x) > 0
        assert abs(x.array - first).max() <= 1e-8 * abs(first).max()


def test_guesses_are_guesses(system):
    problem, b, x = system
    with solver([problem.jacobian], OWN) as ksp:
        solve(ksp, b, x)
        solution, iterations = x.array.copy(), ksp.getIterationNumber()
        ksp.setInitialGuessNonzero(True)
        x.scale(1 + 1e-6)
        solve(ksp, b, x)
        assert ksp.getIterationNumber() < iterations and ksp.getInitialGuessNonzero()
        assert abs(x.array - solution).max() <= 1e-8 * abs(solution).max()
        # M b as a guess.
        ksp.setInitialGuessNonzero(False)
        ksp.setInitialGuessKnoll(True)
        x.set(np.nan)
        solve(ksp, b, x)
        assert abs(x.array - solution).max() <= 1e-8 * abs(solution).max()


def test_a_solve_that_does_not_begin_ends_with_zeros(system, monkeypatch):
    problem, b, x = system
    with solver([problem.jacobian], OWN) as ksp:
        ksp.setUp()
        monkeypatch.setattr(petsc_ksp, "has_failed", lambda pc: True)
        ksp.solve(b, x)
        assert ksp.getConvergedReason() == PETSc.KSP.ConvergedReason.DIVERGED_PCSETUP_FAILED
        assert not x.array.any() and not ksp.getInitialGuessNonzero()


def test_after_an_error_the_flag_is_what_it_was(system, monkeypatch):
    problem, b, x = system

    def fail(*arguments):
        raise SolverError("planted")

    with solver([problem.jacobian], OWN) as ksp:
        ksp.setUp()
        with monkeypatch.context() as patch:
            patch.setattr(ksp.getPythonContext(), "run", fail)
            with pytest.raises((PETSc.Error, SolverError)):
                ksp.solve(b, x)
        # A guess counts also where nobody has told PETSc that the solve is over.
        assert not ksp.getInitialGuessNonzero()
        solution = reference(problem, b, x)
        for _ in range(2):
            ksp.setInitialGuessNonzero(True)
            solution.copy(x)
            solve(ksp, b, x)
            assert ksp.getIterationNumber() == 0 and ksp.getInitialGuessNonzero()
        ksp.setInitialGuessNonzero(False)
        with monkeypatch.context() as patch:
            patch.setattr(ksp.getPythonContext(), "run", fail)
            with pytest.raises((PETSc.Error, SolverError)):
                ksp.solve(b, x)
        petsc_ksp.leave_solve(ksp)
        assert not ksp.getInitialGuessNonzero()
        solve(ksp, b, x)
        assert np.isfinite(x.array).all()
    # One that PETSc ends before the method begins.
    with solver([problem.jacobian], OWN) as ksp:
        with pytest.raises(PETSc.Error):
            ksp.solveTranspose(b, x)
        x.set(np.nan)
        solve(ksp, b, x)
        assert np.isfinite(x.array).all() and not ksp.getInitialGuessNonzero()
