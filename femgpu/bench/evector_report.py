"""Report of the workloads bp10, bp35 and bp30: tables and pictures of rates against N, with both rooflines of paper 000."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from femgpu.bench.report import Timings

# Bytes that pass on a mesh that is no longer in any cache.
LARGE = 2e9


@dataclass(frozen=True)
class Asked:
    """What is to be timed.

    Attributes:
        problem: bp10, bp35 or bp30.
        degree: N of the paper.
        cells: hexahedra.
        large: whether there are as many as move `LARGE` bytes.
        schedule: value of `-femgpu_schedule`.
        tried: whether it is another plan than femgpu's choice.
    """

    problem: str
    degree: int
    cells: int
    large: bool
    schedule: str
    tried: bool = False

    def __str__(self) -> str:
        return f"{self.problem}, N = {self.degree}, {self.cells} cells, {self.schedule}"


@dataclass(frozen=True, kw_only=True)
class Timing(Asked):
    """One operator.

    Attributes:
        plan: the plan in words.
        us: median time in microseconds.
        best_us: the shortest.
        GFs: operations by paper 000's count over the median, in 1e9 per second.
        GDOFs: entries of the E-vector over the median, in 1e9 per second.
        GBs: bytes by paper 000's count over the median, in 1e9 per second.
        copy_GBs: the same of a copy of as many bytes.
        roofline_GFs: equation (12).
        local_GFs: equation (13); NaN where the plan does not count its traffic in local memory.
        share: rate over roofline (12).
        error: largest difference to the numpy twin on some cells, and of the volume; relative.
    """

    plan: str
    us: float
    best_us: float
    GFs: float
    GDOFs: float
    GBs: float
    copy_GBs: float
    roofline_GFs: float
    local_GFs: float
    share: float
    error: float


@dataclass(frozen=True)
class Result(Timings):
    """All timings of one problem on one device.

    Attributes:
        local: bytes per second of local memory.
    """

    local: float

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return super().record() | {"local_bytes_per_second": self.local}

    def text(self) -> str:
        """A table: one line per mesh, schedule and degree, for the best plan."""
        lines = [f"{self.stem}: E-vectors, {self.precision}, {self.device}; local memory at {self.local / 1e12:.3g} TB/s"]
        names = ("GF/s", "(12)", "share", "(13)", "GDOF/s", "GB/s", "copy GB/s", "error")
        lines.append(f"{'N':>3s}{'cells':>9s}  {'schedule':20s}" + "".join(f"{name:>11s}" for name in names))
        for t in self._best():
            numbers = (t.GFs, t.roofline_GFs, t.share, t.local_GFs, t.GDOFs, t.GBs, t.copy_GBs)
            values = "".join(f"{value:11.4g}" for value in numbers)
            lines.append(f"{t.degree:3d}{t.cells:9d}  {t.schedule:20s}{values}{t.error:11.1e}")
        return "\n".join([*lines, *self.refusals])

    def plot(self, path: Path) -> None:
        """GF/s against N, a picture for each mesh, with both rooflines."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        meshes: dict[str, list[Timing]] = {}
        for timing in self._best():
            size = f"{LARGE / 1e9:.0f} GB" if timing.large else f"{timing.cells} cells"
            meshes.setdefault(size, []).append(timing)
        figure = Figure(figsize=(6 * len(meshes), 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, (size, timings) in zip(figure.subplots(1, len(meshes), squeeze=False)[0], meshes.items(), strict=True):
            bounds = {t.degree: t.roofline_GFs for t in timings}
            for schedule in dict.fromkeys(t.schedule for t in timings):
                mine = [t for t in timings if t.schedule == schedule]
                axes.plot([t.degree for t in mine], [t.GFs for t in mine], "o-", label=schedule)
                if any(t.local_GFs == t.local_GFs for t in mine):
                    axes.plot([t.degree for t in mine], [t.local_GFs for t in mine], ":", label=f"{schedule}: local memory, (13)")
            axes.plot(list(bounds), list(bounds.values()), "k--", label="copy of as many bytes, (12)")
            axes.set(xlabel="N", ylabel="GF/s", title=size, ylim=(0, None))
            axes.legend(fontsize=7)
        figure.suptitle(f"{self.stem}, {self.precision}\n{self.device}", fontsize=8)
        figure.savefig(path, dpi=120)

    def _best(self) -> list[Timing]:
        """Of each degree, mesh and schedule the fastest plan."""
        found: dict[tuple[int, int, str], Timing] = {}
        for timing in self.timings:
            key = timing.degree, timing.cells, timing.schedule
            found[key] = max(timing, found.get(key, timing), key=lambda timing: timing.GFs)
        return list(found.values())
