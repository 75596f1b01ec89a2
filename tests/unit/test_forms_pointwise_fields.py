"""Forms given by C bodies: several fields, facets, time."""

from math import prod

import numpy as np
import pytest
from forms_support import Constant, Function, Mixed, Space, compiled, make_mesh, names, part, random_data, total
from ufl import FacetNormal, SpatialCoordinate, TestFunction, TestFunctions, div, dot, ds, dx, grad, inner, split

from femgpu.errors import FormError
from femgpu.forms import PointwiseForm, lower_form

MESH = make_mesh(2)
V = Space(MESH, 2)
TAYLOR_HOOD = {"velocity": ("P", 2, (2,)), "pressure": ("P", 1, ())}
W = Mixed(MESH, **TAYLOR_HOOD)
# Navier-Stokes with a body force that is the second coefficient
F0 = {
    "velocity": """for (int c = 0; c < dim; ++c) {
  f0[c] = -a[aOff[1] + c];
  for (int d = 0; d < dim; ++d) f0[c] += u_x[uOff_x[0] + c*dim + d] * u[uOff[0] + d];
}""",
    "pressure": "for (int d = 0; d < dim; ++d) f0[0] -= u_x[uOff_x[0] + d*dim + d];",
}
F1 = {
    "velocity": """for (int c = 0; c < dim; ++c) {
  for (int d = 0; d < dim; ++d) f1[c*dim + d] = a[aOff[0]] * u_x[c*dim + d];
  f1[c*dim + c] -= u[uOff[1]];
}"""
}
BLOCKS = {
    "g0": {("velocity", "velocity"): "for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d) g0[c*dim + d] = u_x[c*dim + d];"},
    "g1": {
        ("velocity", "velocity"): "for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d) g1[(c*dim + c)*dim + d] = u[d];",
        ("pressure", "velocity"): "for (int d = 0; d < dim; ++d) g1[d*dim + d] = -1.0;",
    },
    "g2": {("velocity", "pressure"): "for (int c = 0; c < dim; ++c) g2[c*dim + c] = -1.0;"},
    "g3": {
        ("velocity", "velocity"): """for (int c = 0; c < dim; ++c) for (int d = 0; d < dim; ++d)
  g3[((c*dim + c)*dim + d)*dim + d] = a[aOff[0]];"""
    },
}


def navier_stokes():
    w, nu, force = Function(W), Function(V), Function(Space(MESH, 1, (2,)))
    u, p = split(w)
    v, q = TestFunctions(W)
    F = nu * inner(grad(u), grad(v)) * dx + dot(dot(grad(u), u), v) * dx - p * div(v) * dx - div(u) * q * dx - dot(force, v) * dx
    return w, [nu, force], F


def same(by_hand, by_ufl, folder):
    """All operators of the first integral are equal."""
    data = random_data(by_hand, 2)
    renumbered = renumber(data, by_hand, by_ufl)
    for kind in ("residual", "action", "jacobian"):
        found = compiled(getattr(by_hand.integrals[0], kind), by_hand, 2, folder)(data)
        for name, values in total(by_ufl, kind, renumbered).items():
            np.testing.assert_allclose(found.get(name, np.zeros_like(values)), values, atol=1e-14, err_msg=f"{kind} {name}")


def renumber(data, old, new):
    """The data of one form for another one, which numbers coefficients and constants in its own way."""
    where = _places(new.coefficients, old.coefficients, old.coefficient_offsets)
    constants = _places(new.constants, old.constants, old.constant_offsets)
    return {**data, "a": data["a"][:, where], "a_x": data["a_x"][:, where], "constants": data["constants"][constants]}


def _places(wanted, entries, offsets):
    firsts = [offsets[entries.index(entry)] for entry in wanted]
    return [first + i for first, entry in zip(firsts, wanted, strict=True) for i in range(prod(entry.ufl_shape))]


def test_navier_stokes(tmp_path):
    w, aux, F = navier_stokes()
    form = PointwiseForm(W, F0, F1, **BLOCKS, aux=aux).lower(w)
    by_ufl = lower_form(F, w)
    same(form, by_ufl, tmp_path)
    (integral,) = form.integrals
    assert integral.residual.writes == by_ufl.integrals[0].residual.writes
    assert integral.jacobian.writes == {
        ("g0", 0),
        ("g0", 1),
        ("g1", 0),
        ("g1", 1),
        ("g1", 2),
        ("g2", 0),
        ("g2", 1),
        ("g3", 0),
        ("g3", 1),
    }
    assert ("w", 2) in integral.action.reads and ("w_x", 2) not in integral.action.reads


def test_fields_without_blocks_use_a_difference():
    w, aux, _ = navier_stokes()
    form = PointwiseForm(W, F0, F1, aux=aux).lower(w)
    assert not form.has_jacobian and form.integrals[0].jacobian is None and "matrix-free difference" in form.notes[0]


def test_a_mixed_space_of_one_field_takes_strings_and_dicts():
    one = Mixed(MESH, velocity=("P", 2, (2,)))
    u = Function(one)
    plain = PointwiseForm(one, "f0[0] = u[0];", g0="g0[0] = 1;").lower(u)
    named = PointwiseForm(one, {"velocity": "f0[0] = u[0];"}, g0={("velocity", "velocity"): "g0[0] = 1;"}).lower(u)
    assert plain.integrals == named.integrals
    with pytest.raises(FormError, match="f0 has the key 'pressure'; expected the fields 'velocity'"):
        PointwiseForm(one, {"pressure": "f0[0] = u[0];"})


def test_offsets_of_all_fields(tmp_path):
    other = Mixed(MESH, a=("P", 1, (2, 2)), b=("DG", 0, ()), c=("P", 3, (3,)))
    body = """const int all[] = {Nf, uOff[0], uOff[1], uOff[2], uOff_x[0], uOff_x[1], uOff_x[2], NfAux, aOff[0], aOff[1], aOff[2],
  aOff[3], aOff[4], aOff_x[0], aOff_x[1], aOff_x[2], aOff_x[3], aOff_x[4], numConstants};
  for (int i = 0; i < 19; ++i) f0[0] += constants[i] * all[i];"""
    form = PointwiseForm(W, {"pressure": body}, aux=[Function(V), Function(other)], constants=[Constant(MESH, (19,))]).lower()
    (entry,) = form.integrals[0].pointwise
    data = random_data(form, 2)
    expected = data["constants"] @ [2, 0, 2, 3, 0, 4, 6, 4, 0, 1, 5, 6, 9, 0, 2, 10, 12, 18, 19]
    found = compiled(entry, form, 2, tmp_path)(data)["f0"]
    np.testing.assert_allclose(found, np.outer(np.ones(len(found)), [0, 0, expected]))
    assert entry.writes == {("f0", 2)} and not names(entry.reads)


def test_a_part_of_a_mixed_function_as_coefficient(tmp_path):
    w, u, v = Function(W), Function(V), TestFunction(V)
    form = PointwiseForm(V, "f0[0] = a[aOff[0]] * u[0];", g0="g0[0] = a[aOff[0]];", aux=[part(w, "pressure")]).lower(u)
    assert form.coefficients == (w,) and form.integrals[0].residual.reads == {("u", 0), ("a", 2)}
    same(form, lower_form(split(w)[1] * u * v * dx, u), tmp_path)


def test_facets(tmp_path):
    u, v, kappa, g = Function(V), TestFunction(V), Function(Space(MESH, 1)), Constant(MESH)
    n, x = FacetNormal(MESH), SpatialCoordinate(MESH)
    form = PointwiseForm(
        V,
        f1="for (int d = 0; d < dim; ++d) f1[d] = u_x[d];",
        g3="for (int d = 0; d < dim; ++d) g3[d*dim + d] = 1.0;",
        facets={
            3: dict(f0="f0[0] = a[0] * u[0]*u[0]*u[0] * x[0];", g0="g0[0] = 3 * a[0] * u[0]*u[0] * x[0];"),
            (1, 2): dict(f1="for (int d = 0; d < dim; ++d) f1[d] = n[d] * u[0];", g2="for (int d = 0; d < dim; ++d) g2[d] = n[d];"),
            "boundary": dict(f0="for (int d = 0; d < dim; ++d) f0[0] += n[d] * x[d] * constants[0];"),
        },
        aux=[kappa],
        constants=[g],
    ).lower(u)
    F = inner(grad(u), grad(v)) * dx + g * dot(n, x) * v * ds + kappa * u**3 * x[0] * v * ds(3) + u * dot(n, grad(v)) * ds((1, 2))
    by_ufl = lower_form(F, u)
    assert [(entry.type, entry.subdomain, entry.degree) for entry in form.integrals] == [
        ("cell", (), None),
        *(("exterior_facet", ids, None) for ids in ((3,), (1, 2), ())),
    ]
    data = random_data(form, 2)
    for integral in form.integrals:
        twins = [entry for entry in by_ufl.integrals if (entry.type, entry.subdomain) == (integral.type, integral.subdomain)]
        for kind in ("residual", "action", "jacobian"):
            entry = getattr(integral, kind)
            found = compiled(entry, form, 2, tmp_path)(data) if entry else {}
            for name, values in total(by_ufl, kind, data, twins).items():
                np.testing.assert_allclose(found.get(name, np.zeros_like(values)), values, atol=1e-14)
    assert form.integrals[2].residual.reads == {("n", 0), ("u", 0)}
    assert form.notes == ()


def test_facets_of_fields(tmp_path):
    w = Function(W)
    bodies = dict(
        f0={"velocity": "for (int d = 0; d < dim; ++d) f0[d] = n[d] * u[uOff[1]];"},
        g0={("velocity", "pressure"): "for (int d = 0; d < dim; ++d) g0[d] = n[d];"},
    )
    form = PointwiseForm(W, facets={7: bodies}).lower(w)
    _, p = split(w)
    by_ufl = lower_form(p * dot(FacetNormal(MESH), TestFunctions(W)[0]) * ds(7), w)
    same(form, by_ufl, tmp_path)
    assert form.integrals[0].jacobian.writes == by_ufl.integrals[0].jacobian.writes


def test_facets_that_read_u_without_a_jacobian_are_noted():
    form = PointwiseForm(V, "f0[0] = u[0];", g0="g0[0] = 1;", facets={(1, 2): dict(f0="f0[0] = u[0];")}).lower(Function(V))
    assert form.has_jacobian and form.integrals[1].action is None
    assert form.notes == ("pointwise functions of facets (1, 2) read u, but have no g0 to g3: their Jacobian is taken as zero",)


def test_time(tmp_path, monkeypatch):
    u, v, rate, shift, t, c = Function(V), TestFunction(V), Function(V), Constant(MESH), Constant(MESH), Constant(MESH, (2,))
    monkeypatch.setattr("femgpu.forms.c.pointwise_form.time_derivative", {u: rate}.get)
    monkeypatch.setattr("femgpu.forms.c.pointwise_form.time_shift", {u: shift}.get)
    form = PointwiseForm(
        V,
        f0="f0[0] = u_t[0]*u_t[0]*u[0] - t * constants[numConstants - 1];",
        g0="g0[0] = u_t[0]*u_t[0] + 2*u_tShift*u_t[0]*u[0];",
        constants=[c],
        t=t,
    ).lower(u)
    assert form.coefficients == (rate,) and form.constants == (c, t, shift)
    assert form.integrals[0].residual.reads == {("u", 0), ("a", 0)}
    by_ufl = lower_form((rate**2 * u - t * c[1]) * v * dx, u, rates={rate: shift})
    same(form, by_ufl, tmp_path)
    data, h = random_data(form, 2), 1e-6
    residual, s = compiled(form.integrals[0].residual, form, 2, tmp_path), data["constants"][-1]
    plus, minus = (residual({**data, "u": data["u"] + k * data["w"], "a": data["a"] + s * k * data["w"]})["f0"] for k in (h, -h))
    action = compiled(form.integrals[0].action, form, 2, tmp_path)(data)["f0"]
    np.testing.assert_allclose((plus - minus) / (2 * h), action, atol=1e-7)


def test_time_that_no_body_mentions_is_no_constant():
    assert PointwiseForm(V, "f0[0] = 1; /* t u_t */", t=Constant(MESH)).lower(Function(V)).constants == ()


@pytest.mark.parametrize("word", ["u_t", "u_tShift"])
def test_rates_need_the_unknown(word):
    with pytest.raises(FormError, match=f"a body uses '{word}', but there is no unknown"):
        PointwiseForm(V, "f0[0] = 1;", g0=f"g0[0] = {word};").lower()


def test_coefficients_that_occur_twice_are_bound_once(tmp_path):
    f, u = Function(V), Function(V)
    form = PointwiseForm(V, "f0[0] = u[0] * a[aOff[0]] * a[aOff[1]];", g0="g0[0] = a[0] * a[0];", aux=[f, f]).lower(u)
    same(form, lower_form(f**2 * u * TestFunction(V) * dx, u), tmp_path)


LEGAL = "expected the fields 'velocity', 'pressure'"
REFUSED = {
    "string": (
        dict(f0="f0[0] = 1;"),
        "f0 is of type str, but the space has the fields 'velocity', 'pressure'; .* {'velocity': '...'}",
    ),
    "unknown field": (dict(f0={"u": "f0[0] = 1;"}), f"f0 has the key 'u'; {LEGAL}"),
    "unknown pair": (
        dict(f0=F0, g0={("velocity", "p"): "g0[0] = 1;"}),
        r"g0 has the key \('velocity', 'p'\); expected pairs \(test field, trial field\) of 'velocity', 'pressure'",
    ),
    "no pair": (dict(f0=F0, g0={"velocity": "g0[0] = 1;"}), "g0 has the key 'velocity'; expected pairs"),
    "wrong output": (dict(f0={"velocity": "f1[0] = 1;"}), r"f0\['velocity'\] never writes f0\[...\]"),
    "wrong output of a pair": (
        dict(f0=F0, g1={("velocity", "pressure"): "g0[0] = 1;"}),
        r"g1\['velocity', 'pressure'\] never writes g1\[...\]",
    ),
    "facet key": (dict(facets={(1, "top"): dict(f0=F0)}), r"the key \(1, 'top'\): .* a value of the label 'Face Sets'"),
    "facet number": (dict(facets={1.5: dict(f0=F0)}), "the key 1.5: .* a value of the label"),
    "facet twice": (dict(facets={3: dict(f0=F0), (1, 3): dict(f0=F0)}), r"has an id of \(1, 3\) twice; .*here \[3\] before"),
    "facet twice in a key": (dict(facets={(3, 3): dict(f0=F0)}), r"has an id of \(3, 3\) twice"),
    "facet output": (dict(facets={3: dict(f2=F0)}), r"facets\[3\] is {.*}; expected a dict with some of f0, f1, g0, g1, g2, g3"),
    "facet string": (dict(facets={3: "f0[0] = 1;"}), r"facets\[3\] is 'f0\[0\] = 1;'; expected a dict"),
    "facet empty": (dict(facets={3: {}}), r"facets\[3\] is empty; expected f0, f1 or both"),
    "facet blocks only": (dict(facets={3: dict(g0=BLOCKS["g0"])}), r"neither f0 nor f1 is given of facets\[3\]"),
    "facet field": (dict(facets={3: dict(f0={"p": "f0[0] = 1;"})}), rf"f0 of facets\[3\] has the key 'p'; {LEGAL}"),
    "facets list": (dict(f0=F0, facets=[1]), "facets is of type list; expected a dict"),
    "nothing": (dict(), "neither f0 nor f1 is given; expected at least one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    arguments, message = REFUSED[name]
    with pytest.raises(FormError, match=message):
        PointwiseForm(W, **arguments)


def test_a_part_is_no_unknown():
    w = Function(W)
    with pytest.raises(FormError, match="is not a Function in the form's space"):
        PointwiseForm(Space(MESH, 1), "f0[0] = 1;").lower(part(w, "pressure"))
    with pytest.raises(FormError, match="is a part of w_.*; expected the whole Function"):
        lower_form(part(w, "pressure") * TestFunction(Space(MESH, 1)) * dx, part(w, "pressure"))


def test_mapped_spaces_are_refused():
    with pytest.raises(FormError, match="ContravariantPiola"):
        PointwiseForm(Mixed(MESH, flux=("RT", 1, None), pressure=("DG", 0, ())), {"flux": "f0[0] = 1;"})


def test_the_record_depends_on_fields_and_facets():
    def make(facet=3, body="f0[0] = 1;", field="velocity"):
        return PointwiseForm(W, facets={facet: dict(f0={field: body})}).lower(Function(W)).integrals

    assert make() == make()
    assert len({make(), make(4), make(body="f0[0] = 2;"), make(field="pressure")}) == 4
