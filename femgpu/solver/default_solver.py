"""The linear solver of problems whose options name none."""

from __future__ import annotations

from petsc4py import PETSc

from femgpu.operators import Saddle, character, is_symmetric, saddle
from femgpu.operators.device import on_device
from femgpu.solver.coarsening import contains_lower_degrees
from femgpu.solver.global_operator import GlobalOperator

# Dofs, of all ranks, below which PETSc's defaults are as fast: an assembled matrix and its incomplete factors.
SMALL = 10_000
# Iterations of GMRES after which it restarts on saddle points, which take more than PETSc's 30.
_RESTART = 60
# Types of nonlinear solvers for which the Jacobian is a problem of its own; others have their demands on KSP.
_NEWTON = ("", "newtonls", "ksponly")


def choose(snes: PETSc.SNES, operator: GlobalOperator, vec: PETSc.Vec) -> str:
    """Gives a SNES the linear solver that suits a form where the options leave it to femgpu; collective.

    That is where they name no type of KSP and PC, no nonlinear solver but Newton's method, and want no assembled matrix.
    Conjugate gradients with multigrid are for symmetric elliptic Jacobians, GMRES with multigrid for elliptic ones that are not
    symmetric, or that a reaction may make indefinite; Jacobi's preconditioner is enough where there are no derivatives. Saddle
    points take GMRES over their fields, however small they are: PETSc's defaults do not solve them. Where there is advection, which
    multigrid's smoothers may not bear, PETSc's defaults stay.

    Args:
        snes: before it reads its options.
        operator: the operators of its problem.
        vec: a T-vector, as the solver has them.

    Returns:
        What was chosen, and why, in words; empty where the options name something.
    """
    prefix, database = snes.getOptionsPrefix() or "", PETSc.Options()
    if any(database.hasName(prefix + name) for name in ("ksp_type", "pc_type")):
        return ""
    if refusal := _refusal(snes, operator, vec):
        return f"PETSc's defaults: {refusal}"
    form = operator.local.form
    point = saddle(form)
    if isinstance(point, Saddle):
        _take(snes, "GMRES", "FieldSplit")
        snes.getKSP().getPythonContext().restart = _RESTART
        return f"femgpu.GMRES with femgpu.FieldSplit: a saddle point, {point.elliptic} and {point.constraint}"
    if operator.local.space.num_dofs < SMALL:
        return f"PETSc's defaults: there are fewer than {SMALL} dofs"
    kind, symmetric = character(form), is_symmetric(form)
    multigrid = kind.elliptic and contains_lower_degrees(form.space) and (symmetric or not kind.advective)
    mass = kind.algebraic and kind.positive and symmetric
    if not multigrid and not mass:
        return "PETSc's defaults: the Jacobian is not known to be elliptic, without advection, on continuous fields of one degree"
    method = "CG" if symmetric and kind.positive else "GMRES"
    _take(snes, method, "" if mass else "PMG")
    if mass:
        return "femgpu.CG with jacobi: the Jacobian has no derivatives"
    of = "symmetric and elliptic" if method == "CG" else "elliptic, but not known to be symmetric and definite"
    return f"femgpu.{method} with femgpu.PMG: the Jacobian is {of}"


def follow_tolerances(snes: PETSc.SNES) -> None:
    """Lets a Krylov method of femgpu's look at the residual itself where Eisenstat and Walker set its tolerances.

    These weigh the norm that the linear solve left against that of the nonlinear residual. Preconditioned norms, PETSc's default,
    are no measure of it: with a good preconditioner they fall at once, while the residual rises. An option that names
    norm or side rules, and so does a program that has set another one.

    Args:
        snes: after it has read its options.
    """
    ksp, prefix, norms = snes.getKSP(), snes.getOptionsPrefix() or "", PETSc.KSP.NormType
    own = ksp.getType() == PETSc.KSP.Type.PYTHON and (ksp.getPythonType() or "").startswith("femgpu.")
    named = any(PETSc.Options().hasName(f"{prefix}ksp_{name}") for name in ("norm_type", "pc_side"))
    if not own or named or not snes.getUseEW() or ksp.getNormType() != norms.PRECONDITIONED:
        return
    if (norms.UNPRECONDITIONED, PETSc.PC.Side.LEFT) not in ksp.getPythonContext().SUPPORTED:
        ksp.setPCSide(PETSc.PC.Side.RIGHT)
    ksp.setNormType(norms.UNPRECONDITIONED)


def types(snes: PETSc.SNES) -> tuple[str, ...]:
    """The names of femgpu's types that a SNES has for KSP and PC; of PETSc's, which it finds late, nothing."""
    ksp = snes.getKSP()
    return tuple(solver.getPythonType() or "" for solver in (ksp, ksp.getPC()) if solver.getType() == PETSc.KSP.Type.PYTHON)


def _take(snes: PETSc.SNES, method: str, preconditioner: str) -> None:
    """Gives a SNES types of femgpu's; without a preconditioner jacobi."""
    ksp, pc = snes.getKSP(), snes.getKSP().getPC()
    ksp.setType(PETSc.KSP.Type.PYTHON)
    ksp.setPythonType(f"femgpu.{method}")
    if not preconditioner:
        pc.setType(PETSc.PC.Type.JACOBI)
        return
    pc.setType(PETSc.PC.Type.PYTHON)
    pc.setPythonType(f"femgpu.{preconditioner}")


def _refusal(snes: PETSc.SNES, operator: GlobalOperator, vec: PETSc.Vec) -> str:
    """Why PETSc's defaults stay, whatever the form is; empty where they need not."""
    settings, prefix = operator.local.settings, snes.getOptionsPrefix() or ""
    nonlinear = PETSc.Options().getString(prefix + "snes_type", snes.getType() or "")
    if settings.solver == "petsc":
        return "as -femgpu_solver says"
    if nonlinear not in _NEWTON:
        return f"-{prefix}snes_type {nonlinear} has its demands on them"
    if settings.jacobian == "assembled" or settings.pmat == "assembled":
        return "an assembled matrix was asked for"
    if on_device(vec) and vec.comm.size > 1:
        return "vectors are PETSc's on the device, on several ranks"
    return ""
