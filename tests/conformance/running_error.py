"""Running error analysis of a pointwise function: every node of its graph as a value and a bound of its error.

A node's error is that of its operands times the derivative, and its own rounding: one for sums and products, what OpenCL allows a
function else. Where the operands of a condition are closer than their errors either branch may be taken.
"""

from math import prod

import numpy as np
from conformance.roundoff import Bounded

from femgpu.errors import FormError
from femgpu.forms.graph.graph import CONSTANT, INPUT
from femgpu.forms.graph.operations import OPERATIONS

# Units in the last place that OpenCL 1.2 (section 7.4) allows functions, in every precision unless given as (single, double).
# What is not listed is exact or rounded once.
ULPS = {
    "rcp": (2.5, 0.5),
    "sqrt": (3, 0.5),
    "pow": 16,
    "atan2": 6,
    "exp": 3,
    "log": 3,
    "sin": 4,
    "cos": 4,
    "tan": 5,
    "asin": 4,
    "acos": 4,
    "atan": 5,
    "sinh": 4,
    "cosh": 4,
    "tanh": 5,
    "erf": 16,
    **dict.fromkeys(("bessel_j", "bessel_y", "bessel_i", "bessel_k"), (8, 450)),
}
EXACT = ("neg", "fabs", "fmin", "fmax", "?")
# Errors of both operands, and of the twin's besides, before a condition is beyond doubt.
DOUBT = 2.0


def own_roundings(kind, unit):
    """Roundings of an operation's result by itself; a unit in the last place is at most two of them."""
    if kind in EXACT or OPERATIONS[kind].logical:
        return 0.0
    ulps = ULPS.get(kind, 0.5)
    return 2.0 * (ulps[unit < 1e-10] if isinstance(ulps, tuple) else ulps)


def _times(error, factor):
    """An error times a derivative, which may be infinite where there is no error."""
    return np.where(error == 0, 0.0, error * np.abs(factor))


def _sqrt(unit, value, a):
    # Beside zero the derivative is no measure: sqrt(a + e) - sqrt(a) is at most sqrt(e).
    return np.fmin(_times(a.error, 1 / value), np.sqrt(a.error / unit))


def _pow(unit, value, a, b):
    by_base = _times(a.error, b.value * np.power(a.value, b.value - 1))
    return by_base + _times(b.error, value * np.log(a.value))


def _atan2(unit, value, a, b):
    return _times(np.abs(b.value) * a.error + np.abs(a.value) * b.error, 1 / (a.value**2 + b.value**2))


def _close(unit, a, b):
    error = a.error + b.error
    return (error > 0) & (np.abs(a.value - b.value) <= DOUBT * unit * error)


def _extremum(unit, value, a, b):
    taken = np.where(value == a.value, a.error, b.error)
    return np.where(_close(unit, a, b), np.maximum(a.error, b.error), taken)


def _comparison(unit, value, a, b):
    return _close(unit, a, b)


def _either(decides):
    """The rule of `&&` and `||`: an operand in doubt counts unless the other one surely is what decides alone."""

    def rule(unit, value, a, b):
        (a_is, a_doubt), (b_is, b_doubt) = ((np.asarray(x.value) == decides, np.asarray(x.error) > 0) for x in (a, b))
        return (a_doubt & (~b_is | b_doubt)) | (b_doubt & (~a_is | a_doubt))

    return rule


def _choice(unit, value, condition, a, b):
    taken = np.where(condition.value, a.error, b.error)
    either = np.maximum(a.error, b.error) + np.abs(a.value - b.value) / unit
    return np.where(condition.error, either, taken)


def _derivative(function):
    """The rule of a function of one operand from its derivative, given the operand and the result."""
    return lambda unit, value, a: _times(a.error, function(a.value, value))


def _bessel(kind):
    """The rule of a Bessel function, whose order is exact: derivatives are means of the neighbours, but for signs."""
    function = OPERATIONS[kind].numpy

    def rule(unit, value, order, a):
        neighbours = np.abs(function(order.value - 1, a.value)) + np.abs(function(order.value + 1, a.value))
        return _times(a.error, neighbours / 2)

    return rule


# What the errors of an operation's operands make of its result: rule(unit, value, *operands).
RULES = {
    "+": lambda unit, value, a, b: a.error + b.error,
    "-": lambda unit, value, a, b: a.error + b.error,
    # Of numbers that are zero but for roundings the product of the errors is what there is.
    "*": lambda unit, value, a, b: np.abs(a.value) * b.error + np.abs(b.value) * a.error + unit * a.error * b.error,
    "neg": lambda unit, value, a: a.error,
    "fabs": lambda unit, value, a: a.error,
    "?": _choice,
    "!": lambda unit, value, a: a.error,
    "&&": _either(False),
    "||": _either(True),
    **dict.fromkeys(("<", ">", "<=", ">=", "==", "!="), _comparison),
    **dict.fromkeys(("fmin", "fmax"), _extremum),
    "pow": _pow,
    "atan2": _atan2,
    "sqrt": _sqrt,
    "rcp": _derivative(lambda a, v: v * v),
    "exp": _derivative(lambda a, v: v),
    "log": _derivative(lambda a, v: 1 / a),
    "sin": _derivative(lambda a, v: np.cos(a)),
    "cos": _derivative(lambda a, v: np.sin(a)),
    "tan": _derivative(lambda a, v: 1 + v * v),
    "asin": _derivative(lambda a, v: 1 / np.sqrt(1 - a * a)),
    "acos": _derivative(lambda a, v: 1 / np.sqrt(1 - a * a)),
    "atan": _derivative(lambda a, v: 1 / (1 + a * a)),
    "sinh": _derivative(lambda a, v: np.cosh(a)),
    "cosh": _derivative(lambda a, v: np.sinh(a)),
    "tanh": _derivative(lambda a, v: 1 / np.cosh(a) ** 2),
    "erf": _derivative(lambda a, v: 2 / np.sqrt(np.pi) * np.exp(-a * a)),
    **{f"bessel_{letter}": _bessel(f"bessel_{letter}") for letter in "jyik"},
}


def apply(kind, unit, *operands):
    """One operation on Bounded operands."""
    with np.errstate(all="ignore"):  # the branch that a condition does not take may divide by zero
        value = OPERATIONS[kind].numpy(*(operand.value for operand in operands))
        error = RULES[kind](unit, value, *operands)
        own = own_roundings(kind, unit)
        return Bounded(value, error + own * np.abs(value) if own else error)


def evaluate(pointwise, num_points, data, arithmetic):
    """A pointwise function at points.

    Args:
        pointwise: with a graph.
        num_points: how many.
        data: Bounded (num_points, ...) by array that the function reads, and "constants" (num_constants,).
        arithmetic: the kernel's.

    Returns:
        Bounded (num_points,) + shape for each output that is written.

    Raises:
        FormError: for a function given as C.
    """
    if pointwise.evaluate is None:
        raise FormError("a pointwise function given as C has no graph")
    given = pointwise.evaluate
    flat = {
        name: array.reshape(len(array.value), prod(array.value.shape[1:])) for name, array in data.items() if name != "constants"
    }
    values = _nodes(given, {**flat, "constants": data["constants"]}, arithmetic)
    outputs = {}
    for name, index, node in given.roots:
        if name not in outputs:
            outputs[name] = Bounded(*(np.zeros((num_points, prod(given.shapes[name]))) for _ in range(2)))
        outputs[name].value[:, index] = values[node].value
        outputs[name].error[:, index] = values[node].error
    return {name: array.reshape(num_points, *given.shapes[name]) for name, array in outputs.items()}


def _nodes(given, flat, arithmetic):
    """Values of the roots, and of what else is still kept, by node."""
    graph = given.graph
    live = graph.live(node for _, _, node in given.roots)
    last_use = {operand: node for node in live for operand in graph.operands(node)}
    last_use |= {node: -1 for _, _, node in given.roots}
    values = {}
    for node in live:
        kind, *rest = graph.nodes[node]
        if kind == CONSTANT:
            values[node] = arithmetic.given(rest[0])
        elif kind == INPUT:
            array, index = given.locate(*rest)
            values[node] = flat[array][..., index]
        else:
            values[node] = apply(kind, arithmetic.unit, *(values[operand] for operand in rest))
            for operand in set(rest):  # many points: keep only what is still needed
                if last_use[operand] == node:
                    del values[operand]
    return values
