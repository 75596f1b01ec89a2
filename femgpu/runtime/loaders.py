"""The OpenCL loaders in this process: pyopencl's wheel brings one, libpetsc is linked to another."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# What loaders go by; the first is a folder of .icd files, the second a list of drivers. Not every loader reads both.
VARIABLES = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")


def loaders() -> list[tuple[str, int]]:
    """Path of each loader in this process and the number of platforms that it finds; empty where nothing tells."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    paths = sorted({line.split()[-1] for line in maps.splitlines() if "libOpenCL" in line})
    return [(path, _count_platforms(path)) for path in paths]


def variables() -> dict[str, str]:
    """The variables that steer loaders, those that are set."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def _count_platforms(path: str) -> int:
    count = ctypes.c_uint(0)
    try:
        code = ctypes.CDLL(path).clGetPlatformIDs(0, None, ctypes.byref(count))
    except (OSError, AttributeError):
        return 0
    return count.value if code == 0 else 0
