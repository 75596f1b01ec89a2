"""The OpenCL C files that programs are put together from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from femgpu.kernels.array import TYPES

FOLDER = Path(__file__).parent / "cl"


@cache
def source(name: str) -> str:
    """The text of a file in `cl/`."""
    return (FOLDER / name).read_text()


def type_macros(precision: str) -> list[str]:
    """Definitions of REAL, SCALAR and ACCUM."""
    return [f"#define {name} {kind}" for name, kind in zip(("REAL", "SCALAR", "ACCUM"), TYPES[precision], strict=True)]
