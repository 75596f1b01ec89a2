"""Workloads bp1 to bp6: actions of CEED's bake-off problems between L-vectors, on a bent box of trilinear hexahedra.

Mass (bp1, with three components bp2) and diffusion (bp3, bp4) with one Gauss point more per direction than there are nodes, and
diffusion with Gauss-Lobatto points at the nodes (bp5, bp6). Each is timed as femgpu chooses by itself, with the geometry rebuilt
from the vertices, and with the factors of the geometry stored at the points, as meshes of curved cells need them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc

from femgpu import options
from femgpu.bench import actions
from femgpu.bench.bakeoff_report import Asked, Result, Timing
from femgpu.bench.cases import each_case
from femgpu.bench.grid import Grid, GridSpace, counts_for
from femgpu.bench.peers import goal, peer
from femgpu.element import collocated_degree
from femgpu.errors import DataError, PlanError
from femgpu.forms import Form, bilinear_form
from femgpu.kernels import SCHEDULES, Work
from femgpu.model import Limits
from femgpu.model.bakeoff import PROBLEMS, Bakeoff
from femgpu.model.tets import Tets
from femgpu.operators import FormOperator
from femgpu.operators.term import Term
from femgpu.operators.tuning import build_ahead
from femgpu.operators.ways import Candidate, Choice, alternatives, candidates, make_wish
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.runtime.rates import peak_bandwidth

DEGREES = tuple(range(1, 9))
# Where the geometry comes from: as femgpu chooses, from the vertices, stored at the points, stored there in single precision.
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "rebuilt": {"geometry": "recomputed", "qdata": "recompute"},
    "stored": {"qdata": "store"},
    "rounded": {"qdata": "single"},
}
# Those whose products are exact but for rounding, which are timed unless others are named.
USUAL = ("default", "rebuilt", "stored")
_PREFIX = "bench_"


def schedules_named(given: Sequence[str]) -> list[str]:
    """Values of `-femgpu_schedule` to time; "all" stands for every schedule that computes actions.

    Raises:
        OptionError: for a schedule or parameters that there are not.
        PlanError: for a schedule that computes no actions.
    """
    every = [entry.name for entry in SCHEDULES if "action" in entry.targets]
    names = [name for value in given for name in (every if value == "all" else [value])]
    database, option = PETSc.Options(), f"{_PREFIX}femgpu_schedule"
    for name in names:
        database.setValue(option, name)
        try:
            asked = options.read(_PREFIX).schedule_name
        finally:
            database.delValue(option)
        if asked not in ("", *every):
            raise PlanError(f"--schedules {name}: it computes no actions; expected auto, all, or {', '.join(every)}")
    return names


def run(
    runtime: Runtime,
    name: str,
    degrees: Sequence[int],
    sizes: Sequence[float],
    schedules: Sequence[str] = ("auto",),
    ways: Sequence[str] = USUAL,
    precision: str = "double",
    plans: int = 0,
) -> Result:
    """Runs a workload on this process's device; femgpu's options apply where the arguments say nothing else.

    Args:
        runtime: the device.
        name: bp1 to bp6.
        degrees: of the elements.
        sizes: lengths of the vectors, about.
        schedules: values of `-femgpu_schedule`, or "all".
        ways: of `WAYS`.
        precision: of the kernels.
        plans: of each schedule that are timed besides femgpu's choice, at most.

    Returns:
        The timings; every action agrees with the numpy twin on some cells and with what is known of constants and linear functions.

    Raises:
        DataError: when one does not.
        PlanError: when no schedule serves, or for one that computes no actions.
        OptionError: for a schedule that there is not.
    """
    problem = PROBLEMS[name]

    def form(degree: int, size: float) -> Form:
        grid = Grid(counts_for(size / problem.num_comp / degree**3))
        return bilinear_form(weak_form(problem, GridSpace(grid, degree, problem.num_comp)))

    timings, refusals = measure(runtime, problem, form, degrees, sizes, schedules, ways, precision, plans)
    return Result(str(runtime.device), precision, timings, refusals, peak_bandwidth(runtime), runtime.device.limits.ceiling)


def measure(
    runtime: Runtime,
    problem: Bakeoff | Tets,
    make: Callable[[int, float], Form],
    degrees: Sequence[int],
    sizes: Sequence[float],
    schedules: Sequence[str],
    ways: Sequence[str],
    precision: str,
    plans: int,
) -> tuple[list[Timing], list[str]]:
    """Times the actions of forms on a `Grid`; the arguments are those of `run`.

    Args:
        runtime: the device.
        problem: what is computed.
        make: the form of a degree whose vectors have about so many entries.
        degrees: of the elements.
        sizes: lengths of the vectors, about.
        schedules: values of `-femgpu_schedule`, or "all".
        ways: of `WAYS`.
        precision: of the kernels.
        plans: of each schedule that are timed besides femgpu's choice, at most.

    Returns:
        The timings, and what was refused.
    """
    timings, refusals = list[Timing](), list[str]()
    named, cases = schedules_named(schedules), [(degree, size) for size in sizes for degree in degrees]
    for degree, size in each_case(cases, description=problem.name):
        form = make(degree, size)
        for schedule in named:
            for way in ways:
                settings = replace(options.read(), precision=precision, schedule=schedule, **WAYS[way])
                asked = Asked(problem.name, degree, size, schedule, way)
                with actions.noted(refusals, asked):
                    operator = FormOperator(form, settings, runtime)
                    with actions.noted(refusals, asked):
                        timings.append(_time(operator, problem, asked))
                    for candidate in _candidates(operator, plans):
                        with actions.noted(refusals, f"{asked}, {candidate.choice.plan}"):
                            actions.take(operator, candidate)
                            timings.append(_time(operator, problem, replace(asked, tried=True)))
                gc.collect()  # device memory
    if not timings:
        raise PlanError(f"bench {problem.name}: no schedule serves; {'; '.join(refusals)}")
    return timings, refusals


def weak_form(problem: Bakeoff, space: GridSpace) -> Any:
    """The UFL form of a problem, with its quadrature."""
    degree, u, v = space.degree, ufl.TrialFunction(space), ufl.TestFunction(space)
    rule, exact = ("GLL", collocated_degree(degree)) if problem.collocated else ("default", 2 * problem.q1d(degree) - 1)
    dx = ufl.dx(metadata={"quadrature_rule": rule, "quadrature_degree": exact})
    mass, diffusion = ufl.inner(u, v) * dx, ufl.inner(ufl.grad(u), ufl.grad(v)) * dx
    return {"mass": mass, "diffusion": diffusion, "screened": mass + diffusion}[problem.form]


def other_plans(term: Term, work: Work, settings: Settings, limits: Limits, count: int) -> list[Choice]:
    """So many plans of each schedule that serves a work, of one where the settings name one."""
    found: list[Choice] = []
    for schedule in SCHEDULES:
        named = settings.schedule_name in ("", schedule.name)
        if named and work.target in schedule.targets and not schedule.refuses(work, limits):
            wish = make_wish(term, work, settings, limits)
            found += [Choice(plan) for plan in islice(schedule.plans(work, limits, wish), count)]
    return found


def _candidates(operator: FormOperator, plans: int) -> list[Candidate]:
    """Other plans for the splits that come into question; their programs are being built."""
    settings, runtime, (term,) = operator.settings, operator.runtime, operator.terms
    limits = runtime.device.limits
    assert term.integral.action is not None
    if not plans:
        return []
    others = alternatives(term, term.integral.action, settings, limits, operator.mpi)
    found = [
        Candidate(entry.split, choice)
        for entry in candidates(term, others, settings, runtime, operator.mpi)
        for choice in other_plans(term, entry.choice.plan.work.whole, settings, limits, plans)
    ]
    build_ahead(operator.tools(), term, term.integral.action, found)
    return found


def _time(operator: FormOperator, problem: Bakeoff | Tets, asked: Asked) -> Timing:
    runtime, precision = operator.runtime, operator.settings.precision
    error = _error(operator, problem)
    if not error < actions.TOLERANCE["rounded" if asked.way == "rounded" and precision == "double" else precision]:
        raise DataError(f"{asked} is wrong by {error:.1e}; this is a bug, please report it")
    (application,) = operator.prepare("action")
    cells, dofs, plan = application.count, operator.num_local, application.plan
    times = actions.seconds(operator)
    median, best = float(np.median(times)), float(times.min())
    stored = plan.work.num_state > 0 or plan.geometry_words > 0
    words = plan.itemsize("scalar"), plan.itemsize("real")
    moved = problem.lvector_bytes(asked.degree, cells, dofs, stored, plan.scatter == "atomic", *words)
    others = (peer(asked.problem, asked.degree), goal(asked.problem, asked.degree)) if precision == "double" else (np.nan, np.nan)
    return Timing(
        **vars(asked),
        dofs=dofs,
        cells=cells,
        points=operator.terms[0].quadrature.num_qpts,
        plan=str(plan),
        us=1e6 * median,
        best_us=1e6 * best,
        GDOFs=dofs / median / 1e9,
        TFs=cells * problem.flops(asked.degree) / median / 1e12,
        bytes_per_dof=moved / dofs,
        share=moved / peak_bandwidth(runtime) / median,
        peer=others[0],
        goal=others[1],
        error=error,
        **actions.resources(operator),
    )


def _error(operator: FormOperator, problem: Bakeoff | Tets) -> float:
    """How far the action is from the numpy twin's around three cells, and from what it does to constants and to x."""
    (term,), space = operator.terms, operator.space
    assert isinstance(space, GridSpace) and isinstance(space.mesh, Grid)
    direction = np.random.default_rng(3).uniform(-1, 1, operator.num_local)
    result = actions.result(operator, direction)
    scale, errors = float(np.abs(result).max()), [0.0]
    for cell in dict.fromkeys((0, term.num_cells // 2, term.num_cells - 1)):
        near = space.mesh.neighbours(cell)
        errors.append(actions.cell_error(operator, cell, near, {"w": direction}, result) / scale)
    # x^T K x and 1^T M 1 are the volume, in each component; K 1 is zero.
    ones, volume = actions.result(operator, np.ones(operator.num_local)), problem.num_comp * space.mesh.volume
    if problem.form == "diffusion":
        errors.append(float(np.abs(ones).max()) / scale)
        total = float(space.first_coordinate @ actions.result(operator, space.first_coordinate))
    else:
        total = float(ones.sum())
    if term.quadrature.degree >= term.coord_element.map_degree:
        errors.append(abs(total / volume - 1))
    return float(np.max(errors))
