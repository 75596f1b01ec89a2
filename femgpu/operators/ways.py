"""The choice of a plan: candidates are pairs of a split (what is stored at the points) and a plan; model or measurement decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from mpi4py import MPI

from femgpu.errors import PlanError, collective
from femgpu.forms import Pointwise, StateSplit, pull_back, split_states
from femgpu.kernels import SCHEDULES, Plan, Schedule, Wish, Work, schedule_named
from femgpu.model import Limits
from femgpu.operators.application import Application
from femgpu.operators.term import FieldData, Term
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import Runtime

# Prices of a stored scalar, in operations, for which the graph is cut; the plans that result are compared by their time.
PRICES = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0)
STORE = 4.0
# Arrays that come from the cell's map.
_GEOMETRY = ("x", "n", "K", "det")
# Launches by which ways are compared.
_LAUNCHES = 5


@dataclass(frozen=True)
class Choice:
    """The plan of a work, and who would not do it.

    Attributes:
        plan: the plan.
        refusals: sentences of the schedules that came before it, for residuals and actions; other targets are nobody's choice.
        note: how it was tuned, for the view.
    """

    plan: Plan
    refusals: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Candidate:
    """One way to compute the action of a term, before anything is built.

    Attributes:
        split: what is stored and what is computed; None for the user's C text.
        choice: the plan of what is computed.
    """

    split: StateSplit | None
    choice: Choice


@dataclass(frozen=True, eq=False)
class Way:
    """A candidate with its launches.

    Attributes:
        candidate: what is launched.
        action: its launches.
        storing: the launches that store what the action reads.
    """

    candidate: Candidate
    action: Application
    storing: Application | None


def choose_plan(work: Work, term: Term, settings: Settings, limits: Limits) -> Choice:
    """The plan of a work: by the schedule that the options name, else by the first that serves it.

    Raises:
        PlanError: when the schedule asked for by name refuses what it computes, but for a diagonal, or when a parameter is illegal.
    """
    refusals: list[str] = []
    for entry, parameters in _asked(settings):
        if entry.name != settings.first_schedule[0] and not entry.volunteers(work, limits):
            continue
        refusal = entry.refuses(work, limits)
        if not refusal:
            wish = make_wish(term, work, settings, limits, parameters)
            plan = next(iter(entry.plans(work, limits, wish)), None)
            if plan is None:
                raise PlanError(f"schedule {entry.name} serves the {work.target} and has no plan for it")
            return Choice(plan, tuple(refusals))
        if work.target in entry.targets and (entry.facets or not work.facet):
            if entry.name == settings.schedule_name and work.target != "diagonal":
                raise PlanError(f"-femgpu_schedule {settings.schedule}: {refusal}")
            refusals.append(refusal)
    raise PlanError(f"no schedule serves the {work.target}: {'; '.join(refusals)}")


def _asked(settings: Settings) -> Iterator[tuple[Schedule, tuple[tuple[str, int], ...]]]:
    """Schedules with the parameters given for them, in the order in which they are tried."""
    first, parameters = settings.first_schedule
    if first:
        yield schedule_named(first), parameters
    for entry in SCHEDULES:
        if entry.name != first:
            yield entry, ()


def make_wish(term: Term, work: Work, settings: Settings, limits: Limits, parameters: tuple[tuple[str, int], ...] = ()) -> Wish:
    """What options and mesh ask of the plans of a work.

    Cells share vertices, so that coordinates cost little beside their offsets. In single precision Jacobians are differences of
    rounded coordinates, wrong by |x| / h roundings: there they are stored, rounded after the fact.
    """
    geometry = settings.geometry
    if geometry == "auto" and (settings.precision != "double" or work.source == "evector"):
        geometry = "stored"
    if geometry == "auto":
        stored = 8 * (work.dim**2 + 1) * (1 if work.affine else work.num_qpts)
        rebuilt = 4 * work.num_coord_basis + 8 * work.dim * len(term.block.coords) / max(term.mesh.num_cells, 1)
        geometry = "stored" if stored <= rebuilt else "recomputed"
    atomic = bool(work.place) or (work.sums and work.source == "lvector" and scatter_mode(settings, limits) == "atomic")
    return Wish(settings.precision, geometry, "atomic" if atomic else "evector", parameters)


def scatter_mode(settings: Settings, limits: Limits) -> str:
    """`atomic` or `gather`: auto takes atomics where the device has them natively and determinism is not asked for."""
    if settings.scatter != "auto":
        return settings.scatter
    return "atomic" if limits.native_atomics and not settings.deterministic else "gather"


def fastest(ways: list[Way], mpi: Any) -> Way:
    """The way whose action takes the least time on the slowest rank, measured where there is a choice; collective."""
    if len(ways) == 1:
        return ways[0]
    seconds = []
    with collective(mpi):
        for way in ways:
            if way.storing is not None:
                way.storing()
            seconds.append(way.action.least_seconds(_LAUNCHES))
    return ways[int(np.argmin(_slowest(seconds, mpi)))]


def _slowest(seconds: list[float], mpi: Any) -> list[float]:
    """The largest of each entry over the ranks."""
    array = np.array(seconds)
    mpi.Allreduce(MPI.IN_PLACE, array, op=MPI.MAX)
    return list(array)


def alternatives(
    term: Term, action: Pointwise, settings: Settings, limits: Limits, mpi: Any, masked: bool = False
) -> list[tuple[Candidate, bool]]:
    """Pairs of a split of an action (what is stored at each new state, what is computed for each direction) and a plan.

    Collective: all ranks have the same splits. Each has the default plan of the first schedule that serves it: others of `cell`
    differ by less than 1 % (`docs/benchmarks`, ex12), and each would cost a build.

    Args:
        term: the term.
        action: its action, or that of the transpose.
        settings: `qdata` is `store`, `recompute` or `auto`.
        limits: of the device.
        mpi: mpi4py communicator.
        masked: whether entries of the direction may be prescribed.

    Returns:
        The candidates, and whether each is worth measuring.

    Raises:
        PlanError: see `choose_plan`.
    """

    def planned(action: Pointwise) -> Choice:
        return choose_plan(make_work(term, "action", action, masked), term, settings, limits)

    splits = _splits(term, action, settings.qdata)
    with collective(mpi):
        found = [(Candidate(split, planned(split.action)), mark) for split, mark in splits.items()]
        return found or [(Candidate(None, planned(action)), True)]


def candidates(term: Term, found: list[tuple[Candidate, bool]], settings: Settings, runtime: Runtime, mpi: Any) -> list[Candidate]:
    """Those of the `alternatives` that come into question with the memory that is free now; collective.

    Returns:
        The one that takes the least time by the model: of all for `auto`, of those that store something for `store`. On a GPU those
        that store at the usual price, in physical and in reference coordinates, and for `auto` the one that stores nothing besides,
        among which a measurement decides: what a kernel spills when it holds too much is beyond the model. `auto` leaves out what
        the device's memory does not hold.
    """
    if len(found) < 2:
        return [entry for entry, _ in found]
    room = runtime.available_bytes / len(found)  # several ways that store may be compared
    sizes = [sum(state_bytes(term, entry.choice.plan).values()) for entry, _ in found]
    # Asked to store, it stores, whether there is room or not: the error then says so.
    must = settings.qdata == "store"
    seconds = [
        entry.choice.plan.seconds(runtime.device.limits.ceiling) if must or size <= room else math.inf
        for (entry, _), size in zip(found, sizes, strict=True)
    ]
    seconds = _slowest(seconds, mpi)
    best = int(np.argmin(seconds))
    if not runtime.device.is_gpu or settings.deterministic:
        return [found[best][0]]
    return [entry for i, (entry, mark) in enumerate(found) if (i == best or mark) and math.isfinite(seconds[i])]


def _splits(term: Term, action: Pointwise, qdata: str) -> dict[StateSplit, bool]:
    """The splits of an action that come into question, no two with the same action, and whether each is worth measuring.

    Pulled back to reference coordinates the geometry is stored with the state: what a linear form stores is nothing else. Where the
    state takes more numbers then than without geometry, its cut in physical coordinates is the better one.
    """
    pulled = pull_back(action, term.dim, term.affine) if qdata != "recompute" and term.other is None else None
    prices = {"store": (STORE,), "recompute": (math.inf,), "auto": (math.inf, STORE, *PRICES)}[qdata]
    found: dict[str, StateSplit] = {}
    marked = set()
    for given, its_prices in ((action, prices), (pulled, (STORE,))):
        if given is None:
            continue
        costs, count = _costs(term, given), term.quadrature.num_qpts
        splits = split_states(given, its_prices, *costs, num_qpts=count, on_cells=on_cells(term))
        for price, split in zip(its_prices, splits, strict=False):
            if qdata != "store" or split.state is not None or given is action:
                found.setdefault(split.action.body, split)
                marked |= {split.action.body} if price in (STORE, math.inf) else set()
    storing = [split for split in found.values() if split.state is not None]
    chosen = storing if qdata == "store" and storing else found.values()
    return {split: split.action.body in marked for split in chosen}


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


def state_bytes(term: Term, plan: Plan) -> dict[tuple, int]:
    """Bytes on this rank of what a plan reads of a stored state, by the roles of the arrays."""
    arrays = (array for step in plan.steps() for array in step.arrays)
    return {
        array.role: array.layout.size(term.num_cells, array.words) * plan.itemsize(array.ctype)
        for array in arrays
        if array.role in (("state",), ("cell_state",)) and array.layout is not None
    }


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
