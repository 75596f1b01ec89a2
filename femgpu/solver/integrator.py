"""PETSc's TS over the operators of a problem in time: its options, its callbacks, and how it recovers from an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import OptionError, callers
from femgpu.forms import derivative_reads
from femgpu.mesh.garbage import attributes
from femgpu.solver.jacobian_pair import JacobianPair
from femgpu.solver.petsc_errors import petsc_errors
from femgpu.solver.solver_types import TIME_METHODS, refuse_types
from femgpu.solver.stage_operator import StageOperator
from femgpu.spaces import Constant, Function, time_derivative

# Methods whose formulas want a factor of du/dt that stays: rosw one without u, cn one without t as well.
_LOSES = {PETSc.TS.Type.CN: "is of first order", PETSc.TS.Type.ROSW: "loses an order"}


class Integrator:
    """A TS for F(t, u, du/dt) = 0. `attach`, `read_options` and `connect` make it ready, in this order.

    Args:
        u: the unknown.
        prefix: of the options.

    Attributes:
        ts: the PETSc.TS.
    """

    def __init__(self, u: Function, prefix: str):
        self.ts = PETSc.TS().create(comm=u.space.comm)
        self.ts.setOptionsPrefix(prefix)
        self._kept = attributes(self.ts)
        self._warned = False
        # Callbacks of TS live in its DM: one that is shared would mix them up with those of other solvers on the space.
        self.ts.setDM(_private_dm(u))

    def attach(
        self, stage: StageOperator, residual_vec: PETSc.Vec, monitor: Callable[[PETSc.TS, int, float, PETSc.Vec], None]
    ) -> None:
        """Sets what options may change, and gives TS its residual.

        Args:
            stage: the operators.
            residual_vec: a T-vector for TS.
            monitor: called at the end of each step, before the user's monitors.
        """
        self._stage = stage
        self._residual_vec = residual_vec
        ts = self.ts
        ts.setType(PETSc.TS.Type.BDF)
        petsc_c.set_adapt_type(ts, "none")
        ts.setExactFinalTime(PETSc.TS.ExactFinalTime.MATCHSTEP)
        ts.setErrorIfStepFails(False)
        ts.setEquationType(PETSc.TS.EquationType.IMPLICIT)
        ts.setTime(stage.t.value)
        ts.setIFunction(self._form_ifunction, residual_vec)
        ts.setMonitor(monitor)

    def read_options(self) -> None:
        """Reads TS's options; the time then is that of TS.

        Raises:
            OptionError: for a method that does not solve problems of this kind.
        """
        ts = self.ts
        refuse_types(ts.getSNES())
        with petsc_errors(ts, reading=True):
            ts.setFromOptions()
        self._stage.t.value = ts.getTime()
        if ts.getType() not in (*TIME_METHODS, PETSc.TS.Type.PYTHON):
            raise OptionError(
                f"-{ts.getOptionsPrefix() or ''}ts_type {ts.getType()} does not integrate F(t, u, du/dt) = 0; expected "
                f"{', '.join(TIME_METHODS)}"
            )

    def connect(self, pair: JacobianPair) -> None:
        """Hands TS its Jacobian, and all else that a reset of TS takes away."""
        self._pair = pair
        self.ts.setIFunction(self._form_ifunction, self._residual_vec)
        self.ts.setIJacobian(self._form_ijacobian, pair.amat, pair.pmat)
        self.ts.getSNES().setInitialGuess(self._form_guess)
        self._before_stages = petsc_c.before_stages(self.ts, self._stage.announce)

    def warn_of_order(self, F: Any, u: Function, t: Constant) -> None:
        """Warns of a method that loses an order with this form, once; of functions given as C nothing is known."""
        kind, rate = self.ts.getType(), time_derivative(u)
        reading = {u, rate} | ({t} if kind == PETSc.TS.Type.CN else set())
        if self._warned or kind not in _LOSES or not reading & derivative_reads(F, rate):
            return
        self._warned = True
        if u.space.mesh.mpi.rank == 0:
            name, why = f"-{self.ts.getOptionsPrefix() or ''}ts_type", f"the factor of {rate.name} changes in time"
            warnings.warn(f"{name} {kind} {_LOSES[kind]} here, for {why}: take {name} theta, bdf or dirk", stacklevel=callers())

    def recover(self) -> None:
        """Makes TS usable again after an exception inside TSSolve."""
        # As in `NonlinearProblem.solve`, a preconditioner may refuse.
        with suppress(PETSc.Error):
            self.ts.reset()
        self.connect(self._pair)
        self._stage.announce(None)

    def linearise(self, x: PETSc.Vec, rate: PETSc.Vec, shift: float) -> None:
        """Moves the Jacobian to a state and its rate at the time `t.value`; collective."""
        self._form_ijacobian(self.ts, self._stage.t.value, x, rate, shift, self._pair.amat, self._pair.pmat)

    def history(self) -> str:
        """How far TS got, and at what cost."""
        ts = self.ts
        return (
            f"time: {ts.getType()}, {ts.getStepNumber()} steps to t = {self._stage.t.value:.6g}, {ts.getStepRejections()} "
            f"rejected; {ts.getSNESIterations()} Newton and {ts.getKSPIterations()} linear iterations"
        )

    def _form_guess(self, snes: PETSc.SNES, x: PETSc.Vec) -> None:
        kind = self.ts.getType()
        if kind == PETSc.TS.Type.ROSW:
            # The unknown is what a stage adds to the state: boundary values are none of it, its one Newton step leads to them. The
            # first stage of a step stands at them, so that the last Jacobian's shift does not matter there.
            self._stage.announce(None)
            return
        # The unknown of alpha is the state at the end of the step.
        self._stage.guess(x, self.ts.getAlphaParams()[1] if kind == PETSc.TS.Type.ALPHA else 1.0)

    def _form_ifunction(self, ts: PETSc.TS, time: float, x: PETSc.Vec, rate: PETSc.Vec, f: PETSc.Vec) -> None:
        self._stage.residual(time, x, f, rate)

    def _form_ijacobian(
        self, ts: PETSc.TS, time: float, x: PETSc.Vec, rate: PETSc.Vec, shift: float, J: PETSc.Mat, P: PETSc.Mat
    ) -> None:
        if self._stage.operator.local.form.has_jacobian:
            self._stage.linearise(time, x, rate, shift)
        self._pair.update(x, J, P)


def _private_dm(u: Function) -> PETSc.DM:
    """A DM with the section and the fields of u's space."""
    dm = u.space.dm.clone()
    u.space.dm.copyDisc(dm)
    dm.setLocalSection(u.space.dm.getLocalSection())
    return dm
