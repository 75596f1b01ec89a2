"""Solves from zero without the zeros that PETSc writes beforehand."""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc


class ZeroGuess:
    """Base of python PCs that work on device buffers.

    KSPSolve sets a solution to zero that no guess is in. femgpu's Krylov methods, which count it as zero and write it as a whole,
    need no such pass of the host: 7 ms for 73 MB, where the solve takes 50. PETSc asks the PC first, which says that there is a
    guess, and tells the method, by its attribute `from_zero`, that there is none.
    """

    # Whether PETSc was told so for the solve that is going on.
    _spares = False

    def preSolve(self, pc: PETSc.PC, ksp: PETSc.KSP, b: PETSc.Vec, x: PETSc.Vec) -> None:  # noqa: N802
        """Before the zeros."""
        method = _method(ksp)
        # A method that was told and did not begin has left PETSc's flag as it was made here.
        zero = method is not None and (method.from_zero or not ksp.getInitialGuessNonzero())
        self._spares = zero and not ksp.getInitialGuessKnoll()
        if self._spares:
            method.from_zero = True
            ksp.setInitialGuessNonzero(True)

    def postSolve(self, pc: PETSc.PC, ksp: PETSc.KSP, b: PETSc.Vec, x: PETSc.Vec) -> None:  # noqa: N802
        """Makes PETSc's flag what it was, which KSPSolve has kept over the solve."""
        if self._spares:
            self._spares = False
            ksp.setInitialGuessNonzero(False)


def _method(ksp: PETSc.KSP) -> Any:
    """The context of a KSP of femgpu's, None of others."""
    context = ksp.getPythonContext() if ksp.getType() == PETSc.KSP.Type.PYTHON else None
    return context if hasattr(context, "from_zero") else None
