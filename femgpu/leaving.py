"""A rank that leaves through an exception ends the others too: they would wait for it for ever.

One that comes to its end without a failure tells the others, which may have work of their own left; where they wait for it in
`femgpu.errors.collective`, they learn that it is gone.

An error is the last thing that a user reads: PETSc does not list below it the options that the program had not come to.

Only where Python runs the program: a program that embeds Python, a prompt and pytest decide for themselves.
"""

from __future__ import annotations

import atexit
import ctypes
import dis
import os
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

# Ranks that fail together leave together, each with its own message and status.
_SECONDS_FOR_OTHERS = 5.0
# The first rank at its end says after this time which ones have not come; an orderly program may have such ranks.
_SECONDS_TO_THE_END = 30.0
_INTERRUPTED = 130
_PROCESS = os.getpid()
_at_end: list[Callable[[], None]] = []
# What is called by Python's own code, which holds no reference.
_held: list[Any] = []
# Modules of Python that run a program; those that measure it take its SystemExit for an end.
_RUNNERS = {"runpy", "cProfile", "profile", "trace"}
# Of the pointer `tp_init` in a PyTypeObject of CPython 3.11.
_TP_INIT = 37 * ctypes.sizeof(ctypes.c_void_p)


def watch() -> None:
    """Looks out for exceptions that end this process, and for its end; called when femgpu is imported."""
    if not sys.orig_argv or "pytest" in sys.modules:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        if sys._getframe().f_back is None:
            quiet()
            _leave(_INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook
    _at_end.append(_end)
    if sys.version_info >= (3, 12):
        _watch_frames()
    else:
        _watch_exit()
    # This is asked for before anything that atexit calls.
    threading._register_atexit(_come_first)  # type: ignore[attr-defined]


def _come_first() -> None:
    """Has what is done at the end done before all else that is asked for: PETSc waits for all ranks there."""
    atexit.register(_at_exit)


def gone(comm: Any) -> list[int]:
    """The ranks of a communicator that have come to their end: a collective call on it waits for them for ever.

    Args:
        comm: an mpi4py communicator.

    Returns:
        Numbers in MPI_COMM_WORLD.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    ranks = comm.group.Translate_ranks(None, world.group)
    return [rank for rank in ranks if rank not in (world.rank, MPI.UNDEFINED) and world.Iprobe(rank, _end_tag(MPI))]


def quiet() -> None:
    """Keeps PETSc from listing, when it ends, the options that nothing has read; whoever asks for the list by -options_left has it.

    For an error that was said: below it the list, of options that the program would have read later, hides what went wrong.
    """
    petsc: Any = sys.modules.get("petsc4py.PETSc")
    if petsc is None or os.getpid() != _PROCESS or hasattr(sys, "ps1") or not petsc.Sys.isInitialized() or petsc.Sys.isFinalized():
        return
    options = petsc.Options()
    if not options.hasName("options_left"):
        options.setValue("options_left", "no")


def _watch_frames() -> None:
    """Looks out for SystemExit, of which no hook tells, where it leaves the program."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  (type checkers of Python 3.11 know no such module)
    event = monitoring.events.PY_UNWIND

    def unwound(code: CodeType, offset: int, error: BaseException) -> None:
        if isinstance(error, SystemExit) and _in_main_thread() and _is_program(sys._getframe(1)):
            if error.__context__ is not None or isinstance(error.code, str):
                quiet()
            _leave(_number(error.code), error.code)

    # The numbers below are those of debuggers, coverage and profilers.
    tool = next((number for number in (3, 4) if monitoring.get_tool(number) is None), None)
    if tool is not None:
        monitoring.use_tool_id(tool, "femgpu")
        monitoring.register_callback(tool, event, unwound)
        monitoring.set_events(tool, event)


def _watch_exit() -> None:
    """As `_watch_frames`, in Python 3.11, where nothing tells that an exception leaves a frame.

    At the end it can be seen that one did, but then Python has dropped it. So the status is that of the last SystemExit made in the
    main thread: `tp_init` of its type notes it. `sys.exit` of Python itself makes none unless somebody looks at it.
    """
    status: list[Any] = [None, False]
    frame: FrameType = sys._getframe()
    while frame.f_back is not None and not _is_program(frame):
        frame = frame.f_back
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
    slot = ctypes.c_void_p.from_address(id(SystemExit) + _TP_INIT)
    address = slot.value
    assert address is not None
    initialise = prototype(address)

    def note(error: SystemExit, arguments: tuple[Any, ...], names: int | None) -> int:
        result = initialise(error, arguments, names)
        if _in_main_thread():
            status[:] = error.code, sys.exc_info()[1] is not None or isinstance(error.code, str)
        return int(result)

    def leave(code: Any = None, /) -> None:
        raise SystemExit(code)

    noting = prototype(note)

    def at_exit() -> None:
        # Python's code can be called no longer.
        slot.value = address
        # The program has come to its end, unless an exception took it from elsewhere.
        if not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):
            if status[1]:
                quiet()
            _leave(_number(status[0]))

    _at_end.insert(0, at_exit)
    _held.append(noting)
    sys.exit = leave  # type: ignore[assignment]
    slot.value = ctypes.cast(noting, ctypes.c_void_p).value


def _is_program(frame: FrameType) -> bool:
    """Whether a frame is that of the program: outside of it there is nothing but what runs it."""
    if _is_runner(frame):
        return False
    outer = frame.f_back
    while outer is not None and _is_runner(outer):
        outer = outer.f_back
    return outer is None


def _is_runner(frame: FrameType) -> bool:
    spec = frame.f_globals.get("__spec__")
    return spec is not None and spec.name in _RUNNERS


def _number(code: Any) -> int:
    """The status of a process that raises SystemExit with a code."""
    return code & 255 if isinstance(code, int) else int(code is not None)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _mpi() -> Any:
    """mpi4py.MPI where this process is one of several ranks, else None; a child that was forked is none."""
    # Where MPI was used, one of these is there; to import mpi4py then starts nothing.
    if os.getpid() != _PROCESS or not {"petsc4py.PETSc", "mpi4py.MPI"} & sys.modules.keys():
        return None
    try:
        from mpi4py import MPI
    except ImportError:
        return None
    return MPI if MPI.Is_initialized() and not MPI.Is_finalized() and MPI.COMM_WORLD.size > 1 else None


def _leave(status: int, text: Any = None) -> None:
    """Ends all ranks, unless they all come here within a while; does nothing on one rank.

    Args:
        status: of the process; 0 is no failure.
        text: what Python prints after this, where it is not a number.
    """
    if not status or hasattr(sys, "ps1") or sys.flags.interactive or not (MPI := _mpi()):
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


def _at_exit() -> None:
    for action in _at_end:
        action()


def _end() -> None:
    """Tells the other ranks that this one has come to its end, and says which ones have not come to theirs after a while.

    It ends nothing: they may compute, and MPI itself waits for them.
    """
    if not (MPI := _mpi()):
        return
    comm, tag, end = MPI.COMM_WORLD, _end_tag(MPI), time.monotonic() + _SECONDS_TO_THE_END
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    told = [comm.Isend(bytearray(1), rank, tag) for rank in others]
    missing = set(others)
    while missing and time.monotonic() < end:
        for rank in [rank for rank in missing if comm.Iprobe(rank, tag)]:
            comm.Recv(bytearray(1), rank, tag)
            missing.remove(rank)
        time.sleep(0.01)
    if missing and comm.rank == min(set(range(comm.size)) - missing):
        ranks = ", ".join(map(str, sorted(missing)))
        print(
            f"rank {comm.rank} has come to its end and waits for rank {ranks}: if those wait for it, in a collective call, end the "
            "program (Ctrl-C), and have all ranks make that call",
            file=sys.stderr,
            flush=True,
        )
    MPI.Request.Testall(told)


def _end_tag(MPI: Any) -> int:
    """The tag of messages that a rank has come to its end."""
    return int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)) - 1
