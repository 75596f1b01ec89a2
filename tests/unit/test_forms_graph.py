"""The scalar graph: sharing, folding, cost."""

import numpy as np
import pytest

from femgpu.errors import FormError
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import Graph
from femgpu.forms.graph.printer import number, print_body


@pytest.fixture
def graph():
    return Graph()


def value(graph, node, **inputs):
    data = {"u": np.array([[inputs[name] for name in sorted(inputs)]], dtype=float)}
    evaluation = Evaluation(graph, (("f0", 0, node),), {"f0": (1,)}, lambda name, index: (name, index))
    return evaluation(data)["f0"][0, 0]


def test_equal_expressions_are_one_node(graph):
    a, b = graph.input("u", 0), graph.input("u", 1)
    assert graph.add(a, b) == graph.add(b, a)
    assert graph.mul(a, b) == graph.mul(b, a)
    assert graph.function("sin", a) == graph.function("sin", a)


def test_constants_fold(graph):
    a = graph.input("u", 0)
    two, three = graph.constant(2), graph.constant(3)
    assert graph.value(graph.add(two, three)) == 5
    assert graph.value(graph.power(two, three)) == 8
    assert graph.value(graph.function("exp", graph.constant(0))) == 1
    assert graph.value(graph.mul(graph.constant(0), a)) == 0
    assert graph.scale(2, graph.scale(3, a)) == graph.scale(6, a)
    assert graph.mul(graph.constant(1), a) == graph.add(a, graph.constant(0)) == a
    assert graph.select(graph.function("<", two, three), a, two) == a


def test_like_terms_and_signs(graph):
    a, b = graph.input("u", 0), graph.input("u", 1)
    half = graph.scale(0.5, a)
    assert graph.add(half, half) == a
    assert graph.value(graph.add(a, graph.neg(a))) == 0
    assert graph.add(a, graph.neg(b)) == graph.neg(graph.add(b, graph.neg(a)))
    assert graph.neg(graph.neg(a)) == a
    assert graph.mul(graph.neg(a), graph.neg(b)) == graph.mul(a, b)
    assert graph.mul(graph.scale(0.5, a), graph.scale(2, b)) == graph.mul(a, b)
    assert graph.add(graph.neg(a), graph.neg(b)) == graph.neg(graph.add(a, b))
    assert graph.function("fabs", graph.neg(a)) == graph.function("fabs", a)


def test_quotients_share_the_reciprocal(graph):
    a, b, c = (graph.input("u", i) for i in range(3))
    roots = [graph.div(a, c), graph.div(b, graph.scale(-2, c))]
    assert sum(entry[0] == "rcp" for entry in graph.nodes) == 1
    assert value(graph, roots[1], a=3, b=5, c=4) == -5 / 8


@pytest.mark.parametrize("exponent", [-3, -2.5, -0.75, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2.25, 3, 8, 2 / 3, 9.5, -11])
def test_powers(graph, exponent):
    node = graph.power(graph.input("u", 0), graph.constant(exponent))
    assert value(graph, node, a=1.7) == pytest.approx(1.7**exponent, rel=1e-14)
    uses_pow = any(entry[0] == "pow" for entry in graph.nodes)
    assert uses_pow == (abs(exponent) > 8 or 4 * exponent != int(4 * exponent))


def test_whole_powers_of_negative_numbers(graph):
    node = graph.power(graph.input("u", 0), graph.constant(-3))
    assert value(graph, node, a=-2.0) == -0.125


def test_flops_count_shared_nodes_once(graph):
    a, b = graph.input("u", 0), graph.input("u", 1)
    product = graph.mul(a, b)
    roots = [graph.add(product, a), graph.function("exp", product), graph.neg(product)]
    assert graph.flops(roots) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: g.div(g.input("u", 0), g.constant(0)), "divides by zero"),
        (lambda g: g.power(g.constant(-1), g.constant(0.5)), "is nan; expected a finite number"),
        (lambda g: g.function("log", g.constant(0)), "is -inf"),
        (lambda g: g.scale(1e300, g.constant(1e300)), "is inf"),
    ],
)
def test_constants_that_are_not_finite(graph, make, message):
    with pytest.raises(FormError, match=message):
        make(graph)


@pytest.mark.parametrize("x", [1.0, -0.1, 1 / 3, 1e-300, 1.5e300, 5e-324, 0.0, 16.0])
def test_numbers_are_printed_exactly(x):
    text = number(x)
    assert float.fromhex(text[2:].split(" /*")[0]) == x
    assert text.endswith(f"/* {x!r} */)")


def test_single_products_stand_inside_sums(graph):
    a, b = graph.input("u", 0), graph.input("u", 1)
    total = graph.add(graph.mul(a, a), graph.neg(graph.mul(a, b)))
    text = print_body(graph, [("f0", 0, total)], lambda name, index: (name, index))
    assert text == "const real t0 = u[0] * u[0] - u[0] * u[1];\nf0[0] = t0;"
