"""The state part of a Jacobian action: what is stored at the points between two residuals.

The graph of an action is cut into a part that depends on the state only (u, coefficients, coordinates) and the rest. Of
the values where the two meet, those are stored that are cheaper to load than to recompute. Stages: write the action in
several ways (`regroup`), cut each of them, take the cheapest, print both parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from femgpu.errors import FormError
from femgpu.forms.cut import SINK, SOURCE, Cut
from femgpu.forms.evaluate import Evaluation
from femgpu.forms.graph import CONSTANT, INPUT, Graph
from femgpu.forms.identities import DIRECTION, DIRECTION_ARRAYS, STATE, SharedGraph, copy_nodes, needed
from femgpu.forms.inputs import Locate, width
from femgpu.forms.layout import reads
from femgpu.forms.operations import OPERATIONS
from femgpu.forms.printer import print_body
from femgpu.forms.records import Pointwise
from femgpu.forms.regroup import regroupings

# A component of one array, ("u_x", 1), with all its derivatives; all of ("x", 0) and ("n", 0).
Field = tuple[str, int]
FieldCost = Callable[[Field], float]

# Operations in double precision on a GPU, in units of one addition or multiplication; the others cost what they count.
EFFORT = {
    "rcp": 8.0, "sqrt": 10.0, "exp": 16.0, "log": 24.0, "pow": 60.0, "sin": 24.0, "cos": 24.0, "tan": 36.0, "asin": 24.0,
    "acos": 24.0, "atan": 24.0, "atan2": 32.0, "sinh": 28.0, "cosh": 28.0, "tanh": 28.0, "erf": 32.0,
}  # fmt: skip


@dataclass(frozen=True)
class StateSplit:
    """A Jacobian action in two parts.

    Attributes:
        state: writes `s`, from the state only; None if nothing is stored.
        action: the action, which reads `s` and the direction, and of the state what is cheaper to recompute.
        num_scalars: length of `s` at one point.
        way: how the action was regrouped.
        flops_before: operations per point of the action as given, having the fields of the state included.
        flops_after: the same of the new action.
        state_flops: operations per point of the state part, without having its fields.
        cost_before: `flops_before` with expensive functions at their cost.
        cost_after: the same of the new action, loading of scalars included.
    """

    state: Pointwise | None
    action: Pointwise
    num_scalars: int
    way: str
    flops_before: float
    flops_after: float
    state_flops: int
    cost_before: float
    cost_after: float

    def __str__(self) -> str:
        """One line for the view."""
        stored = f"{self.num_scalars} scalars per point stored" if self.num_scalars else "nothing stored"
        return f"{stored}, {self.flops_after:.0f} operations per point instead of {self.flops_before:.0f} ({self.way})"


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
        return sum(map(self.interpolation, known)) + sum(map(self.gather, dict.fromkeys(map(_coefficients, known))))


def split_state(
    action: Pointwise,
    price: float,
    input_costs: FieldCost,
    gather_costs: FieldCost = lambda field: 0.0,
    effort: Mapping[str, float] = EFFORT,
) -> StateSplit | None:
    """Cuts a Jacobian action into a state part and a direction part.

    Args:
        action: the action.
        price: what loading a stored scalar costs at a point, in operations; infinite: nothing is stored.
        input_costs: what having a field at a point costs, in operations, finite. A field is a component of one array,
            ("u_x", 1), or all of ("x", 0) or ("n", 0); all derivatives of a component come at once.
        gather_costs: what having the coefficients of a component costs, in operations per point, finite: ("u", 1) for
            "u", "u_x" and "u_xx", ("a", 0), ("x", 0), ("n", 0).
        effort: cost of the operations that do not cost what they count.

    Returns:
        The cheapest split; one without scalars if storing does not pay. None for bodies of the user.

    Raises:
        FormError: if the price is negative or not a number.
    """
    found = split_states(action, (price,), input_costs, gather_costs, effort)
    return found[0] if found else None


def split_states(
    action: Pointwise,
    prices: Sequence[float],
    input_costs: FieldCost,
    gather_costs: FieldCost = lambda field: 0.0,
    effort: Mapping[str, float] = EFFORT,
) -> list[StateSplit]:
    """The splits for several prices, which takes little longer than for one; the other arguments as for `split_state`.

    Returns:
        One split per price, in order; none for bodies of the user.

    Raises:
        FormError: if a price is negative or not a number.
    """
    for price in prices:
        if not price >= 0:
            raise FormError(f"price {price} of a stored scalar; expected at least 0")
    given = action.evaluate
    if not isinstance(given, Evaluation):
        return []
    graph = SharedGraph(given.locate)
    given_roots = [node for _, _, node in given.roots]
    copies = copy_nodes(given.graph, given_roots, graph, {})
    roots = [copies[root] for root in given_roots]
    texts = [_Text("as given", graph, roots), *(_Text(*found) for found in regroupings(graph, roots))]
    splits = []
    for price in prices:
        model = _Model(Costs(price, input_costs, gather_costs, effort), given.locate, given.shapes["f1"][-1])
        splits.append(model.split(action, given, min(map(model.cut, texts), key=lambda way: way.cost)))
    return splits


@dataclass(frozen=True)
class _Text:
    """One way of writing the action."""

    name: str
    graph: SharedGraph
    roots: list[int]


@dataclass(frozen=True)
class _Way:
    """One way of writing the action, the values that are stored then, and what that costs."""

    text: _Text
    stored: list[int]
    cost: float


@dataclass(frozen=True)
class _Model:
    """What things cost, and where they are."""

    costs: Costs
    locate: Locate
    dim: int

    def cut(self, text: _Text) -> _Way:
        """Finds the values to store."""
        graph, roots = text.graph, text.roots
        live = needed(graph, roots)
        used = {operand for node in live if graph.level[node] == DIRECTION for operand in graph.operands(node)}
        wanted = [node for node in live if graph.level[node] < DIRECTION and (node in used or node in roots)]
        stored = [] if math.isinf(self.costs.price) else self._cheapest(graph, wanted)
        cost = self._cost(graph, roots, stored, self.costs.effort)
        return _Way(text, stored, cost + (self.costs.price * len(stored) if stored else 0.0))

    def split(self, action: Pointwise, given: Evaluation, way: _Way) -> StateSplit:
        """Prints both parts."""
        given_roots = [node for _, _, node in given.roots]
        before = [self._cost(given.graph, given_roots, [], effort) for effort in ({}, self.costs.effort)]
        if way.cost >= before[1]:
            return StateSplit(None, action, 0, "as given", before[0], before[0], 0, before[1], before[1])
        state = self._state(way, given) if way.stored else None
        graph, text = Graph(), way.text
        loaded = {node: self._loaded(text.graph, node, graph, i) for i, node in enumerate(way.stored)}
        copies = copy_nodes(text.graph, text.roots, graph, loaded)
        roots = tuple((name, index, copies[root]) for (name, index, _), root in zip(given.roots, text.roots, strict=True))
        evaluation = replace(given, graph=graph, roots=roots)
        nodes = [node for _, _, node in roots]
        new = replace(
            action,
            body=print_body(graph, roots, self.locate),
            reads=reads(graph, nodes, self.locate, self.dim),
            flops=graph.flops(nodes),
            evaluate=evaluation,
        )
        after = self._cost(graph, nodes, [], {})
        state_flops = state.flops if state else 0
        return StateSplit(state, new, len(way.stored), text.name, before[0], after, state_flops, before[1], way.cost)

    def _state(self, way: _Way, given: Evaluation) -> Pointwise:
        graph = Graph()
        copies = copy_nodes(way.text.graph, way.stored, graph, {})
        nodes = [self._as_number(graph, copies[node]) for node in way.stored]
        roots = tuple(("s", i, node) for i, node in enumerate(nodes))
        return Pointwise(
            kind="state",
            body=print_body(graph, roots, self.locate),
            reads=reads(graph, nodes, self.locate, self.dim),
            writes=frozenset(("s", i) for i in range(len(nodes))),
            flops=graph.flops(nodes),
            evaluate=Evaluation(graph, roots, {"s": (len(nodes),)}, given.locate),
        )

    def _as_number(self, graph: Graph, node: int) -> int:
        return graph.select(node, graph.constant(1.0), graph.constant(0.0)) if _is_logical(graph, node) else node

    def _loaded(self, source: Graph, node: int, target: Graph, index: int) -> int:
        scalar = target.input("s", index)
        return target.function("!=", scalar, target.constant(0.0)) if _is_logical(source, node) else scalar

    def _cheapest(self, graph: SharedGraph, wanted: list[int]) -> list[int]:
        """The values to store, by a minimum cut.

        Every value is computed in the action, which costs its operation and needs its operands there, or is loaded at
        the price. Inputs need their field, which comes at its cost, and a field needs its coefficients.
        """
        cut = Cut()
        costs = self.costs
        for node in needed(graph, wanted):
            storable = graph.level[node] == STATE
            cut.edge(SOURCE, ("computed", node), costs.node(graph, node))
            cut.edge(("computed", node), ("there", node), max(costs.price, 1e-3) if storable else math.inf)
            for operand in graph.operands(node):
                cut.edge(("there", operand), ("computed", node), math.inf)
            if storable and graph.nodes[node][0] == INPUT:
                field = self._field(*graph.nodes[node][1:])
                cut.edge(("field", field), ("computed", node), math.inf)
                cut.edge(SOURCE, ("field", field), costs.interpolation(field))
                cut.edge(("gather", _coefficients(field)), ("field", field), math.inf)
                cut.edge(SOURCE, ("gather", _coefficients(field)), costs.gather(_coefficients(field)))
        for node in wanted:
            cut.edge(("there", node), SINK, math.inf)
        absent = cut.source_side()
        return [node for node in needed(graph, wanted) if ("computed", node) in absent and ("there", node) not in absent]

    def _cost(self, graph: Graph, roots: list[int], stored: list[int], effort: Mapping[str, float]) -> float:
        nodes = needed(graph, roots, stored)
        costs = replace(self.costs, effort=effort)
        state = [field for field in self._fields(graph, nodes) if field[0] not in (*DIRECTION_ARRAYS, "s")]
        return sum(costs.node(graph, node) for node in nodes) + costs.fields(state)

    def _fields(self, graph: Graph, nodes: Iterable[int]) -> list[Field]:
        found = [self._field(*graph.nodes[node][1:]) for node in nodes if graph.nodes[node][0] == INPUT]
        return [field for field in dict.fromkeys(found) if field[0] != "constants"]

    def _field(self, name: Any, index: int) -> Field:
        array, at = self.locate(name, index)
        size = width(array, self.dim)
        return array, at // size if size else 0


def _coefficients(field: Field) -> Field:
    """The coefficients that a field is interpolated from."""
    return field[0].partition("_")[0], field[1]


def _is_logical(graph: Graph, node: int) -> bool:
    kind = graph.nodes[node][0]
    return kind not in (CONSTANT, INPUT) and OPERATIONS[kind].logical
