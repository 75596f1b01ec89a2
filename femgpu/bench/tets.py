"""Workload tets: actions of mass and diffusion between L-vectors on a bent box of affine tetrahedra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ufl

from femgpu.bench.bakeoff import measure
from femgpu.bench.bakeoff_report import Result
from femgpu.bench.grid import GridSpace, counts_for
from femgpu.bench.tet_grid import TetGrid
from femgpu.forms import Form, bilinear_form
from femgpu.model.tets import TETS, Tets
from femgpu.runtime import Runtime
from femgpu.runtime.rates import peak_bandwidth

DEGREES = tuple(range(1, 9))
# Longest vectors of degree 1: ten million dofs would have sixty million cells.
_MOST_LINEAR = 3e6


@dataclass(frozen=True)
class Results:
    """Those of both forms.

    Attributes:
        parts: one for each form.
    """

    parts: tuple[Result, ...]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "tets"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return self.parts[0].variant

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        return [row for part in self.parts for row in part.rows()]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        first, *others = (part.record() for part in self.parts)
        joined = {name: first[name] + [entry for other in others for entry in other[name]] for name in ("timings", "refusals")}
        return first | {"workload": self.stem} | joined

    def text(self) -> str:
        """A table for each form."""
        return "\n\n".join(part.text() for part in self.parts)

    def plot(self, path: Path) -> None:
        """Rates against the degree, a picture for each form."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6 * len(self.parts), 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, part in zip(figure.subplots(1, len(self.parts), squeeze=False)[0], self.parts, strict=True):
            part.draw(axes)
            axes.set(title=part.stem)
        figure.suptitle(f"{self.parts[0].precision}\n{self.parts[0].device}", fontsize=8)
        figure.savefig(path, dpi=120)


def run(
    runtime: Runtime,
    degrees: Sequence[int],
    size: float,
    schedules: Sequence[str] = ("auto",),
    ways: Sequence[str] = ("default",),
    precision: str = "double",
    plans: int = 0,
) -> Results:
    """Runs the workload on this process's device; femgpu's options apply where the arguments say nothing else.

    Args:
        runtime: the device.
        degrees: of the elements.
        size: length of the vectors, about; at most 3e6 at degree 1.
        schedules: values of `-femgpu_schedule`, or "all".
        ways: where the geometry comes from, of `bakeoff.WAYS`.
        precision: of the kernels.
        plans: of each schedule that are timed besides femgpu's choice, at most.

    Returns:
        The timings; every action agrees with the numpy twin on some cells and with what is known of constants and linear functions.

    Raises:
        DataError: when one does not.
        PlanError: when no schedule serves, or for one that computes no actions.
        OptionError: for a schedule that there is not.
    """
    parts = []
    for problem in TETS.values():

        def make(degree: int, size: float, problem: Tets = problem) -> Form:
            boxes = (min(size, _MOST_LINEAR) if degree == 1 else size) / degree**3
            return bilinear_form(weak_form(problem, GridSpace(TetGrid(counts_for(boxes)), degree)))

        timings, refusals = measure(runtime, problem, make, degrees, (size,), schedules, ways, precision, plans)
        parts.append(
            Result(str(runtime.device), precision, timings, refusals, peak_bandwidth(runtime), runtime.device.limits.ceiling)
        )
    return Results(tuple(parts))


def weak_form(problem: Tets, space: GridSpace) -> Any:
    """The UFL form of a problem, with its quadrature."""
    u, v, dx = ufl.TrialFunction(space), ufl.TestFunction(space), ufl.dx(degree=problem.exactness(space.degree))
    return u * v * dx if problem.form == "mass" else ufl.inner(ufl.grad(u), ufl.grad(v)) * dx
