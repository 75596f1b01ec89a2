"""What an action may store between two residuals: the splits of it that come into question, each found once."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from itertools import product

from femgpu.forms import Pointwise, StateSplit, pull_back, split_states
from femgpu.operators.term import FieldData, Term

# Prices of a stored scalar, in operations, for which the graph is cut; the plans that result are compared by their time.
PRICES = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Of what is measured: the usual price, and one at which more is stored, for who asks to store and for actions pulled back.
USUAL, STORE = 16.0, 4.0
# Arrays that come from the cell's map.
_GEOMETRY = ("x", "n", "K", "det")
# Splits kept: those of some forms. The same form in another precision, on a like mesh or in a new problem has the same ones.
_KEPT = 16
_known: OrderedDict[Hashable, list[StateSplit]] = OrderedDict()


def splits(term: Term, action: Pointwise, qdata: str) -> dict[StateSplit, bool]:
    """The splits of an action that come into question, no two with the same action, and whether each is worth measuring.

    Pulled back to reference coordinates the geometry is stored with the state: what a linear form stores is nothing else. Where the
    state takes more numbers then than without geometry, its cut in physical coordinates is the better one.
    """
    pulled = pull_back(action, term.dim, term.affine) if qdata != "recompute" and term.other is None else None
    worth = {"store": (USUAL, STORE), "recompute": (math.inf,), "auto": (math.inf, USUAL)}[qdata]
    prices = (math.inf, *PRICES) if qdata == "auto" else worth
    found: dict[str, StateSplit] = {}
    marked = set()
    for given, its_prices in ((action, prices), (pulled, (STORE,))):
        if given is None:
            continue
        for price, split in zip(its_prices, _cut(term, given, its_prices), strict=False):
            if qdata != "store" or split.state is not None or given is action:
                found.setdefault(split.action.body, split)
                if given is pulled or price in worth:
                    marked.add(split.action.body)
    storing = [split for split in found.values() if split.state is not None]
    chosen = storing if qdata == "store" and storing else found.values()
    return {split: split.action.body in marked for split in chosen}


def _cut(term: Term, action: Pointwise, prices: Sequence[float]) -> list[StateSplit]:
    """The split of an action for each price; the last `_KEPT` are remembered, since a cut takes a tenth of a second and more."""
    costs, points, cells = _costs(term, action), term.quadrature.num_qpts, frozenset(on_cells(term))
    interpolated = frozenset((field, costs[0](field)) for field in action.reads if field[0] in _GEOMETRY or field[0][0] in "ua")
    of_cells = term.dim, term.affine, term.coord_element.num_basis, points, cells
    shapes = frozenset(getattr(action.evaluate, "shapes", {}).items())
    key = action.kind, action.body, action.reference, shapes, tuple(prices), of_cells, interpolated
    if key not in _known:
        _known[key] = split_states(action, prices, *costs, num_qpts=points, on_cells=cells)
    _known.move_to_end(key)
    if len(_known) > _KEPT:
        _known.popitem(last=False)
    return _known[key]


def on_cells(term: Term) -> set[tuple[str, int]]:
    """What is the same at all points of a cell: an affine map, values of degree 0, gradients of degree 1 on affine simplices."""
    form, unknown = term.form, term.form.unknown
    found = {("K", 0), ("det", 0), ("n", 0)} if term.affine else set()
    functions = [("u", unknown, 0, unknown.space.num_comp)] if unknown is not None else []
    firsts = form.coefficient_offsets
    functions += [("a", function, first, firsts[-1]) for function, first in zip(form.coefficients, firsts[:-1], strict=True)]
    for array, function, first, behind in functions:
        for field, (number, side) in product(function.space.fields, enumerate(term.sides)):
            begin = first + field.offset + number * behind
            components = range(begin, begin + field.num_comp)
            if field.degree == 0:
                found |= {(array, component) for component in components}
            if field.polynomial_degree == 1 and term.affine and side.block.reference.is_simplex:
                found |= {(f"{array}_x", component) for component in components}
    return found


def _costs(term: Term, pointwise: Pointwise) -> tuple[Callable[[tuple[str, int]], float], Callable[[tuple[str, int]], float]]:
    """Operations per point to interpolate a component, and to have its coefficients at hand."""
    dim, fields = term.dim, term.fields(pointwise)

    def num_basis(array: str, component: int) -> int:
        return term.element(_holder(fields, array, component).field).num_basis

    geometry = 2.0 * term.coord_element.num_basis * dim**2 / (term.quadrature.num_qpts if term.affine else 1)

    def interpolation(entry: tuple[str, int]) -> float:
        array, derivative = entry[0].partition("_")[::2]
        if array in _GEOMETRY:
            return {"x": 2.0 * term.coord_element.num_basis * dim, "n": 2.0 * dim**2, "K": 2.0 * dim**2 + dim, "det": 4.0 * dim}[
                array
            ]
        factor = {"": 1, "x": dim, "xx": dim**2}[derivative]
        push = 0.0 if pointwise.reference or not derivative else 2.0 * dim * factor
        return 2.0 * num_basis(array, entry[1]) * factor + push

    def gather(entry: tuple[str, int]) -> float:
        if entry[0] in _GEOMETRY:
            return geometry if entry[0] == "K" else 0.0
        # A coefficient that comes from cache costs about as much as an addition.
        return 2.0 * num_basis(*entry) / term.quadrature.num_qpts

    return interpolation, gather


def _holder(fields: list[FieldData], array: str, component: int) -> FieldData:
    return next(data for data in fields if data.array == array and 0 <= component - data.offset < data.field.num_comp)
