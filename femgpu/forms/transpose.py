"""The transpose of a Jacobian action: the same graph, walked from its outputs back to the direction.

An action is linear in the direction: every node that depends on it is a sum, a multiple or a choice of such nodes. Going through
these nodes in reverse, each passes to its operands what the result changes by with it, so that the transpose takes about as many
operations as the action and shares what that shares. Test function and direction change places: `w` stands for the coefficients
that `f0` had, their derivatives for those of `f1` and `f2`, and the other way round.
"""

from __future__ import annotations

from femgpu.errors import FormError
from femgpu.forms.graph.arrays import DIRECTION_ARRAYS
from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import INPUT, Graph
from femgpu.forms.graph.pointwise import pointwise as record
from femgpu.forms.records import Integral, Pointwise

# Which array of the direction an output becomes, and which output such an array.
_SWAPPED = {"f0": "w", "f1": "w_x", "f2": "w_xx", "w": "f0", "w_x": "f1", "w_xx": "f2"}


def transposed_action(integral: Integral, dim: int) -> Pointwise | None:
    """The action of the transposed Jacobian of an integral; None where it has none.

    Args:
        integral: of a form that has a Jacobian.
        dim: dimension of space.

    Raises:
        FormError: where an action cannot be transposed.
    """
    if integral.action is None or not isinstance(integral.action.evaluate, Evaluation):
        return integral.transposed
    return _transpose(integral.action.evaluate, dim)


def _transpose(given: Evaluation, dim: int) -> Pointwise:
    source, target = given.graph, Graph()
    live = source.live(node for _, _, node in given.roots)
    directions: dict[int, tuple[str, int]] = {}
    linear: set[int] = set()
    for node in live:
        entry = source.nodes[node]
        if entry[0] == INPUT and entry[1] in DIRECTION_ARRAYS:
            directions[node] = entry[1:]
        if node in directions or linear.intersection(source.operands(node)):
            linear.add(node)
    factors = copy_nodes(source, {entry for node in linear for entry in source.operands(node)} - linear, target, {})
    zero = target.constant(0.0)
    change = dict.fromkeys(linear, zero)
    for name, index, node in given.roots:
        change[node] = target.add(change[node], target.input(_SWAPPED[name], index))
    for node in sorted(linear, reverse=True):
        for operand, part in _parts(source, target, node, change[node], factors):
            if operand in linear:
                change[operand] = target.add(change[operand], part)
    roots = [(_SWAPPED[name], index, change[node]) for node, (name, index) in directions.items() if change[node] != zero]
    return record("action", Evaluation(target, tuple(sorted(roots)), given.shapes, given.locate), dim)


def _parts(source: Graph, target: Graph, node: int, change: int, factors: dict[int, int]) -> list[tuple[int, int]]:
    """The operands of a linear node, and what of its change goes to each; meaningless for operands that are not linear."""
    kind, *rest = source.nodes[node]
    if kind == INPUT:
        return []
    if kind == "+":
        return [(operand, change) for operand in rest]
    if kind == "-":
        return [(rest[0], change), (rest[1], target.neg(change))]
    if kind == "neg":
        return [(rest[0], target.neg(change))]
    if kind == "*":
        a, b = rest
        return [(b, target.mul(change, factors[a]))] if a in factors else [(a, target.mul(change, factors[b]))]
    if kind == "?":
        zero, condition = target.constant(0.0), factors[rest[0]]
        return [(rest[1], target.select(condition, change, zero)), (rest[2], target.select(condition, zero, change))]
    raise FormError(f"the action of the Jacobian is not linear in the direction: {kind} of it; expected sums and multiples")
