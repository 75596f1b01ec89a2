"""The state part of a Jacobian action: what is stored between two residuals, at the points or in the cells.

The graph of an action is cut into a part that depends on the state only (u, coefficients, coordinates, geometry) and the
rest. Of the values where the two meet, those are stored that are cheaper to load than to recompute. Stages: write the
action in several ways (`regroup`), cut each of them, take the cheapest, print both parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from femgpu.errors import FormError
from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.identities import SharedGraph
from femgpu.forms.graph.levels import CELL, DIRECTION, STATE, Levels
from femgpu.forms.graph.operations import EFFORT, OPERATIONS
from femgpu.forms.graph.pointwise import pointwise
from femgpu.forms.records import Pointwise
from femgpu.forms.state.costs import Costs, Field, FieldCost, coefficients
from femgpu.forms.state.cut import SINK, SOURCE, Cut
from femgpu.forms.state.regroup import regroupings

# Arrays of what is stored, by what that depends on.
_ARRAYS = {STATE: "s", CELL: "c"}


@dataclass(frozen=True)
class StateSplit:
    """A Jacobian action in two parts.

    Attributes:
        state: writes `s` and `c`, from the state only; None if nothing is stored.
        action: the action, which reads `s`, `c` and the direction, and of the state what is cheaper to recompute.
        num_scalars: length of `s` at one point.
        num_cell_scalars: length of `c` in one cell.
        way: how the action was regrouped.
        flops_before: operations per point of the action as given, having the fields of the state included; those that all
            points of a cell share are divided among them.
        flops_after: the same of the new action.
    """

    state: Pointwise | None
    action: Pointwise
    num_scalars: int
    num_cell_scalars: int
    way: str
    flops_before: float
    flops_after: float

    def __str__(self) -> str:
        """One line for the view."""
        counts = {"point": self.num_scalars, "cell": self.num_cell_scalars}
        stored = " and ".join(f"{count} scalars per {where}" for where, count in counts.items() if count) or "nothing"
        return f"{stored} stored, {self.flops_after:.0f} operations per point instead of {self.flops_before:.0f} ({self.way})"


def split_states(
    action: Pointwise,
    prices: Sequence[float],
    input_costs: FieldCost,
    gather_costs: FieldCost = lambda field: 0.0,
    effort: Mapping[str, float] = EFFORT,
    *,
    num_qpts: int = 1,
    on_cells: Collection[Field] = (),
) -> list[StateSplit]:
    """Cuts a Jacobian action into a state part and a direction part, for several prices, which takes little longer than for one.

    Args:
        action: the action.
        prices: what loading a stored scalar costs, in operations; infinite: nothing is stored.
        input_costs: what having a field costs, in operations, finite: at a point, or in a cell if it is the same at all of its
            points. A field is a component of one array, ("u_x", 1), or all of ("x", 0), ("n", 0), ("K", 0) or ("det", 0); all
            derivatives of a component come at once.
        gather_costs: what having the coefficients of a component costs, in operations per point, finite: ("u", 1) for
            "u", "u_x" and "u_xx", ("a", 0), ("x", 0), ("n", 0); ("K", 0) for what "K" and "det" share.
        effort: cost of the operations that do not cost what they count.
        num_qpts: points of a cell.
        on_cells: fields that are the same at all points of a cell: in affine cells ("K", 0), ("det", 0) and, on facets,
            ("n", 0); coefficients of degree 0. What depends on nothing else is computed, loaded and stored once per cell.

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
    levels = Levels(given.locate, given.shapes["f1"][-1], frozenset(on_cells if num_qpts > 1 else ()))
    graph = SharedGraph(levels)
    costs = Costs(levels, num_qpts, input_costs, gather_costs, effort)
    given_roots = [node for _, _, node in given.roots]
    copies = copy_nodes(given.graph, given_roots, graph, {})
    roots = [copies[root] for root in given_roots]
    texts = [_Text("as given", graph, roots), *(_Text(*found) for found in regroupings(graph, roots, num_qpts))]
    increasing = sorted(set(prices))
    ways = zip(*(_ways(text, costs, increasing) for text in texts), strict=True)
    cheapest = [min(of_price, key=lambda way: way.cost) for of_price in ways]
    splits = dict(zip(increasing, _splits(action, given, costs, cheapest), strict=True))
    return [splits[price] for price in prices]


@dataclass(frozen=True)
class _Text:
    """One way of writing the action."""

    name: str
    graph: SharedGraph
    roots: list[int]

    @property
    def wanted(self) -> list[int]:
        """The nodes without the direction that outputs and nodes with it need there."""
        level, live = self.graph.level, self.graph.live(self.roots)
        used = {operand for node in live if level[node] == DIRECTION for operand in self.graph.operands(node)}.union(self.roots)
        return [node for node in live if level[node] < DIRECTION and node in used]


@dataclass(frozen=True)
class _Way:
    """One way of writing the action, the values that are stored then, and what that costs."""

    text: _Text
    stored: tuple[int, ...]
    cost: float

    @property
    def places(self) -> dict[int, tuple[str, int]]:
        """Array and index of each value that is stored."""
        found: dict[int, tuple[str, int]] = {}
        counts = dict.fromkeys(_ARRAYS.values(), 0)
        for node in self.stored:
            array = _ARRAYS[self.text.graph.level[node]]
            found[node] = array, counts[array]
            counts[array] += 1
        return found

    def count(self, array: str) -> int:
        """Length of an array of what is stored."""
        return sum(place[0] == array for place in self.places.values())


def _ways(text: _Text, costs: Costs, prices: Sequence[float]) -> list[_Way]:
    """What to store of a text at each of some increasing prices."""
    level = text.graph.level
    computing: dict[tuple[int, ...], float] = {}
    ways = []
    for price, stored in zip(prices, _stored(text, costs, prices), strict=True):
        if stored not in computing:
            computing[stored] = costs.total(text.graph, level, text.roots, stored)
        ways.append(_Way(text, stored, computing[stored] + sum(costs.loading(price, level[node]) for node in stored)))
    return ways


def _stored(text: _Text, costs: Costs, prices: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """The values to store at each of some increasing prices, by minimum cuts of one network whose capacities grow."""
    cut, loads, pays = Cut(), dict[int, int](), True
    for price in prices:
        stored: tuple[int, ...] = ()
        # What does not pay at a price does not pay at a higher one.
        if pays and math.isfinite(price):
            loads = loads or _add_edges(cut, text, costs)
            for node, edge in loads.items():
                cut.raise_to(edge, max(costs.loading(price, text.graph.level[node]), 1e-3))
            absent = cut.source_side()
            stored = tuple(node for node in loads if node in absent and ~node not in absent)
            pays = bool(stored)
        yield stored


def _add_edges(cut: Cut, text: _Text, costs: Costs) -> dict[int, int]:
    """Makes the network of the values without the direction, where loading is free.

    Every value is computed in the action, which costs its operation and needs its operands there, or is loaded at
    the price. Inputs need their field, which comes at its cost, and a field needs its coefficients. Vertices n and ~n
    stand for node n: it is computed, it is there.

    Returns:
        The edge of each value that may be stored whose capacity is the price of loading it.
    """
    graph, level = text.graph, text.graph.level
    loads, fields = dict[int, int](), dict[Field, None]()
    for node in graph.live(text.wanted):
        cut.edge(SOURCE, node, costs.node(graph, node, level[node]))
        may_store = level[node] in _ARRAYS
        edge = cut.edge(node, ~node, 0.0 if may_store else math.inf)
        for operand in graph.operands(node):
            cut.edge(~operand, node, math.inf)
        if may_store:
            loads[node] = edge
            if graph.nodes[node][0] == INPUT:
                field = costs.levels.field(*graph.nodes[node][1:])
                fields[field] = None
                cut.edge(("field", field), node, math.inf)
    for field in fields:
        cut.edge(SOURCE, ("field", field), costs.having(field))
        cut.edge(("gather", coefficients(field)), ("field", field), math.inf)
    for gathered in dict.fromkeys(map(coefficients, fields)):
        cut.edge(SOURCE, ("gather", gathered), costs.gather(gathered))
    for node in text.wanted:
        cut.edge(~node, SINK, math.inf)
    return loads


def _splits(action: Pointwise, given: Evaluation, costs: Costs, ways: Iterable[_Way]) -> list[StateSplit]:
    """Prints both parts of each way; the action as given is the split where a way costs no less."""
    level, roots = costs.levels.of_nodes(given.graph), [node for _, _, node in given.roots]
    limit, before = (some.total(given.graph, level, roots) for some in (costs, replace(costs, effort={})))
    unsplit = StateSplit(None, action, 0, 0, "as given", before, before)
    printed: dict[tuple[str, tuple[int, ...]], StateSplit] = {}
    splits = []
    for way in ways:
        key = way.text.name, way.stored
        if way.cost < limit and key not in printed:
            printed[key] = _print(action, given, costs, way, before)
        splits.append(printed[key] if way.cost < limit else unsplit)
    return splits


def _print(action: Pointwise, given: Evaluation, costs: Costs, way: _Way, before: float) -> StateSplit:
    """Prints both parts."""
    graph, text, places = Graph(), way.text, way.places
    levels, dim = costs.levels, costs.levels.dim
    loaded = {node: _loaded(text.graph, node, graph, place) for node, place in places.items()}
    copies = copy_nodes(text.graph, text.roots, graph, loaded)
    roots = tuple((name, index, copies[root]) for (name, index, _), root in zip(given.roots, text.roots, strict=True))
    new = pointwise(action.kind, replace(given, graph=graph, roots=roots), dim, action.reference)
    state = _state(way, given, dim, action.reference) if places else None
    after = replace(costs, effort={}).total(graph, levels.of_nodes(graph), [node for _, _, node in roots])
    return StateSplit(state, new, way.count("s"), way.count("c"), text.name, before, after)


def _state(way: _Way, given: Evaluation, dim: int, reference: bool) -> Pointwise:
    """The function that computes what is stored."""
    graph, places = Graph(), way.places
    copies = copy_nodes(way.text.graph, places, graph, {})
    roots = tuple((*place, _as_number(graph, copies[node])) for node, place in places.items())
    shapes = {array: (way.count(array),) for array in _ARRAYS.values()}
    return pointwise("state", Evaluation(graph, roots, shapes, given.locate), dim, reference)


def _as_number(graph: Graph, node: int) -> int:
    return graph.select(node, graph.constant(1.0), graph.constant(0.0)) if _is_logical(graph, node) else node


def _loaded(source: Graph, node: int, target: Graph, place: tuple[str, int]) -> int:
    scalar = target.input(*place)
    return target.function("!=", scalar, target.constant(0.0)) if _is_logical(source, node) else scalar


def _is_logical(graph: Graph, node: int) -> bool:
    kind = graph.nodes[node][0]
    return kind not in (CONSTANT, INPUT) and OPERATIONS[kind].logical
