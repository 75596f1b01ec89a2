"""A progress bar for long runs: on a terminal, on the first rank, silent otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Runs that end sooner show nothing.
_PATIENCE = 2.0


@contextmanager
def progress(comm: Any, what: str, first: float, length: float) -> Iterator[Callable[[float], None]]:
    """A bar that fills up while the block runs; it appears after two seconds.

    Args:
        comm: PETSc's communicator, or mpi4py's.
        what: stands before the bar.
        first: where the run begins.
        length: from there to the end; huge where the end is not known.

    Yields:
        `advance(place)`, to be called with where the run is.
    """
    if comm.rank > 0 or not sys.stderr.isatty():
        yield lambda place: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=length if length < 1e300 else None)
    start = time.monotonic()

    def advance(place: float) -> None:
        if time.monotonic() - start > _PATIENCE:
            bar.start()
            bar.update(task, completed=place - first)

    try:
        yield advance
    finally:
        bar.stop()
