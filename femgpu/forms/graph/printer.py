"""Graph to OpenCL C statements, which are C99 statements too.

Numbers are printed as hexadecimal floats inside the macro `R(x)`, temporaries have the type `real`: the same text
serves every precision. Products that are used once stand inside the sum that uses them, so that a compiler may contract
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from femgpu.forms.graph.arrays import Locate
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.operations import OPERATIONS


def number(value: float) -> str:
    """A real constant: `R(0x1.8p+1 /* 3.0 */)`."""
    mantissa, _, exponent = value.hex().partition("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"R({mantissa}p{exponent} /* {value!r} */)"


def print_body(graph: Graph, roots: Sequence[tuple[str, int, int]], locate: Locate) -> str:
    """Prints statements that compute entries of output arrays.

    Args:
        graph: the graph.
        roots: (output name, flat index, node) per entry.
        locate: maps an input (name, index) of the graph to the name of its C array and the index there.

    Returns:
        The statements, one per line: temporaries first, then the assignments.
    """
    live = graph.live(node for _, _, node in roots)
    uses = Counter(operand for node in live for operand in graph.operands(node))
    uses.update(node for _, _, node in roots)
    inline = _inlined_products(graph, live, uses)
    text: dict[int, str] = {}
    lines: list[str] = []
    for node in live:
        kind, *rest = graph.nodes[node]
        if kind == CONSTANT:
            text[node] = number(rest[0])
        elif kind == INPUT:
            array, index = locate(rest[0], rest[1])
            text[node] = f"{array}[{index}]"
        else:
            operation = OPERATIONS[kind]
            expression = operation.text.format(*(text[operand] for operand in rest))
            if node in inline:
                text[node] = expression
                continue
            text[node] = f"t{len(lines)}"
            lines.append(f"const {'int' if operation.logical else 'real'} {text[node]} = {expression};")
    lines += [f"{name}[{index}] = {text[node]};" for name, index, node in roots]
    return "\n".join(lines)


def _inlined_products(graph: Graph, live: Sequence[int], uses: Counter[int]) -> set[int]:
    inline = set()
    for node in live:
        if graph.nodes[node][0] in ("+", "-"):
            inline |= {entry for entry in graph.operands(node) if uses[entry] == 1 and graph.nodes[entry][0] == "*"}
    return inline
