"""Integrals over cells and facets, parts of mixed Functions, cell quantities, rates: what the records hold."""

import numpy as np
import pytest
import ufl
from forms_support import Constant, Function, Mixed, Space, make_mesh, part, random_data, total
from ufl import FacetNormal, TestFunction, TestFunctions, TrialFunction, derivative, div, dot, ds, dx, exp, grad, inner, split

import femgpu
from femgpu.errors import FormError
from femgpu.forms import functional, lower_form

MESH = make_mesh(2)
V = Space(MESH, 2)
W = Mixed(MESH, velocity=("P", 2, (2,)), pressure=("P", 1, ()))
u, v, w = Function(V), TestFunction(V), Function(W)


def kinds(form):
    return [(entry.type, entry.subdomain, entry.degree) for entry in form.integrals]


def test_integrals_of_different_types_do_not_merge():
    form = lower_form(u * v * dx + u * v * ds + u * v * dx(3) + u * v * ds(3), u)
    assert kinds(form) == [
        ("cell", (), 4), ("cell", (3,), 4), ("exterior_facet", (), 4), ("exterior_facet", (3,), 4),
    ]  # fmt: skip
    assert len({entry.residual.body for entry in form.integrals}) == 1


def test_everywhere_and_ids_are_summed():
    form = lower_form(u * v * ds("everywhere") + u * v * ds((1, 2)) + 2 * u * v * ds(2) + u * v * (ds(5) + ds(7)), u)
    assert [subdomain for _, subdomain, _ in kinds(form)] == [(), (1, 5, 7), (2,)]
    data = random_data(form, 2)
    np.testing.assert_allclose(form.integrals[2].residual.evaluate(data)["f0"], 3 * data["u"])


def test_degrees_of_facets():
    F = (
        u * v * dx
        + exp(u**3) * v * ds(1)
        + u**3 * v * ds(4)
        + exp(u) * v * ds(2)
        + u * v * ds(2, degree=0)
        + u**3 * v * ds(3, degree=5)
    )
    form = lower_form(F, u)
    assert [(s, d) for t, s, d in kinds(form) if t == "exterior_facet"] == [((1,), 6), ((2,), 0), ((2,), 6), ((3,), 5), ((4,), 8)]
    (note,) = form.notes
    assert note.startswith("facet integral (subdomains ((1,),)): quadrature of degree 6, though UFL estimates 10; ds(degree=n)")


def test_quadrature_rules_of_measures():
    """Different rules keep integrals apart, and a degree that is not given follows from the rule."""
    lumped, points = dx(scheme="GLL"), dx(metadata={"quadrature_rule": "vertex", "quadrature_degree": 1})
    F = u * v * lumped + u * v * points + u * v * dx(degree=3, scheme="GLL") + u * v * ds(scheme="vertex") + u * v * dx
    form = lower_form(F, u)
    assert sorted((entry.type, entry.scheme, entry.degree) for entry in form.integrals) == [
        ("cell", "GLL", 3), ("cell", "GLL", 3), ("cell", "default", 4), ("cell", "vertex", 1), ("exterior_facet", "vertex", 1),
    ]  # fmt: skip
    assert form.notes == ()
    assert lower_form(exp(u) * v * lumped, u).notes == ()
    (note,) = lower_form(u * v * dx(2, degree=4, scheme="vertex"), u).notes
    assert note == "cell integral (subdomains ((2,),)): quadrature degree 4 is asked for, the vertex rule is exact to degree 1"
    flat = Function(Space(MESH, 0, family="DG"))
    assert lower_form(flat * v * lumped).integrals[0].degree == 3
    assert functional(u**4 * lumped).integrals[0].degree == 3
    assert functional(flat * lumped).integrals[0].degree == 1
    assert functional(ufl.SpatialCoordinate(MESH)[0] ** 7 * lumped).integrals[0].degree == 7
    du = TrialFunction(V)
    form = lower_form(u**2 * v * lumped, u, J=2 * u * du * v * points)
    assert [(entry.scheme, entry.residual is None, entry.jacobian is None) for entry in form.integrals] == [
        ("GLL", False, True), ("vertex", True, False),
    ]  # fmt: skip


def test_mixed_spaces_cap_degrees_by_their_largest_degree():
    velocity, _ = split(w)
    form = lower_form(exp(inner(velocity, velocity)) * TestFunctions(W)[1] * dx, w)
    assert kinds(form) == [("cell", (), 6)]
    pressure = split(w)[1]
    assert kinds(lower_form(pressure * TestFunctions(W)[1] * dx, w)) == [("cell", (), 2)]


def test_a_given_jacobian_on_facets():
    du = TrialFunction(V)
    form = lower_form(u**2 * v * dx + u**3 * v * ds(1), u, J=2 * u * du * v * dx + 5 * du * v * ds(1))
    facets = [entry for entry in form.integrals if entry.type == "exterior_facet"]
    data = random_data(form, 2)
    np.testing.assert_allclose(total(form, "action", data, facets)["f0"], 5 * data["w"])
    np.testing.assert_allclose(total(form, "jacobian", data, facets)["g0"], 5)


def test_derivatives_of_too_high_an_order_vanish():
    def lowered(degree, cell="triangle"):
        mesh = make_mesh(2, cell)
        space = Space(mesh, degree)
        u, v = Function(space), TestFunction(space)
        tau = ufl.SpatialCoordinate(mesh)[0]
        strong = u - div(grad(u)) + (div(grad(u.dx(0))) if cell == "triangle" else 0)
        return lower_form(u * v * dx + tau * strong * v.dx(0) * dx, u).integrals[0]

    assert lowered(1).residual.reads == {("u", 0), ("x", 0)}
    assert lowered(1, "quadrilateral").residual.reads == {("u", 0), ("u_xx", 0), ("x", 0)}
    assert lowered(2).residual.reads == {("u", 0), ("u_xx", 0), ("x", 0)}
    assert {name for name, _ in lowered(2).jacobian.writes} == {"g0", "g2", "g5"}
    assert {name for name, _ in lowered(1).jacobian.writes} == {"g0", "g2"}


def test_derivatives_of_piecewise_constant_fields_vanish():
    space = Mixed(MESH, a=("P", 2, (2,)), b=("DG", 0, ()), c=("P", 1, ()))
    w = Function(space)
    form = lower_form(inner(grad(w), grad(TestFunction(space))) * dx, w)
    assert form.integrals[0].residual.writes == {("f1", 0), ("f1", 1), ("f1", 3)}
    assert functional(inner(grad(grad(w)), grad(grad(w))) * dx).integrals[0].functional.reads == {("a_xx", 0), ("a_xx", 1)}


def test_functionals_on_facets():
    n, x = FacetNormal(MESH), ufl.SpatialCoordinate(MESH)
    form = functional(dot(n, x) * ds + u * ds(3) + u**2 * ds(3, degree=1) + u * dx("everywhere") + 1 * ds(MESH))
    assert kinds(form) == [
        ("cell", (), 2), ("exterior_facet", (), 1), ("exterior_facet", (3,), 2), ("exterior_facet", (3,), 1),
    ]  # fmt: skip
    data = random_data(form, 2)
    found = form.integrals[1].functional.evaluate(data)["f0"][:, 0]
    np.testing.assert_allclose(found, (data["n"] * data["x"]).sum(1) + 1)
    assert form.integrals[1].functional.reads == {("n", 0), ("x", 0)}


def test_functionals_cap_degrees_by_the_coefficients_of_the_user():
    assert kinds(functional(exp(Function(W)[0]) ** 9 * ds)) == [("exterior_facet", (), 6)]


def test_parts_stand_for_components():
    (s, p), (v, q) = split(w), TestFunctions(W)

    def form(velocity, pressure):
        F = inner(grad(velocity), grad(v)) * dx - pressure * div(v) * dx + div(velocity) * q * dx
        return lower_form(F + pressure * dot(FacetNormal(MESH), v) * ds(1), w)

    by_parts = form(part(w, "velocity"), part(w, "pressure"))
    assert by_parts.integrals == form(s, p).integrals == form(part(w, "velocity"), p).integrals
    assert by_parts.coefficients == ()
    other = Function(W)
    mixed = lower_form(inner(part(other, "velocity"), v) * part(w, "pressure") * dx + dot(other, other) * q * p * dx, w)
    assert mixed.coefficients == (other,)


def test_parts_below_derivatives():
    velocity, pressure = part(w, "velocity"), part(w, "pressure")
    varied = lower_form(derivative(inner(velocity, velocity) * pressure * dx, w, TestFunction(W)), w)
    s, p = split(w)
    v, q = TestFunctions(W)
    by_hand = lower_form(2 * inner(s, v) * p * dx + inner(s, s) * q * dx, w)
    data = random_data(by_hand, 2)
    for kind in ("residual", "action", "jacobian"):
        for name, values in total(by_hand, kind, data).items():
            np.testing.assert_allclose(total(varied, kind, data)[name], values, atol=1e-14)
    partial = lower_form(derivative(inner(velocity, velocity) * pressure * dx, s, v), w)
    np.testing.assert_allclose(total(partial, "residual", data)["f0"][:, 2], 0)
    local = ufl.variable(pressure)
    assert functional(ufl.diff(local**2, local) * dx).coefficients == (w,)


def test_derivatives_by_parts_are_refused():
    pressure = part(w, "pressure")
    with pytest.raises(FormError, match=r"derivative with respect to.* a part of w_.*; expected the parts that ufl.split\(w_"):
        lower_form(derivative(pressure**2 * dx, pressure, TestFunctions(W)[1]), w)


def test_rates():
    rate, shift, f = Function(V), Constant(MESH), Constant(MESH)
    F = (1 + u**2) * rate * v * dx + inner(grad(u), grad(v)) * dx - f * u * v * ds
    form = lower_form(F, u, rates={rate: shift})
    data, h = random_data(form, 2), 1e-6
    s = data["constants"][form.constants.index(shift)]
    moved = [
        total(form, "residual", {**data, "u": data["u"] + k * w, "u_x": data["u_x"] + k * w_x, "a": data["a"] + s * k * w})
        for k, w, w_x in ((k, data["w"], data["w_x"]) for k in (h, -h))
    ]
    for name in ("f0", "f1"):
        np.testing.assert_allclose((moved[0][name] - moved[1][name]) / (2 * h), total(form, "action", data)[name], atol=1e-7)
    steady = lower_form(F, u)
    assert shift not in steady.constants and steady.coefficients == (rate,)
    assert lower_form(inner(grad(u), grad(v)) * dx, u, rates={rate: shift}).constants == ()
    only = lower_form(rate * v * dx, u, rates={rate: shift})
    np.testing.assert_allclose(total(only, "jacobian", {**data, "constants": np.array([3.0])})["g0"], 3)


@pytest.fixture(scope="module")
def space():
    dm = femgpu.mesh.box((2, 3), cell="triangle")
    yield femgpu.FunctionSpace(dm, "Lagrange", 2)


def test_parts_of_a_mixed_space(space):
    W = femgpu.MixedSpace({"velocity": femgpu.FunctionSpace(space.dm, "Lagrange", 2, (2,)), "pressure": space})
    w, (v, q) = femgpu.Function(W, "w"), TestFunctions(W)

    def residual(velocity, pressure):
        return lower_form(inner(grad(velocity), grad(v)) * dx - pressure * div(v) * dx - div(velocity) * q * ds(1), w)

    form = residual(w.sub("velocity"), w.sub("pressure"))
    assert form.integrals == residual(*split(w)).integrals and form.coefficients == ()
    assert form.integrals[0].residual.reads == {("u", 2), ("u_x", 0), ("u_x", 1)}
    with pytest.raises(FormError, match="the unknown w.pressure is a part of w; expected the whole Function"):
        lower_form(w.sub("pressure") * q * dx, w.sub("pressure"))


def test_cell_quantities(space):
    u, v = femgpu.Function(space), TestFunction(space)
    domain = space.ufl_domain()
    volume, diameter = ufl.CellVolume(domain), ufl.CellDiameter(domain)
    F = diameter**2 * inner(grad(u), grad(v)) * dx + volume * u * v * ds + (diameter + volume) * v * dx
    form = lower_form(F + inner(grad(diameter * u) - diameter * grad(u), grad(v)) * dx, u)
    assert sorted(entry.name for entry in form.coefficients) == ["CellDiameter", "CellVolume"]
    assert all(entry.ufl_shape == () and entry.space.mesh is space.mesh for entry in form.coefficients)
    values = {entry.name: entry.vec.array_r for entry in form.coefficients}
    np.testing.assert_allclose(values["CellVolume"], 1 / 12)
    np.testing.assert_allclose(values["CellDiameter"], np.hypot(1 / 2, 1 / 3))
    data = random_data(form, 2)
    i = [entry.name for entry in form.coefficients].index("CellDiameter")
    np.testing.assert_allclose(total(form, "residual", data)["f1"], data["a"][:, i, None, None] ** 2 * data["u_x"])
    assert not any(array == "a_x" for entry in form.integrals for array, _ in entry.residual.reads)
    assert functional(volume * ufl.SpatialCoordinate(domain)[0] ** 5 * dx).integrals[0].degree == 5
