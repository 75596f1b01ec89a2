"""What devices can do at most: measured numbers that models compare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

# What kernels reach of the ceilings, and how much of the shorter of memory traffic and arithmetic does not hide behind the longer.
SHARE_BYTES, SHARE_FLOPS, OVERLAP = 0.85, 0.3, 0.3


@dataclass(frozen=True)
class Ceiling:
    """Ceilings of one kind of device.

    Attributes:
        name: a part of the device's name.
        double: flop/s in double precision.
        single: flop/s in single precision.
        copy: byte/s of a copy, reads and writes counted.
        mma: rows of the tables that its tensor cores take at a time in double precision, 8 or 16; 0: none.
    """

    name: str
    double: float
    single: float
    copy: float
    mma: int = 0

    def seconds(self, num_bytes: float, flops: float, precision: str) -> float:
        """The time that kernels take for so many bytes and operations."""
        arithmetic = self.double if precision == "double" else self.single
        times = (num_bytes / (SHARE_BYTES * self.copy), flops / (SHARE_FLOPS * arithmetic))
        return max(times) + OVERLAP * min(times)


# H200: fused multiply-adds in registers and copies with 16-byte loads, driver 580.
CEILINGS = (
    Ceiling("H200", 33e12, 66e12, 4.2e12, 16),
    Ceiling("H100", 33e12, 66e12, 3.0e12, 16),
    Ceiling("A100", 9.7e12, 19.5e12, 1.7e12, 8),
)
# Devices that are not in the table: a GPU with full and one core of a CPU with its share of memory.
GPU = Ceiling("GPU", 10e12, 20e12, 1.5e12)
CPU = Ceiling("CPU", 2e10, 4e10, 1e10)


def ceiling(name: str, gpu: bool) -> Ceiling:
    """The ceilings of the device with this name, or typical ones."""
    return next((entry for entry in CEILINGS if entry.name in name), GPU if gpu else CPU)


def measured(name: str, record: Mapping[str, float] | None) -> Ceiling | None:
    """The ceilings of a device of which `double`, `single`, `copy` and `mma` were stored; None where that is no such record."""
    double, single, copy = ((record or {}).get(entry, math.nan) for entry in ("double", "single", "copy"))
    if not all(isinstance(number, float) and 0 < number < math.inf for number in (double, single, copy)):
        return None
    rows = (record or {}).get("mma", 0)
    return Ceiling(name, double, single, copy, int(rows) if rows in (8, 16) else 0)
