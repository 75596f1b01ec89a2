"""Nonlinear problems over SNES."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import log, options, petsc_c
from femgpu.errors import DataError, DeviceError, FemgpuError, OptionError, SolverError, collective
from femgpu.forms import Form, lower_form
from femgpu.mesh import Mesh
from femgpu.operators import is_symmetric
from femgpu.operators.device import choose_runtime, on_device
from femgpu.operators.form_operator import check_finite
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian, create_difference, create_matfree
from femgpu.solver.nullspace import give_near_nullspace, give_nullspace
from femgpu.solver.view import view
from femgpu.spaces import DirichletBC, Function

# Preconditioners that need no entries of the matrix.
_NO_ENTRIES = ("none", "jacobi", "shell", "python", "ksp", "mat")


class NonlinearProblem:
    """Find u with F(u; v) = 0 for all v, and u = value on the prescribed parts of the boundary.

    Args:
        F: a UFL residual, linear in its test function, or a `PointwiseForm`.
        u: the unknown; holds the initial guess and, after `solve`, the solution.
        bcs: Dirichlet conditions, or a single one.
        J: a bilinear UFL form to use as the Jacobian; default the derivative of F.
        options_prefix: prefix of this problem's options.
        snes: the user's own SNES, whose prefix and options then rule; default one of the problem's own. Before each SNESSolve that
            the user starts, `insert_boundary_values(x)` sets the boundary entries of x and evaluates the conditions anew.

    Attributes:
        snes: the PETSc.SNES.
        u: the unknown.
        bcs: the Dirichlet conditions.
        form: the lowered form.
        settings: femgpu's options as they were read.
        jacobian: the PETSc.Mat that KSP multiplies with.

    Raises:
        FemgpuError: on all ranks, for forms, options, devices or data that do not fit; the message names the remedy.
    """

    def __init__(
        self,
        F: Any,
        u: Function,
        bcs: Sequence[DirichletBC] | DirichletBC = (),
        J: Any = None,
        options_prefix: str = "",
        snes: PETSc.SNES | None = None,
    ):
        check_unknown(u)
        if snes is not None and not isinstance(snes, PETSc.SNES):
            raise DataError(f"snes is of type {type(snes).__name__}; expected a PETSc.SNES")
        let_go(u.space.mesh)
        self._own = snes is None
        self.snes = PETSc.SNES().create(comm=u.space.comm) if snes is None else snes
        if snes is None:
            self.snes.setOptionsPrefix(options_prefix)
        self._prepare(u, bcs, lambda: lower_form(F, u, J))
        self._attach()

    def _prepare(
        self,
        u: Function,
        bcs: Sequence[DirichletBC] | DirichletBC,
        lower: Callable[[], Form],
        scale: float | None = None,
    ) -> None:
        """Makes what lies below the solver, whose prefix is set: options, form, device, operators; collective."""
        mesh = u.space.mesh
        self.u = u
        with collective(mesh.mpi):
            self.settings = options.read(self._prefix)
            self.form = lower()
        if PETSc.Options().hasName("help"):
            log.show(mesh.comm, options.help_text())
        self.runtime = choose_runtime(self.settings, [u.vec], mesh.mpi)
        self.runtime.dump_folder = self.settings.kernel_dump
        self.bcs = (bcs,) if isinstance(bcs, DirichletBC) else tuple(bcs)
        for bc in self.bcs:
            if not hasattr(bc, "local_rows"):  # fields that are held as a whole have no DirichletBC
                raise DataError(f"bcs holds {bc!r}; expected femgpu.DirichletBC(space, value, region)")
        self.operator = GlobalOperator(self.form, self.bcs, self.settings, self.runtime, scale)
        self._residual_vec = u.vec.duplicate()

    @property
    def assembled(self) -> bool:
        """Whether an AIJ matrix is filled at every Jacobian evaluation."""
        return self._assembled is not None

    def build(self) -> None:
        """Builds the kernels of the residual and, where the form knows it, of the Jacobian; evaluates none; collective.

        Raises:
            BuildError: when the device's compiler refuses one.
        """
        self.operator.local.build()

    def residual(self, x: PETSc.Vec, f: PETSc.Vec) -> None:
        """F = residual at x, both T-vectors; collective."""
        self.operator.residual(x, f)

    def linearise(self, x: PETSc.Vec) -> None:
        """Moves the Jacobian (and what the preconditioner sees) to the state x; collective."""
        self._form_jacobian(self.snes, x, self.jacobian, self._pmat)

    def insert_boundary_values(self, x: PETSc.Vec) -> None:
        """Sets the prescribed entries of a T-vector to their values, evaluated anew; collective."""
        self.operator.refresh()
        self.operator.insert_values(x)

    def set_nullspace(self, nullspace: PETSc.NullSpace, transpose: PETSc.NullSpace | None = None) -> None:
        """Says what the Jacobian maps to zero: boundary rows of its vectors are zero.

        Args:
            nullspace: the null space.
            transpose: that of the transpose; default the same where the form's Jacobian is symmetric, else not known.
        """
        if transpose is None and self.form.has_jacobian and is_symmetric(self.form):
            transpose = nullspace
        give_nullspace(self._matrices, nullspace, transpose)

    def set_near_nullspace(self, nullspace: PETSc.NullSpace) -> None:
        """Gives algebraic multigrid the modes of small energy, such as `rigid_body_modes(space)`."""
        give_near_nullspace(self._matrices, nullspace)

    def solve(self) -> Function:
        """Solves by SNESSolve with u as initial guess, boundary values inserted first; collective.

        Returns:
            u.

        Raises:
            DataError: when the initial guess or a coefficient is not finite.
            BuildError: when the device's compiler refuses a kernel.
            SolverError: when SNES diverged; names its reason and that of the last linear solve.
        """
        with collective(self.u.space.mesh.mpi):
            check_finite(self.u.vec.array_r, f"the initial guess {self.u.name}")
        self.insert_boundary_values(self.u.vec)
        # What can fail does so before PETSc is inside SNESSolve.
        self.operator.local.update()
        self.build()
        try:
            with own_errors():
                self.snes.solve(None, self.u.vec)
        finally:
            petsc_c.unlock(self.u.vec)
        self._attach_constrained()
        if self.settings.view:
            log.show(self.u.space.comm, self.report())
        self._check_converged()
        return self.u

    def report(self) -> str:
        """What `-femgpu_view` prints: device, mesh, plans, times of the kernels; collective."""
        return view(self.operator, self.u.vec, self.assembled)

    def _attach_constrained(self) -> None:
        """The values of dofs that the section constrains go with the solution."""
        rows, constrained = self.operator.rows, self.u.space.layout.constrained
        self.u.set_constrained(rows.values[np.searchsorted(rows.local, constrained)])

    def _attach(self) -> None:
        """Hands callbacks and matrices to SNES."""
        self.snes.setDM(self.u.space.dm)
        self.snes.setFunction(self._form_function, self._residual_vec)
        self._create_jacobian()
        if self._own:
            self.snes.setFromOptions()
        if self.form.has_jacobian:
            self._choose_matrices()
        self.snes.setJacobian(self._form_jacobian, self.jacobian, self._pmat)

    def _create_jacobian(self) -> None:
        """Makes the matrix-free Jacobian, before the solver reads its options."""
        self._assembled: AssembledJacobian | None = None
        if not self.form.has_jacobian:
            self._refuse_entries()
            # Rounding errors of the residual, relative: what a difference quotient has to stand above.
            error = 2.2e-16 if self.settings.precision == "double" else 1e-7
            self.jacobian = create_difference(self.snes, self.u.vec, error)
            # No PC knows a matrix that is a difference of residuals; the options may still name one.
            self.snes.getKSP().getPC().setType(PETSc.PC.Type.NONE)
        else:
            self.jacobian = create_matfree(self.operator, self.u.vec)
        self._pmat = self.jacobian
        self.snes.getKSP().setDMActive(PETSc.KSP.DMActive.ALL, False)

    def _choose_matrices(self) -> None:
        """What KSP multiplies with and what the PC sees, by the options and the PC's type."""
        pmat = self.settings.pmat
        if pmat == "auto":
            kind = self.snes.getKSP().getPC().getType() or PETSc.Options().getString(self._prefix + "pc_type", "")
            pmat = "none" if kind in _NO_ENTRIES else "assembled"
        if self.settings.jacobian == "assembled" or pmat == "assembled":
            self._refuse_mixed_vectors()
            self._assembled = AssembledJacobian(self.operator, self.u.vec)
            self._pmat = self._assembled.mat
        if self.settings.jacobian == "assembled":
            self.jacobian = self._pmat

    def _refuse_entries(self) -> None:
        """A difference of residuals has no entries to assemble."""
        for name, value in (("jacobian", self.settings.jacobian), ("pmat", self.settings.pmat)):
            if value == "assembled":
                raise OptionError(f"-{self._prefix}femgpu_{name} assembled: the form gives no g0 to g3 to assemble; give them")
        kind = PETSc.Options().getString(self._prefix + "pc_type", "none")
        if kind not in ("none", "shell", "python"):
            raise OptionError(
                f"-{self._prefix}pc_type {kind}: the form gives no g0 to g3, so no preconditioner knows its Jacobian; give them, "
                f"or take -{self._prefix}pc_type none, shell or python"
            )

    def _refuse_mixed_vectors(self) -> None:
        """On several ranks PETSc copies and multiplies ViennaCL and host vectors wrongly, without a word; most PCs do both."""
        if on_device(self.u.vec) and self.u.space.mesh.mpi.size > 1:
            raise DeviceError(
                "ViennaCL vectors on several ranks do not go with an assembled matrix: PETSc 3.26 mixes them with host vectors, "
                f"wrongly. Use host vectors (without -dm_vec_type viennacl), -{self._prefix}pc_type jacobi, or "
                f"-{self._prefix}pc_type python -{self._prefix}pc_python_type femgpu.AssembledPC "
                f"-{self._prefix}assembled_pc_type ..., which copies"
            )

    @property
    def _matrices(self) -> list[PETSc.Mat]:
        """What KSP multiplies with and what the preconditioner sees, each once."""
        return list({mat.handle: mat for mat in (self.jacobian, self._pmat)}.values())

    @property
    def _prefix(self) -> str:
        return self.snes.getOptionsPrefix() or ""

    def _form_function(self, snes: PETSc.SNES, x: PETSc.Vec, f: PETSc.Vec) -> None:
        self.operator.residual(x, f)

    def _form_jacobian(self, snes: PETSc.SNES, x: PETSc.Vec, J: PETSc.Mat, P: PETSc.Mat) -> None:
        if not self.form.has_jacobian:
            petsc_c.difference_at(self.jacobian, x)
        else:
            self.operator.linearise(x)
        self._assemble(J, P)

    def _assemble(self, J: PETSc.Mat, P: PETSc.Mat) -> None:
        """Brings the matrices to the operators' state."""
        if self._assembled is not None:
            self._assembled.fill()
        for mat in {J.handle: J, P.handle: P}.values():
            mat.assemble()

    def _check_converged(self) -> None:
        if self.snes.getConvergedReason() < 0:
            raise SolverError(
                f"SNES diverged: {self._outcome()}. Look at -{self._prefix}snes_monitor -{self._prefix}ksp_monitor; try a better "
                f"initial guess, another -{self._prefix}pc_type or more iterations (-{self._prefix}ksp_max_it)"
                + self._precision_hint()
            )

    def _outcome(self) -> str:
        """How the last nonlinear and linear solve ended."""
        snes, ksp = self.snes, self.snes.getKSP()
        return (
            f"{reason_name(snes)} after {snes.getIterationNumber()} iterations, residual norm {snes.getFunctionNorm():.6e}; last "
            f"linear solve: {reason_name(ksp)} after {ksp.getIterationNumber()} iterations"
        )

    def _precision_hint(self) -> str:
        if self.settings.precision == "double":
            return ""
        return (
            f"; the kernels compute in single precision (-femgpu_precision {self.settings.precision}): residuals fall by about six "
            f"orders of magnitude at most, so ask for -{self._prefix}snes_rtol 1e-6 or larger"
        )


def check_unknown(u: Any) -> None:
    """Refuses what is no Function.

    Raises:
        DataError: when it is none.
    """
    if not isinstance(u, Function):
        raise DataError(
            f"the unknown is {u!r} of type {type(u).__name__}; expected a femgpu.Function in a FunctionSpace or MixedSpace"
        )


def let_go(mesh: Mesh) -> None:
    """Frees problems that were dropped; collective.

    A problem and its SNES refer to each other, so that Python frees both at a time of its own, not knowing how much device memory
    they hold; and petsc4py only queues objects of several ranks, which must agree on what is gone before PETSc destroys it.
    """
    gc.collect()
    if mesh.mpi.size > 1:
        PETSc.garbage_cleanup(mesh.comm)


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


def reason_name(solver: PETSc.Object) -> str:
    """PETSc's name of the reason why a SNES, KSP or TS ended."""
    kind, reason = type(solver).__name__, solver.getConvergedReason()
    names = [name for name, value in vars(type(solver).ConvergedReason).items() if value == reason and name.isupper()]
    return f"{kind}_{names[0]}" if names else f"{kind} reason {reason}"
