"""Errors of PETSc in femgpu's words: what PETSc said, the option that it is about, and what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from petsc4py import PETSc

from femgpu import petsc_blocks, petsc_ksp
from femgpu.errors import OptionError, SolverError, petsc_words
from femgpu.solver.solver_types import TIME_METHODS, type_remedy

# PETSc's code for what Python raised.
_RAISED = 101
# The outermost linear solve has begun, as a trace says it: a method of PETSc's failed, or a python one, of which it says nothing.
_SOLVING = re.compile(r"KSPSolve_Private\(\) at .*(?:\n\[\d+\] KSPSolve_|\s*\Z)")
# Python types of femgpu's by kind of solver.
_OWN_TYPES = {
    "ksp": ("CG", "FCG", "GMRES", "FGMRES", "BiCGStab", "MINRES", "Chebyshev"),
    "pc": ("PMG", "FieldSplit", "AssembledPC"),
}
# What PETSc says, and the remedy; {p} is the options prefix, {0} and {1} are what the pattern finds.
_REMEDIES = (
    (
        r"factorization type (\S+) and matrix type mpi",
        "PETSc's own factorisations are for one rank, and this PETSc has no MUMPS or SuperLU_DIST. Take -{p}pc_type redundant (all "
        "of the matrix on every rank, LU), -{p}pc_type bjacobi or asm with -{p}sub_pc_type lu or ilu, or -{p}pc_type gamg",
    ),
    (
        r"factorization type (\S+) and matrix type (?:python|mffd)",
        "the matrix-free Jacobian has no entries to factorise; take -{p}femgpu_pmat assembled, or -{p}pc_type jacobi",
    ),
    (
        r"Could not locate solver type (\S+) for",
        "this PETSc was built without {0}; leave -{p}pc_factor_mat_solver_type out",
    ),
    (
        r"must have at least two fields",
        "-{p}pc_type fieldsplit splits fields, and the unknown has one: solve in a femgpu.MixedSpace, or take another -{p}pc_type",
    ),
    (
        r"\bmethod (\w+)\(\)|MATOP_|MatMultTranspose|(?:python|mffd) does not have|type (?:python|mffd)",
        "the matrix-free Jacobian does not do that; take -{p}femgpu_jacobian assembled, or another -{p}pc_type",
    ),
    (r"different mat and pmat|Matrix must be AIJ", "take -{p}femgpu_jacobian assembled, which makes both the same AIJ matrix"),
    (
        r"Grid adaptor \S+ not registered",
        "-{p}pc_type mg wants coarser meshes of PETSc's making: take -{p}pc_type python -{p}pc_python_type femgpu.PMG, whose "
        "levels are those of femgpu.mesh.refine and -dm_refine, or -{p}pc_type gamg",
    ),
    (r"Only for single field problems", "-{p}pc_type exotic needs a structured grid: take -{p}pc_type gamg or asm"),
    (
        r"Python context not set",
        "name the class, -{p}pc_python_type femgpu.AssembledPC, -{p}ksp_python_type femgpu.CG, -{p}snes_python_type or "
        "-{p}ts_python_type module.Class",
    ),
    (
        r"Unable to find requested (?:KSP|PC) type (femgpu\.\S+)",
        "types of femgpu's follow the type python{1}: -{p}ksp_type python -{p}ksp_python_type femgpu.CG, -{p}pc_type python "
        "-{p}pc_python_type femgpu.PMG",
    ),
    (r"Unknown TSAdapt type", "expected none, basic or dsp{1}"),
    (r"Unknown TS type: (\S+)", f"expected {', '.join(TIME_METHODS)}{{1}}"),
    (r"Unable to find requested (.+) type (\S+)", "this PETSc has no such type{1}; -help lists those of a build"),
    (
        r"Unsupported viewer (?:true|false)",
        "a monitor is switched on without a value (None in petsc_options), and off by leaving it out",
    ),
    (r"has no (?:numeric|integer|logical|real) value", "expected a number{1}"),
)


@contextmanager
def petsc_errors(solver: PETSc.Object, reading: bool = False) -> Iterator[None]:
    """Turns an error inside PETSc into femgpu's, or into what a callback raised.

    Args:
        solver: whose options prefix remedies name.
        reading: whether PETSc reads options, so that an error is one of these.

    Raises:
        BaseException: what a callback raised, as it is: femgpu's own errors, those of the user's monitors, KeyboardInterrupt.
        OptionError: for PETSc's own errors about options.
        SolverError: for its others.
    """
    lost: list[BaseException] = []
    guess = not reading and _snes(solver).getKSP().getInitialGuessNonzero()
    try:
        with _dropped(lost):
            yield
    except PETSc.Error as error:
        kind = OptionError if reading else SolverError
        if _SOLVING.search(str(error)):
            ksp = _snes(solver).getKSP()
            _leave_solves(ksp)
            # A method that restarts sets it while it goes on.
            ksp.setInitialGuessNonzero(guess)
        cause = petsc_blocks.raised(error) or _root(error)
        if isinstance(cause, PETSc.Error) and cause.ierr == _RAISED:
            cause = next((root for root in reversed(lost) if not isinstance(root, PETSc.Error)), cause)
        if isinstance(cause, PETSc.Error):
            raise kind(_message(cause, solver)) from error
        if reading and isinstance(cause, ImportError | AttributeError):
            raise OptionError(_no_class(cause)) from error
        raise cause from None


@contextmanager
def _dropped(lost: list[BaseException]) -> Iterator[None]:
    """Notes what left a callback of PETSc and was dropped by Python in the block.

    Such an exception waits while PETSc returns from its functions. Where the collector of garbage runs meanwhile, Python 3.12 takes
    the exception for one of the collector's, or of what that calls: it tells `sys.unraisablehook` and forgets it.
    """
    before = sys.unraisablehook

    def note(told: Any) -> None:
        root = _root(told.exc_value)
        trace = None if root is None else root.__traceback__
        if trace is not None and trace.tb_frame.f_code.co_filename.startswith("petsc4py"):
            lost.append(root)
        else:
            before(told)

    sys.unraisablehook = note
    try:
        yield
    finally:
        sys.unraisablehook = before


def _root(error: Any) -> Any:
    """What an error came from: one of PETSc, or of a function that was called while an exception waited; else itself."""
    while isinstance(error, PETSc.Error | SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _leave_solves(ksp: PETSc.KSP) -> None:
    """Ends the solve of a KSP, and those inside its preconditioner; one too many does no harm."""
    petsc_ksp.leave_solve(ksp)
    for inner in _inner_solvers(ksp.getPC()):
        _leave_solves(inner)


def _inner_solvers(pc: PETSc.PC) -> list[PETSc.KSP]:
    """The solvers inside a preconditioner that may apply the matrix-free Jacobian; none where it was not set up."""
    kind = pc.getType()
    try:
        if kind == "ksp":
            return [pc.getKSP()]
        if kind in ("mg", "gamg"):
            smoothers = [pc.getMGSmoother(level) for level in range(pc.getMGLevels())]
            # Multigrid borrows these while it is applied, and would destroy them as its own when it is reset now.
            for vec in (smoothers[-1].getRhs(), smoothers[-1].getSolution()) if smoothers else ():
                if vec:
                    vec.incRef()
            return smoothers
        if kind == "fieldsplit":
            return list(pc.getFieldSplitSubKSP())
    except PETSc.Error:
        pass
    return []


def _message(error: PETSc.Error, solver: PETSc.Object) -> str:
    """What PETSc said last, the options that it may be about, and the remedy."""
    prefix = solver.getOptionsPrefix() or ""
    text = petsc_words(error)
    for pattern, remedy in _REMEDIES:
        found = re.search(pattern, text)
        if found:
            words = [*(found.groups() or ("",)), ""]
            given = _given(text)
            words[1] = f" (given: {given})" if given else ""
            return f"PETSc: {text}: {remedy.format(*words, p=prefix)}"
    if not isinstance(solver, PETSc.KSP) and (remedy := type_remedy(_snes(solver))):
        return f"PETSc: {text}: {remedy}"
    outer = ("ts", "snes") if isinstance(solver, PETSc.TS) else () if isinstance(solver, PETSc.KSP) else ("snes",)
    kinds = (*outer, "ksp", "pc")
    options = ", ".join(f"-{prefix}{kind}_..." for kind in kinds)
    return f"PETSc: {text} (error code {error.ierr}); look at the options {options}"


def _no_class(error: ImportError | AttributeError) -> str:
    """What to say of python types that Python did not find: the options whose value the error is about."""
    quoted = re.findall(r"'([^']*)'", str(error))
    options = PETSc.Options().getAll().items()
    given = [(name, value) for name, value in options if name.endswith("_python_type") and any(word in value for word in quoted)]
    names = ", ".join(f"-{name} {value}" for name, value in given) or "-..._python_type"
    kinds = {found[1] for name, _ in given if (found := re.search(r"(ksp|pc)_python_type$", name))}
    own = [", ".join(f"femgpu.{name}" for name in _OWN_TYPES[kind]) for kind in sorted(kinds)]
    return f"{names}: {error}; expected module.Class{''.join(f', or one of {types}' for types in own)}"


def _snes(solver: PETSc.Object) -> PETSc.SNES:
    return solver.getSNES() if isinstance(solver, PETSc.TS) else solver


def _given(text: str) -> str:
    """The options whose value PETSc quotes."""
    words = set(re.findall(r"\S+", text))
    return ", ".join(f"-{name} {value}" for name, value in PETSc.Options().getAll().items() if value and value in words)
