"""Whether an action treats all directions of space alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph

# Factors of entries of w_x, by the entry, that a node is the sum of; None: it depends on derivatives in another way.
_Sum = dict[int, int] | None


def is_isotropic(evaluation: Evaluation, dim: int) -> bool:
    """Whether f1[c, :] is a sum of gradients w_x[c', :] times numbers, which like f0 do not depend on any derivatives.

    Gradients may be given, and fluxes taken, in any orthonormal coordinates then. The graph's shape decides: False may stand for a
    function that is isotropic all the same.
    """
    derived = _sums(evaluation)
    fluxes: dict[int, dict[int, dict[int, int]]] = defaultdict(dict)
    for name, index, node in evaluation.roots:
        component, d = divmod(index, dim)
        entries = derived.get(node)
        if name == "f1" and entries and all(entry % dim == d for entry in entries):
            fluxes[component][d] = {entry // dim: factor for entry, factor in entries.items()}
        elif name != "f0" or node in derived:
            return False
    return bool(fluxes) and all(
        len(along) == dim and all(factors == along[0] for factors in along.values()) for along in fluxes.values()
    )


def _sums(evaluation: Evaluation) -> dict[int, _Sum]:
    """Of the nodes that depend on derivatives."""
    graph, found = evaluation.graph, dict[int, _Sum]()
    for node in graph.live(root for _, _, root in evaluation.roots):
        kind, *rest = graph.nodes[node]
        if kind == INPUT:
            array, index = evaluation.locate(*rest)
            if "_x" in array:
                found[node] = {index: graph.constant(1.0)} if array == "w_x" else None
        elif kind != CONSTANT and any(operand in found for operand in rest):
            found[node] = _combined(graph, kind, rest, found)
    return found


def _combined(graph: Graph, kind: str, operands: Sequence[int], found: dict[int, _Sum]) -> _Sum:
    """A sum or a difference of two, or one times a number; equal factors are equal nodes."""
    given = [found.get(operand) for operand in operands]
    if kind == "*" and sum(operand in found for operand in operands) == 1:
        number, entries = (operands[1], given[0]) if operands[0] in found else (operands[0], given[1])
        return entries and {entry: graph.mul(number, factor) for entry, factor in entries.items()}
    if kind == "neg":
        return given[0] and {entry: graph.neg(factor) for entry, factor in given[0].items()}
    if kind not in ("+", "-") or not all(given):
        return None
    first, second = (dict(entries or {}) for entries in given)
    for entry, factor in second.items():
        signed = graph.neg(factor) if kind == "-" else factor
        first[entry] = graph.add(first[entry], signed) if entry in first else signed
    return first
