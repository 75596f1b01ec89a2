"""`-femgpu_debug`: the same results, and faults by name."""

import numpy as np
import pytest
import ufl
from conformance.faults import replace_text
from ufl import ds, dx, grad, inner

import femgpu
from femgpu.errors import KernelError
from femgpu.runtime import current


@pytest.fixture(autouse=True)
def without_debug():
    """Other tests share the process and its device."""
    yield
    current().debug(False)


def problem_of(integrand, **options):
    dm = femgpu.mesh.box((3, 2), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = femgpu.Function(V, name="u"), ufl.TestFunction(V)
    F = (inner(grad(u), grad(v)) + integrand(u) * v) * dx(degree=4) - v * ds
    bcs = [femgpu.DirichletBC(V, 1.0, "boundary")]
    return femgpu.NonlinearProblem(F, u, bcs=bcs, petsc_options={"femgpu_jacobian": "assembled", **options})


def test_results_are_the_same(capfd):
    found = []
    for options in ({}, {"femgpu_debug": True, "femgpu_view": True}):
        problem = problem_of(lambda u: (1 + u**2) * u, pc_type="lu", **options)
        problem.solve()
        found.append(problem.u.vec.getArray().copy())
        assert current().checks == bool(options)
    assert np.array_equal(*found)
    assert "debug: memory that nobody has written is NaN, kernels check their indices" in capfd.readouterr().out


def test_faults_name_kernel_plan_and_form(monkeypatch):
    problem = problem_of(lambda u: u, femgpu_debug=True, femgpu_schedule="cell", femgpu_scatter="gather")
    replace_text(monkeypatch.setattr, "d_e[(size_t)d_entries[k] + c]", "d_e[(size_t)d_entries[k] + c + 10000]")
    with pytest.raises(
        KernelError, match=r"kernel gather_sum reads entry 100\d\d of d_e \(\d+ entries of 8 bytes\). This is a bug"
    ):
        problem.solve()


def test_an_integrand_that_is_not_defined():
    problem = problem_of(lambda u: ufl.ln(-u), femgpu_debug=True)
    with pytest.raises(
        KernelError, match=r"kernel residual-triangle-\w+ \(plan residual: .*; form at u in .*, integral over cells\)"
    ) as error:
        problem.solve()
    assert "has made NaN of numbers" in str(error.value) and "The integrand is not defined" in str(error.value)
    assert "This is a bug" not in str(error.value)
