"""Workload assembly: matrices from cells to PETSc, their entries found once and computed anew at every state.

Poisson's equation and linear elasticity, on boxes of tetrahedra and hexahedra, prescribed on one side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc
from rich.progress import track

from femgpu import mesh, options
from femgpu.errors import DataError
from femgpu.forms import bilinear_form
from femgpu.operators.ways import scatter_mode
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
        sum_Mcells: cells whose matrices are summed into the values, zeroed before.
        both_Mcells: cells from state to values.
        copy_s: seconds from the device to PETSc.
        symbolic_s: seconds to find the entries, once; kernels are built before.
        error: of a product with a random vector against the matrix-free one, relative.
    """

    form: str
    cell: str
    degree: int
    cells: int
    dofs: int
    nonzeros: int
    chunks: int
    element_Mcells: float
    sum_Mcells: float
    both_Mcells: float
    copy_s: float
    symbolic_s: float
    error: float


@dataclass(frozen=True)
class Result:
    """All timings on one device."""

    device: str
    precision: str
    scatter: str
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "assembly"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return f"{self.precision}-{self.scatter}"

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        given = {"device": self.device, "precision": self.precision, "scatter": self.scatter}
        return [given | asdict(timing) for timing in self.timings]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        given = {"workload": "assembly", "precision": self.precision, "scatter": self.scatter}
        return given | {"timings": [asdict(timing) for timing in self.timings]}

    def text(self) -> str:
        """A table: one line per matrix."""
        lines = [f"assembly, {self.precision}, {self.scatter}, {self.device}"]
        names = ("cells", "dofs", "nonzeros", "element Mcell/s", "sum Mcell/s", "both Mcell/s", "copy s", "symbolic s", "error")
        lines.append(f"{'form':12s}{'':5s}" + "".join(f"{name:>16s}" for name in names))
        for t in self.timings:
            counts = "".join(f"{count:16d}" for count in (t.cells, t.dofs, t.nonzeros))
            rates = "".join(f"{rate:16.2f}" for rate in (t.element_Mcells, t.sum_Mcells, t.both_Mcells))
            lines.append(f"{_name(t)}{counts}{rates}{t.copy_s:16.4f}{t.symbolic_s:16.3f}{t.error:16.1e}")
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
            "sum": [1 / t.sum_Mcells for t in self.timings],
            "copy to PETSc": [1e6 * t.copy_s / t.cells for t in self.timings],
            "symbolic, once": [1e6 * t.symbolic_s / t.cells for t in self.timings],
        }
        for i, (step, seconds) in enumerate(steps.items()):
            axes.bar(np.arange(len(seconds)) + 0.2 * (i - 1.5), seconds, 0.18, label=step)
        axes.set_xticks(np.arange(len(self.timings)), [" ".join(_name(t).split()) for t in self.timings], fontsize=8)
        axes.set(ylabel="seconds for a million cells", yscale="log")
        axes.set_title(f"Assembly, {self.precision}, {self.scatter}\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)


def _name(timing: Timing) -> str:
    return f"{timing.form:12s}{'P' if timing.cell == 'tetrahedron' else 'Q'}{timing.degree:<4d}"


def run(runtime: Runtime, cells: float, precision: str = "double") -> Result:
    """Runs the workload on this process's device; `-femgpu_scatter` and `-femgpu_assembly_memory` apply.

    Args:
        runtime: the device.
        cells: about so many tetrahedra; a quarter as many hexahedra.
        precision: of the kernels; sums and values are double.

    Returns:
        The timings; every matrix multiplies as its operator does.

    Raises:
        DataError: when one does not.
    """
    settings, timings = replace(options.read(), precision=precision), []
    for case in track(CASES, description="assembly", transient=True):
        _time(runtime, *case, 2, settings)  # builds the kernels
        timings.append(_time(runtime, *case, max(2, round((cells * _SHARE[case[1]]) ** (1 / 3))), settings))
    return Result(str(runtime.device), precision, scatter_mode(settings, runtime.device.limits), timings)


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
    local.prepare("matrix")
    start = time.perf_counter()
    made = AssembledJacobian(operator, zero)
    symbolic = time.perf_counter() - start

    made.fill()
    chunks = list(local.element_matrices())

    def elements() -> None:
        for _ in local.element_matrices():
            pass

    def sums() -> None:
        made.assembly.entries.zero()
        for term, first, count, matrices in chunks:
            made.assembly.entries.add(term, first, count, matrices)

    both = _seconds(runtime, lambda: made.assembly.compute(1.0))
    copy = _seconds(runtime, made.copy)
    error = _error(operator, made.mat, zero)
    if not error < _TOLERANCE[settings.precision]:
        raise DataError(f"the matrix of {form} on {cell} cells is wrong by {error:.1e}; this is a bug, please report it")
    cells, rows, nonzeros = sum(count for _, _, count, _ in chunks), made.mat.getSize()[0], int(made.mat.getInfo()["nz_used"])
    element, summed, whole = (1e-6 * cells / seconds for seconds in (_seconds(runtime, elements), _seconds(runtime, sums), both))
    counts = (cells, rows, nonzeros, len(chunks))
    return Timing(form, cell, degree, *counts, element, summed, whole, copy, symbolic, error)


def _seconds(runtime: Runtime, step: Callable[[], None]) -> float:
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
