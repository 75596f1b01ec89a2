"""The operators of a problem in time, as an integrator calls them from stage to stage."""

from __future__ import annotations

from petsc4py import PETSc

from femgpu.solver.global_operator import GlobalOperator
from femgpu.spaces import Constant

# The mean of the diagonal that scales boundary rows is taken anew when the shift has left this range around its own.
_SAME_SCALE = (0.5, 2.0)


class StageOperator:
    """Residual and Jacobian at a time; every call but `announce` is collective.

    Boundary values are those of the time; du/dt at prescribed dofs is the integrator's formula shift u + something, with these
    values for u.

    Args:
        operator: the operators; the scale of their boundary rows is ruled here.
        t: the Constant of the time.
        shift: the Constant of the derivative of du/dt with respect to u.
    """

    def __init__(self, operator: GlobalOperator, t: Constant, shift: Constant):
        self.operator = operator
        self.t = t
        self.shift = shift
        self._time: float | None = None
        self._next: float | None = None
        self._scale_shift = 0.0

    def move_to(self, time: float, anew: bool = False) -> None:
        """Sets the time and, where it is another or on demand, evaluates the boundary conditions."""
        if time == self._time and time == self.t.value and not anew:
            return
        self._time = self.t.value = time
        self.operator.refresh_values()

    def announce(self, time: float | None) -> None:
        """Says at what time the next stage is; None: there is none."""
        self._next = time

    def guess(self, x: PETSc.Vec, fraction: float) -> None:
        """Inserts boundary values into the first iterate of a stage, so that linear problems take one iteration.

        A solve that was not announced is for other things than a stage's state (initial rates of ESDIRK methods): nothing happens.

        Args:
            x: the iterate.
            fraction: the part of the way from x to the unknown at which the stage stands.
        """
        if self._next is None:
            return
        time, self._next = self._next, None
        self.move_to(time, anew=True)
        self.operator.insert_values(x, fraction)

    def residual(self, time: float, x: PETSc.Vec, f: PETSc.Vec, rate: PETSc.Vec) -> None:
        """F = residual at a time, a state and its rate.

        The shift is that of the last Jacobian, another one where a stage begins: where x holds the boundary values it does not
        matter, and Newton's next residual has the right one.
        """
        self.move_to(time)
        self.operator.residual(x, f, rate, self.shift.value)

    def linearise(self, time: float, x: PETSc.Vec, rate: PETSc.Vec, shift: float) -> None:
        """Moves action, diagonal and matrices to a time, a state and its rate."""
        self.move_to(time)
        self.shift.value = shift
        self.operator.linearise(x, rate, shift)
        # Keeps boundary rows comparable to the others, which grow with the shift.
        least, most = (factor * self._scale_shift for factor in _SAME_SCALE)
        if not least < shift < most:
            self.operator.rescale()
            self._scale_shift = shift
