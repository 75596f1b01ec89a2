"""Report of the workloads bp1 to bp6: tables and pictures of rates against the degree, beside the peer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from femgpu.bench.peers import SOURCE
from femgpu.bench.report import Timings
from femgpu.model import Ceiling
from femgpu.model.bakeoff import PROBLEMS, Bakeoff
from femgpu.model.tets import TETS, Tets

# What is timed, by name.
MODELS: dict[str, Bakeoff | Tets] = {**PROBLEMS, **TETS}
_HEAD = f"{'best':>10s}{'TF/s':>8s}{'B/dof':>8s}{'share':>7s}{'peer':>8s}{'ratio':>7s}{'goal':>7s}"


@dataclass(frozen=True)
class Asked:
    """What is to be timed.

    Attributes:
        problem: bp1 to bp6, tet_mass, tet_diffusion.
        degree: of the elements.
        size: length of the vectors, about.
        schedule: value of `-femgpu_schedule`.
        way: where the geometry comes from: `default`, as femgpu chooses; `rebuilt`, from the vertices; `stored`, at the points;
            `rounded`, there in single precision.
        tried: whether it is another plan than femgpu's choice.
    """

    problem: str
    degree: int
    size: float
    schedule: str
    way: str
    tried: bool = False

    @property
    def label(self) -> str:
        """Who did it, in tables and plots."""
        who = self.way if self.schedule == "auto" else f"{self.schedule}, {self.way}"
        return who + ", tried" * self.tried

    def __str__(self) -> str:
        return f"{self.problem}, degree {self.degree}, {self.schedule}, {self.way}"


@dataclass(frozen=True, kw_only=True)
class Timing(Asked):
    """One action.

    Attributes:
        dofs: length of the vectors.
        cells: how many.
        points: of the rule.
        plan: the plan in words.
        us: median time of one application in microseconds: zeroing, kernels, sums.
        best_us: the shortest.
        GDOFs: dofs over the median, in 1e9 per second.
        TFs: operations of the untransformed algorithm over the median, in 1e12 per second.
        bytes_per_dof: that an application moves at least, see `Bakeoff.lvector_bytes`: with zeroing where it adds atomically.
        share: what these bytes take at the speed of a copy, over the median.
        peer: GDOF/s of libCEED on an H200; NaN where unknown.
        goal: GDOF/s to be reached there.
        error: largest difference to the numpy twin on some cells, and of the identities; relative.
        registers: of an item of the kernel, the most of its kernels, as the device's compiler says; None where it says nothing.
        spill_store_bytes: that an item writes for want of registers, likewise.
        spill_load_bytes: that it reads back, likewise.
    """

    dofs: int
    cells: int
    points: int
    plan: str
    us: float
    best_us: float
    GDOFs: float
    TFs: float
    bytes_per_dof: float
    share: float
    peer: float
    goal: float
    error: float
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None


@dataclass(frozen=True)
class Result(Timings):
    """All timings of one problem on one device.

    Attributes:
        bandwidth: bytes per second of a copy.
        ceiling: what the device reaches at most.
    """

    bandwidth: float
    ceiling: Ceiling

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        return [{"copy_GBs": round(self.bandwidth / 1e9, 1)} | row for row in super().rows()]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return super().record() | {"copy_bytes_per_second": self.bandwidth, "peer": SOURCE}

    def text(self) -> str:
        """A table for each size: rates by degree, the best plan against model, peer and goal; and means over degrees."""
        what = f"{self.stem}: actions between L-vectors, {self.precision}, {self.device}"
        lines = [what, f"GDOF/s; copies at {self.bandwidth / 1e9:.0f} GB/s; peer: {SOURCE}"]
        for size, groups in self._sizes():
            labels = list(dict.fromkeys(timing.label for group in groups for timing in group))
            width = max(10, *(len(label) + 2 for label in labels))
            lines.append(f"{size:.0e} dofs{'':6s}" + "".join(f"{label:>{width}s}" for label in labels) + _HEAD)
            for group in groups:
                rates = {label: _best([t for t in group if t.label == label]) for label in labels}
                columns = "".join(f"{timing.GDOFs if timing else np.nan:{width}.3g}" for timing in rates.values())
                lines.append(f"degree {group[0].degree:<8d}{columns}{_judged(group)}")
            lines += _summary(groups)
        return "\n".join([*lines, *self.refusals])

    def plot(self, path: Path) -> None:
        """Rates against the degree, a picture for each size, with the bound of the stored factors, the peer and the goal."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        sizes = self._sizes()
        figure = Figure(figsize=(6 * len(sizes), 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, (size, _) in zip(figure.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True):
            self.draw(axes, size)
            axes.set(title=f"{size:.0e} dofs")
        figure.suptitle(f"{self.stem}, {self.precision}\n{self.device}", fontsize=8)
        figure.savefig(path, dpi=120)

    def draw(self, axes: Any, size: float = 0) -> None:
        """The picture of one size, of the first if none is given."""
        sizes = dict(self._sizes())
        groups = sizes[size or next(iter(sizes))]
        for label in dict.fromkeys(timing.label for group in groups for timing in group):
            points = [best for group in groups if (best := _best([t for t in group if t.label == label]))]
            axes.plot([t.degree for t in points], [t.GDOFs for t in points], "o-", label=label)
        degrees = [group[0].degree for group in groups]
        axes.plot(degrees, [self._bound(group[0]) for group in groups], "k:", label="bound of stored factors")
        for values, label, style in (
            ([group[0].peer for group in groups], SOURCE, "k--"),
            ([group[0].goal for group in groups], "to be reached on an H200", "k^"),
        ):
            if not np.isnan(values).all():
                axes.plot(degrees, values, style, label=label)
        axes.set(xlabel="degree", ylabel="GDOF/s", yscale="log", xticks=degrees)
        axes.legend(fontsize=7)

    def _bound(self, timing: Timing) -> float:
        """GDOF/s that a copy's speed allows with stored factors and atomic sums; on tetrahedra that arithmetic allows, too."""
        moved = MODELS[timing.problem].lvector_bytes(timing.degree, timing.cells, timing.dofs)
        seconds = moved / self.bandwidth
        if timing.problem not in PROBLEMS:
            peak = self.ceiling.double if self.precision == "double" else self.ceiling.single
            seconds = max(seconds, timing.TFs * timing.us * 1e6 / peak)
        return timing.dofs / seconds / 1e9

    def _sizes(self) -> list[tuple[float, list[list[Timing]]]]:
        """By size the timings of each degree."""
        found: dict[float, dict[int, list[Timing]]] = {}
        for timing in self.timings:
            found.setdefault(timing.size, {}).setdefault(timing.degree, []).append(timing)
        return [(size, list(groups.values())) for size, groups in found.items()]


def _best(timings: Sequence[Timing]) -> Timing | None:
    return max(timings, key=lambda timing: timing.GDOFs, default=None)


def _exact(timings: Sequence[Timing]) -> Sequence[Timing]:
    """Those whose products are exact but for rounding, where there are some."""
    return [timing for timing in timings if timing.way != "rounded"] or timings


def _judged(group: list[Timing]) -> str:
    """The columns after the rates: the best plan of a degree."""
    best = max(_exact(group), key=lambda timing: timing.GDOFs)
    numbers = f"{best.GDOFs:10.3g}{best.TFs:8.2g}{best.bytes_per_dof:8.1f}{best.share:7.2f}"
    if np.isnan(best.peer):
        return numbers
    return f"{numbers}{best.peer:8.2f}{best.GDOFs / best.peer:7.2f}{best.goal:7.1f}{' reached' * (best.GDOFs >= best.goal)}"


def _summary(groups: list[list[Timing]]) -> list[str]:
    """Over all degrees: the best and the best with stored factors against the peer, and femgpu's choice against the best."""
    lines = []
    for what, chosen in (
        ("best", [_best(_exact(group)) for group in groups]),
        *((way, [_best([t for t in group if t.way == way]) for group in groups]) for way in ("stored", "rounded")),
    ):
        ratios = {t.degree: t.GDOFs / t.peer for t in chosen if t is not None and not np.isnan(t.peer)}
        means = [ratio for degree, ratio in ratios.items() if degree > 1]
        if ratios and means:
            least, mean = min(ratios.values()), np.exp(np.mean(np.log(means)))
            lines.append(f"{what} over peer: at least {least:.2f}, from degree 2 on {mean:.2f} in geometric mean")
    own = [_best([t for t in group if t.schedule == "auto" and t.way == "default" and not t.tried]) for group in groups]
    most = [max(t.GDOFs for t in _exact(group)) for group in groups]
    near = [mine.GDOFs >= best / 1.15 for mine, best in zip(own, most, strict=True) if mine is not None]
    return [*lines, f"default within 15 % of the best in {sum(near)} of {len(near)} degrees"] if near else lines
