"""What a user of NonlinearProblem meets between two solves."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import DataError
from femgpu.forms import functional, lower_form
from femgpu.operators import is_symmetric, make_terms, twin
from femgpu.options import Settings


def poisson(prefix="", faces=(5, 4)):
    dm = femgpu.mesh.box(faces, cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v, c = femgpu.Function(V), ufl.TestFunction(V), femgpu.Function(V, name="c")
    c.interpolate(1.0)
    F = inner(grad(u), grad(v)) * dx - c * v * dx
    return femgpu.NonlinearProblem(F, u, bcs=femgpu.DirichletBC(V, 0.0), options_prefix=prefix), u, c


def test_solve_again_after_bad_data():
    """The vector of the unknown is not left locked, and the solve is right once the data are."""
    problem, u, c = poisson()
    c.interpolate(2.0)
    problem.solve()
    expected = u.vec.array.copy()
    c.vec.array[3] = np.nan
    with pytest.raises(DataError, match="coefficient c"):
        problem.solve()
    c.interpolate(2.0)
    u.interpolate(0.0)
    problem.solve()
    np.testing.assert_allclose(u.vec.array, expected, rtol=1e-8, atol=1e-12)


def test_writes_to_a_coefficient_are_seen(set_options):
    """Through `vec.array`, and through a view that was kept and lives."""
    set_options("seen_", pc_type="lu")
    problem, u, c = poisson("seen_")
    problem.solve()
    one = u.vec.norm()
    c.vec.array[:] = 2.0
    problem.solve()
    assert u.vec.norm() == pytest.approx(2 * one)
    kept = c.vec.array
    problem.solve()
    for value in (3.0, 5.0):
        kept[:] = value
        problem.solve()
        assert u.vec.norm() == pytest.approx(value * one)
    assert c.vec.refcount == 2
    del kept
    problem.solve()
    assert u.vec.norm() == pytest.approx(5 * one)


def test_linear_problems_and_functionals_see_what_kept_views_write(set_options):
    set_options("kept_", pc_type="lu")
    dm = femgpu.mesh.box((4, 4))
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    k, f, w, v = femgpu.Function(V), femgpu.Function(V), ufl.TrialFunction(V), ufl.TestFunction(V)
    k.interpolate(1.0)
    f.interpolate(1.0)
    bcs = [femgpu.DirichletBC(V, 0.0, "boundary")]
    problem = femgpu.LinearProblem(k * inner(grad(w), grad(v)) * dx, f * v * dx, bcs=bcs, options_prefix="kept_")
    integral, views = femgpu.Functional(k * f * dx), (k.vec.array, f.vec.array)
    one = problem.solve().vec.norm()
    for first, second in ((2.0, 1.0), (2.0, 6.0), (1.0, 1.0)):
        views[0][:], views[1][:] = first, second
        assert problem.solve().vec.norm() == pytest.approx(second / first * one)
        assert integral.value() == pytest.approx(first * second)


@pytest.mark.parallel([1, 3])
def test_a_view_on_one_rank_only():
    dm = femgpu.mesh.box((4, 4))
    f = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1))
    integral = femgpu.Functional(f * dx)
    assert integral.value() == 0
    view = f.vec.array if dm.comm.rank == 0 else None
    if view is not None:
        view[:] = 1.0
    assert integral.value() > 0.1


def test_reading_views_disturbs_no_solver(set_options):
    """What a solver of the user's own multiplies with stays as it was where a view is read."""
    set_options("own_", ksp_type="cg", pc_type="none", ksp_rtol=1e-10)
    V = femgpu.FunctionSpace(femgpu.mesh.box((4, 4)), "Lagrange", 1)
    u, v, c = femgpu.Function(V), ufl.TestFunction(V), femgpu.Function(V, name="c")
    c.interpolate(1.0)
    problem = femgpu.NonlinearProblem(c * (inner(grad(u), grad(v)) + u * v) * dx, u)
    ksp = PETSc.KSP().create(u.vec.comm)
    ksp.setOptionsPrefix("own_")
    ksp.setOperators(problem.jacobian)
    ksp.setFromOptions()
    view, b, x = c.vec.array, u.vec.duplicate(), u.vec.duplicate()
    b.setRandom()
    ksp.solve(b, x)
    assert ksp.getConvergedReason() > 0 and view[0] == 1.0
    c.vec.shift(1.0)
    with pytest.raises(PETSc.Error) as caught:
        ksp.solve(b, x)
    assert "c changed after the Jacobian was evaluated" in str(caught.value.__cause__)


def test_functional_equals_its_twin(rng):
    dm = femgpu.mesh.box((3, 2, 2), cell="tetrahedron")
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2, shape=(2,)))
    u.vec.setArray(rng.standard_normal(u.space.num_dofs))
    c, x = femgpu.Constant(dm, 1.5), femgpu.coordinates(dm)
    expression = (inner(grad(u), grad(u)) + c * ufl.exp(u[0]) * x[2]) * dx
    form = functional(expression)
    [term] = make_terms(form, Settings())
    points = twin.Points(term)
    values = points.evaluate(term.integral.functional, {"a0": u.local_array()}, np.array([1.5]))["f0"]
    expected = float((points.weights * values[..., 0]).sum())
    assert femgpu.assemble(expression) == pytest.approx(expected, rel=1e-13)


def test_functionals_without_functions():
    dm = femgpu.mesh.box((3, 2), cell="quadrilateral", upper=(2.0, 1.0))
    x = femgpu.coordinates(dm)
    assert femgpu.assemble(femgpu.Constant(dm, 3.0) * dx) == pytest.approx(6.0)
    assert femgpu.assemble(x[0] * dx) == pytest.approx(2.0)
    assert femgpu.assemble(1 * dx(domain=ufl.domain.extract_unique_domain(x))) == pytest.approx(2.0)


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_difference_of_residuals(set_options, precision):
    """Without g0 to g3 the difference is taken above the rounding errors of the precision."""
    rtol = 1e-8 if precision == "double" else 1e-4
    set_options("mf_", femgpu_precision=precision, snes_rtol=rtol, ksp_rtol=1e-3)
    dm = femgpu.mesh.box((6, 6), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u = femgpu.Function(V)
    form = femgpu.PointwiseForm(V, f0="f0[0] = -1.0;", f1="for (int d = 0; d < dim; ++d) f1[d] = (1 + u[0] * u[0]) * u_x[d];")
    problem = femgpu.NonlinearProblem(form, u, bcs=[femgpu.DirichletBC(V, 0.0)], options_prefix="mf_")
    problem.solve()
    assert problem.snes.getIterationNumber() <= 6
    assert 0.06 < u.vec.max()[1] < 0.08


def test_symmetry_of_jacobians():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1, shape=2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    wind = ufl.as_vector((1.0, 2.0))
    symmetric = (inner(ufl.sym(grad(u)), grad(v)) + ufl.div(u) * ufl.div(v) + inner(u, u) * inner(u, v)) * dx
    assert is_symmetric(lower_form(symmetric, u))
    assert not is_symmetric(lower_form(symmetric + inner(grad(u) * wind, v) * dx, u))
    assert not is_symmetric(lower_form(symmetric + u[0] * v[1] * dx, u))
    # Constants may change: what cancels now need not cancel later.
    one = femgpu.Constant(u.space.dm, 1.0)
    assert not is_symmetric(lower_form(symmetric + (one - 1) * inner(grad(u) * wind, v) * dx, u))
    inflow = ufl.min_value(ufl.dot(u, ufl.FacetNormal(u.space.ufl_domain())), 0) * inner(u, v) * ufl.ds
    assert not is_symmetric(lower_form(symmetric + inflow, u))


def test_symmetry_of_second_derivatives():
    """Each block with its mirror image, and each of them alone."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle"), "Lagrange", 2, shape=2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)

    def bend(w):
        return w[0].dx(0).dx(1)

    F = (inner(ufl.div(grad(u)), ufl.div(grad(v))) + bend(u) * v[1].dx(0).dx(0) + u[1].dx(0).dx(0) * bend(v)) * dx
    halves = [bend(u) * v[1], u[1] * bend(v)], [bend(u) * v[1].dx(0), u[1].dx(0) * bend(v)]
    for one, other in halves:
        assert is_symmetric(lower_form(F + (one + other) * dx, u))
        assert not is_symmetric(lower_form(F + one * dx, u))
        assert not is_symmetric(lower_form(F + other * dx, u))
    assert not is_symmetric(lower_form(F + bend(u) * v[1].dx(1).dx(1) * dx, u))


def test_boundary_values_of_the_wrong_kind():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    with pytest.raises(DataError, match="boundary values are 'one'; expected numbers, 1 per node"):
        femgpu.DirichletBC(V, "one").values()
