"""The method of conjugate gradients (Hestenes and Stiefel) with vectors, alpha and beta on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from femgpu.krylov.cg_steps import ROWS, AnySteps, DiagonalSteps
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import KRYLOV, MERGED, Vectors
from femgpu.krylov.watch import Watch
from femgpu.runtime import Kernel

_ROW = {"natural": 0, "preconditioned": 1, "unpreconditioned": 2}


class Steps(Protocol):
    """The two parts of an iteration, up to the product of the operator and after it.

    Attributes:
        r: takes the first residual.
        kernels: launched between two operators.
    """

    r: Any
    kernels: tuple[Kernel, ...]

    def begin(self, operator: Operator, x: Any) -> None:
        """Takes the residual for a direction, and makes the sums of iteration 0."""

    def product(self, iteration: int, last: bool) -> None:
        """Applies the operator unless `last`; completes the sums of the iteration."""

    def update(self, iteration: int) -> None:
        """Makes the step, and the sums of the next iteration."""

    def solution(self, iteration: int, x: Any) -> None:
        """Adds to an x, which has seen some of the steps before an iteration, the others."""


class CG:
    """Solves A x = b for a symmetric A and a symmetric preconditioner, both definite.

    Args:
        vectors: kernels and lengths.
        check: see `Watch`; a solve goes on until the norm that ends it was looked at, but not past its limit.
        flexible: the preconditioner may be another at each iteration: each direction is made conjugate to the one before
            (Notay, SIAM J. Sci. Comput. 22, 2000).

    Attributes:
        files: with the kernels, in `kernels/cl`.
        merged: the same where the preconditioner is a diagonal.
        check: for the next solve, 1 or the one given first.
    """

    files: ClassVar[tuple[str, ...]] = (KRYLOV,)
    merged: ClassVar[tuple[str, ...]] = (KRYLOV, MERGED)

    def __init__(self, vectors: Vectors, check: int = 1, flexible: bool = False):
        self.vectors, self.check, self._flexible = vectors, check, flexible
        self._system = System(vectors)
        self._watch = Watch(vectors, ROWS, check)

    def solve(
        self,
        operator: Operator,
        b: Any,
        x: Any,
        preconditioner: Preconditioner,
        test: Test,
        norm: str | None = "preconditioned",
        guess: bool = False,
        project: Callable[[Any], None] | None = None,
    ) -> Outcome:
        """Iterates until the test says so.

        Args:
            operator: A.
            b: right-hand side, a device buffer.
            x: the solution; its entries are the first guess where `guess`.
            preconditioner: M.
            test: gets iterations and norms, in order.
            norm: `preconditioned` |z|, `unpreconditioned` |r| or `natural` (r.z)^(1/2); None: nothing is read, and the test is
                asked at its limit only, with NaN.
            guess: whether x holds one.
            project: takes the null space out of what the preconditioner gave.
        """
        self._row = None if norm is None else _ROW[norm]
        self._signs, self._before = np.zeros(2), (0.0, 0.0)  # r.z and p.q, whose signs must stay; norm and r.z of the last look
        self._watch.begin(self.check, test.limit)
        self._system.begin(operator, preconditioner, project)
        self._steps: Steps = self._diagonal_steps if self._system.simple and not self._flexible else self._any_steps
        self._system.residual(b, x, guess, self._steps.r)
        self._steps.begin(operator, x)
        done, judge = 0, partial(self._judge, test)
        # Several ranks add up what comes with r and what comes with the product together.
        ahead, outcome = self.vectors.mpi.size > 1, None
        while True:
            self._done, last = done, done == test.limit
            if ahead:
                self._steps.product(done, last)
            if self._row is not None:
                outcome = self._watch(done, judge)
            elif last:
                outcome = Outcome(done, np.nan, test(done, np.nan))
            if outcome:
                break
            if not ahead:
                self._steps.product(done, last)
            self._steps.update(done)
            done += 1
        self._steps.solution(done, x)
        return outcome

    def solution(self, x: Any, out: Any) -> None:
        """Puts the iterate whose norm was looked at last into a buffer, with a check of 1; x is that of `solve`."""
        self._system.copy(x, out)
        self._steps.solution(self._done, out)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What the last solve launched between two operators, besides a preconditioner that is no diagonal."""
        return self._steps.kernels

    @cached_property
    def _diagonal_steps(self) -> DiagonalSteps:
        return DiagonalSteps(self.vectors, self._system, self._watch.slots)

    @cached_property
    def _any_steps(self) -> AnySteps:
        return AnySteps(self.vectors, self._system, self._watch.slots, self._flexible)

    def _judge(self, test: Test, iteration: int, sums: npt.NDArray[np.float64]) -> Outcome | None:
        """The outcome where an iteration's sums say stop; a NaN passes to nobody."""
        assert self._row is not None
        rz, pq, (norm_before, rz_before) = sums[0], sums[4], self._before
        norm = float(np.sqrt(abs(sums[self._row])))
        if not np.isfinite(sums).all():
            return Outcome(iteration, norm, NOT_FINITE)
        if iteration and (pq * self._signs[1] < 0 or (pq == 0 and rz_before != 0)):
            return Outcome(iteration - 1, norm_before, INDEFINITE_OPERATOR)
        reason: int | str = test(iteration, norm)
        if not reason and rz * self._signs[0] < 0:
            reason = INDEFINITE_PRECONDITIONER
        self._signs, self._before = np.where(self._signs == 0, (rz, pq), self._signs), (norm, rz)
        return Outcome(iteration, norm, reason) if reason else None
