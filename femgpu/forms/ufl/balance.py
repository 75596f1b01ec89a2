"""Long sums and products as balanced trees.

`a + b + c + ...` is as deep as it has terms, and UFL's algorithms recurse: beyond some 250 terms they reach the limits of Python.
"""

from __future__ import annotations

from typing import Any

from ufl.algebra import Product, Sum
from ufl.corealg.traversal import unique_post_traversal

# Less deep ones stay as the user wrote them.
_DEEP = 64


def balanced(expression: Any) -> Any:
    """An equal expression, whose long sums and products are as deep as the logarithm of their lengths; not recursive.

    What stands elsewhere in the expression, too, stays one term or factor.
    """
    nodes = list(unique_post_traversal(expression))
    depths: dict[Any, int] = {}
    roots = {expression}
    for node in nodes:
        for entry in node.ufl_operands:
            if type(entry) is not type(node):
                roots.add(entry)
        if isinstance(node, Sum | Product):
            depths[node] = 1 + max(depths.get(entry, 0) if type(entry) is type(node) else 0 for entry in node.ufl_operands)
    if max(depths.values(), default=0) < _DEEP:
        return expression
    done: dict[Any, Any] = {}
    for node in nodes:
        if not isinstance(node, Sum | Product):
            operands = [done[entry] for entry in node.ufl_operands]
            changed = any(new is not old for new, old in zip(operands, node.ufl_operands, strict=True))
            done[node] = node._ufl_expr_reconstruct_(*operands) if changed else node
        elif node in roots:
            done[node] = _tree(type(node), [done[entry] for entry in _operands(node, roots)])
    return done[expression]


def _operands(root: Any, roots: set[Any]) -> list[Any]:
    """The terms of a sum of sums, or the factors of a product of products, in order."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node is root or (type(node) is type(root) and node not in roots):
            waiting.extend(reversed(node.ufl_operands))
        else:
            found.append(node)
    return found


def _tree(kind: Any, operands: list[Any]) -> Any:
    while len(operands) > 1:
        operands = [kind(*operands[i : i + 2]) if i + 1 < len(operands) else operands[i] for i in range(0, len(operands), 2)]
    return operands[0]
