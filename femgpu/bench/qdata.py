"""Workload qdata: the Jacobian action with state stored at the points, recomputed, and as `-femgpu_qdata auto` chooses.

Hyperelasticity (compressible neo-Hookean) and the p-Laplacian on tetrahedra of degree 1 to 3 and hexahedra of degree 2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ufl

from femgpu import mesh
from femgpu.bench.cases import each_case
from femgpu.errors import DataError
from femgpu.forms import lower_form
from femgpu.operators import FormOperator, twin
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.runtime.rates import launch_seconds, peak_bandwidth
from femgpu.spaces import Function, FunctionSpace

MODES = ("recompute", "store", "auto")
ELEMENTS = (("tetrahedron", 1), ("tetrahedron", 2), ("tetrahedron", 3), ("hexahedron", 2))
_TOLERANCE = {"double": 1e-11, "single": 1e-3, "mixed": 1e-3}


@dataclass(frozen=True)
class Timing:
    """One action.

    Attributes:
        form: neo-hookean or p-laplace.
        cell: type of the cells.
        degree: of the space.
        mode: value of -femgpu_qdata.
        cells: how many.
        dofs: length of the vectors.
        scalars: stored numbers per point.
        cell_scalars: stored numbers per cell.
        points: per cell.
        flops: of the pointwise function.
        us: median time of the kernel in microseconds.
        zero_us: of zeroing its result before.
        state_us: of the kernel that stores, once per Newton step.
        GDOFs: dofs over the time of kernel and zeroing, in 1e9 per second.
        error: largest difference to recompute, relative; of a few cells to the numpy twin where that is larger.
    """

    form: str
    cell: str
    degree: int
    mode: str
    cells: int
    dofs: int
    scalars: int
    cell_scalars: int
    points: int
    flops: int
    us: float
    zero_us: float
    state_us: float
    GDOFs: float
    error: float

    @property
    def stored(self) -> str:
        """Numbers per point, and those per cell where there are any."""
        return str(self.scalars) + f"+{self.cell_scalars}" * bool(self.cell_scalars)


@dataclass(frozen=True)
class Result:
    """All timings on one device."""

    device: str
    precision: str
    bandwidth: float
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "qdata"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return self.precision

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        return [{"device": self.device, "precision": self.precision} | asdict(timing) for timing in self.timings]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {
            "workload": "qdata",
            "precision": self.precision,
            "copy_bytes_per_second": self.bandwidth,
            "timings": [asdict(timing) for timing in self.timings],
        }

    def text(self) -> str:
        """A table: one line per form and element."""
        lines = [f"qdata: Jacobian actions, {self.precision}, {self.device}", f"copies at {self.bandwidth / 1e9:.0f} GB/s"]
        lines.append(
            f"{'form':12s} {'element':14s} {'cells':>8s} "
            + "".join(f"{mode + ' us (scalars)':>24s}" for mode in MODES)
            + "   auto/best"
        )
        for group in self._groups():
            first, best = group[0], min(timing.us for timing in group[:2])
            cells = "".join(f"{timing.us:16.1f} ({timing.stored:>5s})" for timing in group)
            name = f"{first.cell[:3]} {first.degree}"
            lines.append(f"{first.form:12s} {name:14s} {first.cells:8d} {cells}  {group[2].us / best:6.3f}")
        return "\n".join(lines)

    def plot(self, path: Path) -> None:
        """Times of the three modes beside each other, relative to recompute."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        groups = self._groups()
        for i, mode in enumerate(MODES):
            heights = [group[i].us / group[0].us for group in groups]
            axes.bar(np.arange(len(groups)) + 0.27 * (i - 1), heights, 0.25, label=mode)
        names = [f"{group[0].form}\n{'P' if group[0].cell == 'tetrahedron' else 'Q'}{group[0].degree}" for group in groups]
        axes.set_xticks(np.arange(len(groups)), names, fontsize=8)
        axes.set(ylabel="time of one action, recompute = 1")
        axes.set_title(f"State at quadrature points, {self.precision}\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)

    def _groups(self) -> list[list[Timing]]:
        return [self.timings[i : i + len(MODES)] for i in range(0, len(self.timings), len(MODES))]


def run(runtime: Runtime, cells: float, precision: str = "double") -> Result:
    """Runs the workload on this process's device.

    Args:
        runtime: the device.
        cells: least number of tetrahedra; a fifth of it are hexahedra.
        precision: of the kernels.

    Returns:
        The timings; actions of all modes agree.

    Raises:
        DataError: when they do not.
    """
    timings = []
    for cell, degree in each_case(ELEMENTS, description="qdata"):
        count = cells if cell == "tetrahedron" else cells / 5
        dm = mesh.box((round((count / (6 if cell == "tetrahedron" else 1)) ** (1 / 3)),) * 3, cell=cell)
        for form in (neo_hookean, p_laplace):
            timings += _time(runtime, form, dm, cell, degree, precision)
    return Result(str(runtime.device), precision, peak_bandwidth(runtime), timings)


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


def _time(runtime: Runtime, make: Any, dm: Any, cell: str, degree: int, precision: str) -> list[Timing]:
    residual, u = make(dm, degree)
    rough, direction = _rough(u)
    found: list[Timing] = []
    expected = np.empty(0)
    for mode in MODES:
        settings = Settings(precision=precision, qdata=mode)
        operator = FormOperator(lower_form(residual, u), settings, runtime)
        result = _action(operator, rough, direction)
        expected = expected if len(expected) else result
        error = max(_difference(result, expected), _twin_error(runtime, make, cell, degree, settings))
        if not error < _TOLERANCE[precision]:
            raise DataError(f"{make.__name__} with -femgpu_qdata {mode} differs by {error:.1e}; this is a bug, please report it")
        (application,) = operator.prepare("action")
        state = [launch for entry in operator.prepare("state") for launch in entry.bind({})]
        timed = application.bind({}), runtime.zeroing(operator.out, operator.vector_bytes), state
        us, zero_us, state_us = (1e6 * float(np.median(launch_seconds(runtime, each, 0.1))) for each in timed)
        work, dofs = application.plan.work.whole, u.space.num_local
        sizes = (application.term.num_cells, dofs, work.num_state, work.num_cell_state, work.num_qpts, work.pointwise_flops)
        rate = dofs / (us + zero_us) / 1e3
        found.append(Timing(make.__name__.replace("_", "-"), cell, degree, mode, *sizes, us, zero_us, state_us, rate, error))
    return found


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


def _twin_error(runtime: Runtime, make: Any, cell: str, degree: int, settings: Settings) -> float:
    """How far the action is from the numpy twin's on a few cells."""
    residual, u = make(mesh.box((2, 2, 2), cell=cell), degree)
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
