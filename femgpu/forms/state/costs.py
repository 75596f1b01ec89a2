"""What values cost at a point: to compute, to interpolate, to gather, to load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.operations import OPERATIONS

# A component of one array, ("u_x", 1), with all its derivatives; all of ("x", 0) and ("n", 0).
Field = tuple[str, int]
FieldCost = Callable[[Field], float]

# Operations in double precision on a GPU, in units of one addition or multiplication; the others cost what they count.
EFFORT = {
    "rcp": 8.0, "sqrt": 10.0, "exp": 16.0, "log": 24.0, "pow": 60.0, "sin": 24.0, "cos": 24.0, "tan": 36.0, "asin": 24.0,
    "acos": 24.0, "atan": 24.0, "atan2": 32.0, "sinh": 28.0, "cosh": 28.0, "tanh": 28.0, "erf": 32.0,
}  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """The model of the cost of an action at one point, in operations.

    Attributes:
        price: of loading a scalar.
        interpolation: of having a field.
        gather: of having the coefficients of a component, ("u", 1) say, which `u`, `u_x` and `u_xx` share.
        effort: of the operations that do not cost what they count.
    """

    price: float
    interpolation: FieldCost
    gather: FieldCost
    effort: Mapping[str, float]

    def node(self, graph: Graph, node: int) -> float:
        """The cost of one node, its operands given."""
        kind = graph.nodes[node][0]
        return 0.0 if kind in (CONSTANT, INPUT) else self.effort.get(kind, OPERATIONS[kind].flops)

    def fields(self, fields: Iterable[Field]) -> float:
        """The cost of having fields."""
        known = dict.fromkeys(fields)
        return sum(map(self.interpolation, known)) + sum(map(self.gather, dict.fromkeys(map(coefficients, known))))


def coefficients(field: Field) -> Field:
    """The coefficients that a field is interpolated from."""
    return field[0].partition("_")[0], field[1]
