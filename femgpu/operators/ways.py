"""The choice of a plan: candidates are pairs of a split (what is stored at the points) and a plan; model or measurement decides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from femgpu.errors import PlanError, collective
from femgpu.forms import Pointwise, StateSplit
from femgpu.kernels import SCHEDULES, Plan, Schedule, Wish, Work, schedule_named
from femgpu.model import Limits
from femgpu.operators.application import Application
from femgpu.operators.splits import splits
from femgpu.operators.term import Term
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import Runtime

# Seconds of a launch without work, on GPUs.
LAUNCH_SECONDS = 2e-6
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
        if entry.name != settings.first_schedule[0] and not entry.volunteers(work, limits, settings.precision):
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
    return Wish(settings.precision, geometry, "atomic" if atomic else "evector", parameters, term.mesh.mpi.size == 1)


def scatter_mode(settings: Settings, limits: Limits) -> str:
    """`atomic` or `gather`: auto takes atomics where the device has them natively and determinism is not asked for."""
    if settings.scatter != "auto":
        return settings.scatter
    return "atomic" if limits.native_atomics and not settings.deterministic else "gather"


def fastest(ways: list[Way], mpi: Any) -> Way:
    """The way whose action takes the least time on the slowest rank, measured where there is a choice; collective.

    Those that do not zero their results themselves take the time of a launch more.
    """
    if len(ways) == 1:
        return ways[0]
    seconds = []
    with collective(mpi):
        for way in ways:
            if way.storing is not None:
                way.storing()
            seconds.append(way.action.least_seconds(_LAUNCHES) + (not way.action.zeroes) * LAUNCH_SECONDS)
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
        settings: `qdata` is `store`, `single`, `recompute` or `auto`.
        limits: of the device.
        mpi: mpi4py communicator.
        masked: whether entries of the direction may be prescribed.

    Returns:
        The candidates, and whether each is worth measuring.

    Raises:
        PlanError: see `choose_plan`.
    """

    def planned(action: Pointwise) -> Choice:
        work = make_work(term, "action", action, masked, rounded=settings.qdata == "single", modes=settings.modes == "auto")
        return choose_plan(work, term, settings, limits)

    in_question = splits(term, action, "store" if settings.stores else settings.qdata)
    with collective(mpi):
        found = [(Candidate(split, planned(split.action)), mark) for split, mark in in_question.items()]
        return found or [(Candidate(None, planned(action)), True)]


def candidates(term: Term, found: list[tuple[Candidate, bool]], settings: Settings, runtime: Runtime, mpi: Any) -> list[Candidate]:
    """Those of the `alternatives` that come into question with the memory that is free now; collective.

    Returns:
        The one that takes the least time by the model: of all for `auto`, of those that store something for `store` and `single`.
        On a GPU those besides that are worth measuring (`splits`), among which a measurement decides: what a kernel spills when it
        holds too much is beyond the model. Those that the device's memory does not hold are left out, unless it holds none.
    """
    if len(found) < 2:
        return [entry for entry, _ in found]
    room = runtime.available_bytes / len(found)  # several ways that store may be compared
    sizes = [sum(state_bytes(term, entry.choice.plan).values()) for entry, _ in found]
    every = [entry.choice.plan.seconds(runtime.device.limits.ceiling) for entry, _ in found]
    seconds = _slowest([taken if size <= room else math.inf for taken, size in zip(every, sizes, strict=True)], mpi)
    if not any(map(math.isfinite, seconds)):
        seconds = _slowest(every, mpi)  # asked to store, it stores; the error then says that there is no room
    best = int(np.argmin(seconds))
    if not runtime.device.is_gpu or settings.deterministic:
        return [found[best][0]]
    return [entry for i, (entry, mark) in enumerate(found) if (i == best or mark) and math.isfinite(seconds[i])]


def state_bytes(term: Term, plan: Plan) -> dict[tuple, int]:
    """Bytes on this rank of what a plan reads of a stored state, by the roles of the arrays."""
    arrays = (array for step in plan.steps() for array in step.arrays)
    return {
        array.role: array.layout.size(term.num_cells, array.words) * plan.itemsize(array.ctype)
        for array in arrays
        if array.role in (("state",), ("cell_state",)) and array.layout is not None
    }
