"""Jacobian actions in two parts: both together are the action, and storing pays as the model says."""

import os
import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
import ufl
from forms_cases import CASES, bratu, elasticity, neo_hookean, nonlinear_diffusion, p_laplace
from forms_support import Constant, Function, Mixed, Space, compiled, make_mesh, names, random_data
from scipy.sparse import csr_array, random_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from ufl import Identity, det, diff, div, dot, ds, dx, exp, grad, inner, ln, tr, variable

from femgpu.errors import FormError
from femgpu.forms import PointwiseForm, lower_form
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import Graph
from femgpu.forms.graph.identities import SharedGraph
from femgpu.forms.graph.levels import Levels
from femgpu.forms.records import Pointwise
from femgpu.forms.state.cut import SINK, SOURCE, Cut
from femgpu.forms.state.split import split_states

PRICES = (0.0, 0.5, 4.0, 16.0, 60.0, inf)


def _vector(dim, degree=2):
    V = Space(make_mesh(dim), degree, (dim,))
    return Function(V), ufl.TestFunction(V), V.ufl_domain()


def saint_venant(dim):
    u, v, mesh = _vector(dim)
    mu, lam = Constant(mesh), Constant(mesh)
    G = Identity(dim) + grad(u)
    E = (G.T * G - Identity(dim)) / 2
    return inner(G * (lam * tr(E) * Identity(dim) + 2 * mu * E), grad(v)) * dx, u, None


def mooney_rivlin(dim):
    u, v, mesh = _vector(dim)
    c1, c2, k = Constant(mesh), Constant(mesh), Constant(mesh)
    G = variable(Identity(dim) + grad(u))
    C, J = G.T * G, det(G)
    psi = c1 * J ** (-2 / 3) * tr(C) + c2 / 2 * J ** (-4 / 3) * (tr(C) ** 2 - tr(C * C)) + k / 2 * (J - 1) ** 2
    return inner(diff(psi, G), grad(v)) * dx, u, None


def fibres(dim):
    u, v, mesh = _vector(dim)
    a, b, k = Constant(mesh), Constant(mesh), Constant(mesh)
    fibre = Function(u.ufl_function_space())
    G = variable(Identity(dim) + grad(u))
    J = det(G)
    C = J ** (-2 / 3) * G.T * G
    stretch = dot(fibre, C * fibre)
    psi = a * exp(b * (tr(C) - 3)) + ufl.conditional(ufl.gt(stretch, 1), a * (exp(b * (stretch - 1) ** 2) - 1), 0)
    return inner(diff(psi + k * (J**2 - 1 - 2 * ln(J)), G), grad(v)) * dx, u, None


def navier_stokes(dim):
    W = Mixed(make_mesh(dim), velocity=("P", 2, (dim,)), pressure=("P", 1, ()))
    w, nu = Function(W), Constant(W.ufl_domain())
    (u, p), (v, q) = ufl.split(w), ufl.TestFunctions(W)
    F = nu * inner(grad(u), grad(v)) + inner(dot(grad(u), u), v) - p * div(v) - q * div(u)
    return F * dx, w, None


def streamline_diffusion(dim):
    V = Space(make_mesh(dim), 2)
    u, v, b = Function(V), ufl.TestFunction(V), Function(Space(V.ufl_domain(), 1, (dim,)))
    residual = dot(b, grad(u)) - (1 + u**2) * div(grad(u)) + exp(u)
    return residual * (v + dot(b, grad(v)) / (1 + dot(b, b))) * dx, u, None


def radiation(dim):
    V = Space(make_mesh(dim), 2)
    u, v, g = Function(V), ufl.TestFunction(V), Function(V)
    n = ufl.FacetNormal(V.ufl_domain())
    return (abs(u) ** 3 * u - g + ufl.max_value(dot(n, grad(g)), u) * u) * v * ds, u, None


STATEFUL = {
    f"{form.__name__} {dim}D": lambda form=form, dim=dim: form(dim)
    for form in (
        neo_hookean,
        saint_venant,
        mooney_rivlin,
        fibres,
        navier_stokes,
        streamline_diffusion,
        radiation,
        p_laplace,
        bratu,
        nonlinear_diffusion,
    )
    for dim in (2, 3)
}


def _lowered(case):
    F, u, _ = case()
    form = lower_form(F, u)
    return form, u.ufl_function_space().ufl_domain().geometric_dimension


def _ten_basis_functions(dim):
    """Interpolation of quadratic tetrahedra; one operation per entry of x and n."""
    return lambda field: {"x": dim, "n": dim}.get(field[0], 20 * (dim if field[0].endswith("_x") else 1))


def _split(case, price, effort=None):
    form, dim = _lowered(case)
    action = form.integrals[0].action
    more = {} if effort is None else {"effort": effort}
    return _split_at(action, price, _ten_basis_functions(dim), **more)


def _split_at(action, price, *costs, **more):
    (split,) = split_states(action, (price,), *costs, **more)
    return split


def _stored(split, data):
    """What the state part finds without knowing the direction."""
    if split.state is None:
        return {}
    return split.state.evaluate({name: values for name, values in data.items() if not name.startswith("w")})


@pytest.mark.parametrize("name", [*STATEFUL, *CASES])
def test_both_parts_together_are_the_action(name):
    form, dim = _lowered({**CASES, **STATEFUL}[name])
    for integral in form.integrals:
        ways = set()
        for split in split_states(integral.action, PRICES, _ten_basis_functions(dim)):
            assert (split.num_scalars > 0) == (split.state is not None) == (("s", 0) in split.action.reads)
            if split.action.body in ways:
                continue
            ways.add(split.action.body)
            for seed in (1, 2):
                data = random_data(form, dim, num_points=50, seed=seed)
                expected = integral.action.evaluate(data)
                found = split.action.evaluate(data | _stored(split, data))
                assert set(found) == set(expected)
                for key, values in expected.items():
                    np.testing.assert_allclose(found[key], values, rtol=0, atol=1e-14 * np.max(np.abs(values)))


@pytest.mark.parametrize("name", ["neo_hookean 3D", "fibres 2D", "radiation 3D", "navier_stokes 2D"])
def test_parts_read_what_they_declare(name):
    form, dim = _lowered(STATEFUL[name])
    for price in (0.0, 16.0):
        split = _split_at(form.integrals[0].action, price, _ten_basis_functions(dim))
        data = random_data(form, dim)
        stored = _stored(split, data)
        assert split.state.kind == "state"
        assert stored["s"].shape == (7, split.num_scalars)
        assert split.state.writes == {("s", i) for i in range(split.num_scalars)}
        assert not names(split.state.reads) & {"w", "w_x", "w_xx", "s"}
        for part in (split.state, split.action):
            poisoned = {key: values.copy() for key, values in (data | stored).items()}
            for key, values in poisoned.items():
                if key in ("x", "n", "s") and (key, 0) not in part.reads:
                    values[:] = np.nan
                elif key[0] in "uwa":
                    values[:, [i for i in range(values.shape[1]) if (key, i) not in part.reads]] = np.nan
            assert all(np.isfinite(values).all() for values in part.evaluate(poisoned).values())


@pytest.mark.parametrize("name", ["neo_hookean 2D", "fibres 2D", "radiation 2D"])
@pytest.mark.parametrize("price", [0.0, 8.0])
def test_printed_parts_equal_the_numpy_twin(name, price, tmp_path):
    form, dim = _lowered(STATEFUL[name])
    split = _split_at(form.integrals[0].action, price, _ten_basis_functions(dim))
    body = f"real s[{split.num_scalars}];\n{{\n{split.state.body}\n}}\n{split.action.body}"
    data = random_data(form, dim)
    expected = split.action.evaluate(data | _stored(split, data))
    for key, values in compiled(replace(split.action, body=body), form, dim, tmp_path)(data).items():
        np.testing.assert_allclose(values, expected[key], rtol=0, atol=1e-13 * np.max(np.abs(expected[key])))


def test_neo_hookean_costs_no_more_than_by_hand():
    """Figures without regrouping: 237 operations and 11 scalars, 189 and 26; regrouped by hand 144."""
    few = _split(STATEFUL["neo_hookean 3D"], 8.0, effort={})
    assert str(few) == "9 scalars per point stored, 174 operations per point instead of 419 (regrouped, few operations)"
    assert few.num_scalars <= 9 and few.flops_after == few.action.flops <= 174
    many = _split(STATEFUL["neo_hookean 3D"], 1.0, effort={})
    assert many.num_scalars <= 31 and many.flops_after == many.action.flops <= 116
    assert names(many.action.reads) == {"w_x", "s"}


@pytest.mark.parametrize(
    "name, num_scalars, flops",
    [("mooney_rivlin 3D", 45, 153), ("p_laplace 2D", 3, 6), ("nonlinear_diffusion 3D", 4, 9), ("bratu 3D", 1, 1)],
)
def test_the_matrix_of_the_jacobian_is_symmetric(name, num_scalars, flops):
    split = _split(STATEFUL[name], 0.5, effort={})
    assert (split.num_scalars, split.action.flops) == (num_scalars, flops)


@pytest.mark.parametrize("name", STATEFUL)
def test_the_higher_the_price_the_fewer_scalars(name):
    form, dim = _lowered(STATEFUL[name])
    prices = (1.0, 8.0, 1e4, inf)
    splits = split_states(form.integrals[0].action, prices, _ten_basis_functions(dim), effort={})
    loads = [price * split.num_scalars if split.num_scalars else 0.0 for price, split in zip(prices, splits, strict=True)]
    costs = [split.flops_after + load for split, load in zip(splits, loads, strict=True)]
    assert costs == sorted(costs) and costs[-1] <= splits[-1].flops_before
    scalars = [split.num_scalars for split in splits]
    assert scalars[0] >= scalars[1] >= scalars[2] == scalars[3] == 0
    assert str(splits[3]).startswith("nothing stored")
    assert splits[3].state is None and splits[3].flops_after <= splits[3].flops_before


def test_constants_are_not_stored():
    split = _split(lambda: elasticity(3), 0.0)
    assert split.num_scalars == 0 and split.state is None


def test_bodies_of_the_user_are_not_split():
    V = Space(make_mesh(2), 1)
    form = PointwiseForm(V, f1="for (int d = 0; d < dim; ++d) f1[d] = u_x[d];", g0="g0[0] = u[0];").lower(Function(V))
    assert split_states(form.integrals[0].action, (1.0,), lambda field: 1.0) == []


@pytest.mark.parametrize("price", [-1.0, float("nan")])
def test_prices_that_make_no_sense_are_refused(price):
    with pytest.raises(FormError, match="expected at least 0"):
        _split(STATEFUL["bratu 2D"], price)


def _pointwise(graph, outputs):
    """An action in 2D with one component that writes f0, its inputs located as they are named."""
    shapes = {"f0": (len(outputs),), "f1": (len(outputs), 2)}
    roots = tuple(("f0", i, node) for i, node in enumerate(outputs))
    evaluate = Evaluation(graph, roots, shapes, lambda name, index: (name, index))
    return Pointwise("action", "", frozenset(), frozenset({("f0", 0)}), graph.flops(outputs), evaluate)


def test_a_field_is_paid_for_once():
    """Both derivatives of u are needed, or none: two scalars are cheaper than the field, not than half of it."""
    graph = Graph()
    gradient = [graph.input("u_x", i) for i in range(2)]
    action = _pointwise(graph, [graph.mul(entry, graph.input("w", 0)) for entry in gradient])
    assert _split_at(action, 6.0, lambda field: 10.0).num_scalars == 0
    assert _split_at(action, 4.0, lambda field: 10.0).num_scalars == 2


def test_coefficients_are_gathered_once_for_all_arrays():
    graph = Graph()
    values = [graph.input("u", 0), graph.input("u_x", 0)]
    action = _pointwise(graph, [graph.mul(value, graph.input("w", 0)) for value in values])
    assert _split_at(action, 6.0, lambda field: 1.0).num_scalars == 0
    assert _split_at(action, 6.0, lambda field: 1.0, lambda field: {("u", 0): 9.0}[field]).num_scalars == 0
    assert _split_at(action, 6.0, lambda field: 1.0, lambda field: {("u", 0): 12.0}[field]).num_scalars == 2


def test_truth_values_are_stored_as_numbers():
    graph = Graph()
    u, w = graph.input("u", 0), graph.input("w", 0)
    condition = graph.function("<", graph.function("exp", u), graph.function("sin", u))
    negative = graph.function("<", graph.function("exp", u), graph.mul(u, u))
    action = _pointwise(graph, [graph.select(condition, graph.function("fabs", w), w), graph.select(negative, w, w)])
    split = _split_at(action, 1.0, lambda field: 10.0)
    assert split.num_scalars == 1 and "? R(0x1p+0" in split.state.body and "int" not in split.state.body.splitlines()[-1]
    data = {"u": np.array([[-2.0], [-0.1], [-4.0]]), "w": np.array([[-1.0], [-2.0], [-3.0]])}
    stored = split.state.evaluate({"u": data["u"]})
    np.testing.assert_array_equal(split.action.evaluate({"w": data["w"]} | stored)["f0"], action.evaluate(data)["f0"])


@pytest.mark.parametrize("price", PRICES)
def test_branches_that_are_not_taken_do_no_harm(price):
    V = Space(make_mesh(2), 1)
    u, v = Function(V), ufl.TestFunction(V)
    safe = ufl.conditional(ufl.gt(u, 0), ufl.sqrt(u) + 1 / u + ln(u), u**2)
    form = lower_form((safe * (1 + safe) * v + safe * inner(grad(u), grad(v))) * dx, u)
    data = random_data(form, 2)
    data["u"][::2] *= -1
    data["u"][1] = 0
    action = form.integrals[0].action
    split = _split_at(action, price, _ten_basis_functions(2))
    expected, found = action.evaluate(data), split.action.evaluate(data | _stored(split, data))
    for key, values in expected.items():
        assert np.isfinite(values).all()
        np.testing.assert_allclose(found[key], values, rtol=1e-13)


def test_all_ranks_find_the_same():
    """Python orders sets by hashes that differ from process to process."""
    program = (
        "import test_forms_state as t; s = t._split(t.STATEFUL['neo_hookean 2D'], 2.0); print(s.state.body); print(s.action.body)"
    )
    texts = set()
    for seed in ("1", "2"):
        folder = Path(__file__).parent
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
        texts.add(subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True).stdout)
    assert len(texts) == 1


@pytest.fixture
def shared():
    return SharedGraph(Levels(lambda name, index: (name, index), 2))


def test_equal_values_are_one_node(shared):
    a, b = shared.input("u", 0), shared.input("u", 1)
    total = shared.add(a, b)
    expanded = shared.add(shared.add(shared.mul(a, a), shared.scale(2, shared.mul(a, b))), shared.mul(b, b))
    assert shared.mul(total, total) == expanded
    assert shared.mul(shared.add(a, shared.neg(b)), total) == shared.neg(shared.add(shared.mul(b, b), shared.neg(shared.mul(a, a))))
    assert shared.value(shared.add(shared.mul(total, total), shared.neg(expanded))) == 0
    assert shared.mul(shared.mul(a, b), shared.function("rcp", b)) == a
    thirds = shared.add(shared.scale(1 / 3, a), shared.scale(1 / 3, a))
    assert thirds == shared.scale(2 / 3, a)


def test_a_value_with_a_pole_does_not_stand_for_one_without(shared):
    a, b = shared.input("u", 0), shared.input("u", 1)
    shifted = shared.add(a, shared.function("rcp", b))
    with_pole = shared.mul(shifted, b)  # a b + 1, but for b = 0
    without = shared.add(shared.mul(a, b), shared.one)
    assert with_pole != without
    assert shared.safest(with_pole) == without


def test_minimum_cut():
    cut = Cut()
    for tail, head, capacity in (
        (SOURCE, "a", 3.5), (SOURCE, "b", 2.0), ("a", "b", inf), ("a", SINK, 1.25), ("b", SINK, 3.0),
    ):  # fmt: skip
        cut.edge(tail, head, capacity)
    last = cut.edge("b", SINK, 1.0)
    assert set(cut.source_side()) == {SOURCE, "a", "b"}  # 1.25 + 3 + 1 < 3.5 + 2
    cut.raise_to(last, 0.5)
    assert set(cut.source_side()) == {SOURCE, "a", "b"}
    cut.raise_to(last, 1.5)
    assert set(cut.source_side()) == {SOURCE}


def test_minimum_cuts_are_those_of_scipy(rng):
    for _ in range(60):
        size = int(rng.integers(2, 30))
        matrix = random_array((size, size), density=rng.uniform(0.05, 0.4), rng=rng, format="lil")
        matrix[:, 0] = matrix[1, :] = 0
        matrix.setdiag(0)
        # A source with many edges; capacities that are alike here and there, or have no end.
        matrix[0, 1:] = rng.integers(0, 4, size - 1)
        capacities = (10 * matrix.toarray()).round().astype(np.int32)
        capacities[1:, 1] *= rng.integers(1, 20)
        cut, names = Cut(), [SOURCE, SINK, *range(2, size)]
        edges = {ends: cut.edge(names[ends[0]], names[ends[1]], 0.0) for ends in zip(*capacities.nonzero(), strict=True)}
        large = (rng.random((size, size)) < 0.1) & (capacities > 0)
        large[0] = False
        # The next cut goes on from the flow of the last one.
        parts = rng.random((3, size, size)) * (rng.random((3, size, size)) < 0.7) * capacities
        for stage in np.maximum.accumulate([*parts.astype(np.int32), np.where(large, 10**6, capacities)]):
            for ends, edge in edges.items():
                cut.raise_to(edge, inf if stage[ends] == 10**6 else float(stage[ends]))
            flow = maximum_flow(csr_array(stage), 0, 1).flow.toarray()
            reached = breadth_first_order(csr_array(stage - flow), 0, return_predecessors=False)
            assert set(cut.source_side()) == {names[number] for number in reached}
