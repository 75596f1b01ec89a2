"""PETSc log events of femgpu, informative messages and printing on the first rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from petsc4py import PETSc

EVENTS = ("FGResidual", "FGJacAction", "FGMatrix", "FGHalo", "FGBuild", "FGTransfer")


@cache
def _event(name: str) -> PETSc.Log.Event:
    return PETSc.Log.Event(name)


@contextmanager
def event(name: str, flops: float = 0.0) -> Iterator[None]:
    """Times a block under one of `EVENTS` in `-log_view`.

    Args:
        name: the event.
        flops: floating-point operations that the block does on this rank.
    """
    entry = _event(name)
    entry.begin()
    try:
        yield
    finally:
        if flops:
            PETSc.Log.logFlops(flops)
        entry.end()


def show(comm: PETSc.Comm, text: str) -> None:
    """Prints text and a newline on the first rank of the communicator; collective."""
    PETSc.Sys.Print(text, comm=comm)
