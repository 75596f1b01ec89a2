"""The choice of a form's plans by `-femgpu_tune`: what is offered for each term, and how plans are tried on the form's own data."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from femgpu import log
from femgpu.errors import collective, meet
from femgpu.forms import Pointwise
from femgpu.kernels import Plan
from femgpu.operators.application import label
from femgpu.operators.term import Term
from femgpu.operators.trials import Tools, Trials
from femgpu.operators.ways import Candidate, make_wish, scatter_mode, state_bytes
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.progress import progress
from femgpu.tune import Offer, Winner, bounded, default_first, fastest, load, offered, ranked, store
from femgpu.version import VERSION

# Targets whose plans are tuned: those that solvers repeat.
TUNED = ("residual", "action", "transposed", "diagonal")
# How many times as many cells a mesh may have as that of a winner: small ones fit caches, and leave devices idle.
_GROWN = 8

Entry = tuple[Term, Pointwise, Candidate]


def tuned(tools: Tools, target: str) -> list[Entry]:
    """The terms that a target is about, each with the way that `-femgpu_tune` chose; nothing where it does not; collective.

    Of each kind of device the first rank that has cells of a term decides, and all with such a device do as it says.

    Raises:
        PlanError: see `choose_plan`.
    """
    if tools.settings.tune == "off" or target not in TUNED:
        return []
    found = tools.planner.every(target)
    fresh = _measures(tools.settings) and not tools.inputs.filled
    if fresh:
        tools.inputs.update()
    with log.event("FGTune"):
        chosen = [(term, pointwise, _choose(tools, target, term, pointwise, every)) for term, pointwise, every in found]
    if fresh:
        # Whoever asks for changes later is to hear of these.
        tools.inputs.forget()
    return chosen


def _measures(settings: Settings) -> bool:
    """Whether times decide; they differ from run to run, and with them roundings."""
    return settings.tune == "measure" and not settings.deterministic


def _choose(tools: Tools, target: str, term: Term, pointwise: Pointwise, every: list[Candidate]) -> Candidate:
    runtime, mpi = tools.runtime, term.mesh.mpi
    with collective(mpi):
        offers = _offers(tools, term, every)
    kinds = mpi.allgather((sorted(runtime.device.kind.items()), term.num_cells > 0))
    alike = [rank for rank, (kind, _) in enumerate(kinds) if kind == kinds[mpi.rank][0]]
    leader = next((rank for rank in alike if kinds[rank][1]), alike[0])
    with collective(mpi):
        answer = _answer(tools, target, term, pointwise, offers) if mpi.rank == leader else None
    name, note = mpi.allgather(answer)[leader]
    names = {offer.name: candidate for offer, candidate in offers.items()}
    if not meet(mpi, name not in names):
        return replace(names[name], choice=replace(names[name].choice, note=note))
    return every[0]  # parts of a mesh whose plans differ


def _offers(tools: Tools, term: Term, every: list[Candidate]) -> dict[Offer, Candidate]:
    """All plans for all splits."""
    settings, found = tools.settings, dict[Offer, Candidate]()
    for candidate in every:
        plan, split = candidate.choice.plan, ""
        work = plan.work.whole
        limits = tools.planner.limits(work.target)
        if candidate.split is not None:
            split = hashlib.sha256(candidate.split.action.body.encode()).hexdigest()[:16]
        first, parameters = settings.first_schedule
        # What a schedule that is asked for by name does not serve goes to the one that the choice came to.
        named = plan.schedule if first else ""
        wish = make_wish(term, work, settings, limits, parameters if named == first else ())
        for offer in offered(plan, work, limits, wish, named, _measures(settings)):
            offer = replace(offer, split=split)
            free = _measures(settings) and "registers" not in dict(wish.parameters)
            for each in (offer, *(bounded(offer, limits) if free else ())):
                found[each] = replace(candidate, choice=replace(candidate.choice, plan=each.plan))
    return found


def _answer(tools: Tools, target: str, term: Term, pointwise: Pointwise, offers: dict[Offer, Candidate]) -> tuple[str, str]:
    """Name of the offer that is taken, and what the view says of it."""
    settings, runtime = tools.settings, tools.runtime
    order = _in_order(tools, term, offers)
    if not _measures(settings) or len(order) == 1:
        return order[0].name, f"ranked first of {len(order)} plans by the model" if len(order) > 1 else "the only plan"
    what = _what(tools, target, term, pointwise, next(iter(offers)).plan)
    known = load(runtime.device.kind, what)
    if known is not None and known.name in {offer.name for offer in offers} and term.num_cells <= _GROWN * known.cells:
        return known.name, f"tuned before: {1e6 * known.seconds:.1f} us on {known.cells} cells"
    default, *others = default_first(order, runtime.device.limits.ceiling)
    times = tried_times(
        tools, target, term, pointwise, {offer: offers[offer] for offer in [default, *others][: settings.tune_best]}
    )
    if times is None:
        return default.name, "not tuned: " + ("nothing is finite at any state tried" if term.num_cells else "no cells")
    if not times:
        warnings.warn(f"no plan for the {target} could be tried; the default one is taken", stacklevel=2)
        return default.name, "not tuned: no plan could be tried"
    best = next(iter(times))
    if more := {offer: offers[offer] for offer in offers if offer.base == best.name}:
        times |= tried_times(tools, target, term, pointwise, more) or {}
    best, seconds = min(times.items(), key=lambda entry: entry[1])
    store(runtime.device.kind, what, Winner(best.name, str(best.plan), seconds, term.num_cells))
    against = f", the default {1e6 * times[default]:.1f}" if default in times else ""
    return best.name, f"tuned: the fastest of {len(times)} plans, {1e6 * seconds:.1f} us on {term.num_cells} cells{against}"


def listed(tools: Tools, target: str) -> tuple[Term, Pointwise, dict[Offer, Candidate]]:
    """The only term of a form, and all plans for it in the order in which a measurement takes its first ones; on one rank."""
    tools = replace(tools, settings=replace(tools.settings, tune="measure"))
    ((term, pointwise, every),) = tools.planner.every(target)
    offers = _offers(tools, term, every)
    order = default_first(_in_order(tools, term, offers), tools.runtime.device.limits.ceiling)
    return term, pointwise, {offer: offers[offer] for offer in order}


def _in_order(tools: Tools, term: Term, offers: dict[Offer, Candidate]) -> list[Offer]:
    """Those that memory holds, the fastest by the model first; none that is tried after another one."""
    room = math.inf if tools.settings.stores else tools.runtime.available_bytes / 2
    first = [offer for offer in offers if not offer.base]
    fitting = [offer for offer in first if sum(state_bytes(term, offer.plan).values()) <= room] or first
    return ranked(fitting, tools.runtime.device.limits.ceiling)


def tried_times(
    tools: Tools, target: str, term: Term, pointwise: Pointwise, tried: dict[Offer, Candidate]
) -> dict[Offer, float] | None:
    """Seconds of those that compute what they should, the fastest first; None where there is nothing to compare them with."""
    if not term.num_cells:
        return None
    build_ahead(tools, term, pointwise, list(tried.values()))
    trials = Trials(tools, target, term, pointwise)
    if not trials.finite:
        return None
    with progress(term.mesh.mpi, f"tuning {target}", 0, len(tried)) as advance:
        return fastest(list(tried), lambda offer: trials(tried[offer]), advance)


def build_ahead(tools: Tools, term: Term, pointwise: Pointwise, candidates: list[Candidate]) -> None:
    """Starts to build the programs of candidates, where programs are built ahead."""
    parts = [part for candidate in candidates for part in tools.planner.parts(term, pointwise, candidate)]
    programs = [(tools.planner.program(term, c.plan, p), label(term, c.plan, c.plan.steps()[0])) for p, c in parts]
    tools.runtime.build_ahead(programs)


def _what(tools: Tools, target: str, term: Term, pointwise: Pointwise, plan: Plan) -> str:
    """Everything but the device that decides about a winner, as text: femgpu, function, elements, what options ask of plans."""
    settings, limits = tools.settings, tools.runtime.device.limits
    work = make_work(term, "action" if target == "transposed" else target, pointwise, tools.masked)
    asked = (
        settings.tune_best,
        settings.first_schedule,
        settings.precision,
        settings.geometry,
        scatter_mode(settings, limits),
        settings.qdata,
        settings.modes,
        term.mesh.mpi.size == 1,
    )
    return json.dumps([VERSION, target, asdict(work), plan.geometry, pointwise.body, asked], sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    """Sets in order; of 1D factors sizes and sums, whose roundings may differ from machine to machine."""
    if isinstance(value, np.ndarray):
        return [*value.shape, f"{np.abs(value).sum():.6g}"]
    return sorted(value) if isinstance(value, frozenset) else str(value)
