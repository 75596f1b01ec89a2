"""GMRES (Saad and Schultz, 1986) and FGMRES (Saad, 1993) with restarts, the basis on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from femgpu.krylov.basis import BASIS, Basis, Block
from femgpu.krylov.hessenberg import Hessenberg
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import BREAKDOWN, EXACT, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import KRYLOV, Vectors
from femgpu.krylov.watch import Watch


class GMRES:
    """Solves A x = b by minimising the residual over a growing basis.

    An iteration is the operator, all scalar products of the new vector with the basis in one pass, their sums, one subtraction and
    one normalisation. The solution is that of the iteration whose norm ended the solve, however late that was looked at.

    Args:
        vectors: kernels and lengths.
        restart: vectors after which the basis is thrown away.
        check: see `Watch`.
        flexible: keep what the preconditioner gave, which may be another at each iteration.
        modified: see `Basis`.
        refinement: see `Basis`.
        happy: norm of a new vector, against the residual too, below which the solution counts as exact.
        breakdown: change of the residual norm at a restart, against that at the restart before, which counts as breakdown.

    Attributes:
        files: with the kernels, in `kernels/cl`.
        check: for the next solve, 1 or the one given first.
        hessenberg: of the last cycle.
    """

    files: ClassVar[tuple[str, ...]] = (KRYLOV, BASIS)

    def __init__(
        self,
        vectors: Vectors,
        restart: int = 30,
        check: int = 1,
        flexible: bool = False,
        modified: bool = False,
        refinement: str = "never",
        happy: float = 1e-30,
        breakdown: float | None = 0.1,
    ):
        self.vectors, self.check = vectors, check
        self._system = System(vectors)
        self._basis = Basis(vectors, restart + 1, modified, refinement)
        self._flexible, self._restart = flexible, restart
        self._happy, self._breakdown = happy, breakdown
        self.hessenberg = Hessenberg(restart)
        self._z, self._correction = vectors.empty(), vectors.empty()
        # Columns of the Hessenberg matrix, each with the square of the new vector's norm behind it.
        self._watch = Watch(vectors, restart + 2, check, parts=1)
        self._kept = Block(vectors, restart) if flexible else None

    def solve(
        self,
        operator: Operator,
        b: Any,
        x: Any,
        preconditioner: Preconditioner,
        test: Test,
        guess: bool = False,
        project: Callable[[Any], None] | None = None,
        right: bool = False,
    ) -> Outcome:
        """Iterates until the test says so.

        Args:
            operator: A.
            b: right-hand side, a device buffer.
            x: the solution; its entries are the first guess where `guess`.
            preconditioner: M.
            test: gets iterations and norms, in order.
            guess: whether x holds one.
            project: takes the null space out of what the preconditioner gave.
            right: M stands on the right of A, and norms are |b - A x|; else on the left, and they are |M (b - A x)|.
        """
        self._right = right or self._flexible
        self._system.begin(operator, preconditioner, project)
        done, before = 0, None
        while True:
            beta = self._start(b, x, guess or done > 0)
            if not np.isfinite(beta):
                return Outcome(done, beta, NOT_FINITE)
            if before is not None and self._breakdown is not None and abs(beta - before[0]) > self._breakdown * before[1]:
                return Outcome(done, beta, BREAKDOWN)
            if reason := test(done, beta):
                return Outcome(done, beta, reason)
            outcome = self._cycle(done, test)
            self._add_solution(x)
            if outcome:
                return outcome
            done += self._restart
            before = self.hessenberg.norm, beta

    def solution(self, x: Any, out: Any) -> None:
        """Puts the iterate so far into a buffer, x holding that of the last restart."""
        self._system.copy(x, out)
        self._add_solution(out)

    def _start(self, b: Any, x: Any, guess: bool) -> float:
        """Makes the residual the first vector; its norm."""
        basis, system = self._basis, self._system
        if self._right:
            system.residual(b, x, guess, basis.w)
        else:
            system.residual(b, x, guess, self._z)
            system.precondition(self._z, basis.w)
        column = self._watch.slots[0]
        basis.start(column)
        beta = float(np.sqrt(self.vectors.runtime.read(column, np.zeros(1))[0]))
        self.hessenberg.begin(beta)
        return beta

    def _cycle(self, done: int, test: Test) -> Outcome | None:
        """Iterates until there is a reason to stop or the basis is full."""
        basis, system, slots = self._basis, self._system, self._watch.slots
        self._begin, end, judge = done, done + self._restart, partial(self._judge, test)
        # The norm of iteration `done` is known.
        self._watch.begin(self.check, min(end, test.limit), done + 1)
        while done < end:
            number = done - self._begin
            if self._kept is not None:
                system.precondition(basis.p, self._z)
                self._kept.keep(number, self._z)
                system.operator(self._z, basis.w)
            else:
                system.apply(basis.p, basis.w, self._right)
            done += 1
            basis.orthogonalise(number + 1, slots[done % len(slots)])
            if outcome := self._watch(done, judge):
                return outcome
        return None

    def _judge(self, test: Test, iteration: int, numbers: npt.NDArray[np.float64]) -> Outcome | None:
        """Takes a column and the |w|^2 behind it; the outcome where they say stop."""
        count, problem = iteration - self._begin, self.hessenberg
        column, square = numbers[:count], numbers[count]
        reason = self._reason(test, iteration, column, float(square))
        if reason or count < self._restart:
            # The norm that is computed anew after the restart is reported.
            test.report(iteration, problem.norm)
        return Outcome(iteration, problem.norm, reason) if reason else None

    def _reason(self, test: Test, iteration: int, column: npt.NDArray[np.float64], square: float) -> int | str:
        """A reason to stop other than 0."""
        if not np.isfinite(column).all() or not np.isfinite(square):
            return NOT_FINITE
        below, problem = square**0.5, self.hessenberg
        exact = below <= min(self._happy, below / problem.norm if problem.norm else 0.0)
        if not problem.add(column, below, exact):
            return BREAKDOWN
        return test.check(iteration, problem.norm) or (EXACT if exact else 0)

    def _add_solution(self, x: Any) -> None:
        """Adds the correction of the iterations since the last restart to x."""
        if not self.hessenberg.count:
            return
        coefficients, system = self.hessenberg.solution(), self._system
        if self._kept is not None:
            self._kept.combine(coefficients, x)
        elif self._right:
            self.vectors.runtime.zero(self._z, self.vectors.num_bytes)
            self._basis.combine(coefficients, self._z)
            system.precondition(self._z, self._correction)
            system.add(1, self._correction, x)
        else:
            self._basis.combine(coefficients, x)
