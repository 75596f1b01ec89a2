"""How a solve by PETSc ended: the reason by name, and what to try next."""

from __future__ import annotations

import math

from petsc4py import PETSc

from femgpu.forms import Form
from femgpu.operators import Saddle, couples_components, couples_displacements, is_definite, is_symmetric, saddle, uncoupled_fields
from femgpu.solver.solver_types import shifted_factors, type_remedy

# Methods whose recurrences hold for symmetric matrices only.
_SYMMETRIC = (
    *("cg", "groppcg", "pipecg", "pipecg2", "pipecgrr", "pipelcg", "pipeprcg", "fcg", "pipefcg", "nash", "stcg", "gltr", "qcg"),
    *("cr", "pipecr", "minres", "symmlq"),
)
# Methods for A^T A.
_NORMAL = ("lsqr", "cgls", "cgne")
_RESIDUAL_NAN = PETSc.SNES.ConvergedReason.DIVERGED_FUNCTION_NANORINF
_FAILURES = PETSc.PC.FailedReason
_PC_FAILURES = {
    _FAILURES.FACTOR_STRUCT_ZEROPIVOT: "a row of the matrix has no diagonal entry",
    _FAILURES.FACTOR_NUMERIC_ZEROPIVOT: "zero pivot, the factorisation does not exchange rows or the matrix is singular",
    _FAILURES.FACTOR_OUTMEMORY: "the factors do not fit into memory",
    _FAILURES.INCONSISTENT_RHS: "the right-hand side is not in the range of the matrix",
    _FAILURES.SUBPC_ERROR: "a preconditioner inside it failed, by a zero pivot mostly",
}


def failure(snes: PETSc.SNES) -> str:
    """Which solver diverged, and how the last solves ended."""
    return f"{'KSP' if _is_linear(snes) else 'SNES'} diverged: {outcome(snes)}"


def outcome(snes: PETSc.SNES) -> str:
    """How the last nonlinear and linear solve ended; of a problem that is linear the latter, if that is why."""
    ksp = snes.getKSP()
    linear = f"{reason_name(ksp)} after {ksp.getIterationNumber()} iterations, residual norm {ksp.getResidualNorm():.6e}"
    if _is_linear(snes):
        return linear
    # SNES of type ksponly computes no norm, and keeps none that is not finite.
    no_norm = snes.getType() == PETSc.SNES.Type.KSPONLY or snes.getConvergedReason() == _RESIDUAL_NAN
    norm = "" if no_norm else f", residual norm {snes.getFunctionNorm():.6e}"
    said = f"{reason_name(snes)} after {snes.getIterationNumber()} iterations{norm}"
    if ksp.getConvergedReason() == PETSc.KSP.ConvergedReason.ITERATING:
        return said  # there was none
    return f"{said}; last linear solve: {linear}"


def _is_linear(snes: PETSc.SNES) -> bool:
    """Whether the linear solver is all there is, and failed."""
    return snes.getType() == PETSc.SNES.Type.KSPONLY and snes.getKSP().getConvergedReason() < 0


def _not_finite(snes: PETSc.SNES, size: float) -> str:
    """What is not, of a linear problem with a matrix of this size that failed; empty: all is."""
    if not math.isfinite(size):
        return "matrix"
    nan = snes.getKSP().getConvergedReason() == PETSc.KSP.ConvergedReason.DIVERGED_NANORINF
    return "right-hand side" if nan and not math.isfinite(snes.getFunction()[0].norm()) else ""


def advice(snes: PETSc.SNES, form: Form, prescribed: bool, size: float, chosen: str = "") -> str:
    """What to look at and to try after a solve that failed.

    Args:
        snes: the solver.
        form: what it solves.
        prescribed: whether any dof is.
        size: of the Jacobian, but for prescribed rows: zero and what is not finite need no other solver.
        chosen: the linear solver that nobody named, and why it was taken; empty where somebody did.
    """
    prefix, known = snes.getOptionsPrefix() or "", _knows_derivatives(form)
    if lacking := _lacking_fields(form):
        return f"{lacking}: the Jacobian is singular, give each field an equation"
    if size == 0:
        return (
            "The Jacobian is zero at this state: the derivative of the form vanishes there, as that of u**2 does at u = 0; start "
            "from another initial guess (u.interpolate(1.0)), or look whether u stands in F"
            + f"; -{prefix}snes_test_jacobian compares the g's given with differences of the residual"
            * (not known)
        )
    if _is_linear(snes) and (said := _not_finite(snes, size)):
        return (
            f"The {said} is not finite, as with sqrt(f) where f is negative, a quotient, or exp(f) where f is large: no solver "
            "helps; look at the functions and numbers that stand in it"
        )
    residual = snes.getConvergedReason() == _RESIDUAL_NAN
    if residual or not math.isfinite(size):
        what, where = ("residual", "where u is negative") if residual else ("Jacobian", "or a power below 1 at u = 0")
        return (
            f"The {what} is not finite at this state, as that of sqrt(u) {where}, of a quotient or of exp(u) where u is large: no "
            "solver helps; start from another initial guess (u.interpolate(1.0)), or keep away from such arguments, by "
            "sqrt(u**2 + 1e-12) say"
        )
    ksp = snes.getKSP()
    reason, pc = ksp.getConvergedReason(), ksp.getPC()
    reasons = PETSc.KSP.ConvergedReason
    python = pc.getPythonType() if pc.getType() == PETSc.PC.Type.PYTHON else None
    name = f"-{prefix}pc_python_type {python}" if python else f"-{prefix}pc_type {pc.getType()}"
    parts = [remedy] if (remedy := type_remedy(snes)) else []
    if reason in (reasons.DIVERGED_PCSETUP_FAILED, reasons.DIVERGED_INNER_SOLVE_FAILED):
        why = _PC_FAILURES.get(pc.getFailedReason(), "its set-up failed")
        parts.append(f"{name}: {why}")
        if len(form.space.fields) > 1:
            own = f"-{prefix}pc_type python -{prefix}pc_python_type femgpu.FieldSplit, " * isinstance(saddle(form), Saddle)
            parts.append(
                f"the zeros on the diagonal of a saddle point need {own}{shifted_factors(prefix, snes.comm)}, -{prefix}pc_type "
                f"fieldsplit -{prefix}pc_fieldsplit_type schur -{prefix}pc_fieldsplit_schur_precondition selfp, or "
                f"-{prefix}pc_type jacobi with many iterations"
            )
        else:
            parts.append(f"an indefinite matrix may want -{prefix}pc_factor_shift_type nonzero, or -{prefix}pc_type jacobi or gamg")
    elif reason == reasons.DIVERGED_MAX_IT and ksp.getType() in _NORMAL:
        without = f", or -{prefix}pc_type none, as it takes the preconditioner for one of these equations"
        parts.append(
            f"{_name(ksp)} with {name} stalls: it solves the normal equations, whose condition number is the Jacobian's squared: "
            f"try -{prefix}ksp_type gmres{without if pc.getType() != 'none' else ''}, or more iterations (-{prefix}ksp_max_it)"
        )
    elif reason == reasons.DIVERGED_MAX_IT and _may_be_indefinite(form):
        parts.append(
            f"{_name(ksp)} with {name} takes more than -{prefix}ksp_max_it {ksp.getTolerances()[3]} allows, and the Jacobian may "
            f"be indefinite, as that of Helmholtz' equation, for which multigrid is not made: try -{prefix}ksp_type preonly "
            f"-{prefix}pc_type lu (redundant on several ranks), or more iterations"
        )
    elif reason == reasons.DIVERGED_MAX_IT:
        parts.append(
            f"{_name(ksp)} with {name} takes more than -{prefix}ksp_max_it {ksp.getTolerances()[3]} allows: try "
            f"-{prefix}pc_type gamg, lu (redundant on several ranks) or fieldsplit for mixed problems, "
            + (f"-{prefix}ksp_gmres_restart 200, " if "gmres" in _name(ksp).lower() else "")
            + f"more iterations (-{prefix}ksp_max_it)"
        )
        if python == "femgpu.PMG" and couples_displacements(form):
            parts.append(
                "a material that hardly changes its volume wants a pressure of its own: a MixedSpace of displacement and "
                "pressure, which femgpu.FieldSplit solves"
            )
        if python == "femgpu.PMG" and _may_want_blocks(pc, form):
            parts.append(f"components that couple strongly at each node want -{prefix}pc_femgpu_pmg_smoother pbjacobi")
    elif reason < 0:
        parts.append(f"try another -{prefix}pc_type or -{prefix}ksp_type (gmres, if the Jacobian is not symmetric and definite)")
    elif snes.getType() == "newtontr":
        parts.append(
            f"its trust region may be too small for {_name(ksp)}: try -{prefix}snes_type newtontrdc, "
            f"-{prefix}snes_tr_fallback_type cauchy, a larger radius (-{prefix}snes_tr_delta0 100), or -{prefix}ksp_type gmres"
        )
    else:
        more = f", or more iterations (-{prefix}snes_max_it)"
        stopped = snes.getConvergedReason() == PETSc.SNES.ConvergedReason.DIVERGED_MAX_IT
        parts.append("try a better initial guess, or load in steps" + more * stopped)
        if not known:
            parts.append(f"-{prefix}snes_test_jacobian compares the g's given with differences of the residual")
    if _wants_symmetry(ksp) and form.has_jacobian and not is_symmetric(form):
        parts.append(
            f"{_name(ksp)} needs a symmetric Jacobian, and this form's is not"
            + ("" if known else " known to be")
            + f": take -{prefix}ksp_type gmres"
        )
    if chosen.startswith("femgpu."):
        parts.append(f"no option names the linear solver, which is {chosen}: name -{prefix}ksp_type and -{prefix}pc_type (lu, say)")
    if not prescribed:
        motions = couples_displacements(form)
        parts.append(
            f"no dofs are prescribed: where the solution is known up to {'rigid motions' if motions else 'constants'} only, call "
            f"problem.set_nullspace(femgpu.{'rigid_body' if motions else 'constant'}_modes(V))"
        )
    monitor = "ksp_monitor" if _is_linear(snes) else "snes_monitor"
    return f"Look at -{prefix}{monitor} -{prefix}ksp_converged_reason. " + "; ".join(parts)


def _lacking_fields(form: Form) -> str:
    """The fields that have no equation or are in none, in words; empty where there are none."""
    found = zip(uncoupled_fields(form), ("the test function of ", ""), strict=True)
    said = [f"{which}{', '.join(names)}" for names, which in found if names]
    return f"No term of the form that has the unknown has {', and none has '.join(said)}" if said else ""


def _may_want_blocks(pc: PETSc.PC, form: Form) -> bool:
    """Whether multigrid smooths over the diagonal of a field whose components couple."""
    over_diagonal = all(level.size == 1 for *_, level in pc.getPythonContext().levels)
    return over_diagonal and len(form.space.fields) == 1 and couples_components(form)


def _knows_derivatives(form: Form) -> bool:
    """Whether no body of the user's gives the Jacobian."""
    return all(integral.jacobian is None or integral.jacobian.evaluate is not None for integral in form.integrals)


def _may_be_indefinite(form: Form) -> bool:
    """Whether the Jacobian of a form of one field is symmetric and not known to be definite."""
    return form.has_jacobian and len(form.space.fields) == 1 and is_symmetric(form) and not is_definite(form)


def _wants_symmetry(ksp: PETSc.KSP) -> bool:
    return ksp.getType() in _SYMMETRIC or _name(ksp) in ("femgpu.CG", "femgpu.FCG")


def _name(ksp: PETSc.KSP) -> str:
    """The type of a linear solver; that of femgpu's own is a class."""
    return (ksp.getPythonType() or "python") if ksp.getType() == PETSc.KSP.Type.PYTHON else ksp.getType()


def precision_hint(precision: str, prefix: str) -> str:
    """What to say of a solve that failed, where the kernels compute in another precision than double."""
    if precision == "double":
        return ""
    return (
        f"; the kernels compute in less than double precision (-femgpu_precision {precision}): residuals fall by about six orders "
        f"of magnitude at most, so ask for -{prefix}snes_rtol 1e-6 or larger"
    )


def reason_name(solver: PETSc.Object) -> str:
    """PETSc's name of the reason why a SNES, KSP or TS ended."""
    kind, reason = type(solver).__name__, solver.getConvergedReason()
    names = [name for name, value in vars(type(solver).ConvergedReason).items() if value == reason and name.isupper()]
    return f"{kind}_{names[0]}" if names else f"{kind} reason {reason}"
