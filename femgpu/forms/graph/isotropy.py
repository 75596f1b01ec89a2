"""Whether an action treats all directions of space alike."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations

from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import INPUT


def is_isotropic(evaluation: Evaluation, dim: int) -> bool:
    """Whether f1[c, :] is a sum of gradients w_x[c', :] times numbers, which like f0 do not depend on any derivatives.

    Gradients may be given, and fluxes taken, in any orthonormal coordinates then. The graph's shape decides: False may stand for a
    function that is isotropic all the same.
    """
    fluxes: dict[int, dict[int, int]] = defaultdict(dict)
    for name, index, node in evaluation.roots:
        if name == "f1":
            fluxes[index // dim][index % dim] = node
        elif name != "f0" or _derives(evaluation, node):
            return False
    return bool(fluxes) and all(
        len(along) == dim and all(_same(evaluation, along[0], along[d], d) for d in range(dim)) for along in fluxes.values()
    )


def _same(evaluation: Evaluation, first: int, node: int, d: int) -> bool:
    """Whether a node is for direction d what another one is for direction 0, linear in derivatives of w."""
    graph = evaluation.graph
    (kind, *of_first), (other, *of_node) = graph.nodes[first], graph.nodes[node]
    if kind != other or kind not in (INPUT, "+", "-", "neg", "*"):
        return False
    if kind == INPUT:
        (array, begin), (given, index) = evaluation.locate(*of_first), evaluation.locate(*of_node)
        return array == given == "w_x" and index == begin + d
    orders = permutations(of_node) if kind in "+*" else [tuple(of_node)]
    return any(_all_same(evaluation, kind, tuple(of_first), order, d) for order in orders)


def _all_same(evaluation: Evaluation, kind: str, of_first: tuple[int, ...], of_node: tuple[int, ...], d: int) -> bool:
    """The same of operands: all of a sum, one of the two of a product, whose other one is a number without derivatives."""
    if kind != "*":
        return all(_same(evaluation, *pair, d) for pair in zip(of_first, of_node, strict=True))
    pairs = list(zip(of_first, of_node, strict=True))
    return any(
        number == other and not _derives(evaluation, number) and _same(evaluation, *pairs[1 - i], d)
        for i, (number, other) in enumerate(pairs)
    )


def _derives(evaluation: Evaluation, node: int) -> bool:
    """Whether a node depends on derivatives."""
    graph = evaluation.graph
    entries = (graph.nodes[live] for live in graph.live([node]))
    return any(entry[0] == INPUT and "_x" in evaluation.locate(*entry[1:])[0] for entry in entries)
