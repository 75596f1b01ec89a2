"""The cases of a workload, one by one under a bar; whoever stops a workload gets the report of what is done."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from mpi4py import MPI
from rich.progress import track

Case = TypeVar("Case")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def each_case(cases: Iterable[Case], description: str, total: int | None = None) -> Iterator[Case]:
    """Yields cases until there are no more, or none after the one under way once somebody asks the process to end.

    Ctrl-C and SIGTERM (of `timeout`, of batch systems) ask for that; the second time they end the process at once, and where it is
    one of several ranks, which would not all stop at the same case.

    Args:
        cases: of the workload.
        description: stands before the bar.
        total: how many there are, if `cases` does not know.
    """
    with _asked() as asked:
        for case in track(cases, description, total, transient=True):
            yield case
            if asked:
                print(f"femgpu: stopped by {asked[0].name}; what follows is of the cases that are done", file=sys.stderr)
                return


@contextmanager
def _asked() -> Iterator[list[signal.Signals]]:
    """The signals that came, in a list: with the second one they do what they did before."""
    came: list[signal.Signals] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(signal.Signals(number))
        restore()

    def restore() -> None:
        for number, handler in before.items():
            # Nobody tells Python what a library has set.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    # Python hears of signals in its main thread only.
    hears = MPI.COMM_WORLD.size == 1 and threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in _SIGNALS if hears}
    try:
        yield came
    finally:
        restore()
