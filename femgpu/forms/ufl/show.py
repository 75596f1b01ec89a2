"""Expressions in error messages."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ufl.corealg.traversal import pre_traversal

_MOST_NODES = 200
_MOST_CHARACTERS = 400


def show(expression: Any) -> str:
    """Prints a UFL expression on one line, abbreviated where it is long.

    Expressions share their parts: one that is small in memory may be astronomically long when printed.
    """
    if hasattr(expression, "ufl_operands") and _is_large(expression):
        parts = ", ".join("..." if _is_large(part) else _line(part) for part in expression.ufl_operands)
        return f"{type(expression).__name__}({_cut(parts)})"
    return _line(expression)


def _is_large(expression: Any) -> bool:
    return sum(1 for _ in islice(pre_traversal(expression), _MOST_NODES)) == _MOST_NODES


def _line(expression: Any) -> str:
    return _cut(" ".join(str(expression).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " ..."
