"""What a device does at most, measured once and stored: the command `femgpu roofline`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from rich import console, table

from femgpu import options, runtime
from femgpu.errors import BuildError, FemgpuError
from femgpu.kernels import MAD_VECTORS, roofline_kernels
from femgpu.progress import progress
from femgpu.runtime import Device, Kernel, Runtime
from femgpu.runtime.costs import commands, host_seconds
from femgpu.runtime.rates import copy_bandwidth, host_bandwidths, local_bandwidth

# Bytes that copies move, read and written: from the smallest on each has four times as many, on a GPU and else.
_LEAST, _MOST = 1 << 14, (1 << 27, 1 << 32)
# Bytes of a transfer to or from the host.
_HOST = 1 << 26
# Items of a work-group; for each compute unit of a GPU, and of all of a CPU.
_GROUP, _GPU_ITEMS, _CPU_ITEMS = 256, 8192, 4096
# Multiply-adds of vectors of 8 between two looks at the rounds, rounds, adds of an item.
_STEPS, _ROUNDS, _ADDS = 16, 128, 32
# Addresses that items add to where they share them, and of a GPU and else where they do not.
_SHARED, _SPREAD = 1024, (1 << 20, 1 << 25)
_REPETITIONS = 10
# Matrix instructions: rows, and what their rate is called.
_MATRIX_ROWS, _MATRIX = (8, 16), "matrix instructions of {} rows, double"


@dataclass(frozen=True)
class Rate:
    """One thing that was measured.

    Attributes:
        what: a device does.
        bytes: that a copy moves; 0 where the size is nobody's choice.
        value: how much of it.
        unit: of that: "B/s", "flop/s", "1/s", "s".
    """

    what: str
    bytes: int
    value: float
    unit: str

    def __str__(self) -> str:
        """The value with its unit."""
        factor, prefix = (1e6, "u") if self.unit == "s" else (1e-12, "T") if self.value >= 1e12 else (1e-9, "G")
        return f"{factor * self.value:.3g} {prefix}{self.unit.replace('1/s', 'adds/s')}"


@dataclass(frozen=True)
class Result:
    """What was measured, now or earlier.

    Attributes:
        device: the device in words.
        rates: in the order in which they were measured.
        stored: whether they were measured earlier.
    """

    device: str
    rates: tuple[Rate, ...]
    stored: bool

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "roofline"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return "ceilings"

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per rate, for the CSV file."""
        return [{"on": self.device} | asdict(rate) for rate in self.rates]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {"workload": "roofline", "rates": [asdict(rate) for rate in self.rates]}

    def text(self) -> str:
        """A table."""
        view = table.Table("", "moves", "reaches", title=f"{self.device}{' (measured earlier)' * self.stored}")
        for rate in self.rates:
            view.add_row(rate.what, f"{rate.bytes / 1e6:.3g} MB" if rate.bytes else "", str(rate))
        shown = console.Console(width=100)
        with shown.capture() as capture:
            shown.print(view)
        return capture.get()

    def plot(self, path: Path) -> None:
        """Bandwidths against the size of a copy, and the roofs over flops per byte."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        copies = [rate for rate in self.rates if rate.what == "copy"]
        left.loglog([rate.bytes for rate in copies], [rate.value / 1e9 for rate in copies], "o-", label="copy")
        intensities = [2.0**power for power in range(-4, 9)]
        for number, rate in enumerate(self.rates):
            if rate.unit == "B/s" and rate.what != "copy":
                left.axhline(rate.value / 1e9, label=rate.what, color=f"C{number}", linestyle="--")
            if rate.unit == "flop/s":
                roof = [min(rate.value, copies[-1].value * intensity) / 1e9 for intensity in intensities]
                right.loglog(intensities, roof, label=rate.what)
        left.set(xlabel="bytes read and written", ylabel="GB/s")
        right.set(xlabel="flops per byte of global memory", ylabel="GF/s")
        for axes in (left, right):
            axes.legend(fontsize=7)
        figure.suptitle(self.device, fontsize=8)
        figure.savefig(path, dpi=120)


def run(again: bool = False) -> tuple[Result, Device]:
    """The ceilings of this process's device: those that are stored, else measured and stored.

    Args:
        again: whether to measure although there are stored ones.

    Returns:
        What was measured, and on which device.

    Raises:
        FemgpuError: on several ranks.
    """
    if MPI.COMM_WORLD.size > 1:
        raise FemgpuError(f"roofline on {MPI.COMM_WORLD.size} ranks: expected one; it measures a device that works alone")
    chosen = runtime.for_comm(options.read().device, MPI.COMM_WORLD)
    device, record = chosen.device, None if again else chosen.device.stored_rates()
    if record is not None:
        return Result(str(device), tuple(Rate(**entry) for entry in record["rates"]), True), device
    rates = measure(chosen)
    device.store_rates({"rates": [asdict(rate) for rate in rates], "ceiling": ceiling(rates)})
    return Result(str(device), rates, False), device


def ceiling(rates: tuple[Rate, ...]) -> dict[str, float | bool]:
    """What models compare: see `Ceiling`. Copies count by the largest, which no cache holds."""
    best = {rate.what: rate.value for rate in rates}
    matrix = max(_MATRIX_ROWS, key=lambda rows: best.get(_MATRIX.format(rows), 0.0))
    return {
        "double": best["multiply-adds, double"],
        "single": best["multiply-adds, single"],
        "copy": best["copy"],
        "mma": matrix if best.get(_MATRIX.format(matrix), 0.0) > best["multiply-adds, double"] else 0,
    }


def measure(chosen: Runtime) -> tuple[Rate, ...]:
    """Measures everything, on a device that does nothing else, in at most 20 seconds."""
    probes: list[Callable[[], list[Rate]]] = [partial(_copy, chosen, size) for size in _sizes(chosen)]
    probes += [partial(probe, chosen) for probe in (_local, _arithmetic, _matrix, _atomics, _launch, _host)]
    found: list[Rate] = []
    with progress(MPI.COMM_WORLD, "roofline", 0, len(probes)) as advance:
        for number, probe in enumerate(probes):
            found += probe()
            advance(number + 1)
    return tuple(found)


def _sizes(chosen: Runtime) -> list[int]:
    """What copies move, by powers of 4, as far as the device's buffers go."""
    most = min(_MOST[chosen.device.is_gpu], chosen.device.max_alloc_bytes, chosen.available_bytes // 4)
    return [_LEAST << power for power in range(0, 64, 2) if _LEAST << power <= most]


def _copy(chosen: Runtime, size: int) -> list[Rate]:
    return [Rate("copy", size, copy_bandwidth(chosen, size), "B/s")]


def _local(chosen: Runtime) -> list[Rate]:
    return [Rate("local memory", 0, local_bandwidth(chosen), "B/s")]


def _items(chosen: Runtime) -> int:
    return _GPU_ITEMS * max(1, chosen.device.units) if chosen.device.is_gpu else _CPU_ITEMS


def _arithmetic(chosen: Runtime) -> list[Rate]:
    """A multiplication and an addition of each number of each item in each step."""
    found = []
    for what, ctype in (("double", "double"), ("single", "float")):
        seconds = _seconds(chosen, roofline_kernels(ctype, _STEPS, _ADDS), "multiply_add", _ROUNDS, 8)
        flops = 2 * 8 * MAD_VECTORS[ctype] * _STEPS * _ROUNDS * _items(chosen)
        found.append(Rate(f"multiply-adds, {what}", 0, flops / seconds, "flop/s"))
    return found


def _matrix(chosen: Runtime) -> list[Rate]:
    """Eight products of 8 or 16 x 4 and 4 x 8 matrices for 32 items in each step, where the driver knows such instructions."""
    found = []
    for rows in _MATRIX_ROWS if chosen.device.is_nvidia else ():
        try:
            seconds = _seconds(chosen, roofline_kernels("double", _STEPS, _ADDS, mma=rows), "matrix_multiply_add", _ROUNDS, 8)
        except BuildError:
            continue
        flops = 2 * 8 * rows * 4 * 8 * _STEPS * _ROUNDS * (_items(chosen) // 32)
        found.append(Rate(_MATRIX.format(rows), 0, flops / seconds, "flop/s"))
    return found


def _atomics(chosen: Runtime) -> list[Rate]:
    source, found = roofline_kernels("double", _STEPS, _ADDS, chosen.device.limits.atomics), []
    for what, count in (("spread out", _SPREAD[chosen.device.is_gpu]), (f"to {_SHARED} addresses", _SHARED)):
        seconds = _seconds(chosen, source, "add_atomically", count, 8 * count)
        found.append(Rate(f"atomic adds, double, {what}", 0, _ADDS * _items(chosen) / seconds, "1/s"))
    return found


def _seconds(chosen: Runtime, source: str, name: str, number: int, num_bytes: int) -> float:
    """The shortest launch of a kernel of that program on all items, with a number and a buffer of at least so many bytes."""
    items = _items(chosen)
    out = chosen.empty(max(num_bytes, 8 * items))
    chosen.zero(out, max(num_bytes, 8 * items))
    return Kernel(chosen, source, name, [np.int32(number), out], items, _GROUP).least_seconds(_REPETITIONS)


def _launch(chosen: Runtime) -> list[Rate]:
    """Host time to hand over a launch, and until it is done when it is waited for."""
    launch = commands(chosen)["Launch()"]

    def wait() -> None:
        launch()
        chosen.finish()

    return [
        Rate("launch", 0, host_seconds(chosen, launch, repetitions=_REPETITIONS), "s"),
        Rate("launch, waited for", 0, host_seconds(chosen, wait, 50, _REPETITIONS), "s"),
    ]


def _host(chosen: Runtime) -> list[Rate]:
    rates = zip(("to the device", "from the device"), host_bandwidths(chosen, _HOST), strict=True)
    return [Rate(f"{what}, pinned", _HOST, rate, "B/s") for what, rate in rates]
