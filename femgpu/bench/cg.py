"""Workload cg: what an iteration of conjugate gradients costs and where it goes, of femgpu's own method and of PETSc's.

The operators are those of the CEED bake-off problems without their boundary conditions: mass (BP1, vector BP2) and diffusion plus
mass (BP3, BP4) with Gauss quadrature of degree 2 p + 3, and the latter with Gauss-Lobatto points at the nodes (BP5, BP6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import cycle
from time import perf_counter
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc

from femgpu import mesh
from femgpu.bench.cases import each_case
from femgpu.bench.cg_report import Result, Timing
from femgpu.element import collocated_degree
from femgpu.errors import DataError
from femgpu.kernels import CG_STEPS, DOT_WORDS
from femgpu.runtime import Kernel, Runtime
from femgpu.runtime.rates import peak_bandwidth
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Function, FunctionSpace

# Form, components and quadrature rule of each bake-off problem.
PROBLEMS = {
    "BP1": ("mass", 1, "default"),
    "BP2": ("mass", 3, "default"),
    "BP3": ("diffusion", 1, "default"),
    "BP4": ("diffusion", 3, "default"),
    "BP5": ("diffusion", 1, "GLL"),
    "BP6": ("diffusion", 3, "GLL"),
}
# Iterations of the two solves whose difference counts, and how often each is timed: femgpu's, and PETSc's, which take longer.
_FEW, _MANY, _REPEATS = 8, 256, 5
_NATIVE_MANY, _NATIVE_REPEATS = 32, 2
# Pairs of vectors that the operator by itself takes in turn, so that it finds no more in a cache than in a solve.
_PAIRS = 4
# Numbers per dof that an iteration of femgpu's moves besides the operator: s, z, the next z, and p, x, s and older z at times;
# where the operator does not add to s, w, s there and back, z, the next z, and once more w and z for their product.
_WORDS = 3 + (CG_STEPS + 4) / CG_STEPS
_WORDS_WITH_DOT = 5 + 2 + (CG_STEPS + 3) / CG_STEPS
# What all besides the action may cost: 1.2 times six numbers per dof at the speed of a copy.
_LIMIT_WORDS = 1.2 * 6
_TOLERANCE = 1e-9


def run(cells: Sequence[str], degrees: Sequence[int], sizes: Sequence[float], names: Sequence[str]) -> Result:
    """Runs the workload on this process's device; `-dm_vec_type` names the vectors of PETSc's method.

    Args:
        cells: types of cells, in 3D.
        degrees: of the spaces.
        sizes: dofs of a scalar space, about; vectors have as many in all.
        names: of `PROBLEMS`; those that a type of cell does not know are left out.

    Raises:
        DataError: where femgpu's solution is not PETSc's.
    """
    cases = [(cell, degree, size, name) for cell in cells for degree in degrees for size in sizes for name in names]
    timings: list[Timing] = []
    found: Runtime | None = None
    for cell, degree, size, name in each_case(cases, description="cg"):
        if PROBLEMS[name][2] != "GLL" or cell == "hexahedron":
            problem = _problem(name, cell, degree, size)
            found = problem.runtime
            timings.append(_time(problem, (name, cell, degree)))
    if found is None:
        raise DataError(f"bench cg: {', '.join(names)} on {', '.join(cells)}: Gauss-Lobatto points exist on hexahedra only")
    return Result(str(found.device), peak_bandwidth(found), timings)


@lru_cache(2)
def _box(cell: str, parts: int) -> PETSc.DMPlex:
    """A cube; those of scalar and of vector spaces are made once."""
    dm = mesh.box((parts,) * 3, cell=cell)
    dm.setFromOptions()
    return dm


def _problem(name: str, cell: str, degree: int, size: float) -> NonlinearProblem:
    """A bake-off problem with about so many dofs on a scalar space."""
    form, comps, rule = PROBLEMS[name]
    dm = _box(cell, max(1, round((size / comps) ** (1 / 3) / degree)))
    V = FunctionSpace(dm, "Lagrange", degree, shape=(comps,) if comps > 1 else ())
    u, v = Function(V), ufl.TestFunction(V)
    points = {"quadrature_degree": collocated_degree(degree) if rule == "GLL" else 2 * degree + 3, "quadrature_rule": rule}
    dx = ufl.dx(metadata=points)
    residual = ufl.inner(u, v) * dx
    if form == "diffusion":
        residual += ufl.inner(ufl.grad(u), ufl.grad(v)) * dx
    return NonlinearProblem(residual, u)


def _time(problem: NonlinearProblem, key: tuple[str, str, int]) -> Timing:
    """Iterations of both methods and the action by itself."""
    runtime, b = problem.runtime, problem.u.vec.duplicate()
    size = b.getLocalSize()
    b.setArray(np.random.default_rng(3).standard_normal(size))
    problem.linearise(problem.u.vec)
    own, x, kernels = _iteration(problem, b, {"ksp_type": "python", "ksp_python_type": "femgpu.CG"}, _MANY, _REPEATS)
    native, expected, _ = _iteration(problem, b, {"ksp_type": "cg"}, _NATIVE_MANY, _NATIVE_REPEATS)
    x.axpy(-1, expected)
    error = x.norm() / expected.norm()
    if not error < _TOLERANCE:
        raise DataError(
            f"{' '.join(map(str, key))}: femgpu.CG differs from PETSc's cg by {error:.1e}; this is a bug, please report it"
        )
    device, dots, ones = problem.operator.device, runtime.upload(np.ones(DOT_WORDS)), np.ones(size)
    pairs = cycle([(runtime.upload(ones), runtime.upload(ones)) for _ in range(_PAIRS)])
    action = _each(runtime, lambda: device.action(*next(pairs)))
    operator = _each(runtime, lambda: device.add(*next(pairs), dots)) if device.adds else action
    bytes_ = sum(application.plan.bytes * application.count for application in problem.operator.local.prepare("action"))
    bandwidth = peak_bandwidth(runtime)
    word = 8 * size / bandwidth
    model = word * (_WORDS if device.adds else _WORDS_WITH_DOT)
    return Timing(
        *key,
        dofs=size,
        iteration_us=1e6 * own,
        operator_us=1e6 * operator,
        kernels_us=1e6 * kernels,
        gap_us=1e6 * (own - operator - kernels),
        model_us=1e6 * model,
        action_us=1e6 * action,
        native_us=1e6 * native,
        vectors=b.getType(),
        vector_us=1e6 * (own - action),
        limit_us=1e6 * _LIMIT_WORDS * word,
        share=(bytes_ / bandwidth + model) / own,
        GDOFs=1e-9 * size / own,
        error=error,
    )


def _iteration(
    problem: NonlinearProblem, b: PETSc.Vec, options: dict[str, str], many: int, repeats: int
) -> tuple[float, PETSc.Vec, float]:
    """Seconds of an iteration without preconditioner, the solution after some, and device seconds of femgpu's kernels in it."""
    database, ksp = PETSc.Options("bench_cg_"), PETSc.KSP().create(comm=b.comm)
    ksp.setOptionsPrefix("bench_cg_")
    given = {**options, "pc_type": "none", "ksp_norm_type": "unpreconditioned"}
    for name, value in given.items():
        database[name] = value
    ksp.setOperators(problem.jacobian)
    ksp.setFromOptions()
    for name in given:
        database.delValue(name)
    x = b.duplicate()
    seconds, kernels = {}, float("nan")
    for count in (many, _FEW):
        ksp.setTolerances(rtol=1e-50, atol=1e-300, max_it=count)
        seconds[count] = _seconds(problem.runtime, lambda: ksp.solve(b, x), repeats)
        if count == many and ksp.getType() == PETSc.KSP.Type.PYTHON:
            own = ksp.getPythonContext().method.kernels
            kernels = _device_seconds(problem.runtime, own, lambda: ksp.solve(b, x)) / many
    ksp.destroy()
    return (seconds[many] - seconds[_FEW]) / (many - _FEW), x, kernels


def _device_seconds(runtime: Runtime, kernels: Sequence[Kernel], call: Callable[[], Any]) -> float:
    """Device time of some kernels in a call; NaN where the queue records no times."""
    with runtime.profiled():
        before = [kernel.launches for kernel in kernels]
        for kernel in kernels:
            kernel.timed = True
        call()
        counts = [kernel.launches - count for kernel, count in zip(kernels, before, strict=True)]
        seconds = sum(kernel.mean_seconds * count for kernel, count in zip(kernels, counts, strict=True) if count)
        for kernel in kernels:
            kernel.timed = False
    return seconds


def _each(runtime: Runtime, call: Callable[[], Any]) -> float:
    """Seconds of each of many calls that are handed over together."""

    def calls() -> None:
        for _ in range(_MANY):
            call()

    return _seconds(runtime, calls, _REPEATS) / _MANY


def _seconds(runtime: Runtime, call: Callable[[], Any], repeats: int) -> float:
    """Median time of a call by the host's clock, to the end of what it launches; the first one does not count."""
    times = []
    for _ in range(repeats + 1):
        runtime.finish()
        start = perf_counter()
        call()
        runtime.finish()
        times.append(perf_counter() - start)
    return float(np.median(times[1:]))
