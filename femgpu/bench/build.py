"""Workload build: how long the device's compiler takes for the kernels of scripts that it has never seen.

Each script runs on a small box of each type of cells and for each degree; where it solves, the kernels are built instead, so that
those of its error norms follow. On several ranks each takes its share of the runs, all on meshes of their own.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from rich.progress import track

from femgpu.bench.scripts import build_kernels
from femgpu.errors import DataError
from femgpu.kernels import Plan, render
from femgpu.operators import application, planner
from femgpu.runtime import Device, Runtime, program

CELLS = ("triangle", "quadrilateral", "tetrahedron", "hexahedron")
DEGREES = (1, 2, 3, 4)
# The forms of all drivers, with the options that bring the most to compile.
SCRIPTS = (
    "drivers/poisson.py -variable_coefficient nonlinear -exact trigonometric",
    "drivers/dg_poisson.py",
    "drivers/dg_advection.py",
    "drivers/bratu.py",
    "drivers/plaplace.py",
    "drivers/helmholtz.py",
    "drivers/elasticity.py",
    "drivers/hyperelasticity.py",
    "drivers/advection_diffusion.py -diffusion 0.1",
    "drivers/stokes.py -petscspace_degree 2",
    "drivers/heat.py -conductivity nonlinear",
    "drivers/reaction_diffusion.py -solution manufactured",
)
# Seconds that a kernel may take, and how many of the slowest the text names.
LIMIT, _NAMED = 3.0, 20


@dataclass(frozen=True)
class Timing:
    """One program.

    Attributes:
        script: name of the script.
        cell: type of the mesh's cells.
        degree: as `-petscspace_degree` says it.
        kernel: what the program is for.
        seconds: from source to binary.
        cpu_seconds: of the process, all its threads together.
        characters: length of the source.
        plan: the plan in words; empty for the kernels between vectors.
        points: per cell or facet.
        point_size: instructions for one point, as the model of unrolling has them.
        unrolled: the loops that are unrolled: basis, points, or both.
    """

    script: str
    cell: str
    degree: int
    kernel: str
    seconds: float
    cpu_seconds: float
    characters: int
    plan: str = ""
    points: int = 0
    point_size: int = 0
    unrolled: str = ""


@dataclass(frozen=True)
class Result:
    """What the workload measured.

    Attributes:
        device: the device in words.
        ranks: that shared the runs.
        seconds: of the whole workload.
        timings: of all programs, the slowest first.
        failures: by run what its script said where it ended in an error.
    """

    device: str
    ranks: int
    seconds: float
    timings: list[Timing]
    failures: dict[str, str]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "build"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return "kernels"

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions; the programs, some thousands, stand in the CSV file only."""
        return {"workload": "build", "ranks": self.ranks, "seconds": self.seconds, "failures": self.failures}

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per program, for the CSV file."""
        rounded = [{"seconds": round(t.seconds, 3), "cpu_seconds": round(t.cpu_seconds, 3)} for t in self.timings]
        return [{"device": self.device} | asdict(t) | values for t, values in zip(self.timings, rounded, strict=True)]

    def text(self) -> str:
        """How many, how long, and the slowest by name."""
        times = [timing.seconds for timing in self.timings]
        lines = [
            f"{len(times)} programs built on {self.device}",
            f"{self.ranks} rank(s), {self.seconds:.0f} s; {sum(times):.0f} s of building, median {np.median(times):.2f} s, "
            f"{sum(t > LIMIT for t in times)} above {LIMIT:.0f} s "
            f"({sum(t.cpu_seconds > LIMIT for t in self.timings)} by the processor's time). The slowest:",
        ]
        for t in self.timings[:_NAMED]:
            what = f"{t.plan}; unrolled: {t.unrolled or 'nothing'}" if t.plan else t.kernel
            lines.append(f"{t.seconds:8.2f} s  {t.script:22s}{t.cell:14s}degree {t.degree}  {what}")
        return "\n".join([*lines, *(f"{run} ended early: {said}" for run, said in self.failures.items())])

    def plot(self, path: Path) -> None:
        """Times of all programs in order, a curve for each degree."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for degree in sorted({timing.degree for timing in self.timings}):
            axes.plot([t.seconds for t in self.timings if t.degree == degree], ".-", label=f"degree {degree}")
        axes.axhline(LIMIT, linestyle=":", color="black")
        axes.set(xlabel="programs, the slowest first", ylabel="seconds to build", yscale="log")
        axes.set_title(f"Cold builds\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)


def run(
    runtime: Runtime, comm: Any, scripts: Sequence[str] = (), cells: Sequence[str] = CELLS, degrees: Sequence[int] = DEGREES
) -> Result:
    """Runs the workload on this process's device; collective. Caches count as empty: the caller sees to it.

    Args:
        runtime: the device.
        comm: mpi4py communicator, whose ranks share the runs.
        scripts: paths of scripts with their options; default those of `SCRIPTS`.
        cells: types of the cells.
        degrees: for `-petscspace_degree`; where a script names one in its options, that is added to it less one.

    Returns:
        The times of every rank's programs, on all ranks.

    Raises:
        DataError: for a script that is not there.
    """
    runs = [(shlex.split(script), cell, degree) for degree, cell, script in product(degrees, cells, scripts or SCRIPTS)]
    for words, _, _ in runs:
        if not Path(words[0]).is_file():
            raise DataError(f"--scripts {words[0]}: no such file; expected scripts with their options, from the folder of drivers/")
    start = time.perf_counter()
    with mock.patch.object(Device, "caches_programs", False):
        # The compiler's own start counts for no kernel.
        runtime.build("__kernel void nothing(__global int *d_out) { d_out[0] = 0; }", "nothing")
    console = Console(file=sys.stderr)
    progress = track(runs[comm.rank :: comm.size], "build", console=console, disable=comm.rank > 0 or not console.is_terminal)
    # One after the other: side by side they would be timed together.
    with mock.patch.object(runtime.programs, "threads", 0):
        mine = [_build_all(*entry) for entry in progress]
    found = [entry for share in comm.allgather(mine) for entry in share]
    timings = sorted((timing for entry, _ in found for timing in entry), key=lambda timing: -timing.seconds)
    failures = {name: said for _, failed in found for name, said in failed.items()}
    if not timings:
        raise DataError(f"no kernel was built; the scripts say {failures}")
    return Result(str(runtime.device), comm.size, time.perf_counter() - start, timings, failures)


def _build_all(words: list[str], cell: str, degree: int) -> tuple[list[Timing], dict[str, str]]:
    """One run of a script: the times of its programs, and what it said where it failed."""
    script = Path(words[0]).stem
    with _timed(script, cell, degree) as timings:
        failure = build_kernels(words, cell, degree)
    return timings, {f"{script} on {cell} cells, degree {degree}": failure} if failure else {}


@contextmanager
def _timed(script: str, cell: str, degree: int) -> Iterator[list[Timing]]:
    """Collects the times of the programs that are built inside the block."""
    timings: list[Timing] = []
    plans: dict[str, Plan] = {}
    build = program.build

    def remembered(plan: Plan, *args: Any) -> str:
        source = render(plan, *args)
        plans[source] = plan
        return source

    def timed(context: Any, device: Device, source: str, name: str, *others: Any) -> Any:
        start, cpu = time.perf_counter(), time.process_time()
        built = build(context, device, source, name, *others)
        times = time.perf_counter() - start, time.process_time() - cpu
        timings.append(Timing(script, cell, degree, name, *times, len(source), **_described(plans.get(source))))
        return built

    # PoCL compiles where its binaries are asked for, which it is where femgpu keeps them.
    patches: list[Any] = [mock.patch.object(module, "render", remembered) for module in (application, planner)]
    patches += [mock.patch.object(program, "build", timed), mock.patch.object(Device, "caches_programs", False)]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield timings


def _described(plan: Plan | None) -> dict[str, Any]:
    """What a Timing says of a plan."""
    if plan is None:
        return {}
    unrolled = ["basis"] * plan.unrolls_basis + ["points"] * getattr(plan, "unrolls_points", False)
    return {
        "plan": str(plan),
        "points": plan.work.num_qpts,
        "point_size": plan.point_size,
        "unrolled": " ".join(unrolled),
    }
