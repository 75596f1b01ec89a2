"""Problems in time over TS."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from petsc4py import PETSc

from femgpu import log, options
from femgpu.errors import FormError, SolverError, alive, collective
from femgpu.forms import PointwiseForm, lower_form
from femgpu.mesh.garbage import let_go
from femgpu.operators.inputs import check_finite
from femgpu.progress import progress
from femgpu.solver.arguments import check_time
from femgpu.solver.conditions import Conditions, consistent_bcs
from femgpu.solver.given_options import GivenOptions, with_given_options
from femgpu.solver.integrator import Integrator
from femgpu.solver.jacobian_pair import JacobianPair
from femgpu.solver.outcome import outcome, precision_hint, reason_name
from femgpu.solver.petsc_errors import petsc_errors
from femgpu.solver.problem import NonlinearProblem
from femgpu.solver.solver_types import refuse_types
from femgpu.solver.stage_operator import StageOperator
from femgpu.solver.time_output import Recorder
from femgpu.solver.time_span import TimeSpan
from femgpu.solver.unknowns import Unknowns
from femgpu.spaces import Constant, Function, SubFunction, is_rate, time_derivative, time_shift


class TimeProblem(NonlinearProblem):
    """Find u(t) with F(t, u, du/dt; v) = 0 for all v, and u = value(t) on the prescribed parts of the boundary.

    PETSc's TS integrates: implicit methods, with its adaptivity, events and monitors. Without options that is BDF of order 2 with
    steps of the given length; `-ts_type beuler | cn | theta | bdf | alpha | arkimex | dirk | rosw` and the rest of TS's options
    rule; cn and rosw lose an order where the factor of du/dt depends on t or u. SNES solves each stage, J = shift dF/du_t + dF/du.

    Boundary conditions are algebraic equations, u = value at the time of each stage, evaluated anew there: values may be callables
    that read `t.value`, UFL expressions of t, or Functions that the program keeps up to date. du/dt at prescribed dofs is what the
    integrator's formula makes of these values. Methods whose steps end with a stage (beuler, cn, bdf, rosw, most of dirk) give
    prescribed dofs their values at the end of each step; others (theta below 1 without -ts_theta_endpoint, alpha) extrapolate them
    from their stages.

    Initial data: u as it is when `solve` first runs, with the boundary values of that time inserted. The integrators need nothing
    more for fields whose time derivative is in the form; for algebraic fields see `make_consistent`.

    Args:
        F: a UFL residual with `time_derivative(u)`, linear in its test function, or a `PointwiseForm` with `u_t`.
        u: the unknown; holds the initial values and, during and after `solve`, the solution.
        bcs: Dirichlet conditions, or a single one.
        t: the Constant that stands for the time in F and in boundary values; its value is the initial time. Default: a new one,
            from 0.
        options_prefix: prefix of this problem's options.
        petsc_options: options of this problem alone, as for `NonlinearProblem`.

    Attributes:
        t: the Constant of the time, set before each evaluation and each monitor.

    Raises:
        FemgpuError: on all ranks, for forms, options, devices or data that do not fit; the message names the remedy.
    """

    def __init__(
        self,
        F: Any,
        u: Function,
        bcs: Conditions = None,
        t: Constant | None = None,
        options_prefix: str = "",
        petsc_options: Mapping[str, Any] | None = None,
    ):
        self.unknowns = Unknowns.of(u, "TimeProblem(F, u, bcs)", several=False)
        options.check_prefix(options_prefix)
        let_go(self, u.space.comm)
        check_time(t, u)
        pointwise = isinstance(F, PointwiseForm)
        given = F.t if pointwise and t is None else t
        self.t: Constant = Constant(u.space.dm, 0.0) if given is None else given
        self._form_given = F.at_time(self.t) if pointwise else F
        self.given_options = GivenOptions(options_prefix, petsc_options)
        self._integrator = Integrator(u, options_prefix)
        self._snes = self.ts.getSNES()
        self._shift = time_shift(u)
        self._prepare(u, bcs, lambda: self._lower(self._form_given, u), scale=1.0)
        self._stage = StageOperator(self.operator, self.t, self._shift)
        self._recorder = Recorder(u)
        self._advance: Callable[[float], None] = lambda done: None
        self._attach()

    @property
    def ts(self) -> PETSc.TS:
        """The PETSc.TS; raises a DataError when it was destroyed."""
        return alive(self._integrator.ts, "the problem's TS")

    @property
    def step(self) -> int:
        """The number of steps so far."""
        return self.ts.getStepNumber()

    def residual(self, x: PETSc.Vec, f: PETSc.Vec, rate: PETSc.Vec | None = None, shift: float = 0.0) -> None:
        """F = residual at the time `t.value`, all T-vectors; collective.

        Args:
            x: the state.
            f: the result.
            rate: du/dt; default zero.
            shift: derivative of du/dt with respect to u; the form sees rate + shift (value - x) at prescribed dofs.
        """
        self._stage.move_to(self.t.value)
        self.operator.residual(x, f, self._zero(rate), shift)

    def linearise(self, x: PETSc.Vec, rate: PETSc.Vec | None = None, shift: float = 0.0) -> None:
        """Moves the Jacobian shift dF/d(du/dt) + dF/du (and what the preconditioner sees) to a state at `t.value`; collective.

        Args:
            x: the state; it stays until the next call or solve, but `linearise(u.vec)`, without more, follows u.
            rate: du/dt; default zero.
            shift: derivative of du/dt with respect to u.
        """
        self._integrator.linearise(x, self._zero(rate), shift)
        self._pair.watch.note(x.handle == self.u.vec.handle and rate is None and shift == 0.0)

    def insert_boundary_values(self, x: PETSc.Vec) -> None:
        """Sets the prescribed entries of a T-vector to their values at `t.value`, evaluated anew; collective."""
        self._stage.move_to(self.t.value, anew=True)
        self.operator.insert_values(x)

    def output(
        self, path: str | os.PathLike[str], every: int = 1, functions: Function | SubFunction | Sequence[Any] | None = None
    ) -> None:
        """Writes a series for ParaView while `solve` runs: the state at the start, after every k steps and at the end; collective.

        Args:
            path: name of the collection, `out/heat.pvd`; the .vtu files stand beside it. It is complete after each of them.
            every: k.
            functions: what to write, one or several; default u, or the fields of a mixed u.

        Raises:
            DataError: on all ranks, for another suffix, a folder that does not exist, or functions that do not go into one file.
        """
        self._recorder.output(path, every, functions)

    def checkpoint(self, path: str | os.PathLike[str], every: int | None = None) -> None:
        """Writes u, time, step and step length to an .h5 file, from which `restart` continues; collective.

        The file is replaced when its successor is complete, so that a run which is killed leaves a whole one.

        Args:
            path: the file.
            every: write after every k steps and at the end of `solve`; default: once, now.

        Raises:
            DataError: on all ranks, for another suffix or a folder that does not exist.
        """
        writer = self._recorder.checkpoint(path, 1 if every is None else every, self._span.numbers)
        if every is None:
            writer(self.step, self.t.value, True)
        else:
            self._recorder.writers.append(writer)

    def restart(self, path: str | os.PathLike[str]) -> None:
        """Takes u, time, step and step length from a checkpoint of the same mesh and space, on any number of ranks; collective.

        `solve` then goes on from there. Methods of one step (beuler, cn, theta, dirk) give the numbers of a run that was not
        interrupted; BDF starts with one step and its half of lower order, as at the beginning, alpha with new rates.

        Raises:
            DataError: on all ranks, when the file is missing, is no checkpoint, or was written for another mesh or space.
        """
        self._span.restart(**self._recorder.restart(path, tuple(self._span.numbers())))

    @with_given_options
    def make_consistent(self, *names: str) -> None:
        """Solves for algebraic fields at the initial time, all others held at their values; collective.

        For equations of index 1: those of the named fields determine them and contain no time derivative. (The pressure of an
        incompressible flow is of index 2: its equation does not contain it. Give it a value, or take beuler or bdf, which
        do not look at the initial one.) The solver takes the options of this problem with `consistent_` after the prefix.

        Args:
            names: names of fields of the mixed unknown.

        Raises:
            FormError: for a name that is not a field's.
            SolverError: when SNES diverged.
        """
        bcs = consistent_bcs(self.u, self.bcs, names)
        self._shift.value = 0.0
        time_derivative(self.u).vec.set(0)
        NonlinearProblem(self._form_given, self.u, bcs, options_prefix=f"{self._prefix}consistent_").solve()

    @with_given_options
    def solve(self, t_end: float | None = None, dt: float | None = None) -> Function:
        """Integrates from `t.value`, with u there, by TSSolve; collective.

        A second call goes on where the first ended; u or `t.value` changed in between make it a new start.

        Args:
            t_end: the final time, which the last step hits; -ts_max_time overrides it.
            dt: length of the first, or of every step; -ts_time_step overrides it. Default: what ts.setTimeStep was given.

        Returns:
            u.

        Raises:
            OptionError: when neither arguments nor options say how long to run and in what steps.
            DataError: when the initial values or a coefficient are not finite.
            BuildError: when the device's compiler refuses a kernel.
            SolverError: when TS diverged; names its reason and those of the last nonlinear and linear solve.
        """
        ts = self.ts
        refuse_types(self.snes)
        self._integrator.warn_of_order(self._form_given, self.u, self.t)
        with collective(self.u.space.mesh.mpi):
            check_finite(self.u.vec.array_r, f"the initial values {self.u.name}")
            self._span.set(t_end, dt)
        if self._span.begin():
            self.insert_boundary_values(self.u.vec)
        # What can fail does so before PETSc is inside TSSolve.
        self.operator.local.update()
        self._pair.build(self.snes.getKSP())
        try:
            shown = progress(self.u.space.comm, "time", self.t.value, ts.getMaxTime() - self.t.value)
            with petsc_errors(ts), shown as self._advance:
                ts.solve(self.u.vec)
        except BaseException:
            self._recover()
            raise
        self._stage.move_to(self.ts.getSolveTime())
        self._attach_constrained()
        self._span.keep()
        if self.settings.view:
            log.show(self.u.space.comm, self.report())
        self._check_converged()
        if self.u.space.mesh.mpi.rank == 0 and ts.getKSPIterations():
            self.given_options.warn_unread()
        return self.u

    def report(self) -> str:
        """What `-femgpu_view` prints: as of a steady problem, and how far TS got; collective."""
        return f"{super().report()}\n  {self._integrator.history()}"

    def _lower(self, F: Any, u: Function) -> Any:
        rate = time_derivative(u)
        form = lower_form(F, u, rates={rate: self._shift})
        for other in form.coefficients:
            if is_rate(other) and other is not rate:
                raise FormError(f"the form contains {other.name}, the time derivative of another function than {u.name}")
        if rate not in form.coefficients:
            raise FormError(f"the form does not contain time_derivative({u.name}) (u_t); take NonlinearProblem for what is steady")
        return form

    @with_given_options
    def _attach(self) -> None:
        """Hands callbacks and matrices to TS, and reads its options."""
        self._integrator.attach(self._stage, self._residual_vec, self._monitor)
        self._pair = JacobianPair(self.snes, self.operator, self.u)
        self._integrator.read_options()
        self._pair.choose(self.snes)
        self._integrator.connect(self._pair)
        self._span = TimeSpan(self.ts, self.t, self.u)

    def _recover(self) -> None:
        """After an exception inside TSSolve, which leaves vectors locked, and the time at a stage: u is that of the last step."""
        self._unlock()
        self.t.value = self.ts.getTime()
        self._integrator.recover()
        self._span.forget()

    def _zero(self, rate: PETSc.Vec | None) -> PETSc.Vec:
        if rate is not None:
            return rate
        zero = self.u.vec.duplicate()
        zero.set(0)
        return zero

    def _monitor(self, ts: PETSc.TS, step: int, time: float, x: PETSc.Vec) -> None:
        """Before the user's monitors: brings u and t to the end of a step, writes what is due."""
        self._span.right_step()
        self.t.value = time
        if x.handle != self.u.vec.handle:
            x.copy(self.u.vec)
        self._attach_constrained()
        self._advance(time)
        self._recorder.record(self.step, time, ts.getConvergedReason() != 0)

    def _check_converged(self) -> None:
        ts, prefix = self.ts, self._prefix
        if ts.getConvergedReason() < 0:
            self._span.forget()  # methods of several steps have to begin anew
            raise SolverError(
                f"TS diverged: {reason_name(ts)} in step {self.step + 1} from t = {ts.getTime():.6g} with dt = "
                f"{ts.getTimeStep():.6g}; {outcome(self.snes)}. {self.u.name} holds the state before that step. Look at "
                f"-{prefix}ts_monitor; try a smaller -{prefix}ts_time_step, or "
                f"-{prefix}ts_max_snes_failures unlimited, which repeats failed steps with a smaller one. {self._advice()}"
                + precision_hint(self.settings.precision, prefix)
            )
