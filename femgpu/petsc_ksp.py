"""The functions of libpetsc about KSP and PC that petsc4py lacks, as in `petsc_c`."""

from __future__ import annotations

from ctypes import CDLL, byref, c_bool, c_int, c_void_p, cast
from typing import Any, NamedTuple

from petsc4py import PETSc

from femgpu.petsc_c import call, declare

declare(
    {
        "KSPSetSupportedNorm": [c_void_p, c_int, c_int, c_int],
        "KSPGetMonitorContext": [c_void_p, c_void_p],
        "KSPOrthogonalizationGet": [c_void_p, c_void_p],
        "KSPOrthogonalizationGetCGSRefinementType": [c_void_p, c_void_p],
        "PCPostSolve": [c_void_p, c_void_p],
        "PCReduceFailedReason": [c_void_p],
        "PCGetReusePreconditioner": [c_void_p, c_void_p],
        "PCJacobiGetType": [c_void_p, c_void_p],
        "PCJacobiGetUseAbs": [c_void_p, c_void_p],
        "PCJacobiGetFixDiagonal": [c_void_p, c_void_p],
    }
)
_MODIFIED = cast(CDLL(PETSc.__file__).KSPOrthogonalizationModifiedGramSchmidt, c_void_p).value
_NORMS = (
    PETSc.KSP.NormType.NONE,
    PETSc.KSP.NormType.PRECONDITIONED,
    PETSc.KSP.NormType.UNPRECONDITIONED,
    PETSc.KSP.NormType.NATURAL,
)
_SIDES = (PETSc.PC.Side.LEFT, PETSc.PC.Side.RIGHT, PETSc.PC.Side.SYMMETRIC)
# Values of KSPOrthogonalizationCGSRefinementType.
_REFINEMENTS = ("never", "needed", "always")


class JacobiOptions(NamedTuple):
    """What a PC of type jacobi does to a diagonal.

    Attributes:
        diagonal: whether it takes the diagonal, not sums or maxima of rows.
        absolute: takes absolute values.
        fix_zeros: puts 1 in place of zero.
    """

    diagonal: bool
    absolute: bool
    fix_zeros: bool


def leave_solve(ksp: PETSc.KSP) -> None:
    """Tells the preconditioner of a KSPSolve that failed in the middle that it is over: it refuses the third without an end."""
    call("PCPostSolve", ksp.getPC().handle, ksp.handle)


def support_norms(ksp: PETSc.KSP, priorities: dict[tuple[Any, Any], int]) -> None:
    """Says which pairs of a norm and a side of the preconditioner a python KSP computes, with what priority; no others."""
    for norm in _NORMS:
        for side in _SIDES:
            call("KSPSetSupportedNorm", ksp.handle, int(norm), int(side), priorities.get((norm, side), 0))


def has_monitor(ksp: PETSc.KSP) -> bool:
    """Whether norms are monitored, by python or by what the options set."""
    context = c_void_p()
    call("KSPGetMonitorContext", ksp.handle, byref(context))
    return bool(context.value) or bool(ksp.getMonitor())


def orthogonalisation(ksp: PETSc.KSP) -> tuple[bool, str]:
    """Whether Gram-Schmidt is the modified one, and when the classical one has a second pass: `never`, `needed` or `always`."""
    function, refinement = c_void_p(), c_int()
    call("KSPOrthogonalizationGet", ksp.handle, byref(function))
    call("KSPOrthogonalizationGetCGSRefinementType", ksp.handle, byref(refinement))
    return function.value == _MODIFIED, _REFINEMENTS[refinement.value]


def has_failed(pc: PETSc.PC) -> bool:
    """Whether the set-up of a preconditioner failed on any rank; collective."""
    call("PCReduceFailedReason", pc.handle)
    return bool(pc.getFailedReason())


def is_reused(pc: PETSc.PC) -> bool:
    """Whether a preconditioner stays as it is when its matrix changes."""
    found = c_bool()
    call("PCGetReusePreconditioner", pc.handle, byref(found))
    return found.value


def jacobi_options(pc: PETSc.PC) -> JacobiOptions:
    """What a PC of type jacobi does."""
    kind, absolute, fix_zeros = c_int(), c_bool(), c_bool()
    call("PCJacobiGetType", pc.handle, byref(kind))
    call("PCJacobiGetUseAbs", pc.handle, byref(absolute))
    call("PCJacobiGetFixDiagonal", pc.handle, byref(fix_zeros))
    return JacobiOptions(kind.value == 0, absolute.value, fix_zeros.value)
