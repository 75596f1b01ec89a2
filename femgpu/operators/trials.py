"""Candidates for a term that are tried on random vectors: what they compute, against the plain kernel, and how long they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from femgpu.forms import Form, Pointwise
from femgpu.kernels import schedule_named
from femgpu.operators.application import Application
from femgpu.operators.arrays import scalar_type
from femgpu.operators.inputs import Inputs
from femgpu.operators.planner import Planner
from femgpu.operators.sums import Sums
from femgpu.operators.term import Term
from femgpu.operators.ways import Candidate, Choice, make_wish, state_bytes
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import Runtime

# Cells on which plans are compared with the plain kernel: more than what some work-groups take together, and no multiple of that.
_CHECKED = 1201
# Launches of which the shortest counts.
_LAUNCHES = 5
# Sizes of the random state on which they are compared: the first that the form takes to finite numbers.
_STATES = (1.0, 1e-3, 0.0)


class Applies(Protocol):
    """What binds a plan's launches: `FormOperator._application`."""

    def __call__(
        self, term: Term, pointwise: Pointwise, choice: Choice, given: dict[tuple, Any], count: int | None = None
    ) -> Application:
        """The launches, on all cells or so many."""


@dataclass(frozen=True)
class Tools:
    """What a form operator hands over.

    Attributes:
        form: the lowered form.
        planner: of its terms.
        apply: binds a plan's launches, with some buffers given.
        sums: of its E-vector.
        inputs: coefficients and constants.
        settings: the options.
        runtime: the device.
        masked: whether entries of results and directions may be prescribed.
    """

    form: Form
    planner: Planner
    apply: Applies
    sums: Sums
    inputs: Inputs
    settings: Settings
    runtime: Runtime
    masked: bool


class Trials:
    """Candidates for a term on random vectors, compared with the plain kernel's result on some cells.

    Args:
        tools: what an operator lends.
        target: what is computed.
        term: the term.
        pointwise: its function.

    Attributes:
        finite: whether the plain kernel has a state at which its result is finite.
    """

    def __init__(self, tools: Tools, target: str, term: Term, pointwise: Pointwise):
        self._tools, self._term, self._pointwise = tools, term, pointwise
        self._scalar = np.dtype(scalar_type(tools.settings.precision))
        form, runtime = tools.form, tools.runtime
        self._size = form.space.storage(form.wide).num_local
        self._draw = np.random.default_rng(1)
        self._out = runtime.empty(self._size * self._scalar.itemsize)
        self._given = {("out",): self._out, ("vector", "w"): self._upload(self._size, 1.0)}
        plain = self._plain_candidate("action" if target == "transposed" else target)
        self.finite = False
        for scale in _STATES:
            self._given["vector", "u"] = self._upload(form.state_space.storage(form.wide).num_local, scale)
            if plain is not None and not self.finite:
                self._wanted = self._result(plain, self._states(plain))
                self.finite = bool(np.isfinite(self._wanted).all())
            if self.finite:
                break

    def __call__(self, candidate: Candidate) -> tuple[float, Callable[[], float]]:
        """How far its result is from the plain kernel's, relative to the largest entry; what measures its time."""
        states = self._states(candidate)
        pointwise, choice = self._tools.planner.parts(self._term, self._pointwise, candidate)[0]
        whole = self._tools.apply(self._term, pointwise, choice, states)
        # On all cells it may have made way for the plan of any mesh: that one is what is compared, too.
        ran = replace(candidate, choice=replace(candidate.choice, plan=whole.plan))
        difference = float(np.abs(self._result(ran, states) - self._wanted).max(initial=0.0))

        def seconds() -> float:
            return whole.least_seconds(_LAUNCHES)

        return difference / (float(np.abs(self._wanted).max(initial=0.0)) or 1.0), seconds

    def _upload(self, size: int, scale: float) -> Any:
        return self._tools.runtime.upload((scale * self._draw.uniform(0.5, 1.0, size)).astype(self._scalar))

    def _plain_candidate(self, target: str) -> Candidate | None:
        """A cell for each item, and nothing stored."""
        tools, plain = self._tools, schedule_named("cell")
        limits, work = tools.runtime.device.limits, make_work(self._term, target, self._pointwise, tools.masked)
        if plain.refuses(work, limits):
            return None
        wish = make_wish(self._term, work, tools.settings, limits, (("sums", 0),))
        plan = next(iter(plain.plans(work, limits, wish)))
        return Candidate(None, Choice(plan))

    def _states(self, candidate: Candidate) -> dict[tuple, Any]:
        """The buffers that a candidate's launches are given: what it reads at the points is stored at the random state."""
        tools, term, given = self._tools, self._term, dict(self._given)
        sizes = state_bytes(term, candidate.choice.plan)
        tools.runtime.require(sum(sizes.values()), "what a plan keeps at the points")
        given |= {role: tools.runtime.empty(size) for role, size in sizes.items()}
        for pointwise, choice in tools.planner.parts(term, self._pointwise, candidate)[1:]:
            storing = tools.apply(term, pointwise, choice, given)
            storing()
            # PoCL wants its buffers as long as it runs.
            tools.runtime.finish()
        return given

    def _result(self, candidate: Candidate, given: dict[tuple, Any]) -> npt.NDArray[np.floating]:
        """The L-vector that a candidate adds up from the first cells."""
        tools, runtime = self._tools, self._tools.runtime
        pointwise, choice = tools.planner.parts(self._term, self._pointwise, candidate)[0]
        application = tools.apply(self._term, pointwise, choice, given, min(self._term.num_cells, _CHECKED))
        runtime.zero(self._out, self._size * self._scalar.itemsize)
        if ("out", 0) in application.roles:
            tools.sums.zero()
        application()
        if ("out", 0) in application.roles:
            for launch in tools.sums.gather([application]).bind(self._out):
                launch()
        return runtime.read(self._out, np.empty(self._size, self._scalar))
