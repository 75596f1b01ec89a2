"""How a solve by PETSc ended: the reason by name, and femgpu's own errors out of PETSc's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from petsc4py import PETSc

from femgpu.errors import FemgpuError


@contextmanager
def own_errors() -> Iterator[None]:
    """Lets femgpu's exceptions in PETSc's callbacks come out as themselves, not as the cause of a PETSc.Error."""
    try:
        yield
    except PETSc.Error as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, FemgpuError):
            cause = cause.__cause__
        if cause is None:
            raise
        raise cause from None


def outcome(snes: PETSc.SNES) -> str:
    """How the last nonlinear and linear solve ended."""
    ksp = snes.getKSP()
    return (
        f"{reason_name(snes)} after {snes.getIterationNumber()} iterations, residual norm {snes.getFunctionNorm():.6e}; last "
        f"linear solve: {reason_name(ksp)} after {ksp.getIterationNumber()} iterations"
    )


def precision_hint(precision: str, prefix: str) -> str:
    """What to say of a solve that failed, where the kernels compute in another precision than double."""
    if precision == "double":
        return ""
    return (
        f"; the kernels compute in single precision (-femgpu_precision {precision}): residuals fall by about six orders of "
        f"magnitude at most, so ask for -{prefix}snes_rtol 1e-6 or larger"
    )


def reason_name(solver: PETSc.Object) -> str:
    """PETSc's name of the reason why a SNES, KSP or TS ended."""
    kind, reason = type(solver).__name__, solver.getConvergedReason()
    names = [name for name, value in vars(type(solver).ConvergedReason).items() if value == reason and name.isupper()]
    return f"{kind}_{names[0]}" if names else f"{kind} reason {reason}"
