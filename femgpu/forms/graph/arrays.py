"""The arrays that pointwise functions read and write, as `records` lays them out: what the graph must know of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Maps an input (name, index) of a graph to its C array and the index there.
Locate = Callable[[Any, int], tuple[str, int]]

# What the arrays of values, first and second derivatives end in.
SUFFIXES = ("", "_x", "_xx")
DIRECTION_ARRAYS = ("w", "w_x", "w_xx")
# What functions in reference coordinates read besides.
GEOMETRY = ("K", "det", "weight")
# Arrays with an entry per point; `constants` has none.
PER_POINT = ("u", "u_x", "u_xx", *DIRECTION_ARRAYS, "a", "a_x", "a_xx", "x", "n", "s", "c", *GEOMETRY)
# Arrays that count as a whole in `Pointwise.reads`.
_WHOLE = ("x", "n", *GEOMETRY, "constants")


def width(array: str, dim: int) -> int:
    """The number of entries that one component takes in an input array; 0 where an array counts as a whole."""
    if array in _WHOLE:
        return 0
    if array in ("s", "c"):
        return 1
    return int(dim ** SUFFIXES.index(array[1:]))


def component(array: str, index: int, dim: int) -> int:
    """The component that an entry of an input array belongs to; 0 where an array counts as a whole."""
    size = width(array, dim)
    return index // size if size else 0


def output_shapes(dim: int, num_comp: int) -> dict[str, tuple[int, ...]]:
    """The shape of each output at one point.

    Args:
        dim: dimension of space.
        num_comp: components of the test function and of the direction; 1 for a functional.
    """
    orders = {"f0": 0, "f1": 1, "f2": 2, "g0": 0, "g1": 1, "g2": 1, "g3": 2, "g4": 2, "g5": 3, "g6": 2, "g7": 3, "g8": 4}
    return {name: (num_comp,) * (1 if name[0] == "f" else 2) + (dim,) * order for name, order in orders.items()}
