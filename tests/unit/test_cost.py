"""What must not grow: device allocations with evaluations, Python calls with cells."""

import cProfile
import pstats
import sys

import pytest
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, NonlinearProblem, coordinates, mesh

# Calls that may come with a larger mesh: arrays longer than a chunk are worked on in pieces of thousands of cells.
SPARE_CALLS = 100


def set_up(faces, prefix=""):
    """A problem with a coefficient, boundary values and a source, on triangles."""
    dm = mesh.box((faces, faces), cell="triangle", comm=PETSc.COMM_SELF)
    V = FunctionSpace(dm, "Lagrange", 2)
    u, v, x = Function(V), ufl.TestFunction(V), coordinates(dm)
    kappa = Function(FunctionSpace(dm, "DG", 0), name="kappa")
    kappa.interpolate(lambda x: 1 + x[0])
    F = kappa * inner(grad(u), grad(v)) * dx - x[1] * v * dx
    return NonlinearProblem(F, u, bcs=[DirichletBC(V, lambda x: x[0] * x[1])], options_prefix=prefix), kappa


@pytest.mark.parametrize("scatter", ["gather", "atomic"])
def test_evaluations_after_the_first_allocate_nothing(set_options, scatter):
    set_options(femgpu_scatter=scatter)
    problem, kappa = set_up(6)
    x, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
    x.set(0.5)

    def evaluate():
        kappa.interpolate(2.0)
        problem.residual(x, y)
        problem.linearise(x)
        problem.operator.action(x, y)
        problem.operator.diagonal(y)
        problem.operator.local.matrices()

    evaluate()
    count, size = problem.runtime.num_allocations, problem.runtime.allocated_bytes
    for _ in range(3):
        evaluate()
    assert (problem.runtime.num_allocations, problem.runtime.allocated_bytes) == (count, size)
    problem.solve()
    count = problem.runtime.num_allocations
    problem.solve()
    assert problem.runtime.num_allocations == count


def calls(faces):
    """Number of calls of every function while a problem is set up and solved by a fixed number of iterations."""
    profile = cProfile.Profile()
    profile.enable()
    problem, _ = set_up(faces, "cost_")
    problem.solve()
    problem.u.space.mesh.facets("boundary")
    profile.disable()
    return {function: entry[1] for function, entry in pstats.Stats(profile).stats.items()}


def test_no_function_is_called_once_per_cell(set_options):
    if sys.gettrace() is not None:
        pytest.skip("the calls are counted by the profiler, which a debugger or a coverage tool displaces")
    set_options(
        "cost_",
        ksp_type="cg",
        pc_type="jacobi",
        ksp_norm_type="none",
        ksp_max_it=5,
        ksp_convergence_test="skip",
        snes_type="ksponly",
    )
    calls(4)
    small, large = calls(10), calls(100)
    more_cells = 2 * (100**2 - 10**2)
    grown = {function: count - small.get(function, 0) for function, count in large.items()}
    worst = sorted(grown.items(), key=lambda entry: -entry[1])[:5]
    assert max(grown.values()) <= SPARE_CALLS < more_cells / 100, worst
