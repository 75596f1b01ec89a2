"""Nonlinear problems over SNES."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import log, options, petsc_c
from femgpu.errors import DataError, SolverError, alive, collective
from femgpu.forms import Form, lower_form, residual_form
from femgpu.mesh.garbage import attributes, let_go
from femgpu.operators import is_symmetric
from femgpu.operators.device import choose_runtime
from femgpu.operators.inputs import check_finite
from femgpu.solver.arguments import check_diagonal
from femgpu.solver.conditions import Conditions
from femgpu.solver.given_options import GivenOptions, with_given_options
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.jacobian_pair import JacobianPair
from femgpu.solver.matrix import AssembledJacobian
from femgpu.solver.nullspace import give_near_nullspace, give_nullspace
from femgpu.solver.outcome import advice, failure, precision_hint
from femgpu.solver.petsc_errors import petsc_errors
from femgpu.solver.solver_types import refuse_types
from femgpu.solver.unknowns import Unknowns, solves_for_unknowns
from femgpu.solver.view import view
from femgpu.spaces import Function

# Attribute of a SNES that says which problem it solves: the user's may be handed to several.
_OWNER = "__femgpu_problem__"


class NonlinearProblem:
    """Find u with F(u; v) = 0 for all v, and u = value on the prescribed parts of the boundary.

    Args:
        F: a UFL residual, linear in its test function, or a `PointwiseForm`. `F == 0` and linear problems `a == L` with a trial
            function in a are taken, too; `LinearProblem` solves these without Newton's method.
        u: the unknown; holds the initial guess and, after `solve`, the solution. Or several, (u, p), see `Unknowns`: test functions
            then are `ufl.TestFunctions(ufl.MixedFunctionSpace(V, Q))`, conditions on V and Q; they are written to after a solve.
        bcs: Dirichlet conditions, or a single one; None: none.
        J: a bilinear UFL form to use as the Jacobian; default the derivative of F.
        options_prefix: prefix of this problem's options.
        snes: the user's own SNES, whose prefix and options then rule; default one of the problem's own. Before each SNESSolve that
            the user starts, `insert_boundary_values(x)` sets the boundary entries of x and evaluates the conditions anew.
        petsc_options: options of this problem alone, values by name without prefix: {"ksp_type": "cg", "ksp_monitor": None}.
            They are PETSc's while the problem is made and in its `solve`; the command line overrides them.

    Attributes:
        u: the unknown; of several, the Function of a MixedSpace whose fields `part_0`, `part_1`, ... they are.
        unknowns: `u` and what was given.
        bcs: the Dirichlet conditions.
        form: the lowered form.
        settings: femgpu's options as they were read.
        given_options: the options that came as `petsc_options`.

    Raises:
        FemgpuError: on all ranks, for forms, options, devices or data that do not fit; the message names the remedy.
    """

    def __init__(
        self,
        F: Any,
        u: Function | Sequence[Function] | Unknowns,
        bcs: Conditions = None,
        J: Any = None,
        options_prefix: str = "",
        snes: PETSc.SNES | None = None,
        petsc_options: Mapping[str, Any] | None = None,
    ):
        self.unknowns = unknowns = Unknowns.of(u, "NonlinearProblem(F, u, bcs)")
        u, bcs = unknowns.whole, unknowns.conditions(bcs)
        if snes is not None and not isinstance(snes, PETSc.SNES):
            raise DataError(f"snes is of type {type(snes).__name__}; expected a PETSc.SNES")
        self._snes = PETSc.SNES().create(comm=u.space.comm) if snes is None else alive(snes, "snes")
        options.check_prefix(options_prefix)
        self.given_options = GivenOptions(options_prefix if snes is None else snes.getOptionsPrefix() or "", petsc_options)
        let_go(self, u.space.comm)
        self._own = snes is None
        if snes is None:
            self.snes.setOptionsPrefix(options_prefix)
        self._prepare(u, bcs, lambda: lower_form(residual_form(unknowns.form(F), u), u, unknowns.form(J)))
        self._attach()

    @with_given_options
    def _prepare(self, u: Function, bcs: Conditions, lower: Callable[[], Form], scale: float | None = None) -> None:
        """Makes what lies below the solver, whose prefix is set: options, form, device, operators; collective."""
        mesh = u.space.mesh
        self.u = u
        self._kept = [attributes(solver) for solver in (self.snes, self.snes.getKSP())]
        with collective(mesh.mpi):
            self.settings = options.read(self._prefix)
            self.form = lower()
        self.runtime = choose_runtime(self.settings, [u.vec], mesh.mpi)
        self.operator = GlobalOperator(self.form, bcs, self.settings, self.runtime, scale)
        self.bcs = self.operator.rows.bcs
        self._residual_vec = u.vec.duplicate()

    @property
    def snes(self) -> PETSc.SNES:
        """The PETSc.SNES; raises a DataError when it was destroyed."""
        return alive(self._snes, "the problem's SNES")

    @property
    def assembled(self) -> bool:
        """Whether an AIJ matrix is filled at every Jacobian evaluation."""
        return self._pair.assembled

    @property
    def jacobian(self) -> PETSc.Mat:
        """The matrix that KSP multiplies with; collective.

        It is that of u, mesh, coefficients and constants as they are, also where they changed after it was taken: its products
        (`mult` and the like, `getDiagonal`) move it there first, as this property does. The state is another than u after
        `linearise(x)` with a vector other than `u.vec`, until the next `linearise` or solve; inside a solve PETSc rules it.

        A KSP that the user runs multiplies with the matrix as it was taken. Where u, or a coefficient that it reads, has changed
        since, a matrix-free one raises a SolverError there: take `problem.jacobian` again before each solve. An assembled one
        (-femgpu_jacobian assembled), and a difference of residuals, are there what they were when last asked for.

        Rows and columns of prescribed dofs are zero but for s on the diagonal, the mean of the other rows' diagonal entries:
        `assemble_jacobian(diagonal=...)` gives a matrix with another number there, for eigenproblems say.
        """
        self.unknowns.read()
        amat = self._pair.amat
        amat.follow = lambda: self._pair.follow(self.linearise)
        amat.follow()
        return amat

    def assemble_jacobian(self, x: PETSc.Vec | None = None, diagonal: float | None = None) -> PETSc.Mat:
        """The Jacobian at a state as a new AIJ matrix, which stays as it is; collective. Moves the problem's own there, too.

        For K x = lambda M x take a problem for each, K with `diagonal=1.0` and M with `diagonal=0.0`: prescribed dofs then add only
        infinite eigenvalues. (With the default s on both they would add s_K / s_M, as many times as there are such dofs.)

        Args:
            x: the state, a T-vector; default u.
            diagonal: the diagonal entry of prescribed rows, which are zero elsewhere; default s as in `jacobian`.

        Raises:
            DataError: for a diagonal that is not a finite number.
            FormError: when the form does not know its Jacobian.
        """
        if diagonal is not None:
            check_diagonal(diagonal)
        self.linearise(self.unknowns.read().vec if x is None else x)
        made = AssembledJacobian(self.operator, self.u.vec)
        made.fill(diagonal)
        made.mat.assemble()
        return made.mat

    @with_given_options
    def build(self) -> None:
        """Builds the kernels that a solve needs with the options as they are, side by side; evaluates none; collective.

        Raises:
            BuildError: when the device's compiler refuses one.
        """
        self._pair.build(self.snes.getKSP())
        self.runtime.programs.finish()

    def residual(self, x: PETSc.Vec, f: PETSc.Vec) -> None:
        """F = residual at x, both T-vectors; collective."""
        self.operator.residual(x, f)

    def linearise(self, x: PETSc.Vec) -> None:
        """Moves the Jacobian (and what the preconditioner sees) to the state x; collective.

        A state other than `u.vec` itself stays until the next call or solve, see `jacobian`.
        """
        self._form_jacobian(self.snes, x, self._pair.amat, self._pair.pmat)

    def insert_boundary_values(self, x: PETSc.Vec) -> None:
        """Sets the prescribed entries of a T-vector to their values, evaluated anew; collective."""
        self.operator.refresh()
        self.operator.insert_values(x)

    def set_nullspace(self, nullspace: PETSc.NullSpace, transpose: PETSc.NullSpace | None = None) -> None:
        """Says what the Jacobian maps to zero: boundary rows of its vectors are zero. A mode that it does not is warned of, once.

        Args:
            nullspace: the null space.
            transpose: that of the transpose, of which right-hand sides lose their part; default the same for symmetric Jacobians.

        Raises:
            DataError: for what is none, or of another space.
        """
        if transpose is None and self.form.has_jacobian and is_symmetric(self.form):
            transpose = nullspace
        give_nullspace(self._pair.matrices, nullspace, transpose)

    def set_near_nullspace(self, nullspace: PETSc.NullSpace) -> None:
        """Gives algebraic multigrid the modes of small energy, such as `rigid_body_modes(space)`."""
        give_near_nullspace(self._pair.matrices, nullspace)

    @solves_for_unknowns
    @with_given_options
    def solve(self) -> Any:
        """Solves by SNESSolve with u as initial guess, boundary values inserted first; collective.

        Returns:
            u, or the tuple of several.

        Raises:
            DataError: when the initial guess or a coefficient is not finite.
            BuildError: when the device's compiler refuses a kernel.
            SolverError: when SNES diverged, or KSP of a linear problem; names the reason, and that of the last linear solve.
        """
        refuse_types(self.snes)
        with collective(self.u.space.mesh.mpi):
            check_finite(self.u.vec.array_r, f"the initial guess {self.u.name}")
        self.insert_boundary_values(self.u.vec)
        # What can fail does so before PETSc is inside SNESSolve.
        self.operator.local.update()
        if self._pair.choose_anew(self.snes) or self.snes.getAttr(_OWNER) is not self._mark:
            self._connect()
        self._pair.build(self.snes.getKSP())
        try:
            with petsc_errors(self.snes):
                self.snes.solve(None, self.u.vec)
        except BaseException:
            self._unlock()
            # A preconditioner that stopped in its set-up may refuse; what comes first has to be told.
            with suppress(PETSc.Error):
                self._connect()
            raise
        self._attach_constrained()
        if self.settings.view:
            log.show(self.u.space.comm, self.report())
        self._check_converged()
        if self.u.space.mesh.mpi.rank == 0 and self.snes.getLinearSolveIterations():
            self.given_options.warn_unread()

    def report(self) -> str:
        """What `-femgpu_view` prints: device, mesh, plans, times of the kernels; collective."""
        return view(self.operator, self.u.vec, self.assembled, self.snes.getKSP(), self._pair.chosen)

    def _unlock(self) -> None:
        """Lifts the locks that PETSc leaves on vectors where a callback raises."""
        for vec in (self.u.vec, self._residual_vec):
            petsc_c.unlock(vec)

    def _attach_constrained(self) -> None:
        """The values of dofs that the section constrains go with the solution."""
        rows, constrained = self.operator.rows, self.u.space.numbering.constrained
        self.u.set_constrained(rows.values[np.searchsorted(rows.local, constrained)])

    @with_given_options
    def _attach(self) -> None:
        """Hands callbacks and matrices to SNES."""
        if self.snes.getAttr(_OWNER) is not None:
            self.snes.reset()
        self.snes.setDM(self.u.space.dm)
        self.snes.setFunction(self._form_function, self._residual_vec)
        self._pair = JacobianPair(self.snes, self.operator, self.u, self._own)
        if self._own or self.given_options:
            refuse_types(self.snes)
            with petsc_errors(self.snes, reading=True):
                self.snes.setFromOptions()
        self._pair.choose(self.snes)
        self._mark = object()
        self._connect()

    def _connect(self) -> None:
        """Makes SNES solve this problem, whatever it was about before, also after an error inside it."""
        if self.snes.getAttr(_OWNER) is not None:
            self.snes.reset()
        self.snes.setDM(self.u.space.dm)
        self.snes.setFunction(self._form_function, self._residual_vec)
        self.snes.setJacobian(self._form_jacobian, self._pair.amat, self._pair.pmat)
        self.snes.setAttr(_OWNER, self._mark)

    @property
    def _prefix(self) -> str:
        return self.snes.getOptionsPrefix() or ""

    def _form_function(self, snes: PETSc.SNES, x: PETSc.Vec, f: PETSc.Vec) -> None:
        self.operator.residual(x, f)

    def _form_jacobian(self, snes: PETSc.SNES, x: PETSc.Vec, J: PETSc.Mat, P: PETSc.Mat) -> None:
        if self.form.has_jacobian:
            self.operator.linearise(x)
        self._pair.update(x, J, P, self._pair.watch.is_u(x))

    def _advice(self) -> str:
        size = self.operator.jacobian_size() if self.form.has_jacobian else 1.0
        return advice(self.snes, self.form, self.operator.any_rows, size, self._pair.chosen)

    def _check_converged(self) -> None:
        if self.snes.getConvergedReason() < 0:
            said = f"{failure(self.snes)}. {self._advice()}" + precision_hint(self.settings.precision, self._prefix)
            if self.snes.getKSP().getConvergedReason() == PETSc.KSP.ConvergedReason.DIVERGED_PCSETUP_FAILED:
                # PETSc would keep to its verdict, whatever the next matrix is.
                with suppress(PETSc.Error):
                    self._connect()
            raise SolverError(said)
