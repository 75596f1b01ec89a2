"""The two matrices that a Newton solver gives KSP, chosen by the options and the type of the preconditioner."""

from __future__ import annotations

from collections.abc import Callable

from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import DeviceError, OptionError
from femgpu.operators import diagonal_target
from femgpu.operators.device import on_device
from femgpu.solver import default_solver
from femgpu.solver.ahead import build_ahead, prepare
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian, create_difference, create_matfree
from femgpu.solver.nullspace import try_nullspace
from femgpu.solver.petsc_errors import petsc_errors
from femgpu.solver.state_watch import StateWatch
from femgpu.spaces import Function

# Preconditioners that need no entries of the matrix.
_NO_ENTRIES = ("none", "jacobi", "pbjacobi", "shell", "python", "ksp", "mat")
# That which assembles by itself.
_ASSEMBLED_PC = "femgpu.AssembledPC"
# What PCJacobi makes of rows, not of the diagonal: rowmax, rowl1, rowsum.
_ROWS = (("jacobi", "rowm"), ("jacobi", "rowl"), ("jacobi", "rows"))
# What a Jacobian leaves of a mode that it maps to zero, relative to what it makes of a random vector.
_ZERO, _ZERO_SINGLE = 1e-6, 1e-3


class JacobianPair:
    """What KSP multiplies with, and what its preconditioner sees; often the same.

    Both are matrix-free at first. They are made before the solver reads its options, `choose` follows these.

    Args:
        snes: the solver, with its prefix.
        operator: the operators.
        u: the unknown.
        own: whether the linear solver is femgpu's to choose where the options name none; else it is the user's.

    Attributes:
        watch: says whether the matrices are those of now.
        amat: what KSP multiplies with: a python Mat, an assembled one (AIJ, or as `-mat_type` says), or a difference of residuals
            where the form has no Jacobian.
        pmat: what the preconditioner sees.
        chosen: the linear solver that was taken as nobody named one, and why, in words; empty where somebody did.
        targets: what a solve evaluates, as far as options and preconditioner tell; all else is built where it is asked for.

    Raises:
        OptionError: where the options ask for entries of a Jacobian that the form does not have.
    """

    def __init__(self, snes: PETSc.SNES, operator: GlobalOperator, u: Function, own: bool = True):
        self._operator = operator
        u.unknown = True
        self._template = template = u.vec
        self.watch = StateWatch(operator.local, u, snes)
        self._prefix = snes.getOptionsPrefix() or ""
        self._known = operator.local.form.has_jacobian
        self._settings = operator.local.settings
        self._assembled: AssembledJacobian | None = None
        self._tried = 0
        self.targets = ["residual"]
        if self._known:
            self.amat = create_matfree(operator, template, self.watch)
            self._base = template  # the operators keep the state
        else:
            self._refuse_entries()
            # Rounding errors of the residual, relative: what a difference quotient has to stand above.
            error = 2.2e-16 if self._settings.precision == "double" else 1e-7
            self.amat = create_difference(snes, template, error)
            self._base = template.duplicate()
            # No PC knows a matrix that is a difference of residuals; the options may still name one.
            snes.getKSP().getPC().setType(PETSc.PC.Type.NONE)
        self.pmat = self.amat
        snes.getKSP().setDMActive(PETSc.KSP.DMActive.ALL, False)
        self.chosen = default_solver.choose(snes, operator, template) if own else ""
        self._types = default_solver.types(snes)

    @property
    def assembled(self) -> bool:
        """Whether a matrix with entries is filled at every Jacobian evaluation."""
        return self._assembled is not None

    @property
    def matrices(self) -> list[PETSc.Mat]:
        """Both matrices, or the one that they are."""
        return list({mat.handle: mat for mat in (self.amat, self.pmat)}.values())

    def choose(self, snes: PETSc.SNES) -> None:
        """Assembles where the options or the type of the solver's preconditioner ask for entries; collective.

        The kernels that a solve needs are built beside what comes next.

        Raises:
            DeviceError: for ViennaCL vectors on several ranks, which do not go with an assembled matrix.
        """
        local, kind, pmat = self._operator.local, self._settings.jacobian, self._settings.pmat
        default_solver.follow_tolerances(snes)
        if not self._known:
            local.build_ahead(self.targets)
            return
        pc = snes.getKSP().getPC().getType() or PETSc.Options().getString(self._prefix + "pc_type", "")
        if pmat == "auto":
            rows = PETSc.Options().getString(f"{self._prefix}pc_jacobi_type", "diagonal")
            pmat = "none" if pc in _NO_ENTRIES and (pc, rows[:4]) not in _ROWS else "assembled"
        assembles = kind == "assembled" or pmat == "assembled"
        inner = pc == "python" and PETSc.Options().getString(self._prefix + "pc_python_type", "") == _ASSEMBLED_PC
        blocks = self._template.getBlockSize() if pc == "pbjacobi" and not assembles else 0
        nodes = blocks in (1, self._operator.transfer.block_size)
        wanted = {
            "diagonal": self._operator.any_rows or nodes or (pc == "jacobi" and not assembles),
            **{diagonal_target(shift): nodes for shift in range(1, blocks)},
            "matrix": blocks > 0 and not nodes,
            "action": kind != "assembled",
        }
        wanted[local.assembly_target] = wanted.get(local.assembly_target, False) or assembles or inner
        self.targets += [target for target, is_wanted in wanted.items() if is_wanted and target not in self.targets]
        local.build_ahead(self.targets)
        build_ahead(snes.getKSP(), local.runtime)
        if assembles:
            refuse_mixed_vectors(self._template, self._prefix)
            mat_type = PETSc.Options().getString(self._prefix + "mat_type", "")
            self._assembled = AssembledJacobian(self._operator, self._template, mat_type)
            self.pmat = self._assembled.mat
        if kind == "assembled":
            self.amat = self.pmat

    def choose_anew(self, snes: PETSc.SNES) -> bool:
        """Follows a program that has named a solver since `choose`: entries that were not wanted then are assembled; collective.

        Returns:
            Whether the matrices are others now, which the solver has to be given.
        """
        kind = snes.getKSP().getPC().getType() or "none"
        default_solver.follow_tolerances(snes)
        if self._types != default_solver.types(snes):
            self.chosen = ""
        if not self._known or self.assembled or self._settings.pmat == "none" or kind in _NO_ENTRIES:
            return False
        self.choose(snes)
        return True

    def build(self, ksp: PETSc.KSP) -> None:
        """Builds the programs of a solve; collective. What its python types can do beforehand hides behind the compiler."""
        if self._known and not self.assembled:
            with petsc_errors(ksp, reading=True):
                prepare(ksp, self.pmat, self._operator)
        self._operator.local.build(self.targets)
        self._operator.local.runtime.programs.release()

    def update(self, x: PETSc.Vec, J: PETSc.Mat, P: PETSc.Mat, at_u: bool = False) -> None:
        """Brings the matrices to the state x, to which the operators have been moved.

        Args:
            x: the state.
            J: what the solver holds as `amat`.
            P: what the solver holds as `pmat`.
            at_u: whether x is the unknown, which the matrices then follow.
        """
        if not self._known:
            if x.handle != self._base.handle:
                x.copy(self._base)
            petsc_c.difference_at(self.amat, self._base)
            self._operator.linearised = True
        if self._assembled is not None:
            self._assembled.fill()
        for mat in {J.handle: J, P.handle: P}.values():
            mat.assemble()
        self.watch.note(at_u)
        if self._known:
            double = self._settings.precision == "double"
            self._tried = try_nullspace(self.amat, self._tried, _ZERO if double else _ZERO_SINGLE)

    def follow(self, linearise: Callable[[PETSc.Vec], None]) -> None:
        """Brings the matrices to u, where they are to be there, and to mesh, coefficients and constants as they are; collective.

        Args:
            linearise: moves all to a state.
        """
        if not self._operator.linearised:
            linearise(self._template)
        elif not self.watch.iterating() and self.watch.changed():
            if self.watch.at_u:
                linearise(self._template)
            else:
                self._operator.local.update()
                self.update(self._base, self.amat, self.pmat)

    def _refuse_entries(self) -> None:
        """A difference of residuals has no entries to assemble."""
        for name, value in (("jacobian", self._settings.jacobian), ("pmat", self._settings.pmat)):
            if value == "assembled":
                raise OptionError(f"-{self._prefix}femgpu_{name} assembled: the form gives no g0 to g3 to assemble; give them")
        kind = PETSc.Options().getString(self._prefix + "pc_type", "none")
        if kind not in ("none", "shell", "python"):
            raise OptionError(
                f"-{self._prefix}pc_type {kind}: the form gives no g0 to g3, so no preconditioner knows its Jacobian; give them, "
                f"or take -{self._prefix}pc_type none, shell or python"
            )


def refuse_mixed_vectors(template: PETSc.Vec, prefix: str) -> None:
    """On several ranks PETSc copies and multiplies ViennaCL and host vectors wrongly, without a word; most PCs do both.

    Raises:
        DeviceError: for ViennaCL vectors on several ranks.
    """
    if on_device(template) and template.comm.size > 1:
        raise DeviceError(
            "ViennaCL vectors on several ranks do not go with an assembled matrix: PETSc 3.26 mixes them with host vectors, "
            f"wrongly. Use host vectors (without -dm_vec_type viennacl), -{prefix}pc_type jacobi, or -{prefix}pc_type python "
            f"-{prefix}pc_python_type femgpu.AssembledPC -{prefix}assembled_pc_type ..., which copies"
        )
