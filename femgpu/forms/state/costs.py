"""What values cost at a point: to compute, to interpolate, to gather, to load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from femgpu.forms.graph.arrays import DIRECTION_ARRAYS
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.levels import CELL, STATE, Levels
from femgpu.forms.graph.operations import OPERATIONS
from femgpu.forms.records import Read

# Arrays that an action has anyway, or loads at a price.
_FREE = (*DIRECTION_ARRAYS, "constants", "weight", "s", "c")

# A component of one array, ("u_x", 1), with all its derivatives; all of ("x", 0), ("n", 0), ("K", 0) and ("det", 0).
Field = Read
FieldCost = Callable[[Field], float]


@dataclass(frozen=True)
class Costs:
    """The model of the cost of an action at one point, in operations.

    What is constant on a cell is computed, interpolated and loaded once for all of its points.

    Attributes:
        levels: says what is constant on a cell.
        num_qpts: points of a cell.
        interpolation: of having a field.
        gather: of having the coefficients of a component, ("u", 1) say, which `u`, `u_x` and `u_xx` share.
        effort: of the operations that do not cost what they count.
    """

    levels: Levels
    num_qpts: int
    interpolation: FieldCost
    gather: FieldCost
    effort: Mapping[str, float]

    def node(self, graph: Graph, node: int, level: int) -> float:
        """The cost of one node, its operands given."""
        kind = graph.nodes[node][0]
        return 0.0 if kind in (CONSTANT, INPUT) else self.effort.get(kind, OPERATIONS[kind].flops) / self.points(level)

    def loading(self, price: float, level: int) -> float:
        """The cost of loading a scalar that is stored."""
        return price / self.points(level)

    def having(self, field: Field) -> float:
        """The cost of having a field, its coefficients given."""
        return self.interpolation(field) / self.points(CELL if field in self.levels.on_cells else STATE)

    def points(self, level: int) -> int:
        """How many points share a value."""
        return self.num_qpts if level == CELL else 1

    def total(self, graph: Graph, level: Sequence[int], roots: Iterable[int], stored: Iterable[int] = ()) -> float:
        """The cost of nodes from fields of the state and from stored values, without loading these; levels of all nodes given."""
        nodes = graph.live(roots, stored)
        inputs = [self.levels.field(*graph.nodes[node][1:]) for node in nodes if graph.nodes[node][0] == INPUT]
        fields = [field for field in dict.fromkeys(inputs) if field[0] not in _FREE]
        sources = dict.fromkeys(map(coefficients, fields))
        return (
            sum(self.node(graph, node, level[node]) for node in nodes)
            + sum(map(self.having, fields))
            + sum(map(self.gather, sources))
        )


def coefficients(field: Field) -> Field:
    """The coefficients that a field is interpolated from; inverse Jacobian and determinant share the Jacobian."""
    return ("K", 0) if field[0] == "det" else (field[0].partition("_")[0], field[1])
