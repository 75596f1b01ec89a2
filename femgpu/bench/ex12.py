"""Workload ex12: the variable-coefficient Poisson residual of paper 004 on P1 cells with one point.

Blocks and batches are swept for schedule `transposed` on E-vectors, as in the paper's table; the share of the beta model's bound
is taken with the copy bandwidth measured in the same run. Schedule `cell` and the fused kernels on L-vectors are timed besides.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc
from rich.progress import track

from femgpu import mesh
from femgpu.bench.residual import ResidualBench, Timing
from femgpu.operators.arrays import real_type
from femgpu.runtime.rates import peak_bandwidth
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Function, FunctionSpace

BLOCKS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
BATCHES = (16, 20, 24, 28, 32, 36)
# Curves in a plot: more are unreadable.
_CURVES = 4


@dataclass(frozen=True)
class Result:
    """What the workload measured.

    Attributes:
        device: the device in words.
        precision: of the kernels.
        dim: of the cells.
        bandwidth: bytes per second of a copy.
        bound: flops per second of the beta model.
        timings: all timed kernels.
    """

    device: str
    precision: str
    dim: int
    bandwidth: float
    bound: float
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "ex12"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return f"{self.dim}d-{self.precision}"

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {
            "workload": "ex12",
            "precision": self.precision,
            "dim": self.dim,
            "copy_bytes_per_second": self.bandwidth,
            "beta_bound_flops_per_second": self.bound,
            "timings": [asdict(timing) | {"GFs": timing.gflops, "GBs": timing.gbytes} for timing in self.timings],
        }

    def plot(self, path: Path) -> None:
        """GF/s against blocks for the numbers of batches that reach the highest rates, with the model's bound."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for batches, timings in self._best_batches():
            blocks, rates = [t.num_blocks for t in timings], [t.gflops for t in timings]
            axes.plot(blocks, rates, "o-", label=f"transposed, {batches} batches")
        for what, label, color in (("evector", "cell", "tab:olive"), ("fused", "cell, fused on L-vectors", "tab:grey")):
            rate = self.best(what, blocked=False).gflops
            axes.axhline(rate, linestyle=":", color=color, label=f"{label}: {rate:.0f}")
        axes.axhline(self.bound / 1e9, linestyle="--", color="black", label=f"beta-model bound: {self.bound / 1e9:.0f}")
        axes.set(xlabel="blocks per batch", ylabel="GF/s", ylim=(0, None))
        title = f"ex12, P1 {self.dim}D, one point, {self.precision}, {self.timings[0].cells} cells"
        axes.set_title(f"{title}\n{self.device}", fontsize=8)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=120)

    def _best_batches(self) -> list[tuple[int, list[Timing]]]:
        """Numbers of batches with their timings in order of the blocks, best first."""
        curves: dict[int, list[Timing]] = {}
        for timing in sorted(self.timings, key=lambda t: t.num_blocks):
            if timing.what == "evector" and timing.num_blocks:
                curves.setdefault(timing.num_batches, []).append(timing)
        ranked = sorted(curves.items(), key=lambda entry: -max(t.gflops for t in entry[1]))
        return ranked[:_CURVES]

    def share(self, timing: Timing) -> float:
        """Rate over the model's bound."""
        return timing.gflops * 1e9 / self.bound

    def best(self, what: str, blocked: bool) -> Timing:
        """The fastest kernel of a kind."""
        return min((t for t in self.timings if t.what == what and bool(t.num_blocks) == blocked), key=lambda t: t.median)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        common = {
            "device": self.device,
            "precision": self.precision,
            "dim": self.dim,
            "copy_GBs": round(self.bandwidth / 1e9, 1),
        }
        rows = []
        for timing in self.timings:
            values = asdict(timing) | {"GFs": round(timing.gflops, 1), "GBs": round(timing.gbytes, 1)}
            rows.append(common | values | {"share_of_beta_bound": round(self.share(timing), 4)})
        return rows

    def text(self) -> str:
        """The blocks x batches table of the paper and the best of each kind."""
        lines = [
            f"ex12: P1, {self.dim}D, one point, {self.precision}, {self.timings[0].cells} cells on {self.device}",
            f"copies at {self.bandwidth / 1e9:.0f} GB/s, beta-model bound {self.bound / 1e9:.0f} GF/s",
            "GF/s of schedule transposed on E-vectors, blocks down, batches across",
            "      " + "".join(f"{batches:8d}" for batches in BATCHES),
        ]
        found = {(t.num_blocks, t.num_batches): t for t in self.timings if t.what == "evector" and t.num_blocks}
        for blocks in sorted({key[0] for key in found}):
            lines.append(f"{blocks:6d}" + "".join(f"{found[blocks, batches].gflops:8.0f}" for batches in BATCHES))
        for what, blocked in (("evector", True), ("evector", False), ("fused", True), ("fused", False)):
            timing = self.best(what, blocked)
            lines.append(
                f"best {what:8s} {'transposed' if blocked else 'cell':10s}: {timing.gflops:8.0f} GF/s, {timing.gbytes:6.0f} GB/s, "
                f"{100 * self.share(timing):5.1f} % of the bound"
                + (f" ({timing.num_blocks} blocks, {timing.num_batches} batches)" if blocked else "")
            )
        return "\n".join(lines)


def run(cells: float = 1.6e7, precision: str = "single", dim: int = 2, blocks: tuple[int, ...] = BLOCKS) -> Result:
    """Runs the workload on this process's device.

    Args:
        cells: least number of cells.
        precision: of the kernels.
        dim: 2 (triangles) or 3 (tetrahedra).
        blocks: blocks of the sweep.

    Returns:
        The timings, each checked against the numpy twin.
    """
    bench = ResidualBench(_problem(cells, precision, dim))
    settings, runtime = bench.problem.settings, bench.runtime
    bandwidth = peak_bandwidth(runtime)
    beta = replace(bench.beta, word=np.dtype(real_type(precision)).itemsize)
    timings = []
    plans = [(count, batches) for count in blocks for batches in BATCHES]
    for count, batches in track(plans, description="ex12", transient=True):
        blocked = replace(settings, schedule=f"transposed:blocks={count},batches={batches}")
        timings.append(bench.evector(blocked))
        if batches == BATCHES[0]:
            timings += [bench.fused(replace(blocked, geometry=geometry)) for geometry in ("stored", "recomputed")]
    for group in (64, 128, 256):
        plain = replace(settings, schedule=f"cell:group_size={group}")
        timings.append(bench.evector(plain))
        timings += [bench.fused(replace(plain, geometry=geometry)) for geometry in ("stored", "recomputed")]
    return Result(str(runtime.device), precision, dim, bandwidth, beta.bound(bandwidth), timings)


def _problem(cells: float, precision: str, dim: int) -> NonlinearProblem:
    """The residual of -div(nu grad u) + 4 = 0 with nu constant per cell, at a rough state."""
    per_box = 2 if dim == 2 else 6
    faces = int(np.ceil((cells / per_box) ** (1 / dim)))
    dm = mesh.box((faces,) * dim, cell="triangle" if dim == 2 else "tetrahedron")
    space = FunctionSpace(dm, "Lagrange", 1)
    u, nu = Function(space), Function(FunctionSpace(dm, "DG", 0), name="nu")
    generator = np.random.default_rng(12)
    for function in (u, nu):
        function.vec.setArray(1 + generator.random(function.vec.getLocalSize()))
    v = ufl.TestFunction(space)
    database = PETSc.Options()
    database.setValue("ex12_femgpu_precision", precision)
    database.setValue("ex12_petscfe_default_quadrature_order", 0)
    residual = nu * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx + 4 * v * ufl.dx
    return NonlinearProblem(residual, u, options_prefix="ex12_")
