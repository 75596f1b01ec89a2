"""Python types of PETSc's KSP over femgpu's own Krylov methods, loadable by name, also from C.

-ksp_type python -ksp_python_type femgpu.CG
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

from femgpu import krylov, petsc_ksp
from femgpu.errors import OptionError
from femgpu.krylov import Vectors
from femgpu.solver.krylov_base import KrylovType, Norm, Side

_BOTH_SIDES = {
    (Norm.PRECONDITIONED, Side.LEFT): 4,
    (Norm.UNPRECONDITIONED, Side.RIGHT): 3,
    (Norm.NONE, Side.LEFT): 1,
    (Norm.NONE, Side.RIGHT): 1,
}


class CG(KrylovType):
    """Conjugate gradients, for symmetric definite operators; in the place of -ksp_type cg."""

    SUPPORTED = KrylovType.SUPPORTED | {(Norm.NATURAL, Side.LEFT): 2}
    FLEXIBLE = False

    def files(self, ksp: PETSc.KSP) -> tuple[str, ...]:
        """Those of `krylov.CG`."""
        return krylov.CG.merged if ksp.getPC().getType() in ("jacobi", "none") else krylov.CG.files

    def make(self, ksp: PETSc.KSP, vectors: Vectors, check: int) -> Any:
        """The method; at set-up."""
        return krylov.CG(vectors, check, self.FLEXIBLE)

    def settings(self, ksp: PETSc.KSP) -> dict[str, Any]:
        """The norm, None where nobody wants one."""
        return {"norm": None if ksp.getNormType() == Norm.NONE else self.norm(ksp)}


class FCG(CG):
    """Flexible conjugate gradients, for a preconditioner that changes; in the place of -ksp_type fcg -ksp_fcg_mmax 1."""

    FLEXIBLE = True


class MINRES(KrylovType):
    """Minimal residuals, for symmetric operators and definite preconditioners; in the place of -ksp_type minres."""

    def files(self, ksp: PETSc.KSP) -> tuple[str, ...]:
        """Those of `krylov.MINRES`."""
        return krylov.MINRES.files

    def make(self, ksp: PETSc.KSP, vectors: Vectors, check: int) -> Any:
        """The method; at set-up."""
        return krylov.MINRES(vectors, check)

    def iterate(self) -> Any:
        """A buffer with the solution so far, for monitors."""
        return self._x


class BiCGStab(KrylovType):
    """Stabilised biconjugate gradients, for any operator, preconditioned on either side; in the place of -ksp_type bcgs."""

    SUPPORTED = _BOTH_SIDES

    def files(self, ksp: PETSc.KSP) -> tuple[str, ...]:
        """Those of `krylov.BiCGStab`."""
        return krylov.BiCGStab.files

    def make(self, ksp: PETSc.KSP, vectors: Vectors, check: int) -> Any:
        """The method; at set-up."""
        return krylov.BiCGStab(vectors, check)

    def settings(self, ksp: PETSc.KSP) -> dict[str, Any]:
        """The side of the preconditioner, which the norm follows."""
        return {"right": ksp.getPCSide() == Side.RIGHT}


class GMRES(BiCGStab):
    """GMRES with restarts, for any operator; in the place of -ksp_type gmres, whose options it reads.

    -ksp_gmres_restart, -ksp_gmres_haptol, -ksp_gmres_breakdown_tolerance, -ksp_orthogonalization,
    -ksp_orthogonalization_cgs_refinement_type; the preconditioner stands on either side.

    Attributes:
        restart: iterations after which the basis is thrown away; takes effect at set-up, as the others do.
        happy: norm of a new direction below which the solution counts as exact.
        breakdown: relative change of the residual at a restart that counts as breakdown.
    """

    FLEXIBLE = False

    def __init__(self) -> None:
        super().__init__()
        self.restart, self.happy, self.breakdown = 30, 1e-30, 0.1

    def setFromOptions(self, ksp: PETSc.KSP) -> None:  # noqa: N802
        """Reads PETSc's options of GMRES.

        Raises:
            OptionError: for a restart after less than one iteration.
        """
        prefix = ksp.getOptionsPrefix() or ""
        options = PETSc.Options(prefix)
        self.restart = options.getInt("ksp_gmres_restart", self.restart)
        if self.restart < 1:
            raise OptionError(f"-{prefix}ksp_gmres_restart {self.restart}: expected an integer of at least 1")
        self.happy = options.getReal("ksp_gmres_haptol", self.happy)
        self.breakdown = options.getReal("ksp_gmres_breakdown_tolerance", self.breakdown)

    def files(self, ksp: PETSc.KSP) -> tuple[str, ...]:
        """Those of `krylov.GMRES`."""
        return krylov.GMRES.files

    def make(self, ksp: PETSc.KSP, vectors: Vectors, check: int) -> Any:
        """The method; at set-up."""
        self._modified, self._refinement = petsc_ksp.orthogonalisation(ksp)
        breakdown = None if self.FLEXIBLE else self.breakdown
        settings = (self.FLEXIBLE, self._modified, self._refinement, self.happy, breakdown)
        return krylov.GMRES(vectors, self.restart, check, *settings)

    def summary(self) -> str:
        """What -ksp_view says of the method."""
        second = {"never": "", "needed": " with a second pass where needed", "always": " with a second pass"}[self._refinement]
        kind = "modified Gram-Schmidt" if self._modified else f"classical Gram-Schmidt{second}"
        return f"restart {self.restart}, {kind}"


class FGMRES(GMRES):
    """Flexible GMRES: the preconditioner, on the right, may be another at each iteration; in the place of -ksp_type fgmres."""

    SUPPORTED = {(Norm.UNPRECONDITIONED, Side.RIGHT): 3, (Norm.NONE, Side.RIGHT): 1}
    FLEXIBLE = True
