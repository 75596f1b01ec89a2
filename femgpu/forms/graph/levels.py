"""What the values of a graph depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from femgpu.forms.graph.arrays import DIRECTION_ARRAYS, Locate, component
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.records import Read

# The same everywhere; the same in all cells, at all points of a cell, or neither; depending on the direction.
UNIFORM, POINT, CELL, STATE, DIRECTION = range(5)
_OF_ARRAYS = {"constants": UNIFORM, "weight": POINT, "c": CELL, **dict.fromkeys(DIRECTION_ARRAYS, DIRECTION)}


def join(*levels: int) -> int:
    """The level of what depends on values of some levels."""
    bits = UNIFORM
    for level in levels:
        bits |= level
    return bits if bits < DIRECTION else DIRECTION


@dataclass(frozen=True)
class Levels:
    """Levels of inputs, and of what is computed from them.

    Attributes:
        locate: maps an input (name, index) of a graph to its C array and the index there.
        dim: dimension of space.
        on_cells: fields that are the same at all points of a cell.
    """

    locate: Locate
    dim: int
    on_cells: frozenset[Read] = frozenset()

    def field(self, name: Any, index: int) -> Read:
        """The field that an input of a graph belongs to, as in `Pointwise.reads`."""
        array, at = self.locate(name, index)
        return array, component(array, at, self.dim)

    def of(self, key: tuple[Any, ...], known: Sequence[int]) -> int:
        """The level of a node.

        Args:
            key: the node as it stands in `Graph.nodes`.
            known: levels of the nodes before it.
        """
        if key[0] == CONSTANT:
            return UNIFORM
        if key[0] != INPUT:
            return join(*[known[operand] for operand in key[1:]])
        field = self.field(*key[1:])
        return _OF_ARRAYS.get(field[0], CELL if field in self.on_cells else STATE)

    def of_nodes(self, graph: Graph) -> list[int]:
        """The level of each node."""
        found: list[int] = []
        for key in graph.nodes:
            found.append(self.of(key, found))
        return found
