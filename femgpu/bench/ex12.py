"""Workload ex12: residuals of paper 004 with a coefficient per cell, Poisson and linear elasticity, on P1 cells with one point.

Blocks and batches of schedule `transposed` are swept on E-vectors, as in the paper's table. The first plans of every schedule that
serves are timed besides, on E-vectors and fused, from L-vector to L-vector.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import ufl

from femgpu import mesh
from femgpu.bench.cases import each_case
from femgpu.bench.ex12_report import BATCHES, BLOCKS, Case, Result
from femgpu.bench.residual import ResidualBench, Timing
from femgpu.kernels import Plan
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.runtime.rates import SECONDS, peak_bandwidth
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Function, FunctionSpace

# Number of cells on a GPU: their arrays are several times as large as its caches.
CELLS = {"triangle": 1e7, "tetrahedron": 6e6}
# The form of a function, a test function and the coefficient; the load is not counted as flops.
PROBLEMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "poisson": lambda u, v, nu: nu * ufl.inner(ufl.grad(u), ufl.grad(v)) + 4 * v,
    "elasticity": lambda u, v, nu: nu * ufl.inner(ufl.sym(ufl.grad(u)), ufl.grad(v)) + 4 * v[0],
}
PRECISIONS = ("single", "double")
# Plans of each schedule that are timed besides the sweep, and groups that add up their results.
_PLANS, _SUMS = 2, ("sums=128", "sums=256", "sums=64,turns=2", "sums=128,turns=2")
# What the launches of a plan take at least, beside five warm-ups and fifteen repetitions, before the fastest ones are timed longer.
_SHORT = 0.01

Kernel = tuple[str, Plan]


def run(
    runtime: Runtime,
    cells: Sequence[str] = tuple(CELLS),
    problems: Sequence[str] = tuple(PROBLEMS),
    precisions: Sequence[str] = PRECISIONS,
    count: float | None = None,
    blocks: Sequence[int] = BLOCKS,
) -> Result:
    """Runs the workload on this process's device.

    Args:
        runtime: the device.
        cells: triangle, tetrahedron.
        problems: of `PROBLEMS`.
        precisions: of the kernels.
        count: cells of each mesh, at least; None: `CELLS`.
        blocks: of the sweep.

    Returns:
        The timings; each kernel's result agrees with the numpy twin's or the plain kernel's.

    Raises:
        DataError: when one does not.
    """
    cases = list[Case]()
    every = _ahead(_benches(cells, problems, count), precisions, blocks)
    for bench, name, precision, kernels in each_case(every, "ex12", len(cells) * len(problems) * len(precisions)):
        found = {kernel: bench.time(*kernel, _SHORT) for kernel in kernels}
        # By the rules of all workloads, of each kind the fastest.
        for kernel in _fastest(found):
            found[kernel] = bench.time(*kernel, SECONDS)
        space = bench.problem.u.space
        cases.append(Case(space.mesh.block.cell, name, precision, space.num_local, list(found.values())))
        gc.collect()  # device memory
    return Result(str(runtime.device), peak_bandwidth(runtime), cases)


def _fastest(found: dict[Kernel, Timing]) -> list[Kernel]:
    """Of each schedule, on E-vectors and fused."""
    kinds = {(what, plan.schedule) for what, plan in found}
    return [min((k for k in found if (k[0], k[1].schedule) == kind), key=lambda k: found[k].median) for kind in sorted(kinds)]


def _ahead(
    benches: Iterator[tuple[ResidualBench, str]], precisions: Sequence[str], blocks: Sequence[int]
) -> Iterator[tuple[ResidualBench, str, str, list[Kernel]]]:
    """Each case with what is to be timed, once the programs of the next one are being built."""
    ready = []
    for bench, name in benches:
        for precision in precisions:
            kernels = _kernels(bench, replace(bench.problem.settings, precision=precision), blocks)
            bench.build_ahead(plan for _, plan in kernels)
            ready.append((bench, name, precision, kernels))
            if len(ready) > 1:
                yield ready.pop(0)
    yield from ready


def _kernels(bench: ResidualBench, settings: Settings, blocks: Sequence[int]) -> list[Kernel]:
    """The sweep, with one batch also fused and with geometry rebuilt; first plans of all schedules; sums. None twice."""
    found, ways = list[Kernel](), [replace(settings, geometry=way) for way in ("stored", "recomputed")]
    for count, batches in product(blocks, BATCHES):
        given = replace(ways[0], schedule=f"transposed:blocks={count},batches={batches}")
        found.append(("evector", bench.plan("evector", given)))
    for count, way, what in product(blocks, ways, ("evector", "fused")):
        found.append((what, bench.plan(what, replace(way, schedule=f"transposed:blocks={count},batches=1"))))
    for way in ways:
        found += [(what, plan) for what in ("evector", "fused") for plan in bench.plans(what, way, _PLANS)]
        found += [("fused", bench.plan("fused", replace(way, schedule=f"cell:{sums}"))) for sums in _SUMS]
    return list(dict.fromkeys(found))


def _benches(cells: Sequence[str], problems: Sequence[str], count: float | None) -> Iterator[tuple[ResidualBench, str]]:
    """The residuals at rough states, all on one mesh for each type of cell."""
    for cell in cells:
        dim, per_box = (2, 2) if cell == "triangle" else (3, 6)
        dm = mesh.box((int(np.ceil(((count or CELLS[cell]) / per_box) ** (1 / dim))),) * dim, cell=cell)
        nu = _rough(Function(FunctionSpace(dm, "DG", 0), name="nu"))
        for name in problems:
            space = FunctionSpace(dm, "Lagrange", 1, shape=() if name == "poisson" else (dim,))
            u = _rough(Function(space))
            residual = PROBLEMS[name](u, ufl.TestFunction(space), nu) * ufl.dx
            yield ResidualBench(NonlinearProblem(residual, u, petsc_options={"petscfe_default_quadrature_order": 0})), name


def _rough(function: Function) -> Function:
    function.vec.setArray(1 + np.random.default_rng(12).random(function.vec.getLocalSize()))
    return function
