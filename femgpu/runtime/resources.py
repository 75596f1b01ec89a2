"""What a compiler's log says that a kernel takes of a device: registers, and what it spills of them to memory.

NVIDIA's says so with `-cl-nv-verbose`; PoCL's says nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# The lines about a kernel: where it begins, functions that it calls among them, the kernel itself last.
_SAID = re.compile(
    r"Compiling entry function '(?P<entry>\w+)'"
    r"|Function properties for (?P<function>\w+)"
    r"|(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r"|Used (?P<registers>\d+) registers"
)


@dataclass(frozen=True)
class Resources:
    """What an item of a kernel takes.

    Attributes:
        registers: how many.
        stack_bytes: of its frame in memory, which spilled registers are part of.
        spill_store_bytes: that it writes there for want of registers.
        spill_load_bytes: that it reads back.
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def parse_log(log: str) -> dict[str, Resources]:
    """The kernels of a program, by name, as far as the log of its compiler has their numbers.

    Of functions that a kernel calls the largest numbers count as its own.
    """
    found: dict[str, Resources] = {}
    name, frames = "", list[tuple[int, ...]]()
    for match in _SAID.finditer(log):
        if match["entry"]:
            name, frames = match["entry"], []
        elif match["function"]:
            name = name or match["function"]
        elif match["stack"]:
            frames.append(tuple(int(match[word]) for word in ("stack", "stores", "loads")))
        else:
            if name and frames:
                found[name] = Resources(int(match["registers"]), *map(max, zip(*frames, strict=True)))
            name, frames = "", []
    return found


def read_log(path: Path) -> str:
    """The log that is kept in a file; empty where none is, or it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
