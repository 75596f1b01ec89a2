"""What workload cg measured: rows, a table and a chart."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Timing:
    """One operator.

    Attributes:
        problem: one of `PROBLEMS`.
        cell: type of the cells.
        degree: of the space.
        dofs: length of the vectors.
        iteration_us: microseconds of an iteration of `femgpu.CG` without a preconditioner, by the host's clock.
        operator_us: of the operator as the method calls it, by the host's clock over many.
        kernels_us: of the method's own kernels, by the device's; NaN where its queue records no times.
        gap_us: what is left of the iteration.
        model_us: what the bytes of the method's own kernels take at the speed of a copy.
        action_us: of one action, which prepares its result; CG's kernels do that for the operator.
        native_us: of an iteration of PETSc's own method on vectors of type `vectors`.
        vectors: that type.
        vector_us: iteration less action.
        limit_us: what `vector_us` should not exceed.
        share: what the bytes of the iteration take at the speed of a copy, over its time.
        GDOFs: dofs over the time of an iteration, in 1e9 per second.
        error: relative difference between femgpu's and PETSc's solution after some iterations.
    """

    problem: str
    cell: str
    degree: int
    dofs: int
    iteration_us: float
    operator_us: float
    kernels_us: float
    gap_us: float
    model_us: float
    action_us: float
    native_us: float
    vectors: str
    vector_us: float
    limit_us: float
    share: float
    GDOFs: float
    error: float


@dataclass(frozen=True)
class Result:
    """All timings on one device."""

    device: str
    bandwidth: float
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "cg"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device: the type of the vectors that PETSc's method works on."""
        return self.timings[0].vectors

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        return [{"device": self.device, "copy_GBs": round(self.bandwidth / 1e9)} | asdict(timing) for timing in self.timings]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {"workload": "cg", "copy_bytes_per_second": self.bandwidth, "timings": [asdict(timing) for timing in self.timings]}

    def text(self) -> str:
        """A table."""
        lines = [f"cg: microseconds of an iteration, {self.device}; copies at {self.bandwidth / 1e9:.0f} GB/s"]
        heads = ("femgpu", "operator", "kernels", "gap", "model", "action", "rest", "limit")
        lines.append(f"{'':18s}{'dofs':>10s}{''.join(f'{head:>10s}' for head in heads)}   share  GDOF/s   PETSc, {self.variant}")
        for t in self.timings:
            times = (t.iteration_us, t.operator_us, t.kernels_us, t.gap_us, t.model_us, t.action_us, t.vector_us, t.limit_us)
            name = f"{t.problem} {t.cell} {t.degree}"
            numbers = "".join(f"{time:10.1f}" for time in times)
            lines.append(f"{name:18s}{t.dofs:10d}{numbers}{t.share:8.2f}{t.GDOFs:8.2f}{t.native_us:12.1f}")
        return "\n".join(lines)

    def plot(self, path: Path) -> None:
        """Iterations of both methods and the operator in them, beside each other."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 2 + 0.3 * len(self.timings)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        places = np.arange(len(self.timings))
        for shift, times, label in (
            (-0.27, [t.native_us for t in self.timings], f"PETSc's cg, {self.variant} vectors"),
            (0.0, [t.iteration_us for t in self.timings], "femgpu.CG"),
            (0.27, [t.operator_us for t in self.timings], "operator alone"),
        ):
            axes.barh(places + shift, times, 0.25, label=label)
        names = [f"{t.problem} {t.cell} {t.degree}, {t.dofs / 1e6:.2g} M" for t in self.timings]
        axes.set_yticks(places, names, fontsize=7)
        axes.invert_yaxis()
        axes.set(xlabel="microseconds of an iteration", xscale="log")
        axes.set_title(f"Conjugate gradients\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)
