"""A graph and its outputs to the record of a pointwise function."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from femgpu.forms.graph.arrays import Locate, component
from femgpu.forms.graph.coupling import is_uncoupled
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import INPUT, Graph
from femgpu.forms.graph.isotropy import is_isotropic
from femgpu.forms.graph.printer import print_body
from femgpu.forms.records import Kind, Pointwise, Read


def pointwise(kind: Kind, evaluation: Evaluation, dim: int, reference: bool = False) -> Pointwise:
    """Prints what the outputs need of a graph, and says what that reads, writes and costs.

    Args:
        kind: of the function.
        evaluation: the graph and its outputs.
        dim: dimension of space.
        reference: see `Pointwise`.
    """
    graph, roots, locate = evaluation.graph, evaluation.roots, evaluation.locate
    nodes = [node for _, _, node in roots]
    reads, constants = _reads(graph, nodes, locate, dim)
    return Pointwise(
        kind=kind,
        body=print_body(graph, roots, locate),
        reads=reads,
        writes=frozenset((name, index // prod(evaluation.shapes[name][1:])) for name, index, _ in roots),
        flops=graph.flops(nodes),
        size=graph.size(nodes),
        isotropic=kind == "action" and not reference and is_isotropic(evaluation, dim),
        uncoupled=kind == "action" and is_uncoupled(evaluation, dim),
        evaluate=evaluation,
        reference=reference,
        couples=_couples(evaluation) if kind == "jacobian" else frozenset(),
        constants=constants,
    )


def _couples(evaluation: Evaluation) -> frozenset[tuple[int, int]]:
    """The components of test function and direction that g0 to g8 couple."""
    found = set()
    for name, index, _ in evaluation.roots:
        _, num_comp, *derivatives = evaluation.shapes[name]
        found.add(divmod(index // prod(derivatives), num_comp))
    return frozenset(found)


def _reads(graph: Graph, nodes: Iterable[int], locate: Locate, dim: int) -> tuple[frozenset[Read], frozenset[int]]:
    """The input arrays and components that nodes need, as in `Pointwise.reads`, and their entries of `constants`."""
    found: set[Read] = set()
    constants: set[int] = set()
    for node in graph.live(nodes):
        kind, *rest = graph.nodes[node]
        if kind == INPUT:
            array, index = locate(*rest)
            if array == "constants":
                constants.add(index)
            else:
                found.add((array, component(array, index, dim)))
    return frozenset(found), frozenset(constants)
