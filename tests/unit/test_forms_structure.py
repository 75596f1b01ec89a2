"""What a lowered form is made of: integrals, degrees, numbering, sharing, text."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import forms_cases
import numpy as np
import pytest
import ufl
from forms_support import Constant, Function, Space, compiled, make_mesh, random_data, total
from ufl import TestFunction, TrialFunction, derivative, dx, exp, grad, inner

from femgpu.errors import DataError
from femgpu.forms import functional, lower_form


def problem(degree=2, dim=2, cell=None, shape=()):
    V = Space(make_mesh(dim, cell), degree, shape)
    return V, Function(V), TestFunction(V)


def num_nodes(entry):
    evaluation = entry.evaluate
    return len(evaluation.graph.live(node for _, _, node in evaluation.roots))


def test_neo_hookean_is_shared():
    F, u, _ = forms_cases.neo_hookean(3)
    (integral,) = lower_form(F, u).integrals
    assert num_nodes(integral.residual) <= 130
    assert num_nodes(integral.action) <= 275
    assert integral.residual.flops <= 115
    assert integral.action.flops <= 245


def test_lowering_takes_milliseconds():
    F, u, _ = forms_cases.neo_hookean(3)
    lower_form(F, u)
    start = time.process_time()
    lower_form(F, u)
    assert time.process_time() - start < 0.5


def test_shared_powers_do_not_explode():
    _, u, v = problem()
    e = u
    for _ in range(60):
        e = e * e + e  # 2**60 terms when expanded
    (integral,) = lower_form(e * v * dx(degree=2), u).integrals
    assert integral.residual.flops == 120


def test_long_sums_are_no_recursion_error():
    V, u, v = problem()
    x = ufl.SpatialCoordinate(V.ufl_domain())
    count = 900  # of a thousand UFL itself makes no sum
    terms = [float(k) * x[0] ** 3 for k in range(1, count)]
    for F, last in ((sum(terms, u) * v * dx, count), (sum((term * v * dx for term in terms[:299]), u * v * dx), 300)):
        form = lower_form(F, u)
        data = random_data(form, 2)
        expected = data["u"][:, 0] + sum(range(last)) * data["x"][:, 0] ** 3
        np.testing.assert_allclose(total(form, "residual", data)["f0"][:, 0], expected)
        np.testing.assert_allclose(total(form, "jacobian", data)["g0"].ravel(), 1.0)
    form = lower_form(ufl.product([1 + 1e-4 * k * u for k in range(count)]) * v * dx(degree=2), u)
    data = random_data(form, 2)
    expected = np.prod(1 + 1e-4 * np.arange(count) * data["u"], axis=1)
    np.testing.assert_allclose(total(form, "residual", data)["f0"][:, 0], expected, rtol=1e-11)


def test_balanced_sums_keep_what_is_shared():
    _, u, v = problem()
    e = u
    for k in range(200):
        e = e + k * u**3
        if k == 100:
            shared = e
    (integral,) = lower_form((e + shared * ufl.sin(shared)) * v * dx(degree=2), u).integrals
    (plain,) = lower_form(e * v * dx(degree=2), u).integrals
    assert integral.residual.flops <= plain.residual.flops + 30


def test_declared_reads_and_writes():
    V, u, v = problem()
    kappa, f = Function(V), Function(V)
    (integral,) = lower_form(kappa * inner(grad(u), grad(v)) * dx - u * f * v * dx, u).integrals
    coefficients = {("a", 0), ("a", 1)}
    assert integral.residual.reads == {("u", 0), ("u_x", 0)} | coefficients
    assert integral.residual.writes == {("f0", 0), ("f1", 0)}
    assert integral.action.reads == {("w", 0), ("w_x", 0)} | coefficients
    assert integral.jacobian.writes == {("g0", 0), ("g3", 0)}
    assert [entry.kind for entry in integral.pointwise] == ["residual", "action", "jacobian"]


def test_a_load_on_a_label_has_no_jacobian():
    V, u, v = problem()
    f = Function(V)
    form = lower_form(inner(grad(u), grad(v)) * dx - f * v * dx(3), u)
    assert [integral.subdomain for integral in form.integrals] == [(), (3,)]
    assert form.integrals[1].action is None and form.integrals[1].jacobian is None
    assert form.has_jacobian


def test_merged_ids_are_summed_over_each():
    _, u, v = problem()
    form = lower_form(u * v * dx + u * v * dx((1, 2)) + 2 * u * v * dx(4), u)
    assert [integral.subdomain for integral in form.integrals] == [(), (1, 2), (4,)]
    assert form.integrals[0].residual == form.integrals[1].residual != form.integrals[2].residual


def test_metadata_keep_integrals_apart():
    _, u, v = problem()
    F = inner(grad(u), grad(v)) * dx + u * v * dx(degree=0) + u**3 * v * dx(metadata={"quadrature_degree": 7})
    assert sorted(integral.degree for integral in lower_form(F, u).integrals) == [0, 2, 7]


def test_estimates_are_capped_with_a_note():
    V, u, v = problem(degree=2)
    form = lower_form(exp(u) ** 3 * v * dx, u)
    assert form.integrals[0].degree == 6 and form.integrals[0].estimated
    assert "UFL estimates 14" in form.notes[0]
    assert lower_form(u * v * dx, u).notes == ()
    assert not lower_form(u * v * dx(degree=3), u).integrals[0].estimated
    x = ufl.SpatialCoordinate(V.ufl_domain())
    assert functional(u**9 * dx).integrals[0].degree == 18
    assert functional(x[0] ** 9 * dx).integrals[0].degree == 9


def test_coefficients_and_constants_are_numbered_by_first_appearance():
    V, u, v = problem()
    mesh = V.ufl_domain()
    f, b = Function(V), Function(Space(mesh, 1, (2,)))
    t, K = Constant(mesh), Constant(mesh, (2, 2))
    form = lower_form(t * f * inner(K * grad(u), grad(v)) * dx - inner(b, grad(u)) * v * dx, u)
    assert set(form.coefficients) == {f, b} and set(form.constants) == {t, K}
    assert form.coefficient_offsets[-1] == 3 and form.constant_offsets[-1] == 5
    data = random_data(form, 2)
    i, j = (form.coefficient_offsets[form.coefficients.index(c)] for c in (f, b))
    k, m = (form.constant_offsets[form.constants.index(c)] for c in (t, K))
    values = data["constants"]
    flux = values[k] * data["a"][:, i, None] * (data["u_x"][:, 0] @ values[m : m + 4].reshape(2, 2).T)
    found = total(form, "residual", data)
    np.testing.assert_allclose(found["f1"][:, 0], flux)
    np.testing.assert_allclose(found["f0"][:, 0], -(data["a"][:, j : j + 2] * data["u_x"][:, 0]).sum(1))


def test_fresh_coefficients_and_constants_make_no_difference():
    def make(power, degree=4):
        V, u, v = problem()
        f, c = Function(Space(V.ufl_domain(), 1)), Constant(V.ufl_domain())
        return lower_form(c * f * u**power * v * dx(degree=degree), u).integrals

    assert make(2) == make(2)
    assert make(2) != make(3) and make(2) != make(2, degree=5)


def test_text_does_not_depend_on_the_number_of_constants_made():
    V, u, v = problem()
    mesh = V.ufl_domain()

    def make(first):
        a, b, c = (ufl.Constant(mesh, count=first + i) for i in range(3))
        form = lower_form((a * u + (b + c) * u**2 + a * b * c * u**3) * v * dx, u)
        return form.integrals, [form.constants.index(entry) for entry in (a, b, c)]

    assert make(8) == make(9) == make(20) == make(98)


def test_a_linear_form_needs_no_unknown():
    V, _, v = problem()
    f = Function(V)
    form = lower_form(f * v * dx)
    assert form.unknown is None and form.space is V and form.coefficients == (f,)
    assert form.integrals[0].residual.reads == {("a", 0)}
    assert form.integrals[0].action is None


def test_given_jacobian_is_used_for_action_and_blocks():
    V, u, v = problem()
    f, du = Function(V), TrialFunction(V)
    form = lower_form((1 + u**2) * inner(grad(u), grad(v)) * dx, u, J=(1 + u**2) * f * inner(grad(du), grad(v)) * dx)
    data = random_data(form, 2)
    k = (1 + data["u"] ** 2)[:, 0] * data["a"][:, 0]
    assert form.coefficients == (f,)
    np.testing.assert_allclose(total(form, "action", data)["f1"], k[:, None, None] * data["w_x"])
    blocks = total(form, "jacobian", data)
    np.testing.assert_allclose(blocks["g3"][:, 0, 0], k[:, None, None] * np.eye(2))
    assert not blocks["g2"].any()


def test_test_function_of_an_equal_space():
    mesh = make_mesh(2)
    V = Space(mesh, 2)
    u = Function(V)
    assert lower_form(u * TestFunction(Space(mesh, 2)) * dx, u).space is V


def test_functional(tmp_path):
    V, u, _ = problem(shape=(2,))
    c = Constant(V.ufl_domain())
    x = ufl.SpatialCoordinate(V.ufl_domain())
    form = functional((inner(u - x, u - x) + c * inner(grad(u), grad(u))) * dx + c * dx(3))
    assert form.space is None and form.unknown is None and form.coefficients == (u,)
    first, second = (integral.functional for integral in form.integrals)
    data = random_data(form, 2)
    expected = ((data["a"] - data["x"]) ** 2).sum(1) + data["constants"][0] * (data["a_x"] ** 2).sum((1, 2))
    np.testing.assert_allclose(first.evaluate(data)["f0"][:, 0], expected)
    np.testing.assert_allclose(second.evaluate(data)["f0"], np.full((7, 1), data["constants"][0]))
    np.testing.assert_allclose(compiled(first, form, 2, tmp_path)(data)["f0"][:, 0], expected)
    assert first.reads == {("a", 0), ("a", 1), ("a_x", 0), ("a_x", 1), ("x", 0)} and first.writes == {("f0", 0)}


def test_variation_of_an_energy_equals_the_form_by_hand():
    _, u, v = problem()
    by_hand = lower_form(inner(grad(u), grad(v)) * dx + u**3 * v * dx, u)
    varied = lower_form(derivative((inner(grad(u), grad(u)) / 2 + u**4 / 4) * dx, u, v), u)
    data = random_data(by_hand, 2)
    for kind in ("residual", "action", "jacobian"):
        a, b = total(by_hand, kind, data), total(varied, kind, data)
        for name in a:
            np.testing.assert_allclose(a[name], b[name], atol=1e-14)


@pytest.mark.parametrize("cell", ["quadrilateral", "hexahedron"])
def test_tensor_cells(cell):
    _, u, v = problem(2, 2 if cell == "quadrilateral" else 3, cell)
    (integral,) = lower_form(inner(grad(u), grad(v)) * dx, u).integrals
    assert integral.degree == 4 and integral.residual.flops == 0


def test_text_is_hexadecimal_and_annotated():
    _, u, v = problem()
    (integral,) = lower_form(0.1 * u * v * dx + 3 * inner(grad(u), grad(v)) * dx, u).integrals
    assert "R(0x1.999999999999ap-4 /* 0.1 */) * u[0]" in integral.residual.body
    assert "R(0x1.8p+1 /* 3.0 */) * u_x[1]" in integral.residual.body
    assert re.findall(r"^const real (t\d+)", integral.residual.body, re.M) == ["t0", "t1", "t2"]
    assert integral.jacobian.body.splitlines()[-1] == "g3[3] = R(0x1.8p+1 /* 3.0 */);"


def test_evaluation_takes_any_shape_in_petscs_order():
    F, u, _ = forms_cases.elasticity(3)
    form = lower_form(F, u)
    data = random_data(form, 3)
    flat = {**data, "u_x": data["u_x"].reshape(-1, 9)}
    (integral,) = form.integrals
    assert np.array_equal(integral.residual.evaluate(data)["f1"], integral.residual.evaluate(flat)["f1"])
    empty = {name: values[:0] if name != "constants" else values for name, values in data.items()}
    assert integral.residual.evaluate(empty)["f1"].shape == (0, 3, 3)


def test_evaluation_names_what_is_missing():
    F, u, _ = forms_cases.elasticity(3)
    (integral,) = lower_form(F, u).integrals
    with pytest.raises(DataError, match=r"needs the array 'constants'; given are \['u_x'\]"):
        integral.residual.evaluate({"u_x": np.ones((2, 9))})
    with pytest.raises(DataError, match="reads entry 4 of 'u_x', which has only 4 per point"):
        integral.residual.evaluate({"u_x": np.ones((2, 4)), "constants": np.ones(2)})
    with pytest.raises(DataError, match="same number of points"):
        integral.residual.evaluate({"u_x": np.ones((2, 9)), "x": np.ones((3, 3))})


def test_text_does_not_depend_on_hash_seeds():
    script = (
        "import forms_cases, femgpu.forms as f; F, u, _ = forms_cases.{}; "
        "print(*[function.body for integral in f.lower_form(F, u).integrals for function in integral.pointwise])"
    )

    def run(case, seed):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", script.format(case)]
        return subprocess.run(
            command, env=environment, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout

    for case in ("neo_hookean(3)", "coefficient_gradients()"):
        assert run(case, "1") == run(case, "2")
