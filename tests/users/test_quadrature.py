"""The quadrature that nobody asked for by a degree: exact for polynomials, and a word where it may not be enough."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import skfem
import ufl
from ufl import div, dx, exp, grad, inner, sin

import femgpu
from femgpu.errors import QuadratureWarning
from femgpu.forms import functional, lower_form
from femgpu.forms.ufl import degrees

DATA = Path(__file__).parents[1] / "data"

CELLS = ("triangle", "quadrilateral", "tetrahedron", "hexahedron")
LOADS = {
    "polynomial": (lambda x: x[0] ** 2 * x[1] ** 2 - x[0], 1e-12),
    "trigonometric": (lambda x: 20 * (sin if isinstance(x, ufl.SpatialCoordinate) else np.sin)(2 * x[0]) * x[1], 1e-7),
}


def moments(space, integrand):
    """(num_dofs,) the integrals of an expression times the test functions."""
    zero = femgpu.Function(space)
    problem = femgpu.NonlinearProblem((zero - integrand) * ufl.TestFunction(space) * dx, zero)
    result = zero.vec.duplicate()
    problem.residual(zero.vec, result)
    return -result.array_r.copy()


def bent(dm):
    """The mesh with its last corner moved, where cells of tensor type then are not affine."""
    coordinates = dm.getCoordinatesLocal()
    points = coordinates.array_r.reshape(-1, dm.getDimension()).copy()
    points[np.all(points == 1.0, axis=1)] += 0.25
    coordinates.setArray(points.ravel())
    dm.setCoordinatesLocal(coordinates)
    return dm


@pytest.mark.parametrize("load", LOADS)
def test_error_indicators_of_a_cubic_are_those_of_scikit_fem(load):
    dm = femgpu.mesh.box((3, 2), cell="triangle")
    source, tolerance = LOADS[load]
    u, indicators = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 3)), femgpu.FunctionSpace(dm, "DG", 0)
    u.interpolate(lambda x: x[0] ** 3 - 2 * x[0] * x[1] ** 2)
    found = moments(indicators, (div(grad(u)) + source(femgpu.coordinates(dm))) ** 2)

    block = indicators.mesh.blocks[0]
    mesh = skfem.MeshTri(block.coords.T, block.coord_dofs.T)
    basis = skfem.Basis(mesh, skfem.ElementTriP0(), intorder=16)
    expected = skfem.Functional(lambda w: (2 * w.x[0] + source(w.x)) ** 2).elemental(basis)
    np.testing.assert_allclose(found[indicators.dofs(0)[:, 0]], expected, rtol=tolerance)


@pytest.mark.parametrize("cell", ("interval", "quadrilateral", "hexahedron"))
def test_a_square_is_projected_to_its_means(cell):
    faces = (2, 1, 1)[: ("interval", "quadrilateral", "hexahedron").index(cell) + 1]
    dm = femgpu.mesh.box(faces, cell=cell)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 4))
    u.interpolate(lambda x: x[0] ** 4)
    means = femgpu.project(u**2, femgpu.FunctionSpace(dm, "DG", 0))
    np.testing.assert_allclose(np.sort(means.vec.array_r), [0.5**8 / 9, (2 - 0.5**8) / 9], rtol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_integrals_against_low_degrees_count_the_map(cell):
    """Test functions that sum to one: the sum of the moments is the integral."""
    dm = bent(femgpu.mesh.box((2,) * (3 if cell in CELLS[2:] else 2), cell=cell))
    c = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 3))
    c.vec.setArray(np.random.default_rng(7).standard_normal(c.vec.getLocalSize()))
    exact = femgpu.assemble(c**2 * dx(degree=14))
    found = moments(femgpu.FunctionSpace(dm, "Lagrange", 1), c**2).sum()
    assert found == pytest.approx(exact, rel=1e-12)
    assert femgpu.assemble(c**2 * dx) == pytest.approx(exact, rel=1e-12)


def test_norms_count_both_functions():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    u, exact = (femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", degree)) for degree in (1, 5))
    exact.interpolate(lambda x: x[0] ** 5)
    assert femgpu.error_norm(u, exact) == pytest.approx(11**-0.5, rel=1e-12)


def test_pointwise_forms_count_the_coefficients_that_they_read(set_options):
    """The means of x^8, and boundary integrals of it, by bodies that square a coefficient of degree 4 against degree 0."""
    dm = femgpu.mesh.box((2, 1), cell="quadrilateral")
    a, other, V = *(femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", k)) for k in (4, 7)), femgpu.FunctionSpace(dm, "DG", 0)
    a.interpolate(lambda x: (x[0] + x[1]) ** 4)
    square, u = dict(f0="f0[0] = -a[0] * a[0];"), femgpu.Function(V)

    def sums(aux=(a,), prefix="", **more):
        problem = femgpu.NonlinearProblem(femgpu.PointwiseForm(V, aux=list(aux), **more), u, options_prefix=prefix)
        problem.residual(u.vec, f := u.vec.duplicate())
        return -f.sum(), [term.quadrature.name for term in problem.operator.local.terms]

    inside, on_right = (2**10 - 2) / 90, (2**9 - 1) / 9
    assert sums(**square) == (pytest.approx(inside, rel=1e-13), ["petsc4"])
    assert sums((a, other), **square, facets={2: square})[0] == pytest.approx(inside + on_right, rel=1e-13)
    # What is not read does not count, and options overrule.
    assert sums((other,), f0="f0[0] = -1.0;") == (pytest.approx(1.0), ["petsc0"])
    set_options("one_", petscfe_default_quadrature_order=0)
    found, rules = sums(prefix="one_", **square)
    assert rules == ["petsc0"] and found == pytest.approx((0.75**8 + 1.25**8) / 2)
    assert sums(**square, degree=3)[0] != pytest.approx(inside, rel=1e-3)


def degree_of(form, u=None):
    """The degree that a form's only integral takes, and what was said about it."""
    degrees._warn.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lowered = lower_form(form, u) if form.arguments() else functional(form)
        # All is noted for the view; what is cut slightly is no warning.
        assert set(lowered.notes) >= {str(entry.message) for entry in said}
    assert all(entry.category is QuadratureWarning and entry.filename == __file__ for entry in said)
    return lowered.integrals[0].degree, list(lowered.notes), len(said)


@pytest.fixture(scope="module")
def plane():
    """Functions of degree 0, 1, 2 and 3 on triangles, a test function of degree 0 and the position."""
    dm = femgpu.mesh.box((1, 1), cell="triangle")
    spaces = [femgpu.FunctionSpace(dm, "DG", degree) for degree in range(4)]
    return [femgpu.Function(space) for space in spaces], ufl.TestFunction(spaces[0]), femgpu.coordinates(dm)


def test_polynomials_are_exact_and_nothing_is_said(plane):
    (flat, one, two, three), v, x = plane
    for integrand, expected in [
        (three**5 * v, 15),
        (three**2.0 / flat * v, 6),
        (div(grad(three)) ** 2 * v, 2),
        (inner(grad(one), grad(two)) * exp(flat) * v, 1),
        (ufl.conditional(ufl.lt(flat, 1.0), two, three) * v, 3),
        (abs(flat) * ufl.max_value(flat, 2.0) * two**3 * v, 6),
        (x[0] ** 9, 9),
        # What is no polynomial beside one: each counts by its own rule.
        ((three**4 + sin(one)) * v, 12),
        ((three**2 + sin(one)) ** 2 * v, 12),
    ]:
        assert degree_of(integrand * dx) == (expected, [], 0), integrand


def test_what_is_no_polynomial_is_capped_by_the_highest_degree_and_noted(plane):
    (flat, one, two, three), v, x = plane
    for integrand, expected, estimate in [
        (sin(three) ** 3 * v, 8, 15),
        (exp(one) ** 4 * two / three * v, 8, 17),
        (sin(x[0]) ** 2 * v, 4, 6),
        (abs(three) ** 3 * v, 8, 9),
        (three**4 * exp(one) ** 4 * v, 8, 24),
    ]:
        degree, (said,), warned = degree_of(integrand * dx)
        assert degree == expected and warned == (estimate - degree > 2)
        what = f"quadrature of degree {degree}, though UFL estimates {estimate}"
        assert said.startswith(f"cell integral (everywhere): {what}; dx(degree=n) sets another: ")
    degree, (said,), warned = degree_of(three**11 * v * ufl.ds(3))
    assert degree == 30 and warned == 1
    assert "facet integral (subdomains ((3,),))" in said and "a polynomial of degree 33; ds(degree=n)" in said
    assert degree_of(exp(three) ** 3 * v * dx(degree=4)) == (4, [], 0)


def test_constants_have_their_own_names_in_notes(plane):
    (_, one, _, _), v, _ = plane
    constant = femgpu.Constant(one.space.dm, 2.0)
    _, (said,), _ = degree_of(exp(constant * one) ** 3 * v * dx)
    assert str(constant) in said


def test_the_same_is_said_once(plane):
    (_, one, _, _), v, _ = plane
    degrees._warn.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            lower_form(exp(one) ** 3 * v * dx)
    assert len(said) == 1


def test_curved_coordinates_count():
    """A curved mesh of order 3: x is a cubic, and cells that are not affine add the degree of det J."""
    dm = femgpu.mesh.read(DATA / "quarter_ring_3.msh")
    x, v = femgpu.coordinates(dm), ufl.TestFunction(femgpu.FunctionSpace(dm, "Lagrange", 1))
    degree, said, _ = degree_of(exp(x[0]) ** 3 * v * dx)
    assert degree == 8 and said
    assert degree_of(x[0] * v * dx) == (4, [], 0)
    x0 = femgpu.assemble(x[0] * dx(degree=20))
    assert moments(v.ufl_function_space(), x[0]).sum() == pytest.approx(x0, rel=1e-12)
    assert femgpu.assemble(x[0] * dx) == pytest.approx(x0, rel=1e-12)
