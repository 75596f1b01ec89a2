"""MINRES (Paige and Saunders, 1975) with vectors and scalars on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import BREAKDOWN, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import Vectors
from femgpu.krylov.watch import Watch

# |b - A x|^2 where it is asked for, norm by the recurrence, z.r, the new diagonal entry of the triangular factor.
_ROWS = 4
_FILE = "minres.cl"


class MINRES:
    """Solves A x = b for a symmetric A, definite or not, and a symmetric definite preconditioner M.

    An iteration is the operator, the preconditioner and six launches, one of them of a single group. The norm of each iteration is
    read while the next ones are under way (`lag`), so that a solve ends up to `lag` iterations later than its test asked for.

    Args:
        vectors: kernels and lengths.
        lag: iterations that are handed over before a norm is looked at, at most.

    Attributes:
        lag: for the next solve, no more than the first one given.
    """

    def __init__(self, vectors: Vectors, lag: int = 0):
        self.vectors, self.lag = vectors, lag
        self._system = System(vectors)
        r, before, z, v, q, w, last = (vectors.empty() for _ in range(7))
        self._r, self._z, self._v, self._q, self._zeroed = r, z, v, q, (before, w, last)
        alpha, zr, self._record = vectors.sums(1), vectors.sums(1), vectors.sums(_ROWS)
        self._alpha, self._zr = alpha, zr
        state = vectors.runtime.upload(np.zeros(16))
        self._watch = Watch(vectors, _ROWS, lag)

        def kernel(name: str, *arguments: Any) -> Any:
            return vectors.kernel(name, *arguments, file=_FILE)

        self._dot = vectors.kernel("dot_product", z, r, zr)
        self._first = kernel("minres_start", zr, state, self._record).bound({}, 1)
        self._vector = kernel("minres_vector", state, z, v)
        self._lanczos = kernel("minres_alpha", state, before, v, q, alpha)
        self._next = kernel("minres_next", state, alpha, q, before, r)
        self._rotation = kernel("minres_rotation", alpha, zr, state, self._record).bound({}, 1)
        self._step = kernel("minres_step", state, v, w, last, q)
        self._residual = kernel("minres_residual", r, q, self._record)

    def solve(
        self,
        operator: Operator,
        b: Any,
        x: Any,
        preconditioner: Preconditioner,
        test: Test,
        norm: str = "preconditioned",
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
            norm: `preconditioned` (r.M r)^(1/2), or `unpreconditioned` |b - A x|, which costs one more operator.
            guess: whether x holds one.
            project: takes the null space out of what the preconditioner gave.
        """
        vectors, system = self.vectors, self._system
        system.begin(operator, preconditioner, project)
        self._test, self._true = test, norm == "unpreconditioned"
        step, residual = self._step.bound({5: x}), self._residual.bound({1: b})
        system.residual(b, x, guess, self._r)
        for vector in self._zeroed:
            vectors.runtime.zero(vector, vectors.num_bytes)
        system.precondition(self._r, self._z)
        self._dot()
        vectors.complete(self._zr, 0, 1)
        self._first()
        self._measure(x, residual)
        self._watch.begin(self._judge, self.lag, test.limit)
        outcome, done = self._watch(0, self._record), 0
        while outcome is None:
            self._vector()
            system.operator(self._v, self._q)
            self._lanczos()
            vectors.complete(self._alpha, 0, 1)
            self._next()
            system.precondition(self._r, self._z)
            self._dot()
            vectors.complete(self._zr, 0, 1)
            self._rotation()
            step()
            self._measure(x, residual)
            done += 1
            outcome = self._watch(done, self._record)
        return outcome

    def _measure(self, x: Any, residual: Any) -> None:
        """Computes |b - A x|^2 where it is the norm that was asked for."""
        if self._true:
            self._system.operator(x, self._q)
            residual()
            self.vectors.complete(self._record, 0, 1)

    def _judge(self, iteration: int, totals: npt.NDArray[np.float64]) -> tuple[float, int | str]:
        """Norm and reason to stop of an iteration's sums; a NaN passes to nobody."""
        residual, phi, zr, gamma = totals
        norm = float(np.sqrt(residual) if self._true else abs(phi))
        if not np.isfinite(totals).all():
            return norm, NOT_FINITE
        if zr < 0:
            return norm, INDEFINITE_PRECONDITIONER
        if gamma == 0:
            return norm, BREAKDOWN
        return norm, self._test(iteration, norm)
