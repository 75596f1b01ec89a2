"""Forms given by C bodies."""

import numpy as np
import pytest
from forms_support import Constant, Function, Space, compiled, make_mesh, random_data, times_direction, total
from ufl import SpatialCoordinate, TestFunction, dx, grad, inner

from femgpu.errors import FormError
from femgpu.forms import PointwiseForm, lower_form

MESH = make_mesh(2)
V = Space(MESH, 2)
V2 = Space(MESH, 2, (2,))

POISSON = {
    "f0": "f0[0] = -4.0 + constants[1] * x[0];",
    "f1": "for (int d = 0; d < dim; ++d) f1[d] = a[0] * u_x[d];",
    "g3": "for (int d = 0; d < dim; ++d) g3[d*dim+d] = a[0];",
}
# Every block is used: f0 = u (u . b) + (grad u) u + c, f1 = u_c u_d grad
VECTOR = {
    "f0": """for (int c = 0; c < dim; ++c) { // convection
  f0[c] = u[c] * u[0] + a[aOff[1] + c];
  for (int d = 0; d < dim; ++d) f0[c] += u_x[c*dim + d] * u[d];
}""",
    "f1": """for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d)
  f1[c*dim + d] = u[c]*u[d] + a_x[aOff_x[1] + c*dim + d]*u_x[d];""",
    "g0": """for (int c = 0; c < dim; ++c) {
  g0[c*dim + c] += u[0];
  g0[c*dim + 0] += u[c];
  for (int d = 0; d < dim; ++d) g0[c*dim + d] += u_x[c*dim + d];
}""",
    "g1": "for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d) g1[(c*dim + c)*dim + d] = u[d];",
    "g2": """for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d) {
  g2[(c*dim + c)*dim + d] += u[d];
  g2[(c*dim + d)*dim + d] += u[c];
}""",
    "g3": """for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d)
  g3[((c*dim + 0)*dim + d)*dim + d] = a_x[aOff_x[1] + c*dim + d];""",
}


def run(form, kind, data, folder):
    entry = getattr(form.integrals[0], kind)
    return compiled(entry, form, 2, folder)(data)


def test_poisson(tmp_path):
    kappa, c = Function(V), Constant(MESH, (2,))
    u = Function(V)
    form = lower_form(PointwiseForm(V, **POISSON, aux=[kappa], constants=[c]), u)
    assert form.unknown is u and form.space is V and form.coefficients == (kappa,) and form.constants == (c,)
    (integral,) = form.integrals
    assert integral.degree is None and integral.subdomain == () and form.has_jacobian
    assert integral.residual.reads == {("u_x", 0), ("x", 0), ("a", 0)}
    assert integral.residual.writes == {("f0", 0), ("f1", 0)}
    assert integral.action.reads == {("w_x", 0), ("a", 0)} and integral.action.writes == {("f1", 0)}
    assert integral.jacobian.reads == {("a", 0)} and integral.jacobian.writes == {("g3", 0)}
    assert integral.residual.evaluate is None
    data = random_data(form, 2)
    found = run(form, "residual", data, tmp_path)
    np.testing.assert_allclose(found["f0"], -4 + data["constants"][1] * data["x"][:, :1])
    np.testing.assert_allclose(found["f1"], data["a"][:, :, None] * data["u_x"])
    np.testing.assert_allclose(run(form, "action", data, tmp_path)["f1"], data["a"][:, :, None] * data["w_x"])
    np.testing.assert_allclose(run(form, "jacobian", data, tmp_path)["g3"][:, 0, 0], data["a"][:, :, None] * np.eye(2))


def test_same_values_as_the_ufl_form(tmp_path):
    kappa, u, v = Function(V), Function(V), TestFunction(V)
    c = Constant(MESH, (2,))
    F = kappa * inner(grad(u), grad(v)) * dx + (-4 + c[1] * SpatialCoordinate(MESH)[0]) * v * dx
    by_ufl = lower_form(F, u)
    by_hand = PointwiseForm(V, **POISSON, aux=[kappa], constants=[c]).lower(u)
    data = random_data(by_hand, 2)
    for kind in ("residual", "action", "jacobian"):
        for name, values in run(by_hand, kind, data, tmp_path).items():
            np.testing.assert_allclose(values, total(by_ufl, kind, data)[name], atol=1e-15)


def test_action_is_the_blocks_times_the_direction(tmp_path):
    form = PointwiseForm(V2, **VECTOR, aux=[Function(V), Function(V2)]).lower(Function(V2))
    data = random_data(form, 2)
    action = run(form, "action", data, tmp_path)
    expected = times_direction(run(form, "jacobian", data, tmp_path), data)
    for name in ("f0", "f1"):
        np.testing.assert_allclose(action[name], expected[name], atol=1e-14)


def test_action_is_the_derivative(tmp_path):
    form = PointwiseForm(V2, **VECTOR, aux=[Function(V), Function(V2)]).lower(Function(V2))
    data, h = random_data(form, 2), 1e-6
    residual = compiled(form.integrals[0].residual, form, 2, tmp_path)
    plus, minus = (
        residual({**data, "u": data["u"] + s * h * data["w"], "u_x": data["u_x"] + s * h * data["w_x"]}) for s in (1, -1)
    )
    action = run(form, "action", data, tmp_path)
    for name in ("f0", "f1"):
        np.testing.assert_allclose((plus[name] - minus[name]) / (2 * h), action[name], atol=1e-8)


def test_petsc_names(tmp_path):
    body = """PetscScalar s = 0; const PetscReal half = 0.5; PetscInt d; /* return a_t */
    for (d = 0; d < dim; ++d) s += u_x[uOff_x[0] + d] * a_x[aOff_x[1] + d];
    f0[0] = half * s * u[uOff[Nf - 1]] + numConstants + 10 * NfAux + t;"""
    form = PointwiseForm(V, f0=body, aux=[Function(V2), Function(V)], constants=[Constant(MESH, (3,))]).lower()
    data = random_data(form, 2)
    expected = 0.5 * (data["u_x"][:, 0] * data["a_x"][:, 2]).sum(1) * data["u"][:, 0] + 23
    np.testing.assert_allclose(run(form, "residual", data, tmp_path)["f0"][:, 0], expected)


def test_without_blocks_the_jacobian_is_a_difference():
    form = PointwiseForm(V, f0="f0[0] = u[0];").lower(Function(V))
    assert not form.has_jacobian
    assert form.integrals[0].action is None and form.integrals[0].jacobian is None
    assert "matrix-free difference" in form.notes[0]


def test_degree_and_text():
    def make(body="f0[0] = u[0];", degree=None):
        return PointwiseForm(V, body, degree=degree, aux=[Function(V)]).lower(Function(V))

    assert make(degree=3).integrals[0].degree == 3
    assert make().integrals == make().integrals
    assert len({entry.integrals for entry in (make(), make(degree=3), make("f0[0] = 2*u[0];"))}) == 3


REFUSED = {
    "nothing": (dict(), "neither f0 nor f1"),
    "only blocks": (dict(g0="g0[0] = 1;"), "neither f0 nor f1"),
    "coefficient's time derivative": (dict(f0="f0[0] = a_t[0];"), "uses 'a_t': time derivatives of coefficients are not"),
    "shift": (dict(f0="f0[0] = u_tShift;"), "f0 uses 'u_tShift', which g0, g1, g2, g3 have only"),
    "return": (dict(f0="if (dim > 2) return; f0[0] = 1;"), "f0 uses 'return': the body is pasted into a kernel"),
    "wrong output": (dict(f0="f1[0] = 1;"), r"f0 never writes f0\[...\]"),
    "no text": (dict(f0=3.0), "f0 is of type float; expected a string"),
    "aux": (dict(f0="f0[0] = a[0];", aux=[1.0]), "aux holds 1.0; expected Functions"),
    "aux elsewhere": (dict(f0="f0[0] = a[0];", aux=[Function(Space(make_mesh(2)))]), "two meshes in one form"),
    "constants": (dict(f0="f0[0] = 1;", constants=[2.0]), "constants holds 2.0; expected Constants"),
    "time": (dict(f0="f0[0] = t;", t=3.0), "t is 3.0; expected a scalar Constant"),
    "vector of times": (dict(f0="f0[0] = t;", t=Constant(MESH, (2,))), "expected a scalar Constant"),
    "fields": (dict(f0={"u": "f0[0] = 1;"}), "f0 is a dict; expected a string, the space has one field only"),
    "degree": (dict(f0="f0[0] = 1;", degree=-1), "degree -1; expected an integer of at least 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    arguments, message = REFUSED[name]
    with pytest.raises(FormError, match=message):
        PointwiseForm(V, **arguments)


def test_a_dict_of_spaces_is_refused():
    with pytest.raises(FormError, match="V is of type dict; expected a FunctionSpace, or femgpu.MixedSpace for several fields"):
        PointwiseForm({"velocity": V2, "pressure": V}, f0="f0[0] = 1;")


def test_the_unknown_in_aux_is_refused():
    u = Function(V)
    with pytest.raises(FormError, match="aux holds the unknown w_.*; expected bodies that read it as u and u_x"):
        PointwiseForm(V, f0="f0[0] = a[0];", aux=[u]).lower(u)


def test_unknown_of_another_space_is_refused():
    with pytest.raises(FormError, match="is not a Function in the form's space"):
        PointwiseForm(V, f0="f0[0] = 1;").lower(Function(V2))


def test_separate_jacobian_is_refused():
    with pytest.raises(FormError, match="J is given beside a PointwiseForm; expected g0 to g3"):
        lower_form(PointwiseForm(V, f0="f0[0] = 1;"), Function(V), J=object())
