"""Ways of writing a Jacobian action in which factors that depend on the state only stand together.

The action is linear in the direction, a network of sums (`network`). Eliminating all vertices between its inputs and
outputs gives the matrix of the Jacobian at a point, eliminating none the graph as it was written; the best lies between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from femgpu.forms.graph.graph import INPUT
from femgpu.forms.graph.identities import SharedGraph
from femgpu.forms.graph.levels import DIRECTION
from femgpu.forms.state.network import Network, direction_nodes

# What a new weight is taken to cost, in operations on directions: almost nothing where it is stored, and somewhat more
# than the one operation that makes it where it is recomputed.
_WEIGHT_COSTS = {"few weights": 1.2, "few operations": 0.01}


def regroupings(graph: SharedGraph, roots: Sequence[int], num_qpts: int = 1) -> Iterator[tuple[str, SharedGraph, list[int]]]:
    """Writes an action in several ways.

    Args:
        graph: holds the action; receives the weights.
        roots: nodes of the outputs.
        num_qpts: points of a cell, which share the weights that are constant on it.

    Yields:
        What was done, a graph, and the outputs' nodes in it; nothing if the action is not linear in the direction.
    """
    if not _is_linear(graph, roots):
        return
    for name, weight_cost in _WEIGHT_COSTS.items():
        network = Network(graph, roots, num_qpts)
        network.simplify(weight_cost)
        network.factor()
        network.separate()
        yield f"regrouped, {name}", *network.rebuilt()
    network.collect()
    network.separate()
    yield "collected", *network.rebuilt()


def _is_linear(graph: SharedGraph, roots: Sequence[int]) -> bool:
    if any(graph.level[root] < DIRECTION for root in roots):
        return False
    return all(_keeps_linear(graph, node) for node in direction_nodes(graph, roots))


def _keeps_linear(graph: SharedGraph, node: int) -> bool:
    kind, *operands = graph.nodes[node]
    if kind == INPUT:
        return True
    is_direction = [graph.level[operand] == DIRECTION for operand in operands]
    if kind == "*":
        return sum(is_direction) == 1
    if kind == "?":
        vanishing = [graph.value(operand) == 0 for operand in operands]
        return not is_direction[0] and all(a or b for a, b in zip(is_direction[1:], vanishing[1:], strict=True))
    return kind in ("+", "-", "neg") and all(is_direction)
