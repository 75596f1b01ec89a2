"""Report of the workload qdata: tables and pictures of how long an action takes with state stored and recomputed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from femgpu.bench.report import Timings

MODES = ("recompute", "store", "auto")
# In place of a mode: one of all ways to divide an action, in a search through these.
TRIED = "tried"


@dataclass(frozen=True)
class Asked:
    """What is to be timed.

    Attributes:
        form: neo-hookean or p-laplace.
        cell: type of the cells.
        degree: of the space.
        schedule: value of -femgpu_schedule.
    """

    form: str
    cell: str
    degree: int
    schedule: str

    def __str__(self) -> str:
        return f"{self.form}, {self.cell}, degree {self.degree}, {self.schedule}"


@dataclass(frozen=True, kw_only=True)
class Timing(Asked):
    """One action.

    Attributes:
        mode: value of -femgpu_qdata; `tried`: one of all ways to divide the action into what is stored and what is computed.
        cells: how many.
        dofs: length of the vectors.
        scalars: stored numbers per point.
        cell_scalars: stored numbers per cell.
        points: per cell.
        flops: of the pointwise function.
        plan: the plan in words.
        us: median time of the kernel in microseconds, with sums over an E-vector if it writes one.
        zero_us: of zeroing before what it adds to.
        state_us: of the kernel that stores, once per Newton step.
        GDOFs: dofs over the time of kernel and zeroing, in 1e9 per second.
        error: largest difference to recompute, relative; of a few cells to the numpy twin where that is larger and a mode is timed.
        registers: of an item of the kernel, the most of its kernels, as the device's compiler says; None where it says nothing.
        spill_store_bytes: that an item writes for want of registers, likewise.
        spill_load_bytes: that it reads back, likewise.
    """

    mode: str
    cells: int
    dofs: int
    scalars: int
    cell_scalars: int
    points: int
    flops: int
    plan: str
    us: float
    zero_us: float
    state_us: float
    GDOFs: float
    error: float
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None

    @property
    def stored(self) -> str:
        """Numbers per point, and those per cell where there are any."""
        return str(self.scalars) + f"+{self.cell_scalars}" * bool(self.cell_scalars)

    @property
    def spilled(self) -> int:
        """Bytes that an item spills, written and read."""
        return (self.spill_store_bytes or 0) + (self.spill_load_bytes or 0)


@dataclass(frozen=True)
class Result(Timings):
    """All timings on one device.

    Attributes:
        bandwidth: bytes per second of a copy.
    """

    bandwidth: float

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "qdata"

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return super().record() | {"copy_bytes_per_second": self.bandwidth}

    def text(self) -> str:
        """A table: one line per form, element and schedule; lines of what was tried; what kernels spill."""
        lines = [f"qdata: Jacobian actions, {self.precision}, {self.device}", f"copies at {self.bandwidth / 1e9:.0f} GB/s"]
        lines.append(
            f"{'form':12s} {'element':8s} {'cells':>8s} "
            + "".join(f"{mode + ' us (scalars)':>24s}" for mode in MODES)
            + "   auto/best  schedule"
        )
        for group in self._groups():
            first, best = group[0], min(timing.us for timing in group[:2])
            cells = "".join(f"{timing.us:16.1f} ({timing.stored:>5s})" for timing in group)
            name = f"{first.cell[:3]} {first.degree}"
            ratio = group[2].us / best
            lines.append(f"{first.form:12s} {name:8s} {first.cells:8d} {cells}  {ratio:10.3f}  {first.schedule}")
        lines += [
            f"{timing.form:12s} {timing.cell[:3]} {timing.degree} {timing.us:10.1f} us ({timing.stored:>5s})  {timing.plan}"
            for timing in self._tried()
        ]
        return "\n".join([*lines, *self.refusals, *self._spills()])

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
        names = [self._label(group[0]) for group in groups]
        axes.set_xticks(np.arange(len(groups)), names, fontsize=8)
        axes.set(ylabel="time of one action, recompute = 1")
        axes.set_title(f"State at quadrature points, {self.precision}\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)

    def _groups(self) -> list[list[Timing]]:
        """The timings of the modes by what was asked, of what none refused."""
        found: dict[str, list[Timing]] = {}
        for timing in self.timings:
            if timing.mode != TRIED:
                found.setdefault(str(timing), []).append(timing)
        return [group for group in found.values() if len(group) == len(MODES)]

    def _tried(self) -> list[Timing]:
        return [timing for timing in self.timings if timing.mode == TRIED]

    def _spills(self) -> list[str]:
        """How many of the actions spill, and which; nothing where the compiler does not say."""
        known = [timing for timing in self.timings if timing.registers is not None]
        if not known:
            return []
        found = [timing for timing in known if timing.spilled]
        lines = [f"{len(found)} of {len(known)} actions spill registers"]
        lines += [
            f"{timing}, {timing.mode} ({timing.stored}): {timing.spill_store_bytes} bytes written, {timing.spill_load_bytes} read"
            for timing in found
        ]
        return lines

    @staticmethod
    def _label(timing: Timing) -> str:
        element = f"{'P' if timing.cell == 'tetrahedron' else 'Q'}{timing.degree}"
        return f"{timing.form}\n{element}" + f"\n{timing.schedule}" * (timing.schedule != "auto")
