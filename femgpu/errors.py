"""Exceptions of femgpu, and how a failure of one rank becomes the failure of all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from femgpu import leaving

# After which a rank that waits for others looks whether they are there.
_SECONDS_TO_LOOK = 1.0
# That a message repeats of what it was given.
_MOST_CHARACTERS = 60


class FemgpuError(RuntimeError):
    """Root of all exceptions that femgpu raises; the message names what was given, what was expected and the remedy."""


class OptionError(FemgpuError):
    """An option that does not exist or whose value is not legal."""


class MeshError(FemgpuError):
    """A mesh that cannot be read, or does not hold what the problem asks of it."""


class FormError(FemgpuError):
    """A weak form, or a piece of one, that femgpu does not support."""


class DataError(FemgpuError):
    """Coefficients, boundary values or initial guesses of the wrong shape, or not finite."""


class PlanError(FemgpuError):
    """Parameters of a kernel that contradict each other or exceed the device."""


class DeviceError(FemgpuError):
    """No device, or one that lacks what the problem needs."""


class BuildError(FemgpuError):
    """A kernel that the device's compiler refused; carries its log and the path of the source."""


class KernelError(FemgpuError):
    """A kernel that reads or writes what it must not, found by -femgpu_debug."""


class SolverError(FemgpuError):
    """A solver that diverged; names PETSc's reason."""


class QuadratureWarning(UserWarning):
    """The quadrature of an integral is of a lower degree than its integrand asks for, and nobody has said which to take."""


def alive(handle: Any, what: str) -> Any:
    """A PETSc object that has not been destroyed, whose use would end the process.

    Args:
        handle: the object, with the attribute `handle`.
        what: how the message names it.

    Raises:
        DataError: when it was destroyed, or never created.
    """
    if not handle.handle:
        raise DataError(f"{what} was destroyed, or never created; keep it as long as it is used, or make a new one")
    return handle


def told(thing: Any) -> str:
    """How a message names what was given in place of something else: in a few words, however long its own text is."""
    kind = type(thing).__name__
    if thing is None or isinstance(thing, str | int | float | complex | np.generic):
        text = repr(thing)
        return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."
    if type(thing).__module__.startswith("femgpu.") and isinstance(name := getattr(thing, "name", None), str):
        return f"the {kind} {name}"
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


# What ends a program, and is no error.
_ENDS: dict[str, type[BaseException]] = {"KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit}


@contextmanager
def collective(comm: Any) -> Iterator[None]:
    """Makes a failure on some ranks a failure on all of them.

    Every rank of the communicator must enter the block. A rank whose block raised re-raises its own exception; the others raise an
    exception of the same class with the message of the lowest failed rank. On several ranks exceptions that are not femgpu's become
    the cause of a FemgpuError, so that all ranks have the same class to catch; KeyboardInterrupt and SystemExit, with its exit
    code, stay what they are.

    Args:
        comm: an mpi4py communicator.

    Raises:
        FemgpuError: on all ranks, when the block of any rank raised, or when one of them has come to the end of its program.
        KeyboardInterrupt: on all ranks, when the block of the first that failed did; SystemExit likewise.
    """
    failure: BaseException | None = None
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as error:
        failure = error
    if comm.size > 1:
        try:
            some_failed = meet(comm, failure is not None)
        except FemgpuError as error:
            raise failure or error  # noqa: B904
        failed: list[Any] = comm.allgather(None if failure is None else _told(failure)) if some_failed else []
        first = next((rank for rank, entry in enumerate(failed) if entry is not None), None)
        if first is not None and failure is None:
            name, message = failed[first]
            if name in _ENDS:
                raise _ENDS[name](message)
            kind = globals().get(name, FemgpuError)
            if not (isinstance(kind, type) and issubclass(kind, FemgpuError)):
                kind = FemgpuError
            raise kind(f"rank {first}: {message}")
    if failure is None:
        return
    if comm.size > 1 and not isinstance(failure, FemgpuError | KeyboardInterrupt | SystemExit):
        raise FemgpuError(f"{type(failure).__name__}: {failure}") from failure
    raise failure


def file_path(name: Any) -> Path:
    """The path that a user gave.

    Raises:
        DataError: for what is none.
    """
    if not isinstance(name, str | os.PathLike):
        raise DataError(f"the name of a file is {told(name)}; expected a string or a Path first: femgpu.write('u.vtu', u)")
    return Path(name)


def meet(comm: Any, here: bool = False) -> bool:
    """Waits until all ranks are here: what comes next would wait for ever for one that has come to the end of its program.

    Every collective call of the user's begins with this, by itself or in `collective`.

    Args:
        comm: an mpi4py communicator.
        here: whether something holds on this rank.

    Returns:
        Whether it holds on any rank.

    Raises:
        FemgpuError: when a rank that has come to its end is known, after a while.
    """
    if comm.size == 1:
        return here
    number, total = np.array([here], np.int32), np.empty(1, np.int32)
    request, look = comm.Iallreduce(number, total), time.monotonic() + _SECONDS_TO_LOOK
    while not request.Test():
        if time.monotonic() > look:
            if gone := leaving.gone(comm):
                raise FemgpuError(
                    f"rank {', '.join(map(str, gone))} has come to the end of its program while others make a collective call; "
                    "expected all ranks to make it"
                )
            look += _SECONDS_TO_LOOK
    return bool(total[0])


def agree(comm: Any, what: str, kind: type[FemgpuError] = DataError) -> None:
    """Refuses arguments of a collective call that differ between ranks, which would wait for each other in it; collective.

    Args:
        comm: an mpi4py communicator.
        what: the arguments, for the message.
        kind: the class of the exception.

    Raises:
        FemgpuError: of the class, on all ranks.
    """
    if comm.size == 1:
        return
    meet(comm)
    given = comm.allgather(what)
    if other := next((rank for rank, text in enumerate(given) if text != given[0]), 0):
        raise kind(f"{given[0]} on rank 0, but {given[other]} on rank {other}; expected the same on all ranks")


@contextmanager
def file_errors(path: Path, verb: str) -> Iterator[None]:
    """Makes what the system says against a file a DataError.

    Args:
        path: the file.
        verb: `read` or `write`, what is done with it.

    Raises:
        DataError: when the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        expected = "a writable folder with room" if verb == "write" else "a file that can be read"
        raise DataError(f"cannot {verb} {str(path)!r}: {error.strerror or error}; expected {expected}") from error


@contextmanager
def whole_arrays(what: str, kind: type[FemgpuError]) -> Iterator[None]:
    """Says what to write where a user's function of x asks an array whether it is true; its other exceptions stay.

    Args:
        what: the function, for the message.
        kind: the class of the exception.

    Raises:
        FemgpuError: of the class.
    """
    try:
        yield
    except ValueError as error:
        if "truth value of an array" not in str(error):
            raise
        raise kind(
            f"{what} asks an array whether it is true: x has all points at once, shape (dim, num_points); expected "
            "np.where(x[0] > 0.5, 1.0, 0.0) for `1.0 if x[0] > 0.5 else 0.0`, & and | for `and` and `or`"
        ) from error


def petsc_words(error: Exception) -> str:
    """What PETSc says about an error of its own, without the stack of calls before it."""
    lines = [line.partition("] ")[2] for line in str(error).splitlines() if line.startswith("[")]
    said = [line for line in lines if line and "() at " not in line]
    # For any type that it does not know PETSc says first where packages are explained.
    said = [line for line in said[-2:] if "Check for miss-spelling" not in line] or said[-1:]
    return ": ".join(said).strip() or str(error)


def _told(failure: BaseException) -> tuple[str, Any]:
    """What other ranks hear: the class, and the message or exit code."""
    if isinstance(failure, SystemExit):
        return "SystemExit", failure.code if isinstance(failure.code, int | None) else str(failure.code)
    return "KeyboardInterrupt" if isinstance(failure, KeyboardInterrupt) else type(failure).__name__, str(failure)


def callers() -> int:
    """The `stacklevel` by which `warnings.warn`, called where this is, points at the first line that is not femgpu's."""
    frame, level, passed = sys._getframe(1), 1, (str(Path(__file__).parent), contextmanager.__code__.co_filename)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(passed):
        frame, level = frame.f_back, level + 1
    return level
