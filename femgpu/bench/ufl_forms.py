"""Workload ufl: actions of paper 001's five forms on triangles and tetrahedra, against its roofline, and how plans are chosen.

Mass, Poisson, Helmholtz, elasticity and hyperelasticity (linearised at a smooth random state) as a user writes them in UFL, from
L-vector to L-vector on a box whose vertices are moved, with all of femgpu's defaults.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from petsc4py import PETSc

from femgpu import mesh, options
from femgpu.bench import actions
from femgpu.bench.cases import each_case
from femgpu.bench.ufl_report import Asked, Result, Timing
from femgpu.errors import DataError, PlanError
from femgpu.forms import Form, bilinear_form, lower_form
from femgpu.mesh import Mesh
from femgpu.model.ufl_forms import UFL_FORMS, UFLForm, roofline
from femgpu.operators import FormOperator
from femgpu.operators.tuning import build_ahead, listed, tried_times
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.runtime.rates import local_bandwidth, peak_bandwidth
from femgpu.spaces import Function, FunctionSpace

# The paper's degrees and numbers of cells.
DEGREES = {"triangle": tuple(range(1, 9)), "tetrahedron": tuple(range(1, 7))}
CELLS = {"triangle": 5e5, "tetrahedron": 2e5}
# Cells whose nodes are found at a time.
_CHUNK = 1 << 16
# Lame's parameters of the hyperelastic body.
_LAME = (1.25, 0.8)


@dataclass(frozen=True, eq=False)
class Case:
    """A form on a space.

    Attributes:
        problem: the form.
        space: the space.
        near: some cells, each with those that share a vertex with it.
        settings: the options.
        runtime: the device.
    """

    problem: UFLForm
    space: FunctionSpace
    near: dict[int, npt.NDArray[np.int32]]
    settings: Settings
    runtime: Runtime

    @property
    def asked(self) -> Asked:
        """What is timed, in words."""
        block = self.space.mesh.block
        return Asked(self.problem.name, block.cell, self.space.field.degree, block.num_cells)


def run(
    runtime: Runtime,
    cells: Sequence[str],
    degrees: Sequence[int] | None = None,
    count: float | None = None,
    problems: Sequence[str] = tuple(UFL_FORMS),
    precision: str = "double",
    tune: bool = False,
    exhaustive: bool = False,
    keep: Callable[[Result], Any] = lambda result: None,
) -> Result:
    """Runs the workload on this process's device; femgpu's options apply where the arguments say nothing else.

    Args:
        runtime: the device.
        cells: triangle, tetrahedron.
        degrees: of the elements; None: `DEGREES`.
        count: cells of each mesh, about; None: `CELLS`.
        problems: of `UFL_FORMS`.
        precision: of the kernels.
        tune: whether the plan is timed, too, that `-femgpu_tune measure` chooses.
        exhaustive: whether all plans of all schedules are timed.
        keep: is given what there is after each case.

    Returns:
        The timings; every action agrees with the numpy twin on some cells.

    Raises:
        DataError: when one does not.
        PlanError: when no schedule serves.
    """
    settings = replace(options.read(), precision=precision, tune="off")
    forms = [UFL_FORMS[name] for name in problems]
    wanted = {cell: degrees or DEGREES[cell] for cell in cells}
    rates = peak_bandwidth(runtime), runtime.device.limits.ceiling, local_bandwidth(runtime)
    result = Result(str(runtime.device), precision, [], [], len(forms) * sum(map(len, wanted.values())), *rates, [])
    cases = _ahead(_cases(wanted, count, forms, settings, runtime), result, tune)
    start = time.perf_counter()
    for case, operator in each_case(cases, description="ufl", total=result.cases):
        with actions.noted(result.refusals, case.asked):
            timing = _time(operator, case, result, tune, exhaustive)
            start, last = time.perf_counter(), start
            result.timings.append(replace(timing, case_s=start - last))
        del operator
        gc.collect()  # device memory
        if result.timings:
            keep(result)
    if not result.timings:
        raise PlanError(f"bench ufl: no schedule serves; {'; '.join(result.refusals)}")
    return result


def weak_form(problem: UFLForm, space: FunctionSpace) -> Form:
    """The form as the paper's appendix A has it, with femgpu's own quadrature."""
    u, v, dim = ufl.TrialFunction(space), ufl.TestFunction(space), space.mesh.dim
    forms: dict[str, Callable[[], Any]] = {
        "mass": lambda: u * v * ufl.dx,
        "poisson": lambda: ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx,
        "helmholtz": lambda: (ufl.inner(ufl.grad(u), ufl.grad(v)) + u * v) * ufl.dx,
        "elasticity": lambda: ufl.inner(ufl.sym(ufl.grad(u)), ufl.sym(ufl.grad(v))) * ufl.dx,
    }
    if not problem.state:
        return bilinear_form(forms[problem.name]())
    state, (first, second) = Function(space, "u"), _LAME
    F = ufl.Identity(dim) + ufl.grad(state)
    E = ufl.variable((F.T * F - ufl.Identity(dim)) / 2)
    energy = first / 2 * ufl.tr(E) ** 2 + second * ufl.tr(E * E)
    # The load of the residual is no part of its derivative.
    return lower_form(ufl.inner(F * ufl.diff(energy, E), ufl.grad(v)) * ufl.dx, state)


def _ahead(cases: Iterable[Case], result: Result, tune: bool) -> Iterator[tuple[Case, FormOperator]]:
    """The cases with their operators, each once the programs of the next one are being built; a line for each that is refused."""
    ready = []
    for case in cases:
        with actions.noted(result.refusals, case.asked):
            operator = FormOperator(weak_form(case.problem, case.space), case.settings, case.runtime)
            operator.build_ahead(["action"])
            if tune:
                term, pointwise, offers = listed(operator.tools(), "action")
                build_ahead(operator.tools(), term, pointwise, list(offers.values())[: case.settings.tune_best])
            ready.append((case, operator))
        if len(ready) > 1:
            yield ready.pop(0)
    yield from ready


def _cases(
    wanted: dict[str, Sequence[int]], count: float | None, forms: Sequence[UFLForm], settings: Settings, runtime: Runtime
) -> Iterator[Case]:
    """All of them, with a mesh for each type of cell, and a space for all forms that take the same one."""
    for cell, degrees in wanted.items():
        dim, split = (2, 2) if cell == "triangle" else (3, 6)
        dm = mesh.box((max(1, round(((count or CELLS[cell]) / split) ** (1 / dim))),) * dim, cell=cell, comm=PETSc.COMM_SELF)
        coordinates = dm.getCoordinatesLocal()
        x = coordinates.array_r.reshape(-1, dim)
        coordinates.setArray((x + 0.1 * x * np.roll(x, 1, axis=1)).ravel())
        dm.setCoordinatesLocal(coordinates)
        vertices = Mesh.of(dm).block.coord_dofs
        some = dict.fromkeys((0, len(vertices) // 2, len(vertices) - 1))
        near = {n: np.flatnonzero(np.isin(vertices, vertices[n]).any(axis=1)).astype(np.int32) for n in some}
        for degree in degrees:
            spaces = {
                vector: FunctionSpace(dm, "Lagrange", degree, shape=(dim,) if vector else ())
                for vector in {form.vector for form in forms}
            }
            for form in forms:
                yield Case(form, spaces[form.vector], near, settings, runtime)


def _smooth(space: FunctionSpace) -> npt.NDArray[np.float64]:
    """(num_local,) a random displacement, one wave per component; its gradient is small enough to invert no cell."""
    dim, block, draw = space.mesh.dim, space.mesh.block, np.random.default_rng(5)
    waves, phases = draw.uniform(-3, 3, (dim, dim)), draw.uniform(0, np.pi, dim)
    state = np.empty((space.num_local // dim, dim))
    for part in np.array_split(np.arange(block.num_cells, dtype=np.int32), block.num_cells // _CHUNK + 1):
        x = block.physical_points(space.field.elements[0].nodes, part)
        state[space.offsets[part] // dim] = 0.05 * np.sin(x @ waves + phases)
    return state.ravel()


def _time(operator: FormOperator, case: Case, result: Result, tune: bool, exhaustive: bool) -> Timing:
    asked, problem, settings = case.asked, case.problem, case.settings
    vectors = {"w": np.random.default_rng(3).uniform(-1, 1, operator.num_local)}
    if problem.state:
        vectors["u"] = _smooth(case.space)
        operator.update()
        operator.runtime.write(operator.base, vectors["u"].astype(operator.scalar))
    found = actions.result(operator, vectors["w"])
    scale = float(np.abs(found).max())
    error = max(actions.cell_error(operator, cell, near, vectors, found) for cell, near in case.near.items()) / scale
    _check(error, asked, settings)
    (application,) = operator.prepare("action")
    times, plan = actions.seconds(operator), application.plan
    median = float(np.median(times))
    (term,), dofs, block = operator.terms, operator.num_local, case.space.mesh.block
    # Of the rule, also where a plan takes fewer polynomials.
    dim, points = term.dim, term.quadrature.num_qpts
    words = plan.itemsize("scalar"), plan.itemsize("real")
    flops = asked.cells * problem.flops(dim, asked.degree, points)
    moved = problem.global_bytes(dim, asked.degree, asked.cells, dofs, len(block.coords), *words)
    local = asked.cells * problem.local_bytes(dim, asked.degree, points, words[1])
    given = flops, moved, result.bandwidth, result.peak
    bound, without = roofline(*given, local, result.local_bandwidth), roofline(*given)
    timing = Timing(
        **vars(asked),
        dofs=dofs,
        points=points,
        plan=str(plan),
        us=1e6 * median,
        best_us=1e6 * float(times.min()),
        GDOFs=dofs / median / 1e9,
        TFs=flops / median / 1e12,
        intensity=flops / moved,
        roofline_TFs=bound / 1e12,
        share=flops / median / bound,
        roofline_without_local_TFs=without / 1e12,
        share_without_local=flops / median / without,
        error=error,
        **actions.resources(operator),
    )
    if tune:
        with actions.noted(result.refusals, f"{asked}, tuned"):
            timing = _tuned(operator, timing, vectors["w"], found)
    if exhaustive:
        with actions.noted(result.refusals, f"{asked}, exhaustive"):
            timing = _searched(operator, timing, result)
    return timing


def _check(error: float, asked: Asked, settings: Settings) -> None:
    if not error < actions.TOLERANCE[settings.precision]:
        raise DataError(f"{asked} is wrong by {error:.1e}; this is a bug, please report it")


def _tuned(operator: FormOperator, timing: Timing, direction: npt.NDArray, expected: npt.NDArray) -> Timing:
    """With the time of the plan that a measurement chooses; the same plan is not timed twice."""

    def chosen() -> tuple[Any, str]:
        (application,) = operator.prepare("action")
        split = operator.splits.get(application)
        return application.plan, split.action.body if split is not None else ""

    default = chosen()
    operator.settings = replace(operator.settings, tune="measure")
    actions.choose_again(operator)
    seconds = 1e-6 * timing.us
    if chosen() != default:
        found = actions.result(operator, direction)
        _check(float(np.abs(found - expected).max() / np.abs(expected).max()), timing, operator.settings)
        seconds = float(np.median(actions.seconds(operator)))
    operator.settings = replace(operator.settings, tune="off")
    return replace(timing, tuned_us=1e6 * seconds, tuned_plan=str(chosen()[0]), default_over_tuned=1e-6 * timing.us / seconds)


def _searched(operator: FormOperator, timing: Timing, result: Result) -> Timing:
    """With what the search through all plans found: of the first ones by the model the best, over the best of all."""
    tools = operator.tools()
    term, pointwise, offers = listed(tools, "action")
    order, times = list(offers), tried_times(tools, "action", term, pointwise, offers) or {}
    first = [times[offer] for offer in order[: operator.settings.tune_best] if offer in times]
    for place, offer in enumerate(order, 1):
        entry = {"place": place, "plan": str(offer.plan), "us": 1e6 * times.get(offer, np.nan)}
        result.searches.append({"problem": timing.problem, "cell": timing.cell, "degree": timing.degree} | entry)
    ratio = min(first) / min(times.values()) if first else np.nan
    return replace(timing, plans=len(times), first_over_best=ratio)
