"""Parts of a graph copied into another one, whose constructors may share more, with some nodes replaced on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph


def copy_nodes(source: Graph, roots: Iterable[int], target: Graph, known: Mapping[int, int]) -> dict[int, int]:
    """Copies what roots need into another graph.

    Args:
        source: the graph to copy from.
        roots: nodes of it.
        target: receives the copies.
        known: copies that exist already; what only these need is not copied.

    Returns:
        The copy of each node, those known included.
    """
    copies = dict(known)
    for node in source.live(roots, known):
        kind, *rest = source.nodes[node]
        if kind == CONSTANT:
            copies[node] = target.constant(rest[0])
        elif kind == INPUT:
            copies[node] = target.input(*rest)
        else:
            copies[node] = _copy(target, kind, [copies[operand] for operand in rest])
    return copies


def _copy(target: Graph, kind: str, operands: list[int]) -> int:
    if kind == "+":
        return target.add(*operands)
    if kind == "-":
        return target.add(operands[0], target.neg(operands[1]))
    if kind == "*":
        return target.mul(*operands)
    if kind == "neg":
        return target.neg(*operands)
    if kind == "?":
        return target.select(*operands)
    return target.function(kind, *operands)
