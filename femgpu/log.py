"""PETSc log events of femgpu, informative messages and printing on the first rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Imported where it is used: `femgpu doctor` looks at OpenCL also where petsc4py does not load.
    from petsc4py import PETSc

EVENTS = ("FGResidual", "FGJacAction", "FGMatrix", "FGHalo", "FGBuild", "FGTune", "FGTransfer")


@cache
def _log() -> Any:
    from petsc4py import PETSc

    return PETSc.Log


@cache
def _event(name: str) -> Any:
    return _log().Event(name)


class event:  # noqa: N801
    """Times a block under one of `EVENTS` in `-log_view`; costs less than a microsecond where nobody looks.

    Args:
        name: the event.
        flops: floating-point operations that the block does on this rank.
        finish: waits for the device; called at the end where PETSc records events, which else would hold the time of handing
            kernels over and not that of the kernels.
    """

    __slots__ = ("_entry", "_finish", "_flops")

    def __init__(self, name: str, flops: float = 0.0, finish: Callable[[], Any] | None = None):
        self._entry, self._flops, self._finish = _event(name), flops, finish

    def __enter__(self) -> None:
        self._entry.begin()

    def __exit__(self, *error: object) -> None:
        if self._finish is not None and error[0] is None and is_active():
            self._finish()
        if self._flops:
            _log().logFlops(self._flops)
        self._entry.end()


def is_active() -> bool:
    """Whether PETSc records events (`-log_view`)."""
    return bool(_log().isActive())


def show(comm: PETSc.Comm, text: str) -> None:
    """Prints text and a newline on the first rank of the communicator; collective."""
    from petsc4py import PETSc

    PETSc.Sys.Print(text, comm=comm)
