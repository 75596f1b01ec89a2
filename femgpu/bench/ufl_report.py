"""Report of the workload ufl: tables and pictures of the share of paper 001's roofline that actions reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from femgpu.bench.report import Timings
from femgpu.model import Ceiling

_NAN = float("nan")
# Shares of the roofline, and how far from the best plan, of which is said in how many cases they are reached.
_SHARES, _NEAR = (0.5, 0.75), 1.1


@dataclass(frozen=True)
class Asked:
    """What is to be timed.

    Attributes:
        problem: name of the form.
        cell: type of the cells.
        degree: of the elements.
        cells: how many.
    """

    problem: str
    cell: str
    degree: int
    cells: int

    def __str__(self) -> str:
        return f"{self.problem}, {self.cell}, degree {self.degree}"


@dataclass(frozen=True, kw_only=True)
class Timing(Asked):
    """One action; what was not asked for is NaN.

    Attributes:
        dofs: length of the vectors.
        points: of the rule.
        plan: femgpu's choice in words.
        us: median time of one application in microseconds: zeroing, kernels, sums.
        best_us: the shortest.
        GDOFs: dofs over the median, in 1e9 per second.
        TFs: operations by equation (28) over the median, in 1e12 per second; see `UFLForm.flops`.
        intensity: operations per byte of the footprint of gather and scatter; see `UFLForm.global_bytes`.
        roofline_TFs: what copies, local memory and multiply-adds of the device allow, equation (47).
        share: of that.
        roofline_without_local_TFs: what copies and multiply-adds allow, local memory not counted.
        share_without_local: of that.
        error: largest difference to the numpy twin on some cells, relative.
        registers: of an item of the kernel, the most of its kernels, as the device's compiler says; None where it says nothing.
        spill_store_bytes: that an item writes for want of registers, likewise.
        spill_load_bytes: that it reads back, likewise.
        tuned_us: median time of the plan that `-femgpu_tune measure` chooses.
        tuned_plan: that in words.
        default_over_tuned: the time of femgpu's choice over it.
        plans: that could be launched in an exhaustive search.
        first_over_best: the shortest time of the first plans by the model, as many as `-femgpu_tune` tries, over that of all.
        case_s: wall time in seconds since the case before.
    """

    dofs: int
    points: int
    plan: str
    us: float
    best_us: float
    GDOFs: float
    TFs: float
    intensity: float
    roofline_TFs: float
    share: float
    roofline_without_local_TFs: float
    share_without_local: float
    error: float
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    tuned_us: float = _NAN
    tuned_plan: str = ""
    default_over_tuned: float = _NAN
    plans: int = 0
    first_over_best: float = _NAN
    case_s: float = _NAN


@dataclass(frozen=True)
class Result(Timings):
    """All timings on one device.

    Attributes:
        cases: how many were asked for.
        bandwidth: bytes per second of a copy.
        ceiling: what the device reaches at most.
        local_bandwidth: bytes per second from local memory.
        searches: all plans of exhaustive searches, in the order in which a measurement takes its first ones.
    """

    cases: int
    bandwidth: float
    ceiling: Ceiling
    local_bandwidth: float
    searches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def peak(self) -> float:
        """Operations per second in the kernels' precision."""
        return self.ceiling.double if self.precision == "double" else self.ceiling.single

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "ufl"

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        rates = {
            "copy_bytes_per_second": self.bandwidth,
            "local_bytes_per_second": self.local_bandwidth,
            "flops_per_second": self.peak,
        }
        return super().record() | rates | {"searches": self.searches}

    def text(self) -> str:
        """A line for each case, and in how many of them what is reached."""
        lines = [
            f"ufl: actions between L-vectors, {self.precision}, {self.device}",
            f"copies at {self.bandwidth / 1e9:.0f} GB/s, local memory at {self.local_bandwidth / 1e9:.0f} GB/s, "
            f"{self.peak / 1e12:.3g} TF/s",
            f"{'':40s}{'points':>7s}{'us':>11s}{'GDOF/s':>9s}{'TF/s':>10s}{'F/B':>8s}{'bound':>8s}{'share':>7s}{'no local':>10s}"
            f"{'tuned us':>11s}{'ratio':>7s}{'plans':>6s}{'first':>7s}  plan",
        ]
        lines += [
            f"{str(t):40s}{t.points:7d}{t.us:11.1f}{t.GDOFs:9.3g}{t.TFs:10.3g}{t.intensity:8.1f}{t.roofline_TFs:8.3g}{t.share:7.2f}"
            f"{t.share_without_local:10.2f}{t.tuned_us:11.1f}{t.default_over_tuned:7.2f}{t.plans:6d}{t.first_over_best:7.2f}"
            f"  {t.plan}"
            for t in self.timings
        ]
        return "\n".join([*lines, *self.refusals, *self._summary()])

    def plot(self, path: Path) -> None:
        """Shares of the roofline, equation (47), against the degree, a picture for each type of cell."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        cells = list(dict.fromkeys(timing.cell for timing in self.timings))
        figure = Figure(figsize=(6 * len(cells), 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, cell in zip(figure.subplots(1, len(cells), squeeze=False)[0], cells, strict=True):
            mine = [timing for timing in self.timings if timing.cell == cell]
            for problem in dict.fromkeys(timing.problem for timing in mine):
                points = [(t.degree, t.share) for t in mine if t.problem == problem]
                axes.plot(*zip(*points, strict=True), "o-", label=problem)
            for share in _SHARES:
                axes.axhline(share, color="k", linestyle=":")
            axes.set(title=cell, xlabel="degree", ylabel="share of the roofline", xticks=sorted({t.degree for t in mine}))
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=7)
        figure.suptitle(f"ufl, {self.precision}\n{self.device}", fontsize=8)
        figure.savefig(path, dpi=120)

    def _summary(self) -> list[str]:
        """In how many cases of those asked for which share is reached; the worst choice; what the model's first plans hold."""
        lines = []
        for what, shares in (
            ("", [timing.share for timing in self.timings]),
            (", local memory not counted", [timing.share_without_local for timing in self.timings]),
        ):
            reached = " and ".join(f"{least} in {_at_least(shares, least)}" for least in _SHARES)
            lines.append(f"share of the roofline{what}: at least {reached} of {self.cases} cases")
        tuned = [timing for timing in self.timings if timing.default_over_tuned == timing.default_over_tuned]
        if tuned:
            worst = max(tuned, key=lambda timing: timing.default_over_tuned)
            lines.append(f"default / tuned: at most {worst.default_over_tuned:.2f} ({worst}), {len(tuned)} cases")
        first = [timing.first_over_best for timing in self.timings if timing.plans]
        if first:
            near = int(np.sum(np.array(first) <= _NEAR))
            lines.append(f"first plans by the model: within {_NEAR - 1:.0%} of the best of all in {near} of {len(first)} cases")
        return lines


def _at_least(shares: Sequence[float], least: float) -> int:
    return sum(share >= least for share in shares)
