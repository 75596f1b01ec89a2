"""Whether an action treats all components alike, and each by itself."""

from __future__ import annotations

from collections import defaultdict

from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import INPUT, Graph

# Instructions that a component may share with others, for kernels that take one at a time repeat these.
_SHARED_SIZE = 16
# Arrays that rule it out: the unknown's, and second derivatives.
_EXCLUDED = ("u", "u_x", "u_xx", "w_xx")


def is_uncoupled(evaluation: Evaluation, dim: int) -> bool:
    """Whether what multiplies a component of the test function is the same function of that component of the direction, for all.

    Of several components, which share few operations, and of nothing that belongs to the unknown. The graph's shape decides: False
    may stand for such a function all the same.
    """
    widths = {"f0": 1, "f1": dim, "w": 1, "w_x": dim}
    outputs: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for name, index, node in evaluation.roots:
        if name not in widths:
            return False
        outputs[index // widths[name]].append((name, index % widths[name], node))
    if not 1 < len(outputs) == evaluation.shapes["f0"][0]:
        return False
    graph, target, found = evaluation.graph, Graph(), set[tuple[tuple[str, int, int], ...]]()
    for component, entries in outputs.items():
        nodes, inputs = [node for *_, node in entries], dict[int, int]()
        for node in graph.live(nodes):
            kind, *rest = graph.nodes[node]
            if kind == INPUT:
                array, index = evaluation.locate(*rest)
                if array in _EXCLUDED or (array in widths and index // widths[array] != component):
                    return False
                inputs[node] = target.input(array, index % widths[array] if array in widths else index)
        copies = copy_nodes(graph, nodes, target, inputs)
        found.add(tuple(sorted((name, index, copies[node]) for name, index, node in entries)))
    alone = sum(graph.size(node for *_, node in entries) for entries in outputs.values())
    shared = alone - graph.size(node for *_, node in evaluation.roots)
    return len(found) == 1 and shared <= _SHARED_SIZE * (len(outputs) - 1)
