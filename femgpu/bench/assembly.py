"""Workload assembly: matrices from cells to PETSc, their entries found once and computed anew at every state.

Poisson's equation and linear elasticity, on boxes of tetrahedra and hexahedra, prescribed on one side.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc

from femgpu import mesh, options
from femgpu.bench.cases import each_case
from femgpu.errors import DataError
from femgpu.forms import bilinear_form
from femgpu.operators import Assembly, FormOperator, Groups, Term
from femgpu.operators.entries import EntrySum
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian
from femgpu.spaces import DirichletBC, FunctionSpace

# Form, type of the cells, degree, components.
CASES = (
    ("Poisson", "tetrahedron", 1, 1),
    ("Poisson", "tetrahedron", 2, 1),
    ("elasticity", "tetrahedron", 2, 3),
    ("Poisson", "hexahedron", 1, 1),
    ("Poisson", "hexahedron", 2, 1),
)
# A cube of a box is six tetrahedra; of hexahedra there are fewer, which have as many dofs.
_SHARE = {"tetrahedron": 1 / 6, "hexahedron": 0.2621}
_TOLERANCE = {"double": 1e-12, "single": 1e-4, "mixed": 1e-4}
_REPETITIONS = 5


@dataclass(frozen=True)
class Timing:
    """One matrix.

    Attributes:
        form: what is assembled.
        cell: type of the cells.
        degree: of the space.
        cells: how many.
        dofs: rows of the matrix.
        nonzeros: its entries.
        chunks: into which `-femgpu_assembly_memory` cuts the cells.
        element_Mcells: cells whose element matrices are computed, in 1e6 per second.
        gather_sum_Mcells: cells whose matrices are then summed into the values, zeroed before, row by row and in order.
        gather_Mcells: cells from state to values by both steps.
        fused_Mcells: cells from state to values where the kernels of element matrices add to the values.
        copy_s: seconds from the device to PETSc.
        symbolic_s: seconds to find the entries, once; kernels are built before.
        error: of a product with a random vector against the matrix-free one, relative, the largest of all ways.
    """

    form: str
    cell: str
    degree: int
    cells: int
    dofs: int
    nonzeros: int
    chunks: int
    element_Mcells: float
    gather_sum_Mcells: float
    gather_Mcells: float
    fused_Mcells: float
    copy_s: float
    symbolic_s: float
    error: float


@dataclass(frozen=True)
class Result:
    """All timings on one device."""

    device: str
    precision: str
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "assembly"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return self.precision

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        given = {"device": self.device, "precision": self.precision}
        return [given | asdict(timing) for timing in self.timings]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        given = {"workload": "assembly", "precision": self.precision}
        return given | {"timings": [asdict(timing) for timing in self.timings]}

    def text(self) -> str:
        """A table: one line per matrix."""
        lines = [f"assembly, {self.precision}, {self.device}; Mcell/s"]
        names = ("cells", "dofs", "nonzeros", "matrices", "sum", "both", "fused", "copy s")
        header = "".join(f"{name:>11s}" for name in (*names, "symbolic s", "error"))
        lines.append(f"{'form':12s}{'':5s}{header}")
        for t in self.timings:
            counts = "".join(f"{count:11d}" for count in (t.cells, t.dofs, t.nonzeros))
            each = t.element_Mcells, t.gather_sum_Mcells, t.gather_Mcells, t.fused_Mcells
            rates = "".join(f"{rate:11.4g}" for rate in each)
            lines.append(f"{_name(t)}{counts}{rates}{t.copy_s:11.4f}{t.symbolic_s:11.3f}{t.error:11.1e}")
        return "\n".join(lines)

    def plot(self, path: Path) -> None:
        """Seconds of each step for each matrix, on a million cells."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        steps = {
            "element matrices": [1 / t.element_Mcells for t in self.timings],
            "their sum, row by row": [1 / t.gather_sum_Mcells for t in self.timings],
            "both in one kernel": [1 / t.fused_Mcells for t in self.timings],
            "copy to PETSc": [1e6 * t.copy_s / t.cells for t in self.timings],
            "symbolic, once": [1e6 * t.symbolic_s / t.cells for t in self.timings],
        }
        for i, (step, seconds) in enumerate(steps.items()):
            axes.bar(np.arange(len(seconds)) + 0.17 * (i - 2), seconds, 0.16, label=step)
        axes.set_xticks(np.arange(len(self.timings)), [" ".join(_name(t).split()) for t in self.timings], fontsize=8)
        axes.set(ylabel="seconds for a million cells", yscale="log")
        axes.set_title(f"Assembly, {self.precision}\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)


def _name(timing: Timing) -> str:
    return f"{timing.form:12s}{'P' if timing.cell == 'tetrahedron' else 'Q'}{timing.degree:<4d}"


def run(runtime: Runtime, cells: float, precision: str = "double") -> Result:
    """Runs the workload on this process's device, both ways of summing beside each other; `-femgpu_assembly_memory` applies.

    Args:
        runtime: the device.
        cells: about so many tetrahedra; a quarter as many hexahedra.
        precision: of the kernels; sums and values are double.

    Returns:
        The timings; every matrix multiplies as its operator does.

    Raises:
        DataError: when one does not.
    """
    settings, timings = replace(options.read(), precision=precision, scatter="atomic", deterministic=False), []
    for case in each_case(CASES, description="assembly"):
        _time(runtime, *case, 2, settings)  # builds the kernels
        timings.append(_time(runtime, *case, max(2, round((cells * _SHARE[case[1]]) ** (1 / 3))), settings))
    return Result(str(runtime.device), precision, timings)


def _time(runtime: Runtime, form: str, cell: str, degree: int, num_comp: int, faces: int, settings: Settings) -> Timing:
    dm = mesh.box((faces,) * 3, cell=cell, comm=PETSc.COMM_SELF)
    V = FunctionSpace(dm, "Lagrange", degree, shape=(num_comp,) if num_comp > 1 else ())
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    strain, test = (ufl.sym(ufl.grad(w)) if num_comp > 1 else ufl.grad(w) for w in (u, v))
    a = ufl.inner(strain, test) * ufl.dx
    if num_comp > 1:
        a += 1.5 * ufl.div(u) * ufl.div(v) * ufl.dx
    zero = V.dm.createGlobalVec()
    bc = DirichletBC(V, (0.0,) * num_comp if num_comp > 1 else 0.0, 1)
    operator = GlobalOperator(bilinear_form(a), bc, settings, runtime, scale=1.0)
    operator.linearise(zero)
    local = operator.local
    local.build(("matrix", local.assembly_target))
    start = time.perf_counter()
    made = AssembledJacobian(operator, zero)
    symbolic = time.perf_counter() - start

    made.fill()
    chunks, errors = list(local.element_matrices()), [_error(operator, made.mat, zero)]
    cells = sum(count for _, _, count, _ in chunks)

    def rate(step: Callable[[], Any]) -> float:
        return 1e-6 * cells / _seconds(runtime, step)

    add = _two_steps(made.assembly, local)
    # Of several chunks the buffer holds the last one: it stands for all.
    both = rate(lambda: add(chunks)), rate(lambda: add(local.element_matrices()))
    made.copy()
    errors.append(_error(operator, made.mat, zero))
    fused, elements = rate(lambda: made.assembly.compute(1.0)), rate(lambda: deque(local.element_matrices(), 0))
    copy, error = _seconds(runtime, made.copy), float(np.max(errors))
    if not error < _TOLERANCE[settings.precision]:
        raise DataError(f"the matrix of {form} on {cell} cells is wrong by {error:.1e}; this is a bug, please report it")
    counts = cells, made.mat.getSize()[0], int(made.mat.getInfo()["nz_used"]), len(chunks)
    return Timing(form, cell, degree, *counts, elements, *both, fused, copy, symbolic, error)


def _two_steps(assembly: Assembly, local: FormOperator) -> Callable[[Iterable[tuple[Term, int, int, Any]]], None]:
    """What zeroes the values and adds element matrices to them, chunk by chunk."""
    runtime = local.runtime
    entries = EntrySum(runtime, assembly.pattern, Groups(local.storage), assembly.values)

    def add(chunks: Iterable[tuple[Term, int, int, Any]]) -> None:
        runtime.zero(assembly.values, 8 * assembly.pattern.num_values)
        for chunk in chunks:
            entries.add(*chunk)
        assembly.prescribe(1.0)

    return add


def _seconds(runtime: Runtime, step: Callable[[], Any]) -> float:
    """The shortest of some runs."""
    times = []
    for _ in range(_REPETITIONS):
        runtime.finish()
        start = time.perf_counter()
        step()
        runtime.finish()
        times.append(time.perf_counter() - start)
    return min(times)


def _error(operator: GlobalOperator, mat: PETSc.Mat, zero: PETSc.Vec) -> float:
    """How far the matrix's product with a random vector is from the operator's, relative to the largest entry."""
    x, y, z = (zero.duplicate() for _ in range(3))
    x.setArray(np.random.default_rng(5).uniform(-1, 1, x.getLocalSize()))
    operator.action(x, y)
    mat.mult(x, z)
    return float(np.abs(y.array_r - z.array_r).max() / np.abs(y.array_r).max())
