"""What workload solve measured: rows, a table and a chart."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_PHASES = ("mesh_s", "space_s", "problem_s", "first_setup_s", "setup_s", "solve_s")


@dataclass(frozen=True)
class Timing:
    """One problem and one solver; seconds by the host's clock, NaN where the solver failed.

    Attributes:
        problem: one of `solve.PROBLEMS`.
        cell: type of the cells.
        degree: of the space.
        dofs: of the space.
        solver: one of `solve.SOLVERS`.
        vectors: PETSc's type of the vectors.
        mesh_s: until the mesh was refined.
        space_s: of the space with its mesh's arrays.
        problem_s: of form, operators and boundary values.
        first_solve_s: of the first `solve`, with builds of kernels that no cache held, patterns, levels.
        first_setup_s: of PCSetUp in that.
        build_s: of the host's waiting for the compiler in that.
        setup_s: of PCSetUp in the fastest later `solve`, with a new coefficient; over all Newton steps.
        solve_s: of KSPSolve in that.
        total_s: of all of that `solve`.
        newton: its Newton steps.
        iterations: its linear iterations.
        Mdofs: dofs solved for per second of KSPSolve, in 1e6.
        kernels: device time of femgpu's kernels over the time of a linear solve; NaN where the queue records no times.
        levels: of femgpu.PMG: what each is, its dofs, its largest eigenvalue, and what its operator takes in microseconds.
    """

    problem: str
    cell: str
    degree: int
    dofs: int
    solver: str
    vectors: str
    mesh_s: float
    space_s: float
    problem_s: float = np.nan
    first_solve_s: float = np.nan
    first_setup_s: float = np.nan
    build_s: float = np.nan
    setup_s: float = np.nan
    solve_s: float = np.nan
    total_s: float = np.nan
    newton: int = 0
    iterations: int = 0
    Mdofs: float = np.nan
    kernels: float = np.nan
    levels: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """All timings on one device."""

    device: str
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "solve"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return "one-rank" if all(timing.vectors == "seq" for timing in self.timings) else "device-vectors"

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file; levels stand in the JSON file."""
        rows = [{"device": self.device} | asdict(timing) for timing in self.timings]
        return [{name: value for name, value in row.items() if name != "levels"} for row in rows]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {"workload": "solve", "timings": [asdict(timing) for timing in self.timings]}

    def text(self) -> str:
        """A table, and the levels of each solve by multigrid."""
        lines = [f"solve: seconds on {self.device}"]
        heads = ("mesh", "space", "problem", "first", "set-up", "builds", "set-up", "solve", "all")
        lines.append(f"{'':32s}{'dofs':>10s}{''.join(f'{head:>9s}' for head in heads)}  Newton  its  Mdof/s  kernels")
        for t in self.timings:
            first = t.mesh_s, t.space_s, t.problem_s, t.first_solve_s, t.first_setup_s, t.build_s
            times = *first, t.setup_s, t.solve_s, t.total_s
            name = f"{t.problem} {t.cell} {t.degree} {t.solver}"
            numbers = "".join(f"{time:9.3f}" for time in times)
            lines.append(f"{name:32s}{t.dofs:10d}{numbers}{t.newton:8d}{t.iterations:5d}{t.Mdofs:8.2f}{100 * t.kernels:7.0f} %")
            lines += [
                f"    {level['what']:38s}{level['dofs']:12d} dofs, largest eigenvalue {level['largest']:.3g}, "
                f"operator {level['operator_us']:.1f} us"
                for level in t.levels
            ]
        return "\n".join(lines)

    def plot(self, path: Path) -> None:
        """The phases of all solves, above one another."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 2 + 0.3 * len(self.timings)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        places, left = np.arange(len(self.timings)), np.zeros(len(self.timings))
        for phase in _PHASES:
            seconds = np.nan_to_num([getattr(timing, phase) for timing in self.timings])
            axes.barh(places, seconds, 0.7, left, label=phase.removesuffix("_s").replace("_", " "))
            left += seconds
        names = [f"{t.problem} {t.cell} {t.degree}, {t.dofs / 1e6:.2g} M, {t.solver}" for t in self.timings]
        axes.set_yticks(places, names, fontsize=7)
        axes.invert_yaxis()
        axes.set(xlabel="seconds")
        axes.set_title(f"Phases of solves\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)
