"""What is refused, by name and with the expression."""

from pathlib import Path

import basix.ufl
import pytest
import ufl
from forms_support import Constant, Function, Space, make_mesh
from ufl import TestFunction, TrialFunction, as_vector, derivative, div, dot, dS, ds, dx, grad, inner

import femgpu
from femgpu.errors import FormError
from femgpu.forms import functional, lower_form

MESH = make_mesh(2)
V = Space(MESH, 2)
W = Space(MESH, 2, (2,))
u, v, du, f = Function(V), TestFunction(V), TrialFunction(V), Function(V)
cubic = Function(Space(MESH, 3))
b, n, x = Function(W), ufl.FacetNormal(MESH), ufl.SpatialCoordinate(MESH)


def _mixed_mapped():
    element = basix.ufl.mixed_element([basix.ufl.element("RT", "triangle", 1), basix.ufl.element("P", "triangle", 1)])
    return Function(ufl.FunctionSpace(MESH, element))


def _mapped(family):
    return Function(ufl.FunctionSpace(MESH, basix.ufl.element(family, "triangle", 1)))


def _parts():
    p, q = ufl.TestFunctions(ufl.MixedFunctionSpace(V, V))
    return u * p * dx + u * q * dx


def _symmetric():
    return Function(ufl.FunctionSpace(MESH, basix.ufl.element("P", "triangle", 1, shape=(2, 2), symmetry=True)))


def _other_mesh():
    return Function(Space(make_mesh(2), 1))


RESIDUALS = {
    "points": (lambda: u * v * dx - f * v * ufl.dP, "vertex .* is not supported; expected dx, ds or dS: .*v_0"),
    "no side": (
        lambda: u * v * dx - dot(grad(u), n("+")) * v("-") * dS,
        r"grad\(.*\) has two values on a facet between two cells; expected .*\('\+'\) or \('-'\), avg or jump of it",
    ),
    "no side of the normal": (lambda: u * v * dx - dot(grad(u)("+"), n) * v("-") * dS, "n has two values on a facet"),
    "two sides": (lambda: u * v * dx - (u * v("+"))("-") * dS, "restricted to a side of a facet twice|UFL refuses"),
    "third derivatives": (lambda: (u + div(grad(cubic.dx(0)))) * v * dx, "third derivatives are not supported: those of w_"),
    "square of the test function": (lambda: u * v**2 * dx, "not linear in the test or trial function: v_0 [*][*] 2"),
    "product of test functions": (lambda: u * v * v * dx, "(quadratic|not linear) in the test or trial function"),
    "gradients of test functions": (lambda: u * inner(grad(v), grad(v)) * dx, "quadratic in the test"),
    "function of the test function": (
        lambda: ufl.sin(v) * u * dx,
        r"not linear in the test or trial function: sin\(v_0",
    ),
    "quotient": (lambda: u / v * dx, "not linear in the test"),
    "affine in the test function": (lambda: (u + v) * dx, "not linear, a sum of terms with and without test"),
    "affine conditional": (lambda: ufl.conditional(ufl.gt(u, 0), v, 1) * u * dx, "not linear in the test"),
    "condition on the test function": (lambda: ufl.conditional(ufl.gt(v, 0), u, f) * dx, "not linear in the test"),
    "zero form": (lambda: 0 * v * dx(MESH), "zero"),
    "no integrals": (lambda: ufl.Form([]), "zero: it has no integrals"),
    "difference of equal forms": (lambda: u * v * dx - u * v * dx, "the form is zero"),
    "no form": (lambda: u * v, "of type Product; expected a ufl.Form"),
    "several forms": (lambda: [u * v * dx, v * dx], "is a list of 2; expected one form, the sum of those of all equations"),
    "equation": (lambda: u * v * dx == 0, "is an equation; expected a form: write F instead of F == 0"),
    "functional": (lambda: u * dx, "has 0 arguments; expected one test function"),
    "bilinear form": (lambda: u * du * v * dx, "has 2 arguments.*replace the trial function by the unknown"),
    "Bessel functions": (
        lambda: ufl.bessel_J(0.5, u) * v * dx,
        r"a Bessel function of order 0.5: .*bessel.*; expected a whole number",
    ),
    "Raviart-Thomas": (lambda: u * v * dx + div(_mapped("RT")) * v * dx, "ContravariantPiola"),
    "Nedelec": (lambda: u * v * dx + dot(_mapped("N1E"), b) * v * dx, "CovariantPiola"),
    "symmetric tensors": (lambda: u * v * dx + _symmetric()[0, 1] * v * dx, "SymmetricPullback"),
    "Raviart-Thomas in a mixed space": (lambda: u * v * dx + _mixed_mapped()[2] * v * dx, "ContravariantPiola"),
    "MixedFunctionSpace": (_parts, "part 0 of a MixedFunctionSpace; expected an unknown Function for each part, .* that ufl.split"),
    "two test functions": (
        lambda: u * v * dx + f * TestFunction(Space(MESH, 1)) * dx,
        "(?s)Arguments with same number.*of several spaces .* ufl.split .* femgpu.MixedSpace",
    ),
    "coefficient on another mesh": (lambda: u * v * dx + _other_mesh() * v * dx(MESH), "two meshes in one form"),
    "constant on another mesh": (lambda: Constant(make_mesh(2)) * u * v * dx(MESH), "two meshes in one form"),
    "integrals over two meshes": (lambda: u * v * dx(MESH) + u * v * dx(make_mesh(2)), "two meshes in one form"),
    "facet normal": (lambda: u * dot(n, grad(v)) * dx, "FacetNormal where there is no facet.*expected ds"),
    "cell volume": (lambda: ufl.CellVolume(MESH) * u * v * dx, "CellVolume on <Mesh.*which is not a mesh of femgpu's: volume"),
    "geometric quantity": (
        lambda: ufl.classes.ReferenceFacetVolume(MESH) * u * v * ds,
        "ReferenceFacetVolume is not supported: reference_facet_volume; expected .*CellVolume.*FacetArea",
    ),
    "otherwise": (lambda: u * v * dx + f * v * ds("otherwise"), "subdomain 'otherwise' is not supported; expected label values"),
    "shape derivative": (lambda: derivative(u * v * dx, x, b), "CoordinateDerivative"),
    "complex numbers": (lambda: 1j * u * v * dx, "UFL refuses the form: Unexpected complex value"),
    "imaginary part": (lambda: ufl.imag(u) * v * dx, "UFL refuses the form: Unexpected imag"),
    "division by zero": (lambda: u / ufl.conditional(ufl.lt(ufl.as_ufl(2), 1), 1, 0) * v * dx, "divides by zero"),
    "quadrature rule": (
        lambda: u * v * dx(scheme="KMV"),
        "quadrature_rule 'KMV' is not supported; expected one of 'default', 'GLL', 'vertex'",
    ),
    "quadrature degree": (lambda: u * v * dx(degree=2.5), "quadrature_degree 2.5 .*expected an integer"),
    "subdomain data": (lambda: u * v * dx(subdomain_data=[1, 2]), "subdomain_data of type list is not supported"),
    "unknown absent": (lambda: f * v * dx, "does not contain the unknown"),
    "derivative zero": (lambda: ufl.conditional(ufl.gt(u, 0), 1.0, 2.0) * v * dx, "F does not depend on the unknown"),
    "other test space": (
        lambda: u * TestFunction(Space(MESH, 1)) * dx,
        "the test function lives in .* expected the same",
    ),
    "restriction": (lambda: u("+") * v * dx, "a restriction to one side of a facet .* where there is none: .*; expected dS"),
    "restriction on the boundary": (lambda: u * v * dx + u("-") * v * ds, "a restriction to one side of a facet"),
    "average": (lambda: ufl.cell_avg(u) * v * dx, "CellAvg is not supported|UFL refuses"),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals(name):
    make, message = RESIDUALS[name]
    with pytest.raises(FormError, match=message):
        lower_form(make(), u)


JACOBIANS = {
    "linear": (lambda: u * v * dx, "the Jacobian has 1 arguments; expected a test and a trial function"),
    "other space": (
        lambda: TrialFunction(Space(MESH, 1)) * v * dx,
        "the Jacobian: .* lives in .*; expected ",
    ),
    "zero": (lambda: 0 * du * v * dx(MESH), "the Jacobian is zero"),
    "zero after lowering": (lambda: du * v * dx - du * v * dx, "the Jacobian J is zero"),
}


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians(name):
    make, message = JACOBIANS[name]
    with pytest.raises(FormError, match=message):
        lower_form(u * v * dx, u, J=make())


def test_jacobian_without_unknown():
    with pytest.raises(FormError, match="J is given without the unknown"):
        lower_form(f * v * dx, None, J=du * v * dx)


def test_derivative_of_the_normal():
    C = femgpu.FunctionSpace(femgpu.mesh.read(Path(__file__).parents[1] / "data" / "disk_2.msh"), "Lagrange", 2)
    w = femgpu.Function(C)
    with pytest.raises(FormError, match=r"derivatives of a geometric quantity, grad\(n\) or div\(n\)"):
        lower_form(div(ufl.FacetNormal(C.ufl_domain())) * w * TestFunction(C) * ds, w)


def test_unknown_that_is_no_function():
    with pytest.raises(FormError, match="the unknown is of type SpatialCoordinate; expected a Function"):
        lower_form(u * v * dx, x)


FUNCTIONALS = {
    "test function": (lambda: u * v * dx, "the functional has 1 arguments; expected no test function"),
    "no side": (lambda: dot(grad(u), grad(u)) * dS, "has two values on a facet"),
    "zero": (lambda: ufl.as_ufl(0) * u * dx(MESH), "the functional is zero"),
    "third derivatives": (lambda: div(grad(cubic.dx(1))) ** 2 * dx, "third derivatives are not supported"),
    "no form": (lambda: 3.0, "of type float; expected a ufl.Form"),
}


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_functionals(name):
    make, message = FUNCTIONALS[name]
    with pytest.raises(FormError, match=message):
        functional(make())


def test_messages_stay_short():
    e = u
    for _ in range(60):
        e = e * e + e  # printed in full, more than 2**60 terms
    with pytest.raises(FormError) as caught:
        lower_form(ufl.bessel_J(0.5, e) * v * dx, u)
    assert len(str(caught.value)) < 800
    with pytest.raises(FormError) as caught:
        lower_form(e * v * v * dx + as_vector([e, e])[0] * v * ds, u)
    assert len(str(caught.value)) < 800


def test_nesting_too_deep_for_ufl(monkeypatch):
    """How deep UFL gets depends on the version of Python."""

    def too_deep(*_):
        raise RecursionError

    monkeypatch.setattr("femgpu.forms.ufl.preprocessing.preprocess_form", too_deep)
    with pytest.raises(FormError, match="nested too deeply; make a sum of shorter sums"):
        lower_form(u * v * dx, u)
