"""Workloads bp10, bp35 and bp30 of paper 000: mass and screened Poisson operators of single hexahedra, from E-vector to E-vector.

The factors of the geometry are stored at the points: one with Gauss points (bp10), seven with Gauss-Lobatto points at the nodes
(bp35), seven with Gauss points (bp30). Each is held against what a copy of as many bytes takes in the same run, equation (12), and
against the traffic in local memory where the plan counts it, equation (13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu import options
from femgpu.bench.actions import TOLERANCE, noted
from femgpu.bench.bakeoff import other_plans, schedules_named, weak_form
from femgpu.bench.cases import each_case
from femgpu.bench.evector_report import LARGE, Asked, Result, Timing
from femgpu.bench.grid import VOLUME, Grid, GridSpace, counts_for
from femgpu.errors import DataError, PlanError
from femgpu.forms import bilinear_form
from femgpu.model.bakeoff import PROBLEMS, Bakeoff, roofline
from femgpu.operators import make_terms, twin
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays, real_type, scalar_type
from femgpu.operators.planner import Planner
from femgpu.operators.term import Term
from femgpu.operators.ways import Candidate, Choice, alternatives, choose_plan, state_bytes
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.runtime.rates import copy_bandwidth, launch_seconds, local_bandwidth

DEGREES = tuple(range(1, 16))
# The paper's meshes; 0 stands for as many cells as move `LARGE` bytes.
CELLS = (512, 4096, 0)


def run(
    runtime: Runtime,
    name: str,
    degrees: Sequence[int],
    cells: Sequence[float],
    schedules: Sequence[str] = ("auto",),
    precision: str = "double",
    plans: int = 0,
) -> Result:
    """Runs a workload on this process's device; femgpu's options apply where the arguments say nothing else.

    Args:
        runtime: the device.
        name: bp10, bp35 or bp30.
        degrees: N of the paper.
        cells: of each mesh, about; 0: as many as move `LARGE` bytes.
        schedules: values of `-femgpu_schedule`, or "all".
        precision: of the kernels.
        plans: of each schedule that are timed besides femgpu's choice, at most.

    Returns:
        The timings; every result agrees with the numpy twin on some cells.

    Raises:
        DataError: when one does not.
        PlanError: when no schedule serves, or for one that computes no actions.
        OptionError: for a schedule that there is not.
    """
    problem, timings, refusals = PROBLEMS[name], list[Timing](), list[str]()
    named, local = schedules_named(schedules), local_bandwidth(runtime)
    scalar, real = (np.dtype(kind(precision)).itemsize for kind in (scalar_type, real_type))
    cases = [(degree, count) for degree in degrees for count in cells]
    for degree, count in each_case(cases, description=name):
        moved = problem.evector_bytes(degree, scalar, real)
        term = _term(problem, degree, count or ceil(LARGE / moved))
        copy = copy_bandwidth(runtime, moved * term.num_cells)
        for schedule in named:
            asked = Asked(name, degree, term.num_cells, not count, schedule)
            settings = replace(options.read(), precision=precision, schedule=schedule)
            with noted(refusals, asked):
                case = _Case(runtime, term, settings)
                for number, choice in enumerate(case.choices(settings, plans)):
                    with noted(refusals, f"{asked}, {choice.plan}"):
                        case.take(choice)
                        error = case.error(problem)
                        if not error < TOLERANCE[precision]:
                            raise DataError(f"{asked} is wrong by {error:.1e}; this is a bug, please report it")
                        timings.append(_timing(case, problem, replace(asked, tried=number > 0), (copy, local), moved, error))
    if not timings:
        raise PlanError(f"bench {name}: no schedule serves; {'; '.join(refusals)}")
    return Result(str(runtime.device), precision, timings, refusals, local)


def _term(problem: Bakeoff, degree: int, cells: float) -> Term:
    """The problem on a box with about so many cells; L-vectors of its space are E-vectors."""
    space = GridSpace(Grid(counts_for(cells)), degree, problem.num_comp, continuous=False)
    (term,) = make_terms(bilinear_form(weak_form(problem, space)), Settings())
    return term


def _timing(case: _Case, problem: Bakeoff, asked: Asked, bandwidths: tuple[float, float], moved: int, error: float) -> Timing:
    times = launch_seconds(case.runtime, case.application.bind({}))
    median, plan = float(np.median(times)), case.application.plan
    (copy, local), traffic = bandwidths, getattr(plan, "local_traffic", 0)
    flops, rate = problem.flops(asked.degree), asked.cells / median
    bound = roofline(copy, flops, moved)
    return Timing(
        **vars(asked),
        plan=str(plan),
        us=1e6 * median,
        best_us=1e6 * float(times.min()),
        GFs=flops * rate / 1e9,
        GDOFs=problem.num_comp * (asked.degree + 1) ** 3 * rate / 1e9,
        GBs=moved * rate / 1e9,
        copy_GBs=copy / 1e9,
        roofline_GFs=bound / 1e9,
        local_GFs=roofline(local, flops, traffic) / 1e9 if traffic else float("nan"),
        share=flops * rate / bound,
        error=error,
    )


class _Case:
    """The action of a term between E-vectors, with the geometry stored at the points.

    Args:
        runtime: the device.
        term: the term.
        settings: give the precision.

    Attributes:
        application: the launches of the plan that was taken last.
    """

    application: Application

    def __init__(self, runtime: Runtime, term: Term, settings: Settings):
        self.runtime, self.term = runtime, term
        action, limits, mpi = term.integral.action, runtime.device.limits, term.mesh.mpi
        assert action is not None
        self._action, self._scalar = action, scalar_type(settings.precision)
        # Of the splits that store something, the one that stores least: in reference coordinates, nothing but geometry.
        self._stored = Settings(precision=settings.precision, qdata="store")
        splits = [entry.split for entry, _ in alternatives(term, action, self._stored, limits, mpi)]
        storing = [split for split in splits if split is not None and split.state is not None]
        self._split = min(storing, key=lambda split: split.num_scalars)
        self._constants = runtime.upload(np.zeros(1, real_type(settings.precision)))

    def choices(self, settings: Settings, plans: int) -> list[Choice]:
        """The plan that femgpu chooses, and so many others of each schedule."""
        work, limits = make_work(self.term, "action", self._split.action, source="evector"), self.runtime.device.limits
        return [choose_plan(work, self.term, settings, limits), *other_plans(self.term, work, settings, limits, plans)]

    def take(self, choice: Choice) -> None:
        """Makes the launches of a plan, and what they read at the points."""
        runtime, term = self.runtime, self.term
        planner = Planner([term], self._stored, runtime, term.mesh.mpi)
        (computed, choice), (storing, how) = planner.parts(term, self._action, Candidate(self._split, choice))
        arrays, plan = CellArrays(runtime), choice.plan
        buffers: dict[tuple, Any] = {("constants",): self._constants}
        buffers |= {role: runtime.empty(size) for role, size in state_bytes(term, plan).items()}
        Application(term, how.plan, storing, buffers, arrays)()
        self._given, self._out = (
            next(array for array in plan.arguments() if array.role == role) for role in (("entries", "w"), ("out", 0))
        )
        for array in (self._given, self._out):
            assert array.layout is not None
            buffers[array.role] = runtime.empty(array.layout.size(term.num_cells, array.words) * np.dtype(self._scalar).itemsize)
        self._buffers = buffers
        self.application = Application(term, plan, computed, buffers, arrays)

    def error(self, problem: Bakeoff) -> float:
        """The largest difference to the twin on three cells, relative, and that of the sum over all of A 1 to the volume."""
        term, action = self.term, self._action
        direction = np.random.default_rng(3).uniform(-1, 1, (term.num_cells, term.num_rows))
        cells = np.unique(np.array([0, term.num_cells // 2, term.num_cells - 1], np.int32))
        expected = twin.element_vectors(term.part(cells), action, {"w": direction.ravel()}, np.zeros(0))
        differences = np.abs(self._apply(direction)[cells] - expected).max(axis=1) / np.abs(expected).max(axis=1)
        errors = [float(differences.max())]
        if term.quadrature.degree >= term.coord_element.map_degree:
            errors.append(abs(float(self._apply(np.ones_like(direction)).sum()) / VOLUME - 1))
        return float(np.max(errors))

    def _apply(self, direction: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(num_cells, num_rows) the action on an E-vector of that shape."""
        given, out, product = self._given, self._out, self.term.element(self.term.rows[0]).product
        assert given.layout is not None and out.layout is not None and product is not None
        self.runtime.write(self._buffers[given.role], given.layout.pack(direction.astype(self._scalar), product[1]))
        self.application()
        flat = np.empty(out.layout.size(*direction.shape), self._scalar)
        self.runtime.read(self._buffers[out.role], flat)
        return out.layout.unpack(flat, len(direction), out.words, product[1]).astype(float)
