"""Workload qdata: the Jacobian action with state stored at the points, recomputed, and as `-femgpu_qdata auto` chooses.

Hyperelasticity (compressible neo-Hookean) and the p-Laplacian on tetrahedra of degree 1 to 3 and hexahedra of degree 2.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import ufl

from femgpu import mesh, options
from femgpu.bench import actions
from femgpu.bench.bakeoff import schedules_named
from femgpu.bench.cases import each_case
from femgpu.bench.qdata_report import MODES, TRIED, Asked, Result, Timing
from femgpu.errors import DataError, PlanError
from femgpu.forms import lower_form
from femgpu.operators import FormOperator, twin
from femgpu.operators.tuning import build_ahead
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.runtime.rates import launch_seconds, peak_bandwidth
from femgpu.spaces import Function, FunctionSpace

ELEMENTS = (("tetrahedron", 1), ("tetrahedron", 2), ("tetrahedron", 3), ("hexahedron", 2))
_TOLERANCE = {"double": 1e-11, "single": 1e-3, "mixed": 1e-3}


def run(
    runtime: Runtime,
    cells: float,
    schedules: Sequence[str] = ("auto",),
    precision: str = "double",
    exhaustive: bool = False,
) -> Result:
    """Runs the workload on this process's device; femgpu's options apply where the arguments say nothing else.

    Args:
        runtime: the device.
        cells: least number of tetrahedra; a fifth of it are hexahedra.
        schedules: values of `-femgpu_schedule`, or "all".
        precision: of the kernels.
        exhaustive: whether all ways to divide an action into what is stored and what is computed are timed, too.

    Returns:
        The timings; actions of all modes and schedules agree.

    Raises:
        DataError: when they do not.
        PlanError: when no schedule serves, or for one that computes no actions.
        OptionError: for a schedule that there is not.
    """
    timings, refusals = list[Timing](), list[str]()
    named = schedules_named(schedules)
    for cell, degree in each_case(ELEMENTS, description="qdata"):
        count = cells if cell == "tetrahedron" else cells / 5
        dm = mesh.box((round((count / (6 if cell == "tetrahedron" else 1)) ** (1 / 3)),) * 3, cell=cell)
        for form in (neo_hookean, p_laplace):
            found: list[Timing] = []
            expected: list[np.ndarray] = []
            for schedule in named:
                asked = Asked(form.__name__.replace("_", "-"), cell, degree, schedule)
                settings = replace(options.read(), precision=precision, schedule=schedule)
                with actions.noted(refusals, asked):
                    _time(runtime, form, dm, asked, settings, found, expected, refusals, exhaustive)
                gc.collect()  # device memory
            timings += found
    if not timings:
        raise PlanError(f"bench qdata: no schedule serves; {'; '.join(refusals)}")
    return Result(str(runtime.device), precision, timings, refusals, peak_bandwidth(runtime))


def neo_hookean(dm: Any, degree: int) -> tuple[Any, Function]:
    """A compressible neo-Hookean body."""
    V = FunctionSpace(dm, "Lagrange", degree, shape=(3,))
    u, v = Function(V), ufl.TestFunction(V)
    F = ufl.variable(ufl.Identity(3) + ufl.grad(u))
    J = ufl.det(F)
    energy = 0.5 * (ufl.tr(F.T * F) - 3) - ufl.ln(J) + 0.5 * ufl.ln(J) ** 2
    return ufl.inner(ufl.diff(energy, F), ufl.grad(v)) * ufl.dx(degree=2 * degree), u


def p_laplace(dm: Any, degree: int) -> tuple[Any, Function]:
    """The regularised p-Laplacian, p = 4.5."""
    V = FunctionSpace(dm, "Lagrange", degree)
    u, v = Function(V), ufl.TestFunction(V)
    factor = (0.01 + ufl.inner(ufl.grad(u), ufl.grad(u))) ** 1.25
    return factor * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(degree=2 * degree), u


def _time(
    runtime: Runtime,
    make: Any,
    dm: Any,
    asked: Asked,
    settings: Settings,
    found: list[Timing],
    expected: list[np.ndarray],
    refusals: list[str],
    exhaustive: bool,
) -> None:
    """Adds the timings of a schedule to those that were found; the first result of a form and mesh is what others should be."""
    residual, u = make(dm, asked.degree)
    vectors = _rough(u)
    for mode in MODES:
        operator = FormOperator(lower_form(residual, u), replace(settings, qdata=mode), runtime)
        result = _action(operator, *vectors)
        expected[:] = expected or [result]
        error = max(_difference(result, expected[0]), _twin_error(runtime, make, asked, operator.settings))
        found.append(_timing(operator, asked, mode, error))
    if exhaustive:
        tools = operator.tools()
        ((term, action, every),) = tools.planner.every("action")
        build_ahead(tools, term, action, every)
        for candidate in every:
            with actions.noted(refusals, f"{asked}, {candidate.choice.plan}"):
                actions.take(operator, candidate)
                found.append(_timing(operator, asked, TRIED, _difference(_action(operator, *vectors), expected[0])))


def _timing(operator: FormOperator, asked: Asked, mode: str, error: float) -> Timing:
    """Times the action as it was computed last."""
    runtime, precision = operator.runtime, operator.settings.precision
    if not error < _TOLERANCE[precision]:
        raise DataError(f"{asked}, -femgpu_qdata {mode} differs by {error:.1e}; this is a bug, please report it")
    (application,) = operator.prepare("action")
    state = [launch for entry in operator.prepare("state") for launch in entry.bind({})]
    stored = operator.num_stored("action") * operator.scalar.itemsize
    launches = operator.bind("action", operator.w, operator.out, fresh=True)
    timed = launches, runtime.zeroing(operator.out, operator.vector_bytes, stored), state
    us, zero_us, state_us = (1e6 * float(np.median(launch_seconds(runtime, each, 0.1))) for each in timed)
    work, dofs = application.plan.work.whole, operator.num_local
    return Timing(
        **vars(asked),
        mode=mode,
        cells=application.term.num_cells,
        dofs=dofs,
        scalars=work.num_state,
        cell_scalars=work.num_cell_state,
        points=work.num_qpts,
        flops=work.pointwise_flops,
        plan=str(application.plan),
        us=us,
        zero_us=zero_us,
        state_us=state_us,
        GDOFs=dofs / (us + zero_us) / 1e3,
        error=error,
        **actions.resources(operator),
    )


def _rough(u: Function) -> tuple[np.ndarray, np.ndarray]:
    """A state that inverts no cell, random values much smaller than the cells, and a direction."""
    generator = np.random.default_rng(3)
    size = 0.05 / np.cbrt(u.space.mesh.num_cells)
    return size * generator.uniform(-1, 1, u.space.num_local), generator.uniform(-1, 1, u.space.num_local)


def _action(operator: FormOperator, state: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """The action on an L-vector, (num_local,) float64."""
    runtime, scalar = operator.runtime, operator.scalar
    operator.update()
    runtime.write(operator.base, state.astype(scalar))
    runtime.write(operator.w, direction.astype(scalar))
    operator.action()
    return runtime.read(operator.out, np.empty(operator.num_local, scalar)).astype(float)


def _twin_error(runtime: Runtime, make: Any, asked: Asked, settings: Settings) -> float:
    """How far the action is from the numpy twin's on a few cells."""
    residual, u = make(mesh.box((2, 2, 2), cell=asked.cell), asked.degree)
    form, (state, direction) = lower_form(residual, u), _rough(u)
    operator = FormOperator(form, settings, runtime)
    (term,) = operator.terms
    assert term.integral.action is not None
    vectors = {"u": state, "w": direction}
    cells = twin.element_vectors(term, term.integral.action, vectors, form.constant_values())
    return _difference(_action(operator, state, direction), twin.scatter(term, cells))


def _difference(result: np.ndarray, expected: np.ndarray) -> float:
    """The largest, relative to the largest entry."""
    return float(np.abs(result - expected).max() / np.abs(expected).max())
