"""From where to where an integrator runs: arguments and options of a solve, restarts, and what goes on from the last one."""

from __future__ import annotations

import math
from numbers import Real

from mpi4py import MPI
from petsc4py import PETSc

from femgpu.errors import OptionError
from femgpu.spaces import Constant, Function

# PETSc's default step but for a rounding: any other was set by ts.setTimeStep, also 0.1.
_NO_STEP = math.nextafter(0.1, 1.0)


class TimeSpan:
    """Where in time TS stands, and how far it is to go.

    Args:
        ts: the PETSc.TS, its options read.
        t: the Constant of the time.
        u: the unknown.
    """

    def __init__(self, ts: PETSc.TS, t: Constant, u: Function):
        self._ts, self._t, self._u = ts, t, u
        self._prefix = ts.getOptionsPrefix() or ""
        self._has_step = PETSc.Options().hasName(f"{self._prefix}ts_time_step")
        if not self._has_step:
            ts.setTimeStep(_NO_STEP)
        self._last: tuple[float, int] | None = None
        self._restarted_at = 0

    def set(self, t_end: float | None, dt: float | None) -> None:
        """Takes the arguments of a solve where options say nothing.

        Raises:
            OptionError: when neither say how long to run and in what steps; for what is no number, or an end before the time.
        """
        ts, database, prefix = self._ts, PETSc.Options(), self._prefix
        for name, value in (("t_end", t_end), ("dt", dt)):
            if value is not None and not isinstance(value, Real):
                raise OptionError(f"{name} is {value!r} of type {type(value).__name__}; expected a number")
        if t_end is not None and not database.hasName(f"{prefix}ts_max_time"):
            if not t_end >= self._t.value:  # -1 is PETSc's word for its default
                raise OptionError(f"the final time {t_end} lies before t = {self._t.value}; expected a later t_end")
            ts.setMaxTime(t_end)
        if dt is not None and not database.hasName(f"{prefix}ts_time_step"):
            ts.setTimeStep(dt)
            self._has_step = True
        counts = ("ts_max_steps", "ts_run_steps")
        if ts.getMaxTime() >= 1e300 and not any(database.hasName(prefix + name) for name in counts):
            raise OptionError(f"solve() without an end: give it t_end, or -{prefix}ts_max_time or -{prefix}ts_max_steps")
        if not self._has_step and ts.getTimeStep() == _NO_STEP:
            raise OptionError(f"solve() without a step: give it dt, -{prefix}ts_time_step, or ts.setTimeStep(dt)")
        if not ts.getTimeStep() > 0:
            raise OptionError(f"a step of {ts.getTimeStep()}; expected a positive dt or -{prefix}ts_time_step")
        if ts.getMaxTime() < self._t.value:
            raise OptionError(
                f"the final time {ts.getMaxTime()} lies before t = {self._t.value}; expected a later t_end or -{prefix}ts_max_time"
            )

    def begin(self) -> bool:
        """Sets TS to the time; collective.

        Returns:
            Whether the state, not being that of the last step, consists of initial values.
        """
        ts = self._ts
        if self._restarted_at and ts.getAttr("__indicator__") is not None:
            # TS looks at the initial signs of events only where it begins at step 0; `right_step` comes after that.
            ts.setStepNumber(0)
        else:
            self._restarted_at = 0
        time, goes_on = self._t.value, self._last == (self._t.value, self._u.vec.stateGet()) and ts.getTime() == self._t.value
        # The state may have been written on one rank only.
        if self._u.space.mesh.mpi.allreduce(goes_on, op=MPI.LAND):
            return False
        if time != (ts.getTime() if self._last is None else self._last[0]):
            ts.setStepNumber(0)
        ts.setTime(time)
        ts.restartStep()
        return True

    def right_step(self) -> None:
        """Gives TS the number of the step that it was restarted at, when it has begun."""
        if self._restarted_at:
            self._ts.setStepNumber(self._restarted_at)
            self._restarted_at = 0

    def keep(self) -> None:
        """Remembers time and state, by which the next solve sees whether it goes on from here."""
        self._last = self._t.value, self._u.vec.stateGet()

    def forget(self) -> None:
        """Makes the next solve a new start."""
        self._last = None

    def numbers(self) -> dict[str, float]:
        """What a checkpoint keeps beside the unknown."""
        return {"time": self._t.value, "step": float(self._ts.getStepNumber()), "step_length": self._ts.getTimeStep()}

    def restart(self, time: float, step: float, step_length: float) -> None:
        """Takes `numbers`; the unknown has the state that belongs to them."""
        self._t.value = time
        self._ts.setTime(time)
        self._ts.setStepNumber(int(step))
        self._restarted_at = int(step)
        self._ts.setTimeStep(step_length)
        self._has_step = True
        self._ts.restartStep()
        self.keep()
