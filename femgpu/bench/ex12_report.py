"""What the workload ex12 measured: as text, rows and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from femgpu.bench.residual import Timing
from femgpu.model import Beta
from femgpu.operators.arrays import real_type

# The sweep: the paper's blocks and batches, more blocks, and one batch.
BLOCKS = (4, 8, 12, 16, 64)
BATCHES = (1, 16, 20, 24, 28, 32, 36)
# What is to be reached: of the model's bound on E-vectors; fused, Poisson on triangles in single precision, on an H200.
SHARE, FUSED, GOALS_OF = 0.8, 1e13, "H200"
# Curves in a plot: more are unreadable.
_CURVES = 3


@dataclass(frozen=True)
class Case:
    """A residual on a mesh in one precision.

    Attributes:
        cell: type of the cells.
        problem: of `ex12.PROBLEMS`.
        precision: of the kernels.
        dofs: length of the vector.
        timings: all timed kernels.
    """

    cell: str
    problem: str
    precision: str
    dofs: int
    timings: list[Timing]

    @property
    def beta(self) -> Beta:
        """The paper's model."""
        dim = 2 if self.cell == "triangle" else 3
        comps = 1 if self.problem == "poisson" else dim
        return Beta(dim, dim + 1, comps, 1, np.dtype(real_type(self.precision)).itemsize)

    def intensity(self, what: str) -> float:
        """Flops per byte: on E-vectors by the paper's model, fused by the least bytes."""
        return self.beta.flops / (self.beta.fused_bytes if what == "fused" else self.beta.bytes)

    @property
    def goals(self) -> tuple[float, float]:
        """Flops per second of fused kernels that take as many bytes per second as `FUSED` does: least ones, those of E-vectors."""
        own, model = (FUSED * self.intensity(what) / _FIRST.intensity(what) for what in ("fused", "evector"))
        return own, model

    def best(self, what: str, schedule: str = "") -> Timing | None:
        """The fastest kernel of a kind, of one schedule or of all."""
        found = [t for t in self.timings if t.what == what and schedule in ("", t.schedule)]
        return min(found, key=lambda timing: timing.median, default=None)

    def __str__(self) -> str:
        return f"{self.problem}, {self.cell}, {self.precision}"


# The case that `FUSED` is about.
_FIRST = Case("triangle", "poisson", "single", 0, [])


@dataclass(frozen=True)
class Result:
    """What the workload measured.

    Attributes:
        device: the device in words.
        bandwidth: bytes per second of a copy.
        cases: the cases.
    """

    device: str
    bandwidth: float
    cases: list[Case]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "ex12"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return "residuals"

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {"workload": "ex12", "copy_bytes_per_second": self.bandwidth, "timings": self.rows()}

    @property
    def has_goals(self) -> bool:
        """Whether the device is the one that fused goals are of."""
        return GOALS_OF in self.device

    def bound(self, case: Case, what: str) -> float:
        """Flops per second at the bandwidth of a copy."""
        return case.intensity(what) * self.bandwidth

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing."""
        return [self._row(case, timing) for case in self.cases for timing in case.timings]

    def _row(self, case: Case, timing: Timing) -> dict[str, Any]:
        fused, bound = timing.what == "fused", self.bound(case, timing.what)
        own, model = (SHARE * bound,) * 2
        if fused:
            own, model = case.goals if self.has_goals else (np.nan, np.nan)
        rate, moved = timing.gflops, timing.gbytes
        given = {"device": self.device, "cell": case.cell, "problem": case.problem, "precision": case.precision, "dofs": case.dofs}
        rates = {
            "GFs": rate,
            "GBs": moved,
            "model_bytes": case.beta.fused_bytes if fused else case.beta.bytes,
            "copy_GBs": self.bandwidth / 1e9,
            "share_of_copy": moved * 1e9 / self.bandwidth,
            "bound_GFs": bound / 1e9,
            "share_of_bound": rate * 1e9 / bound,
            "goal_GFs": own / 1e9,
            "share_of_goal": rate * 1e9 / own,
            "goal_by_evector_bytes_GFs": model / 1e9,
        }
        return given | asdict(timing) | {name: round(value, 4) for name, value in rates.items()}

    def text(self) -> str:
        """Of each case the best of each kind and the paper's table."""
        lines = [f"ex12: P1, one point, on {self.device}, copies at {self.bandwidth / 1e9:.0f} GB/s"]
        for case in self.cases:
            own, model = case.goals
            goals = f"; in proportion of bytes to {FUSED / 1e9:.0f} fused: {own / 1e9:.0f}, by those of E-vectors {model / 1e9:.0f}"
            lines += [
                "",
                f"{case}, {case.timings[0].cells} cells, {case.dofs} dofs: {case.beta.flops} flops per cell, "
                f"{case.timings[0].kernel_flops} in kernels; bounds by a copy "
                f"{self.bound(case, 'evector') / 1e9:.0f} GF/s on E-vectors ({case.beta.bytes} B), "
                f"{self.bound(case, 'fused') / 1e9:.0f} fused ({case.beta.fused_bytes:.1f} B)" + goals * self.has_goals,
                f"{'':22s}{'GF/s':>8s}{'GB/s':>8s}{'bound':>8s}{'goal':>8s}  plan",
            ]
            kinds = dict.fromkeys((timing.what, timing.schedule) for timing in case.timings)
            for what, schedule in sorted(kinds):
                best = case.best(what, schedule)
                assert best is not None
                row = self._row(case, best)
                goal = row["share_of_goal"]
                shares = f"{100 * row['share_of_bound']:7.1f}%" + (" " * 8 if np.isnan(goal) else f"{100 * goal:7.1f}%")
                lines.append(f"{what:8s}  {schedule:12s}{best.gflops:8.0f}{best.gbytes:8.0f}{shares}  {best.plan}")
            lines += _table(case)
        return "\n".join(lines)

    def plot(self, path: Path) -> None:
        """GF/s against blocks, of the numbers of batches that reach the highest rates, a picture for each case."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        columns = min(len(self.cases), 4)
        rows = -(-len(self.cases) // columns)
        figure = Figure(figsize=(5 * columns, 4.5 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, case in zip(figure.subplots(rows, columns, squeeze=False).ravel(), self.cases, strict=False):
            for batches, timings in _best_batches(case):
                axes.plot(
                    [t.num_blocks for t in timings],
                    [t.gflops for t in timings],
                    "o-",
                    label=f"transposed, {batches} batch{'es' * (batches > 1)}",
                )
            for (what, schedule), color in (
                (("evector", "cell"), "tab:olive"),
                (("fused", "cell"), "tab:grey"),
                (("fused", "tiled"), "tab:pink"),
                (("fused", "transposed"), "tab:cyan"),
            ):
                if best := case.best(what, schedule):
                    axes.axhline(best.gflops, linestyle=":", color=color, label=f"{schedule}, {what}: {best.gflops:.0f}")
            for what, color in (("evector", "black"), ("fused", "tab:red")):
                bound = self.bound(case, what) / 1e9
                axes.axhline(bound, linestyle="--", color=color, label=f"bound, {what}: {bound:.0f}")
            axes.set(title=str(case), xlabel="blocks per batch", ylabel="GF/s", ylim=(0, None))
            axes.legend(fontsize=7)
        figure.suptitle(f"ex12, P1, one point\n{self.device}", fontsize=8)
        figure.savefig(path, dpi=120)


def _sweep(case: Case) -> dict[tuple[int, int], Timing]:
    """The timings of the paper's table, by blocks and batches, and of one batch: on E-vectors, with stored geometry."""
    found = [timing for timing in case.timings if (timing.what, timing.geometry) == ("evector", "stored")]
    return {(timing.num_blocks, timing.num_batches): timing for timing in found if timing.num_batches in BATCHES}


def _table(case: Case) -> Sequence[str]:
    """GF/s of schedule transposed on E-vectors with stored geometry, blocks down, batches across."""
    found = _sweep(case)
    lines = [
        "transposed on E-vectors, geometry stored, blocks down, batches across",
        " " * 6 + "".join(f"{batches:8d}" for batches in BATCHES),
    ]
    for blocks in sorted({blocks for blocks, batches in found if batches > 1}):
        cells = (f"{found[blocks, n].gflops:8.0f}" if (blocks, n) in found else " " * 8 for n in BATCHES)
        lines.append(f"{blocks:6d}" + "".join(cells))
    return lines


def _best_batches(case: Case) -> list[tuple[int, list[Timing]]]:
    """Numbers of batches with their timings in order of the blocks, best first."""
    curves: dict[int, list[Timing]] = {}
    for (_, batches), timing in sorted(_sweep(case).items()):
        curves.setdefault(batches, []).append(timing)
    return sorted(curves.items(), key=lambda entry: -max(t.gflops for t in entry[1]))[:_CURVES]
