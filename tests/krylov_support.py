"""Linear systems for Krylov methods, and one solve of them with options."""

from contextlib import contextmanager

import numpy as np
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu import DirichletBC, Function, FunctionSpace, NonlinearProblem, mesh

ASSEMBLED = {"pc_type": "python", "pc_python_type": "femgpu.AssembledPC", "assembled_pc_type": "gamg"}


def own(name):
    """The options of one of femgpu's methods."""
    return {"ksp_type": "python", "ksp_python_type": f"femgpu.{name}"}


def jacobian(shift=1.0, prescribed=True, degree=2, wind=0.0):
    """The matrix-free Jacobian of an elliptic problem with Dirichlet rows or none.

    Args:
        shift: factor of u itself; negative: indefinite.
        prescribed: whether there are Dirichlet rows.
        degree: of the elements.
        wind: convection, which makes it unsymmetric.
    """
    dm = mesh.box((7, 6), cell="triangle")
    V = FunctionSpace(dm, "Lagrange", degree)
    x, u, v = femgpu.coordinates(dm), Function(V), ufl.TestFunction(V)
    F = inner((1 + x[0]) * grad(u), grad(v)) * dx
    if shift:
        F += shift * u * v * dx
    if wind:
        F += wind * (grad(u)[0] - 0.5 * grad(u)[1]) * v * dx
    problem = NonlinearProblem(F, u, [DirichletBC(V, 0.0, 1)] if prescribed else [])
    problem.linearise(u.vec)
    return problem


@contextmanager
def solver(mats, options):
    """A KSP with options, which are in the database as long as it lives."""
    ksp = PETSc.KSP().create(comm=mats[0].comm)
    ksp.setOptionsPrefix("krylov_")
    database = PETSc.Options("krylov_")
    given = {"ksp_rtol": 1e-9, **options}
    for name, value in given.items():
        database[name] = value
    try:
        ksp.setOperators(*mats)
        ksp.setFromOptions()
        ksp.setConvergenceHistory(1000)
        yield ksp
    finally:
        for name in given:
            database.delValue(name)
        ksp.destroy()


def solve(problem, b, options, x=None):
    """A solve with options; (solution, norms, reason)."""
    with solver([problem.jacobian], options) as ksp:
        result = b.duplicate()
        if x is not None:
            x.copy(result)
            ksp.setInitialGuessNonzero(True)
        ksp.solve(b, result)
        return result.array.copy(), ksp.getConvergenceHistory().copy(), ksp.getConvergedReason()


def random_vec(problem, seed=7):
    """The same entries by global number on any number of ranks."""
    vec = problem.u.vec.duplicate()
    first, last = vec.getOwnershipRange()
    vec.setArray(np.random.default_rng(seed).standard_normal(vec.getSize())[first:last])
    return vec


def check_same(mine, native, count=20, converged=True, nudged=None, rounding=0.0, floor=2e-15):
    """Two solves with the same norms, as far as these stand above roundings, reason and solution.

    Args:
        mine: what `solve` gives.
        native: another.
        count: norms that are compared.
        converged: whether both shall have.
        nudged: PETSc's norms for a right-hand side that differs in the last digit, where these differ, too.
        floor: of the first norm, what roundings may change in all.
        rounding: how far PETSc's solutions for two such right-hand sides are apart.
    """
    count = min(count, len(mine[1]), len(native[1]))
    assert abs(len(mine[1]) - len(native[1])) <= 1 and mine[2] == native[2] and (mine[2] > 0) == converged
    wanted = native[1][:count]
    bound = 1e-8 * wanted + floor * wanted[0]
    if nudged is not None:
        count = min(count, len(nudged))
        # From one step to the next such a difference may grow a hundredfold.
        bound = np.maximum(
            bound[:count], 1000 * wanted[:count] * np.maximum.accumulate(np.abs(nudged[:count] / wanted[:count] - 1))
        )
    assert (np.abs(mine[1][:count] - wanted[:count]) <= bound).all(), mine[1][:count] / wanted[:count] - 1
    if converged:
        np.testing.assert_allclose(mine[0], native[0], atol=max(1e-7 * np.abs(native[0]).max(), 1e-7, 30 * rounding))
