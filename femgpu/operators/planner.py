"""What the targets of a form are going to launch: plans and programs of its terms, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from femgpu.errors import collective, meet
from femgpu.forms import Pointwise
from femgpu.kernels import Plan, entry_kernels, list_kernels, node_list_kernels, render
from femgpu.model import Limits
from femgpu.operators.application import label, term_tables
from femgpu.operators.arrays import is_packed
from femgpu.operators.pattern import first_terms
from femgpu.operators.term import Term
from femgpu.operators.ways import LAUNCH_SECONDS, Candidate, Choice, alternatives, candidates, choose_plan
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import Runtime

# What is stored at the points for an action or its transpose.
STATES = {"action": "state", "transposed": "transposed state"}
# Element matrices that are added to a sparse matrix as they are computed, by the C type of the places in it.
SUMMED = {"entries": "ushort", "wide entries": "uint"}
EVENTS = {"residual": "FGResidual"} | dict.fromkeys(("action", "transposed"), "FGJacAction")
EVENTS |= dict.fromkeys(("diagonal", "matrix", *SUMMED), "FGMatrix")


def diagonal_target(shift: int = 0) -> str:
    """The target that is a diagonal, or what stands `shift` columns further in the blocks of a node's components, see `Work`."""
    return f"diagonal+{shift}" if shift else "diagonal"


def zeroing_limits(limits: Limits, num_bytes: int) -> Limits:
    """A device's limits, with launches that zero results of so many bytes only where zeros take less time than a launch."""
    return replace(limits, in_order=limits.in_order and num_bytes <= LAUNCH_SECONDS * limits.ceiling.copy)


class Planner:
    """Plans of a form's terms, each made once.

    Args:
        terms: the terms.
        settings: the options.
        runtime: the device.
        mpi: mpi4py communicator.
        masked: whether entries of results and directions may be prescribed.
        vector_bytes: of a result that is a vector.
    """

    def __init__(
        self, terms: Sequence[Term], settings: Settings, runtime: Runtime, mpi: Any, masked: bool = False, vector_bytes: int = 0
    ):
        self._limits = zeroing_limits(runtime.device.limits, vector_bytes)
        self._terms, self._settings, self._runtime, self._mpi, self._masked = terms, settings, runtime, mpi, masked
        self._plans: dict[str, list[tuple[Term, Pointwise, Choice]]] = {}
        self._alternatives: dict[str, list[tuple[Term, Pointwise, list[tuple[Candidate, bool]]]]] = {}
        self._programs: dict[tuple[Term, Plan, str], str] = {}

    def limits(self, target: str) -> Limits:
        """What the device allows, and results: their zeros may be the launches' own where these take less time than a launch.

        Those of actions are somebody else's where entries are prescribed, for they are written with these.
        """
        others = self._masked and target in STATES
        return replace(self._limits, in_order=self._limits.in_order and not others)

    def plans(self, target: str) -> list[tuple[Term, Pointwise, Choice]]:
        """The terms that a target other than an action is about, with their pointwise functions and plans.

        Raises:
            PlanError: see `choose_plan`.
        """
        if target not in self._plans:
            self._plans[target] = [(*given, self.plan(given[0], target, given[1])) for given in self._chosen(target)]
        return self._plans[target]

    def ways(self, target: str) -> list[tuple[Term, Pointwise, list[Candidate]]]:
        """The terms that an action is about, and the candidates of each with the memory that is free now; collective.

        Raises:
            PlanError: see `choose_plan`.
        """
        settings, runtime, mpi = self._settings, self._runtime, self._mpi
        return [(term, action, candidates(term, found, settings, runtime, mpi)) for term, action, found in self._splits(target)]

    def every(self, target: str) -> list[tuple[Term, Pointwise, list[Candidate]]]:
        """The terms that a target is about, and all candidates, each with its default plan; collective.

        Raises:
            PlanError: see `choose_plan`.
        """
        if target in STATES:
            return [(term, action, [candidate for candidate, _ in found]) for term, action, found in self._splits(target)]
        with collective(self._mpi):
            return [(term, function, [Candidate(None, choice)]) for term, function, choice in self.plans(target)]

    def _splits(self, target: str) -> list[tuple[Term, Pointwise, list[tuple[Candidate, bool]]]]:
        """The `alternatives` for an action."""
        settings, mpi = self._settings, self._mpi
        if target not in self._alternatives:
            with collective(mpi):
                chosen = self._chosen(target)
            limits = self.limits(target)
            self._alternatives[target] = [(*given, alternatives(*given, settings, limits, mpi, self._masked)) for given in chosen]
        return self._alternatives[target]

    def plan(self, term: Term, target: str, pointwise: Pointwise, block: int = 0) -> Choice:
        """The plan of a term; where `block` is given, arrays stand as in another plan with that many cells interleaved."""
        limits = self.limits(target)
        limits = replace(limits, block=block) if block else limits
        if target in SUMMED:
            fresh = first_terms(self._terms).get(term.block.index) is term
            work = make_work(term, "matrix", pointwise, place=SUMMED[target], fresh=fresh)
        else:
            rounded = self._settings.qdata == "single"
            kind, _, shift = target.partition("+")
            masked = self._masked and target != "matrix"
            work = make_work(term, kind, pointwise, masked, rounded=rounded, shift=int(shift or 0))
        return choose_plan(work, term, self._settings, limits)

    def parts(self, term: Term, action: Pointwise, candidate: Candidate) -> list[tuple[Pointwise, Choice]]:
        """The action of a candidate with its plan, and where it stores something what stores it, with its plan."""
        split, choice = candidate.split, candidate.choice
        if split is None:
            return [(action, choice)]
        found = [(split.action, choice)]
        if split.state is not None:
            found.append((split.state, self.plan(term, "state", split.state, choice.plan.block)))
        return found

    def program(self, term: Term, plan: Plan, pointwise: Pointwise) -> str:
        """The program of a plan of a term."""
        key = term, plan, pointwise.body
        if key not in self._programs:
            self._programs[key] = render(plan, pointwise.body, term_tables(term, plan, pointwise)[0])
        return self._programs[key]

    def start(self, targets: Sequence[str]) -> None:
        """Starts to build the programs of some targets, where they are built ahead on all ranks; collective.

        Raises:
            PlanError: see `choose_plan`.
        """
        if meet(self._mpi, not self._runtime.programs.threads):
            return
        found = [entry for target in targets for entry in self._launched(target)]
        with collective(self._mpi):
            # Rows are found before entries are computed.
            programs = [(entry_kernels(SUMMED[target]), "merge_lists") for target in targets if target in SUMMED]
            arrays = [array for *_, choice in found for step in choice.plan.steps() for array in step.arrays]
            if programs or any(is_packed(array, self._masked) for array in arrays):
                programs.append((list_kernels(), "pack_words"))
            plans = dict.fromkeys(choice.plan for *_, choice in found)
            programs += [
                (node_list_kernels(entry, plan.layout.block), "list_nodes")
                for plan in plans
                for entry in plan.lists
                if not entry.in_place
            ]
            programs += [
                (self.program(term, choice.plan, pointwise), label(term, choice.plan, choice.plan.steps()[0]))
                for term, pointwise, choice in found
            ]
            self._runtime.build_ahead(programs)

    def _launched(self, target: str) -> Iterator[tuple[Term, Pointwise, Choice]]:
        """Everything that a target may launch; collective."""
        if target in STATES:
            for term, action, found in self.ways(target):
                for candidate in found:
                    for part in self.parts(term, action, candidate):
                        yield term, *part
        else:
            with collective(self._mpi):
                plans = self.plans(target)
            yield from plans

    def _chosen(self, target: str) -> list[tuple[Term, Pointwise]]:
        return [(term, function) for term in self._terms if (function := term.pointwise(target)) is not None]
