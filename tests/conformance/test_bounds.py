"""The bounds hold and are near what happens: operation by operation, and for numbers kept at points and functionals."""

import itertools

import numpy as np
import pytest
import ufl
from conformance.bounds import Arithmetic, Bounds, Result
from conformance.roundoff import Bounded, contract
from conformance.running_error import RULES, ULPS, apply
from petsc4py import PETSc
from random_meshes import random_mixed
from ufl import dx, grad, inner

import femgpu
from femgpu import Constant, Function, FunctionSpace, coordinates
from femgpu.forms import functional, lower_form, split_states
from femgpu.forms.graph.operations import OPERATIONS
from femgpu.operators.division import make_terms
from femgpu.options import Settings

UNIT = 2.0**-24
DOMAINS = {
    "sqrt": (0.01, 9),
    "log": (0.1, 9),
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "pow": (0.2, 3),
    "tan": (-1.2, 1.2),
    "rcp": (0.1, 3),
    "atan2": (0.1, 3),
}
ARITHMETIC = [kind for kind in RULES if not OPERATIONS[kind].logical and kind != "?" and "bessel" not in kind]


def operand(rng, kind):
    """Numbers with errors of up to 20 roundings, and numbers in single precision that are as wrong as that allows."""
    value = rng.uniform(*DOMAINS.get(kind, (-3, 3)), 20000)
    error = np.abs(value) + rng.uniform(0, 20, len(value))
    return Bounded(value, error), (value + UNIT * (error - np.abs(value)) * rng.uniform(-1, 1, len(value))).astype(np.float32)


@pytest.mark.parametrize("kind", ARITHMETIC)
def test_an_operation_passes_errors_on_and_adds_its_own(rng, kind):
    exact, given = zip(*(operand(rng, kind) for _ in range(2 if "{1}" in OPERATIONS[kind].text else 1)), strict=True)
    bounded = apply(kind, UNIT, *exact)
    got = OPERATIONS[kind].numpy(*given).astype(np.float32)
    ratios = np.abs(got - bounded.value) / (UNIT * bounded.error)
    assert ratios.max() <= 1
    assert ratios.max() > 0.3


def test_every_operation_has_a_rule():
    assert set(RULES) == set(OPERATIONS)
    assert set(ULPS) <= set(OPERATIONS)


def test_a_product_of_zeros_that_are_not_exact():
    nearly = Bounded(np.zeros(1), np.array([20.0]))
    assert UNIT * apply("*", UNIT, nearly, nearly).error >= (UNIT * 20) ** 2


def test_a_root_beside_zero():
    root = apply("sqrt", UNIT, Bounded(np.array([0.0, 0.0, 1e-9]), np.array([0.0, 1.0, 1.0])))
    assert root.error[0] == 0
    assert root.error[1] == np.sqrt(1 / UNIT)
    assert UNIT * root.error[2] >= np.sqrt(1e-9 + UNIT) - np.sqrt(1e-9)


@pytest.mark.parametrize("kind", ["<", ">", "<=", ">=", "==", "!="])
def test_a_condition_is_in_doubt_where_errors_decide(kind):
    a = Bounded(np.array([1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    b = Bounded(1 + np.array([0.0, 8.0, 1.0, 0.0]) * UNIT, np.array([1.0, 1.0, 0.0, 0.0]))
    assert list(apply(kind, UNIT, a, b).error) == [True, False, False, False]


def test_both_branches_count_where_the_condition_is_in_doubt():
    condition = Bounded(np.array([True, True, False]), np.array([False, True, False]))
    with np.errstate(divide="ignore"):
        pole = Bounded(np.array([1.0, 1.0, np.inf]), np.array([2.0, 2.0, np.nan]))
    chosen = apply("?", UNIT, condition, pole, Bounded(np.full(3, 1.5), np.full(3, 3.0)))
    assert list(chosen.value) == [1.0, 1.0, 1.5]
    assert list(chosen.error) == [2.0, 3.0 + 0.5 / UNIT, 3.0]


@pytest.mark.parametrize("kind", ["&&", "||"])
def test_logic_is_in_doubt_where_the_operands_leave_it_open(kind):
    for a, b, a_doubt, b_doubt in itertools.product((False, True), repeat=4):
        outcomes = {
            bool(OPERATIONS[kind].numpy(x, y)) for x in ({a, not a} if a_doubt else {a}) for y in ({b, not b} if b_doubt else {b})
        }
        found = apply(kind, UNIT, Bounded(np.array(a), np.array(a_doubt)), Bounded(np.array(b), np.array(b_doubt)))
        assert bool(found.error) == (len(outcomes) == 2)


def test_a_sum_of_products(rng):
    """Any order, in single precision."""
    exact, given = zip(*(operand(rng, "*") for _ in range(3)), strict=True)
    shaped = [Bounded(each.value.reshape(200, 100), each.error.reshape(200, 100)) for each in exact]
    bounded = contract("ij,ij,ij->i", *shaped, roundings=102)
    products = (given[0] * given[1] * given[2]).reshape(200, 100)
    for got in (np.cumsum(products, axis=1)[:, -1], np.cumsum(products[:, ::-1], axis=1)[:, -1]):
        ratios = np.abs(got - bounded.value) / (UNIT * bounded.error)
        assert 0.005 < ratios.max() <= 1


def test_only_numbers_within_the_bounds_pass():
    result = Result(np.array([1.0, 0.0, 0.0, 1.0, 1.0]), np.array([0.1, 0.0, 0.0, 0.1, np.inf]))
    ratios = result.ratios(np.array([1.05, 0.0, 1e-30, np.nan, 1.0]))
    assert ratios[0] == pytest.approx(0.5)
    assert ratios[1] == 0
    assert ratios[2] == ratios[4] == np.inf
    assert np.isnan(ratios[3])
    assert np.isnan(result.worst(np.full(5, np.nan)))
    assert Result(np.zeros((0, 3)), np.zeros((0, 3))).worst(np.zeros((0, 3))) == 0


@pytest.fixture
def dm(rng):
    return random_mixed("triangle+quadrilateral", (3, 3), int(rng.integers(2**31)), 0.1, PETSc.COMM_SELF)


@pytest.mark.parametrize("geometry", ["stored", "recomputed"])
def test_an_action_from_numbers_kept_at_points_has_about_the_same_bounds(dm, rng, geometry):
    V = FunctionSpace(dm, "Lagrange", 2)
    u, v = Function(V), ufl.TestFunction(V)
    form = lower_form(ufl.exp(-(u**2)) * (1 + inner(grad(u), grad(u))) * inner(grad(u), grad(v)) * dx(degree=4), u)
    vectors = {name: rng.uniform(-1, 1, V.num_local) for name in "uw"}
    for term in make_terms(form, Settings()):
        action = term.integral.action
        (split,) = split_states(action, (1.0,), lambda field: 20.0)
        assert split.num_scalars
        bounds = Bounds(term, Arithmetic("single", geometry))
        state = bounds.states(split.state, vectors, np.zeros(0))
        assert (bounds.state_results(state)["s"].error > 0).any()
        whole, parts = (bounds.element_vectors(each, vectors, np.zeros(0), state) for each in (action, split.action))
        np.testing.assert_allclose(parts.value, whole.value, rtol=1e-10, atol=1e-12)
        assert (parts.error < 3 * whole.error).all()
        assert (whole.error < 3 * parts.error).all()


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_a_functional(dm, rng, precision, set_options):
    f = Function(FunctionSpace(dm, "Lagrange", 2), "f")
    f.vec.setArray(rng.uniform(-1, 1, f.vec.getLocalSize()))
    x = coordinates(dm)
    form = (ufl.sin(3 * f) * x[0] + Constant(dm, 0.3)) * dx(degree=4) + ufl.sqrt(1 + f**2) * ufl.ds(f.space.ufl_domain(), degree=3)
    set_options(femgpu_precision=precision)
    lowered = functional(form)
    (values,) = (constant.value for constant in lowered.constants)
    results = [
        Bounds(term, Arithmetic(precision, "recomputed")).cell_values(
            term.integral.functional, {"a0": f.local_array()}, np.atleast_1d(values)
        )
        for term in make_terms(lowered, Settings())
    ]
    total = Result(*(np.array([sum(getattr(each, name).sum() for each in results)]) for name in ("value", "error")))
    assert total.worst(np.array([femgpu.assemble(form)])) <= 1
