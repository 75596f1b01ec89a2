"""PETSc log events of femgpu, informative messages and printing on the first rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Imported where it is used: `femgpu doctor` looks at OpenCL also where petsc4py does not load.
    from petsc4py import PETSc

EVENTS = ("FGResidual", "FGJacAction", "FGMatrix", "FGHalo", "FGBuild", "FGTransfer")


@cache
def _event(name: str) -> Any:
    from petsc4py import PETSc

    return PETSc.Log.Event(name)


@contextmanager
def event(name: str, flops: float = 0.0) -> Iterator[None]:
    """Times a block under one of `EVENTS` in `-log_view`.

    Args:
        name: the event.
        flops: floating-point operations that the block does on this rank.
    """
    from petsc4py import PETSc

    entry = _event(name)
    entry.begin()
    try:
        yield
    finally:
        if flops:
            PETSc.Log.logFlops(flops)
        entry.end()


def is_active() -> bool:
    """Whether PETSc records events (`-log_view`)."""
    from petsc4py import PETSc

    return PETSc.Log.isActive()


def show(comm: PETSc.Comm, text: str) -> None:
    """Prints text and a newline on the first rank of the communicator; collective."""
    from petsc4py import PETSc

    PETSc.Sys.Print(text, comm=comm)
