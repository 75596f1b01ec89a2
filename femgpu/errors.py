"""Exceptions of femgpu, and how a failure of one rank becomes the failure of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


class SolverError(FemgpuError):
    """A solver that diverged; names PETSc's reason."""


class QuadratureWarning(UserWarning):
    """The quadrature of an integral is of a lower degree than its integrand asks for, and nobody has said which to take."""


@contextmanager
def collective(comm: Any) -> Iterator[None]:
    """Makes a failure on some ranks a failure on all of them.

    Every rank of the communicator must enter the block. A rank whose block raised re-raises its own exception; the others raise an
    exception of the same class with the message of the lowest failed rank. On several ranks exceptions that are not femgpu's become
    the cause of a FemgpuError, so that all ranks have the same class to catch.

    Args:
        comm: an mpi4py communicator.

    Raises:
        FemgpuError: on all ranks, when the block of any rank raised.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    if comm.size > 1:
        failed = comm.allgather(None if failure is None else (type(failure).__name__, str(failure)))
        first = next((rank for rank, entry in enumerate(failed) if entry is not None), None)
        if first is not None and failure is None:
            name, message = failed[first]
            kind = globals().get(name, FemgpuError)
            if not (isinstance(kind, type) and issubclass(kind, FemgpuError)):
                kind = FemgpuError
            raise kind(f"rank {first}: {message}")
    if failure is None:
        return
    if comm.size > 1 and not isinstance(failure, FemgpuError):
        raise FemgpuError(f"{type(failure).__name__}: {failure}") from failure
    raise failure


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


def petsc_words(error: Exception) -> str:
    """What PETSc says about an error of its own, without the stack of calls before it."""
    lines = [line.partition("] ")[2] for line in str(error).splitlines() if line.startswith("[")]
    told = [line for line in lines if line and "() at " not in line]
    return ": ".join(told[-2:]).strip() or str(error)
