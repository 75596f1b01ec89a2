"""A rank that leaves through an exception ends the others too: they would wait for it for ever.

Only where Python runs the program: a program that embeds Python, a prompt and pytest decide for themselves.
"""

from __future__ import annotations

import atexit
import dis
import sys
import threading
import time
from types import CodeType, FrameType, TracebackType
from typing import Any

# Ranks that fail together leave together, each with its own message and status.
_SECONDS_FOR_OTHERS = 5.0
_INTERRUPTED = 130


def watch() -> None:
    """Looks out for exceptions that end this process; called when femgpu is imported."""
    if not sys.orig_argv or "pytest" in sys.modules:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        if sys._getframe().f_back is None:
            _leave(_INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook
    if sys.version_info >= (3, 12):
        _watch_frames()
    else:
        _watch_exit()


def _watch_frames() -> None:
    """Looks out for SystemExit, of which no hook tells, where it leaves the first frame of the main thread."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  (type checkers of Python 3.11 know no such module)
    event = monitoring.events.PY_UNWIND

    def unwound(code: CodeType, offset: int, error: BaseException) -> None:
        if isinstance(error, SystemExit) and sys._getframe(1).f_back is None and _in_main_thread():
            _leave(_number(error.code), error.code)

    # The numbers below are those of debuggers, coverage and profilers.
    tool = next((number for number in (3, 4) if monitoring.get_tool(number) is None), None)
    if tool is not None:
        monitoring.use_tool_id(tool, "femgpu")
        monitoring.register_callback(tool, event, unwound)
        monitoring.set_events(tool, event)


def _watch_exit() -> None:
    """As `_watch_frames`, in Python 3.11: only the status of `sys.exit` is known there."""
    status: list[Any] = [None]
    frame: FrameType = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back

    def leave(code: Any = None, /) -> None:
        status[0] = code
        raise SystemExit(code)

    def at_exit() -> None:
        # The program has come to its end, unless an exception took it from elsewhere.
        if not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):
            _leave(_number(status[0]))

    sys.exit = leave  # type: ignore[assignment]
    atexit.register(at_exit)


def _number(code: Any) -> int:
    """The status of a process that raises SystemExit with a code."""
    return code & 255 if isinstance(code, int) else int(code is not None)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _leave(status: int, text: Any = None) -> None:
    """Ends all ranks, unless they all come here within a while; does nothing on one rank.

    Args:
        status: of the process; 0 is no failure.
        text: what Python prints after this, where it is not a number.
    """
    # Where MPI was used, one of these is there; to import mpi4py then starts nothing.
    if not status or hasattr(sys, "ps1") or sys.flags.interactive or not {"petsc4py.PETSc", "mpi4py.MPI"} & sys.modules.keys():
        return
    try:
        from mpi4py import MPI
    except ImportError:
        return
    if not MPI.Is_initialized() or MPI.Is_finalized() or MPI.COMM_WORLD.size == 1:
        return
    sys.stdout.flush()
    if not _all_leave(MPI):
        if text is not None and not isinstance(text, int):
            print(text, file=sys.stderr)
        print(f"rank {MPI.COMM_WORLD.rank} leaves with status {status} and ends all ranks", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(status)


def _all_leave(MPI: Any) -> bool:
    """Whether all ranks come here within a while: each tells rank 0, which answers when it knows of all.

    No barrier: a reduction that others wait in can be taken for it.
    """
    comm, tag, end = MPI.COMM_WORLD, MPI.COMM_WORLD.Get_attr(MPI.TAG_UB), time.monotonic() + _SECONDS_FOR_OTHERS
    if comm.rank:
        requests = [comm.Isend(bytearray(1), 0, tag), comm.Irecv(bytearray(1), 0, tag)]
    else:
        requests = [comm.Irecv(bytearray(1), rank, tag) for rank in range(1, comm.size)]
    while not MPI.Request.Testall(requests):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    if not comm.rank:
        MPI.Request.Waitall([comm.Isend(bytearray(1), rank, tag) for rank in range(1, comm.size)])
    return True
