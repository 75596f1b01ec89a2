"""The state part of a Jacobian action: what is stored at the points between two residuals.

The graph of an action is cut into a part that depends on the state only (u, coefficients, coordinates) and the rest. Of
the values where the two meet, those are stored that are cheaper to load than to recompute. Stages: write the action in
several ways (`regroup`), cut each of them, take the cheapest, print both parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from femgpu.errors import FormError
from femgpu.forms.graph.arrays import DIRECTION_ARRAYS, Locate, width
from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.identities import DIRECTION, STATE, SharedGraph
from femgpu.forms.graph.operations import OPERATIONS
from femgpu.forms.graph.pointwise import pointwise
from femgpu.forms.records import Pointwise
from femgpu.forms.state.costs import EFFORT, Costs, Field, FieldCost, coefficients
from femgpu.forms.state.cut import SINK, SOURCE, Cut
from femgpu.forms.state.regroup import regroupings


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
    """

    state: Pointwise | None
    action: Pointwise
    num_scalars: int
    way: str
    flops_before: float
    flops_after: float

    def __str__(self) -> str:
        """One line for the view."""
        stored = f"{self.num_scalars} scalars per point stored" if self.num_scalars else "nothing stored"
        return f"{stored}, {self.flops_after:.0f} operations per point instead of {self.flops_before:.0f} ({self.way})"


def split_states(
    action: Pointwise,
    prices: Sequence[float],
    input_costs: FieldCost,
    gather_costs: FieldCost = lambda field: 0.0,
    effort: Mapping[str, float] = EFFORT,
) -> list[StateSplit]:
    """Cuts a Jacobian action into a state part and a direction part, for several prices, which takes little longer than for one.

    Args:
        action: the action.
        prices: what loading a stored scalar costs at a point, in operations; infinite: nothing is stored.
        input_costs: what having a field at a point costs, in operations, finite. A field is a component of one array,
            ("u_x", 1), or all of ("x", 0) or ("n", 0); all derivatives of a component come at once.
        gather_costs: what having the coefficients of a component costs, in operations per point, finite: ("u", 1) for
            "u", "u_x" and "u_xx", ("a", 0), ("x", 0), ("n", 0).
        effort: cost of the operations that do not cost what they count.

    Returns:
        The cheapest split per price, in order, one without scalars where storing does not pay; none for bodies of the user.

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
        live = graph.live(roots)
        used = {operand for node in live if graph.level[node] == DIRECTION for operand in graph.operands(node)}
        wanted = [node for node in live if graph.level[node] < DIRECTION and (node in used or node in roots)]
        stored = [] if math.isinf(self.costs.price) else self._cheapest(graph, wanted)
        cost = self._cost(graph, roots, stored, self.costs.effort)
        return _Way(text, stored, cost + (self.costs.price * len(stored) if stored else 0.0))

    def split(self, action: Pointwise, given: Evaluation, way: _Way) -> StateSplit:
        """Prints both parts."""
        given_roots = [node for _, _, node in given.roots]
        before = self._cost(given.graph, given_roots, [], {})
        if way.cost >= self._cost(given.graph, given_roots, [], self.costs.effort):
            return StateSplit(None, action, 0, "as given", before, before)
        state = self._state(way, given) if way.stored else None
        graph, text = Graph(), way.text
        loaded = {node: self._loaded(text.graph, node, graph, i) for i, node in enumerate(way.stored)}
        copies = copy_nodes(text.graph, text.roots, graph, loaded)
        roots = tuple((name, index, copies[root]) for (name, index, _), root in zip(given.roots, text.roots, strict=True))
        new = pointwise(action.kind, replace(given, graph=graph, roots=roots), self.dim)
        after = self._cost(graph, [node for _, _, node in roots], [], {})
        return StateSplit(state, new, len(way.stored), text.name, before, after)

    def _state(self, way: _Way, given: Evaluation) -> Pointwise:
        graph = Graph()
        copies = copy_nodes(way.text.graph, way.stored, graph, {})
        roots = tuple(("s", i, self._as_number(graph, copies[node])) for i, node in enumerate(way.stored))
        return pointwise("state", Evaluation(graph, roots, {"s": (len(roots),)}, given.locate), self.dim)

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
        for node in graph.live(wanted):
            storable = graph.level[node] == STATE
            cut.edge(SOURCE, ("computed", node), costs.node(graph, node))
            cut.edge(("computed", node), ("there", node), max(costs.price, 1e-3) if storable else math.inf)
            for operand in graph.operands(node):
                cut.edge(("there", operand), ("computed", node), math.inf)
            if storable and graph.nodes[node][0] == INPUT:
                field = self._field(*graph.nodes[node][1:])
                cut.edge(("field", field), ("computed", node), math.inf)
                cut.edge(SOURCE, ("field", field), costs.interpolation(field))
                cut.edge(("gather", coefficients(field)), ("field", field), math.inf)
                cut.edge(SOURCE, ("gather", coefficients(field)), costs.gather(coefficients(field)))
        for node in wanted:
            cut.edge(("there", node), SINK, math.inf)
        absent = cut.source_side()
        return [node for node in graph.live(wanted) if ("computed", node) in absent and ("there", node) not in absent]

    def _cost(self, graph: Graph, roots: list[int], stored: list[int], effort: Mapping[str, float]) -> float:
        nodes = graph.live(roots, stored)
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


def _is_logical(graph: Graph, node: int) -> bool:
    kind = graph.nodes[node][0]
    return kind not in (CONSTANT, INPUT) and OPERATIONS[kind].logical
