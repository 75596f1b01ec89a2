"""Workload launch: what launches, arguments, small copies and whole Jacobian actions cost on the host.

Each is timed on a queue that records times and on one that does not. The actions are those of Poisson's equation on 8 x 8 x 8
hexahedra of degree 1 with Dirichlet rows, where the device has nothing to do and the host sets the pace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc

from femgpu import mesh
from femgpu.runtime import Runtime
from femgpu.runtime.costs import commands, host_seconds
from femgpu.solver import NonlinearProblem
from femgpu.spaces import DirichletBC, Function, FunctionSpace


@dataclass(frozen=True)
class Timing:
    """One kind of command.

    Attributes:
        what: was called.
        us: microseconds of host time per call.
        us_profiling: the same on a queue that records times; NaN where there is none.
    """

    what: str
    us: float
    us_profiling: float


@dataclass(frozen=True)
class Result:
    """What the workload measured.

    Attributes:
        device: the device in words.
        raw: whether launches go to the driver's functions, and not through pyopencl.
        timings: by kind of command.
    """

    device: str
    raw: bool
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "launch"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return "host"

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {"workload": "launch", "driver_called_directly": self.raw, "timings": [asdict(timing) for timing in self.timings]}

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        return [
            {"device": self.device, "what": t.what, "us": round(t.us, 3), "us_profiling": round(t.us_profiling, 3)}
            for t in self.timings
        ]

    def text(self) -> str:
        """A table."""
        lines = [f"microseconds of host time on {self.device}", f"{'':36s}{'':>10s}{'recording':>12s}"]
        lines += [f"{timing.what:36s}{timing.us:10.2f}{timing.us_profiling:12.2f}" for timing in self.timings]
        return "\n".join(lines if self.raw else [*lines, "launches go through pyopencl: the driver's functions were not found"])

    def plot(self, path: Path) -> None:
        """Bars of both queues beside each other."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        places = np.arange(len(self.timings))
        axes.barh(places - 0.2, [timing.us for timing in self.timings], 0.38, label="queue without times")
        axes.barh(places + 0.2, [timing.us_profiling for timing in self.timings], 0.38, label="queue that records times")
        axes.set_yticks(places, [timing.what for timing in self.timings], fontsize=8)
        axes.invert_yaxis()
        axes.set(xlabel="microseconds of host time per call")
        axes.set_title(f"Costs of commands\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)


def problems() -> dict[str, NonlinearProblem]:
    """The problems whose actions are timed, by how they add to the result.

    Their vectors are of the type that `-dm_vec_type` names; they come before anything else makes a context of its own.
    """
    database = PETSc.Options()
    found = {}
    for scatter in ("atomic", "gather"):
        prefix = f"launch_{scatter}_"
        database.setValue(f"{prefix}femgpu_scatter", scatter)
        dm = mesh.box((8, 8, 8), cell="hexahedron")
        dm.setFromOptions()
        V = FunctionSpace(dm, "Lagrange", 1)
        u, v = Function(V), ufl.TestFunction(V)
        residual = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
        found[scatter] = NonlinearProblem(residual, u, [DirichletBC(V, 0.0, 1)], options_prefix=prefix)
    return found


def _actions(problem: NonlinearProblem, scatter: str) -> dict[str, Callable[[], Any]]:
    """The action of a problem between femgpu's own buffers and between vectors."""
    x, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
    problem.linearise(problem.u.vec)
    runtime, device, jacobian = problem.runtime, problem.operator.device, problem.jacobian
    source, target = (runtime.upload(np.ones(x.getLocalSize())) for _ in range(2))
    device.action(source, target)  # builds
    before = runtime.num_launches
    device.action(source, target)
    launches = runtime.num_launches - before
    what = f"action, {scatter}, {launches} launches"
    return {
        f"{what}: buffers": lambda: device.action(source, target),
        f"{what}: {x.getType()} vectors": lambda: jacobian.mult(x, y),
    }


def run(runtime: Runtime, problems: dict[str, NonlinearProblem]) -> Result:
    """Runs the workload on this process's device.

    Args:
        runtime: the device.
        problems: whose actions are timed, see `problems`.

    Returns:
        The timings; only one kind of queue where it is another library's.
    """
    before, found = runtime.profiling, {}
    calls = commands(runtime)
    for scatter, problem in problems.items():
        calls |= _actions(problem, scatter)
    for on in (False, True):
        runtime.profile(on)
        found[runtime.profiling] = {what: host_seconds(runtime, call) for what, call in calls.items()}
    runtime.profile(before)
    kinds = next(iter(found.values()))
    microseconds = [{what: 1e6 * found[on][what] if on in found else np.nan for what in kinds} for on in (False, True)]
    timings = [Timing(what, *(float(times[what]) for times in microseconds)) for what in kinds]
    return Result(str(runtime.device), runtime.calls.raw, timings)
