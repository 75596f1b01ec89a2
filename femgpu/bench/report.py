"""Reports of benchmarks: the numbers as CSV and JSON with the versions behind them, and a plot."""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from petsc4py import PETSc

from femgpu.errors import DataError
from femgpu.runtime import Device
from femgpu.version import VERSION

_PACKAGES = ("petsc4py", "pyopencl", "numpy")
# The package, whose commit reports name.
_SOURCES = Path(__file__).parents[1]


class Result(Protocol):
    """What a workload measured: `stem` and `variant` name the files, the others fill them."""

    @property
    def stem(self) -> str:
        """First part of the files' names."""

    @property
    def variant(self) -> str:
        """Last part of the files' names."""

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing."""

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""

    def text(self) -> str:
        """What is printed."""

    def plot(self, path: Path) -> None:
        """Draws the picture."""


@dataclass(frozen=True)
class Timings:
    """What a workload that times plans of one problem measured; part of a `Result`.

    Attributes:
        device: the device in words.
        precision: of the kernels.
        timings: dataclasses with an attribute `problem`, in the order in which they were made.
        refusals: what schedules said that could not.
    """

    device: str
    precision: str
    timings: list[Any]
    refusals: list[str]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return str(self.timings[0].problem)

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return self.precision

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing, for the CSV file."""
        return [{"device": self.device, "precision": self.precision} | asdict(timing) for timing in self.timings]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        timings = [asdict(timing) for timing in self.timings]
        return {"workload": self.stem, "precision": self.precision, "refusals": self.refusals, "timings": timings}


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


def write_report(result: Result, device: Device, folder: Path, picture: bool = True) -> list[Path]:
    """Writes a CSV, a JSON and, where matplotlib is installed, a PNG file named after workload, device and variant.

    Args:
        result: the measurements.
        device: where they were made.
        folder: an existing folder.
        picture: whether the PNG file is wanted.

    Returns:
        The files.
    """
    words = "".join(letter if letter.isalnum() else " " for letter in device.name).lower().split()
    stem = folder / f"{result.stem}-{'-'.join(words)}-{result.variant}"
    files = [stem.with_name(stem.name + suffix) for suffix in (".csv", ".json", ".png")]
    _write_csv(files[0], result)
    files[1].write_text(json.dumps(_known(_record(result, device)), indent=1) + "\n")
    if not picture or find_spec("matplotlib") is None:
        return files[:2]
    result.plot(files[2])
    return files


@cache
def commit() -> str:
    """The commit of the checkout that femgpu is imported from, short, with `+` where its files differ; empty where it is none.

    A copy without git's files, on a node say, is told by the environment: `FEMGPU_COMMIT`.
    """
    if not _git("ls-files", "__init__.py"):
        return os.environ.get("FEMGPU_COMMIT", "")
    return _git("rev-parse", "--short", "HEAD") + "+" * bool(_git("status", "--porcelain", "."))


def _git(*words: str) -> str:
    """What git says in the package's folder; empty where it refuses, or is not there."""
    try:
        said = subprocess.run(["git", *words], cwd=_SOURCES, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()


def _write_csv(path: Path, result: Result) -> None:
    rows = [{"commit": commit()} | row for row in result.rows()]
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
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, "commit": commit(), "device": asdict(device), "versions": versions} | result.record()


def _known(value: Any) -> Any:
    """The same with null for numbers that were not measured."""
    if isinstance(value, dict):
        return {key: _known(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_known(entry) for entry in value]
    return None if value != value else value


def _version(name: str) -> str:
    """Of a package; one that was built with PETSc, say, brings no metadata."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return str(getattr(import_module(name), "__version__", "unknown"))
