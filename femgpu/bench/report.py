"""Reports of benchmarks: the numbers as CSV and JSON with the versions behind them, and a plot."""

from __future__ import annotations

import csv
import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from petsc4py import PETSc

from femgpu.bench.ex12 import Result
from femgpu.bench.residual import Timing
from femgpu.errors import DataError
from femgpu.runtime import Device
from femgpu.version import VERSION

_PACKAGES = ("petsc4py", "pyopencl", "numpy")
# Curves in a plot: more are unreadable.
_CURVES = 4


def check_folder(name: str) -> Path:
    """Makes the folder of a report, before hours of measuring.

    Raises:
        DataError: when it cannot be made.
    """
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"--out {name}: cannot make this folder ({error}); name another") from None
    return folder


def write_report(result: Result, device: Device, folder: Path) -> list[Path]:
    """Writes a CSV, a JSON and, where matplotlib is installed, a PNG file named after workload, device and precision.

    Args:
        result: the measurements.
        device: where they were made.
        folder: an existing folder.

    Returns:
        The files.
    """
    words = "".join(letter if letter.isalnum() else " " for letter in device.name).lower().split()
    stem = folder / f"ex12-{'-'.join(words)}-{result.dim}d-{result.precision}"
    files = [stem.with_name(stem.name + suffix) for suffix in (".csv", ".json", ".png")]
    _write_csv(files[0], result)
    files[1].write_text(json.dumps(_record(result, device), indent=1) + "\n")
    if find_spec("matplotlib") is None:
        return files[:2]
    _plot(files[2], result)
    return files


def _write_csv(path: Path, result: Result) -> None:
    rows = result.rows()
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _record(result: Result, device: Device) -> dict[str, Any]:
    versions = {name: _version(name) for name in _PACKAGES}
    versions |= {
        "femgpu": VERSION,
        "petsc": ".".join(map(str, PETSc.Sys.getVersion())),
        "python": platform.python_version(),
    }
    return {
        "workload": "ex12",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": asdict(device),
        "versions": versions,
        "precision": result.precision,
        "dim": result.dim,
        "copy_bytes_per_second": result.bandwidth,
        "beta_bound_flops_per_second": result.bound,
        "timings": [_entry(timing) for timing in result.timings],
    }


def _version(name: str) -> str:
    """Of a package; one that was built with PETSc, say, brings no metadata."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return str(getattr(import_module(name), "__version__", "unknown"))


def _entry(timing: Timing) -> dict[str, Any]:
    """A timing as JSON has it: null stands for a number that was not measured."""
    values = asdict(timing) | {"GFs": timing.gflops, "GBs": timing.gbytes}
    return {key: None if value != value else value for key, value in values.items()}


def _plot(path: Path, result: Result) -> None:
    """GF/s against blocks for the numbers of batches that reach the highest rates, with the model's bound."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for batches, timings in _best_batches(result):
        blocks, rates = [t.num_blocks for t in timings], [t.gflops for t in timings]
        axes.plot(blocks, rates, "o-", label=f"transposed, {batches} batches")
    for what, label, color in (("evector", "cell", "tab:olive"), ("fused", "cell, fused on L-vectors", "tab:grey")):
        rate = result.best(what, blocked=False).gflops
        axes.axhline(rate, linestyle=":", color=color, label=f"{label}: {rate:.0f}")
    axes.axhline(result.bound / 1e9, linestyle="--", color="black", label=f"beta-model bound: {result.bound / 1e9:.0f}")
    axes.set(xlabel="blocks per batch", ylabel="GF/s", ylim=(0, None))
    title = f"ex12, P1 {result.dim}D, one point, {result.precision}, {result.timings[0].cells} cells"
    axes.set_title(f"{title}\n{result.device}", fontsize=8)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def _best_batches(result: Result) -> list[tuple[int, list[Timing]]]:
    """Numbers of batches with their timings in order of the blocks, best first."""
    curves: dict[int, list[Timing]] = {}
    for timing in sorted(result.timings, key=lambda t: t.num_blocks):
        if timing.what == "evector" and timing.num_blocks:
            curves.setdefault(timing.num_batches, []).append(timing)
    ranked = sorted(curves.items(), key=lambda entry: -max(t.gflops for t in entry[1]))
    return ranked[:_CURVES]
