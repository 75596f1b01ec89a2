"""Chebyshev's iteration for a known range of eigenvalues; it needs no scalar products but for its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import KRYLOV, Vectors
from femgpu.krylov.watch import Watch

_FILE = "chebyshev.cl"
_ROWS = {"preconditioned": 0, "unpreconditioned": 1}


class Chebyshev:
    """Solves A x = b for an A and a preconditioner M such that M A has its eigenvalues in a range of positive numbers.

    With a diagonal M an iteration is the operator and one launch. Polynomials of the first kind (Golub and Varga, 1961), or of
    the fourth kind (Lottes, 2023), which need the upper end of the range only and serve as smoothers.

    Args:
        vectors: kernels and lengths.
        check: see `Watch`; a solve goes on until the norm that ends it was looked at, but not past its limit.

    Attributes:
        files: with the kernels, in `kernels/cl`.
        check: for the next solve, 1 or the one given first.
        least: lower end of the range.
        most: upper end.
        fourth: whether polynomials are those of the fourth kind.
        iterate: buffer of the solution so far.
    """

    files: ClassVar[tuple[str, ...]] = (KRYLOV, _FILE)

    def __init__(self, vectors: Vectors, check: int = 1):
        self.vectors, self.check = vectors, check
        self.least, self.most, self.fourth = 0.0, 0.0, False
        self.iterate: Any = None
        self._system = System(vectors)
        self._other, self._r, self._q, self._z = (vectors.empty() for _ in range(4))
        self._watch = Watch(vectors, 2, check)
        zero, r, q = np.float64(0), self._r, self._q
        self._residual = vectors.kernel("chebyshev_residual", r, q, r, file=_FILE)
        self._first = vectors.kernel("chebyshev_first", r, q, None, None, r, r, zero, zero, zero, None, file=_FILE)
        self._fourth = vectors.kernel("chebyshev_fourth", q, None, None, r, r, self._other, zero, zero, None, file=_FILE)

    def solve(
        self,
        operator: Operator,
        b: Any,
        x: Any,
        preconditioner: Preconditioner,
        test: Test | None,
        norm: str = "preconditioned",
        guess: bool = False,
        project: Callable[[Any], None] | None = None,
        limit: int = 10000,
    ) -> Outcome:
        """Iterates until the test says so.

        Args:
            operator: A.
            b: right-hand side, a device buffer.
            x: the solution; its entries are the first guess where `guess`.
            preconditioner: M.
            test: gets iterations and norms, in order; None: no norm is computed, and there are `limit` iterations.
            norm: `preconditioned` |M (b - A x)|, or `unpreconditioned` |b - A x|.
            guess: whether x holds one.
            project: takes the null space out of what the preconditioner gave.
            limit: of iterations, without a test.
        """
        system, vectors = self._system, self.vectors
        system.begin(operator, preconditioner, project)
        self._row = _ROWS[norm]
        if test is not None:
            self._watch.begin(self.check, test.limit)
        self.iterate, self._spare = x, self._other
        coefficients = self._fourth_kind() if self.fourth else self._first_kind()
        if not guess:
            vectors.runtime.zero(x, vectors.num_bytes)
        if self.fourth:
            system.copy(b, self._r)
            vectors.runtime.zero(self._other, vectors.num_bytes)
        step = self._step_of_fourth_kind if self.fourth else self._step_of_first_kind
        done, outcome = 0, None
        while outcome is None:
            if test is None and done == limit:
                outcome = Outcome(done, 0.0, 0)
                if self.fourth:
                    system.add(1, self._other, x)
                break
            if done or guess:
                system.operator(self._other if self.fourth and done else self.iterate, self._q)
            else:
                vectors.runtime.zero(self._q, vectors.num_bytes)
            slot = None if test is None else self._watch.slots[done % len(self._watch.slots)]
            step(b, next(coefficients), slot)
            if test is not None:
                vectors.complete(slot, 0, 2)
                outcome = self._watch(done, partial(self._judge, test))
            if outcome is None:
                done += 1
                if not self.fourth:
                    self.iterate, self._spare = self._spare, self.iterate
        if self.iterate is not x:
            system.copy(self.iterate, x)
        return outcome

    def _first_kind(self) -> Iterator[tuple[float, ...]]:
        """The factors of the iterate before, of this one and of z in the next one."""
        scale = 2 / (self.most + self.least)
        mu = 1 / (1 - scale * self.least)
        before, now = 1.0, mu
        yield 0.0, 1.0, scale
        while True:
            before, now = now, 2 * mu * now - before
            omega = 2 * mu * before / now
            yield 1 - omega, omega, omega * scale

    def _fourth_kind(self) -> Iterator[tuple[float, ...]]:
        """The factors of the direction before and of z in the next one."""
        i = 0
        yield 0.0, 4 / (3 * self.most)
        while True:
            i += 1
            yield (2 * i - 1) / (2 * i + 3), (8 * i + 4) / (2 * i + 3) / self.most

    def _step_of_first_kind(self, b: Any, coefficients: tuple[float, ...], sums: Any) -> None:
        z = self._preconditioned(b)
        buffers = {1: b, 3: self._system.diagonal, 4: z, 5: self.iterate, 6: self._spare}
        self._launch(self._first, buffers, 7, (*map(np.float64, coefficients), sums))

    def _step_of_fourth_kind(self, b: Any, coefficients: tuple[float, ...], sums: Any) -> None:
        z = self._preconditioned(self._r)
        self._launch(self._fourth, {2: self._system.diagonal, 3: z, 4: self.iterate}, 7, (*map(np.float64, coefficients), sums))

    def _preconditioned(self, b: Any) -> Any:
        """Makes z = M (b - q) where the step cannot do it by the way; else None."""
        if self._system.simple:
            return None
        self._residual.set(1, b)
        self._residual()
        self._system.precondition(self._r, self._z)
        return self._z

    def _launch(self, kernel: Any, buffers: dict[int, Any], first: int, others: tuple[Any, ...]) -> None:
        for index, argument in (*buffers.items(), *enumerate(others, first)):
            kernel.set(index, argument)
        kernel()

    def _judge(self, test: Test, iteration: int, sums: npt.NDArray[np.float64]) -> Outcome | None:
        """The outcome where an iteration's sums say stop; a NaN passes to nobody."""
        norm = float(np.sqrt(sums[self._row]))
        reason = test(iteration, norm) if np.isfinite(norm) else NOT_FINITE
        return Outcome(iteration, norm, reason) if reason else None
