"""All operators of a form, from L-vectors to L-vectors, on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu import log
from femgpu.errors import FemgpuError, FormError, collective
from femgpu.forms import Form, Pointwise, StateSplit
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays, scalar_type
from femgpu.operators.division import make_terms
from femgpu.operators.inputs import Inputs
from femgpu.operators.memory import in_chunks, least_bytes
from femgpu.operators.planner import EVENTS, STATES, Planner, diagonal_target
from femgpu.operators.sums import GatherSum, Sums
from femgpu.operators.term import Term
from femgpu.operators.trials import Tools
from femgpu.operators.tuning import TUNED, tuned
from femgpu.operators.ways import Candidate, Choice, Way, fastest, scatter_mode, state_bytes
from femgpu.options import Settings
from femgpu.runtime import Launch, Runtime

# What is read from another buffer than the operator's own.
_SOURCES: dict[str, tuple] = {"residual": ("vector", "u"), "action": ("vector", "w"), "transposed": ("vector", "w")}


class FormOperator:
    """Residual, Jacobian action, its transpose, diagonal and element matrices of one form.

    The residual reads its state from `u`; actions, diagonal and matrices read theirs from `base`, so that residuals of a line
    search do not move the point of linearisation. The direction is read from `w`, results go to `out`. All are device buffers
    of L-vectors that stay the same for the life of the operator: no evaluation allocates. Programs are built on the first use
    of each target. The time derivative of the unknown is a coefficient that, like the state, has a buffer of each kind; `update`
    fills them from the Function behind it only when that has been written.

    Args:
        form: the lowered form; its test space gives the vectors.
        settings: the options.
        runtime: the device.
        prescribed: (num_local,) uint8, the entries of L-vectors that Dirichlet conditions prescribe: results leave them alone, and
            a direction counts as zero there; None: none.

    Attributes:
        u, base, w, out: states of residual and Jacobian, direction and result, L-vectors in the storage precision `scalar`.
        inputs: coefficients, constants and rates.
        assembly_target: what fills sparse matrices: "entries", which are added to their values as they are computed, or "matrix".
        storage: how L-vectors hold the dofs of the test space.
        terms: what is integrated where.
        arrays: over their cells, on the device.
        applications: the launches of each target built so far, with those of `STATES` that fill what actions read at the points.
        splits: by application of the action, what of it is stored and what is computed.
        refusals: why schedules that were tried did not serve, each once.
        bends: `Motion.bends` of the mesh that the terms were made for: with another one all that was bound is void.
    """

    def __init__(self, form: Form, settings: Settings, runtime: Runtime, prescribed: npt.NDArray[np.uint8] | None = None):
        self.form, self.settings, self.runtime = form, settings, runtime
        self.space, self.mesh, self.mpi = form.space, form.space.mesh, form.space.mesh.mpi
        self.scalar = np.dtype(scalar_type(settings.precision))
        self.storage = form.space.storage(form.wide)
        self.num_local, self._prescribed = self.storage.num_local, prescribed
        self.assembly_target = "entries" if scatter_mode(settings, runtime.device.limits) == "atomic" else "matrix"
        self.mesh.update()
        self._divide()
        with collective(self.mpi):
            needed = least_bytes(self.terms, self.arrays, self._planner.plans("residual"), settings)
            runtime.require(needed, f"the form on {self.mesh.num_cells} cells")
            sizes = [self.vector_bytes] * 3 + [form.state_space.storage(form.wide).num_local * self.scalar.itemsize]
            self.out, self.u, self.w, self.base = buffers = [runtime.empty(size) for size in sizes]
            for buffer, size in zip(buffers[1:], sizes[1:], strict=True):
                runtime.zero(buffer, size)
            self.inputs = Inputs(form, settings.precision, runtime, self.mesh)

    def _divide(self) -> None:
        """Divides the form into terms, on the mesh as it is, of which nothing is built yet; collective."""
        self.terms = make_terms(self.form, self.settings)
        self._moves, self.bends = self.mesh.motion.moves, self.mesh.motion.bends
        self.arrays = CellArrays(self.runtime, self._prescribed)
        masked = self._prescribed is not None
        self._planner = Planner(self.terms, self.settings, self.runtime, self.mpi, masked, self.vector_bytes)
        self.applications, self.splits = dict[str, list[Application]](), dict[Application, StateSplit]()
        self.refusals, self._fresh, self._flops = dict[str, None](), set[str](), dict[str, float]()
        self._sums, self._gathers = Sums(self.terms, self.arrays, self.settings.precision), dict[str, GatherSum]()
        self._matrix: Any = None

    @property
    def mask(self) -> Any:
        """Device buffer of the prescribed entries; None where there are none."""
        return self.arrays.mask

    @property
    def vector_bytes(self) -> int:
        """Bytes of an L-vector."""
        return self.num_local * self.scalar.itemsize

    def update(self) -> bool:
        """Brings coefficients, constants and coordinates to the device where they have changed, and says whether; collective.

        Raises:
            FemgpuError: when a coefficient is not finite, or the mesh has moved so far that cells are inverted.
        """
        fresh, motion = self.inputs.update(), self.mesh.motion
        if self.bends != motion.bends:
            self._divide()
        elif self._moves != motion.moves:
            self.arrays.follow()
        if changed := fresh or self._moves != motion.moves:
            self.base_changed()
        self._moves = motion.moves
        return changed

    def base_changed(self) -> None:
        """Says that `base` holds another state: what actions keep at the points is computed anew at their next use."""
        self._fresh.clear()

    def read_state_of(self, other: FormOperator) -> None:
        """Makes the state of another operator, of the same unknown, that of this one's Jacobian, before anything is built.

        `base_changed` still has to be told of every change.
        """
        self.base, self.inputs.base_rate = other.base, other.inputs.base_rate

    def build(self, targets: Sequence[str] = ()) -> None:
        """Builds the programs of targets (default: all), of those that the form knows, without evaluating any; collective."""
        targets = targets or ("residual", "action", "diagonal", self.assembly_target)
        known = [target for target in targets if target == "residual" or self.form.has_jacobian]
        self.build_ahead(known)
        for target in known:
            self.prepare(target)

    def build_ahead(self, targets: Sequence[str]) -> None:
        """Starts to build the programs of targets in threads; what goes wrong is told by `prepare`; collective."""
        known = TUNED if self.settings.tune != "off" else tuple(self.applications)  # tuning says later what is launched
        with suppress(FemgpuError):
            self._planner.start([target for target in targets if target not in known])

    def residual(self, u: Any = None, out: Any = None) -> None:
        """`out` = sum of the cells' residuals at `u`; ghosts hold this rank's share.

        Args:
            u: another buffer to read the state from.
            out: another buffer for the result.
        """
        self._apply("residual", u, out)

    def action(self, w: Any = None, out: Any = None, target: str = "action") -> None:
        """`out` = Jacobian at `base` times `w`, likewise; that of the transpose for the target "transposed".

        Raises:
            FormError: when the form does not know its Jacobian, or the transpose.
        """
        self._apply(target, w, out)

    def diagonal(self, out: Any = None, shift: int = 0) -> None:
        """`out` = diagonal of the Jacobian at `base`, likewise, or what stands `shift` columns further (`diagonal_target`)."""
        self._apply(diagonal_target(shift), None, out)

    def bind(self, target: str, source: Any, out: Any, dots: Any = None, fresh: bool = False, zeroes: bool = False) -> list[Launch]:
        """The launches that add a target to a buffer, atomic adds and sums over E-vectors side by side; collective at first.

        Args:
            target: residual, action, transposed or diagonal. Actions read what is kept at the points: call `store` before.
            source: buffer of the state (residual) or the direction (action, transposed).
            out: buffer of the result.
            dots: buffer of `DOT_WORDS` doubles that products of direction and result are added to, see `sums_dots`; None: none.
            fresh: whether `out` is zero, but for its first entries, which are stored (`num_stored`).
            zeroes: whether the first launch is to make it zero before, where it can (`Application.zeroes`).
        """
        found, stores = [], out if fresh else None
        for application in self.prepare(target):
            given = {_SOURCES.get(target, ()): source, ("out",): out, ("dots",): dots, ("stores",): stores}
            found += application.bind(given, zeroes * self.num_local)
            stores, zeroes = None, False
        if target in self._gathers:
            found += self._gathers[target].bind(out, fresh)
        return found

    def num_stored(self, target: str) -> int:
        """How many of the first entries of a result are stored, where it is bound as `fresh`, in place of being added."""
        first, sums = self.prepare(target)[0], self._gathers.get(target)
        return self.num_local if sums is not None and sums.whole else first.num_stored

    @property
    def sums_dots(self) -> bool:
        """Whether all kernels of the action sum direction times result on the way."""
        return all(application.plan.sums_dots for application in self.prepare("action"))

    def store(self, target: str = "action") -> None:
        """Brings what an action, or the transposed one, reads at the points up to the state `base`."""
        if target in self._fresh or target not in STATES:
            return
        self.prepare(target)
        for application in self.applications[STATES[target]]:
            application()
        self._fresh.add(target)

    def flops(self, target: str) -> float:
        """Floating-point operations of a target on this rank."""
        if target not in self._flops:
            self._flops[target] = float(sum(application.flops for application in self.prepare(target)))
        return self._flops[target]

    def matrices(self) -> list[npt.NDArray[np.float64]]:
        """Element matrices at `base` on the host, (num_cells, num_rows, num_rows) for each term that has a Jacobian."""
        read, found = self.runtime.read, self.element_matrices()
        pieces = [(term, read(buffer, np.empty((count, term.num_rows, term.num_rows)))) for term, _, count, buffer in found]
        return [np.concatenate([piece for t, piece in pieces if t is term]) for term in dict.fromkeys(t for t, _ in pieces)]

    def element_matrices(self) -> Iterator[tuple[Term, int, int, Any]]:
        """The same chunk by chunk: term, first cell, cells, and the device buffer, which the next chunk overwrites."""
        for application in self.prepare("matrix"):
            yield from ((application.term, *chunk, self._matrix) for chunk in application.by_chunks())

    def prepare(self, target: str) -> list[Application]:
        """The launches of a target, built on the first call; collective.

        Raises:
            FormError: when the form does not know its Jacobian and the target needs it.
        """
        if target not in self.applications:
            if target != "residual" and not self.form.has_jacobian:
                raise FormError(f"the form knows no Jacobian, so it has no {target}; give g0 to g3")
            found = self._choose(target) if target in STATES else self._build(target)
            with collective(self.mpi):
                if gathering := [application for application in found if ("out", 0) in application.roles]:
                    self._gathers[target] = self._sums.gather(gathering, len(gathering) == len(found))
            self.applications[target] = found
            if target in STATES or self.settings.tune != "off":  # of what was compared and not chosen nothing stays
                kept = (entry for used in self.applications.values() for entry in used)
                self.arrays.keep(argument for entry in kept for kernel in entry.kernels for argument in kernel.arguments)
                self._sums.keep(self._gathers.values())
        return self.applications[target]

    def _apply(self, target: str, source: Any, out: Any) -> None:
        source = (self.u if target == "residual" else self.w) if source is None else source
        out = self.out if out is None else out
        with log.event(EVENTS.get(target, EVENTS["diagonal"]), self.flops(target), self.runtime.finish):
            self.store(target)
            application = self.prepare(target)[0]
            if not application.zeroes:
                self.runtime.zero(out, self.vector_bytes, self.num_stored(target) * self.scalar.itemsize)
            for launch in self.bind(target, source, out, fresh=True, zeroes=application.zeroes):
                launch()

    def _build(self, target: str) -> list[Application]:
        """The launches of a target other than the action; collective."""
        chosen = [(term, function, way.choice) for term, function, way in tuned(self.tools(), target)]
        with collective(self.mpi):
            chosen = chosen or self._planner.plans(target)
            if target == "matrix":
                chosen, num_bytes = in_chunks(chosen, self.settings)
                self._matrix = self.runtime.empty(num_bytes)
            return [self._application(term, pointwise, choice) for term, pointwise, choice in chosen]

    def tools(self) -> Tools:
        """What plans of the targets are tried with."""
        given = self._planner, self._application, self._sums, self.inputs, self.settings, self.runtime, self._prescribed is not None
        return Tools(self.form, *given)

    def _choose(self, target: str) -> list[Application]:
        """The launches of an action, the fastest way of each term, and those that store what they read; collective."""
        found = [(term, action, [way]) for term, action, way in tuned(self.tools(), target)] or self._planner.ways(target)
        with collective(self.mpi):
            ways = [[self._way(term, action, entry) for entry in entries] for term, action, entries in found]
        # Ways are compared on numbers that are numbers.
        self.runtime.zero(self.out, self.vector_bytes)
        chosen = [fastest(entries, self.mpi) for entries in ways]
        self.applications[STATES[target]] = [way.storing for way in chosen if way.storing is not None]
        self.splits |= {way.action: way.candidate.split for way in chosen if way.candidate.split is not None}
        return [way.action for way in chosen]

    def _way(self, term: Term, action: Pointwise, candidate: Candidate) -> Way:
        (computed, choice), *storing = self._planner.parts(term, action, candidate)
        if not storing:
            return Way(candidate, self._application(term, computed, choice), None)
        size = state_bytes(term, choice.plan)
        self.runtime.require(sum(size.values()), f"what is kept ({candidate.split}; -femgpu_qdata recompute keeps nothing)")
        state = {role: self.runtime.empty(count) for role, count in size.items()}
        return Way(candidate, self._application(term, computed, choice, state), self._application(term, *storing[0], state))

    def _application(
        self, term: Term, pointwise: Pointwise, choice: Choice, given: dict[tuple, Any] | None = None, count: int | None = None
    ) -> Application:
        """Everything bound, some buffers given; what is written to an E-vector goes to the term's segments."""
        self.refusals |= dict.fromkeys(choice.refusals)
        work, at_residual = choice.plan.work, choice.plan.work.target == "residual"
        buffers = dict(self.inputs.buffers if at_residual else self.inputs.at_base())
        buffers |= {("vector", "u"): self.u if at_residual else self.base, ("vector", "w"): self.w}
        buffers["out",] = self._matrix if work.target == "matrix" else self.out
        if work.sums and choice.plan.scatter == "evector":
            buffers |= self._sums.outputs(term)
        buffers |= given or {}
        program = self._planner.program(term, choice.plan, pointwise)
        return Application(term, choice.plan, pointwise, buffers, self.arrays, 0, count, self.settings.view, program, choice.note)
