"""The method of conjugate gradients (Hestenes and Stiefel) with vectors, alpha and beta on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from femgpu.krylov.outcome import INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome
from femgpu.krylov.vectors import Vectors

# Sums of a step, in the order of `cg_step`: r.z, z.z, r.r, and p.q of the step itself.
_ROWS = 4
# Of these, the ones that are sums over this rank's entries.
_SUMS = 3
_ROW = {"natural": 0, "preconditioned": 1, "unpreconditioned": 2}


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """z = M r on device buffers.

    Attributes:
        diagonal: device buffer of the diagonal of M; None: M is 1, or `apply` does it.
        apply: z = M r where M is no diagonal.
    """

    diagonal: Any = None
    apply: Callable[[Any, Any], None] | None = None


class CG:
    """Solves A x = b for a symmetric A and a symmetric preconditioner, both definite.

    An iteration is the operator and three launches: p.q, the step (13 words per entry with a diagonal in all), the direction.
    The norm of each iteration is read while the next ones are under way (`lag`), so that a solve ends up to `lag` iterations later
    than its test asked for.

    Args:
        vectors: kernels and lengths.
        operator: q = A p on buffers.
        lag: iterations that are handed over before a norm is looked at.
    """

    def __init__(self, vectors: Vectors, operator: Callable[[Any, Any], None], lag: int = 0):
        self.vectors = vectors
        self.operator = operator
        self.lag = lag
        self._r, self._p, self._q, self._z = (vectors.empty() for _ in range(4))
        # Two sets of sums take turns: beta is a quotient of this step's and the one before.
        self._sums = vectors.sums(_ROWS), vectors.sums(_ROWS)
        self._pq = vectors.sums(1)
        self._hosts = [vectors.runtime.pinned(_ROWS * vectors.num_groups) for _ in range(lag + 1)]
        self._dot = vectors.kernel("dot_product", self._p, self._q, self._pq)
        self._axpby = vectors.kernel("axpby", np.float64(0), self._r, np.float64(0), self._z)
        self._products = vectors.kernel("residual_products", self._r, self._z, self._sums[0])
        self._multiply = vectors.kernel("multiply", self._q, self._r, self._z)
        self._step = vectors.kernel("cg_step", self._sums[0], self._pq, None, self._p, self._q, self._z, self._r, self._sums[1])
        self._direction = vectors.kernel("cg_direction", self._sums[1], self._sums[0], None, self._r, self._p)

    def solve(
        self,
        b: Any,
        x: Any,
        preconditioner: Preconditioner,
        test: Callable[[int, float], int],
        norm: str = "preconditioned",
        guess: bool = False,
        project: Callable[[Any], None] | None = None,
    ) -> Outcome:
        """Iterates until the test says so.

        Args:
            b: right-hand side, a device buffer.
            x: the solution; its entries are the first guess where `guess`.
            preconditioner: M.
            test: gets iteration and norm, in order, and returns a reason to stop other than 0.
            norm: `preconditioned` |z|, `unpreconditioned` |r| or `natural` (r.z)^(1/2).
            guess: whether x holds one.
            project: takes the null space out of what the preconditioner gave.
        """
        vectors = self.vectors
        fused = preconditioner.apply is None and project is None
        diagonal = preconditioner.diagonal if fused else None
        steps, directions = self._bind(x, diagonal, fused)
        vectors.runtime.zero(self._sums[0], 8 * _ROWS * vectors.num_groups)  # p.q of another solve
        self._start(b, x, guess)
        self._precondition(preconditioner, project)
        self._products.bound({3: self._sums[0]})()
        self._axpby.bound({1: np.float64(1), 2: self._z, 3: np.float64(0), 4: self._p})()
        vectors.complete(self._sums[0], _SUMS)
        watch = _Watch(self, test, norm)
        outcome = watch(0, self._sums[0])
        done = 0
        while outcome is None:
            turn = done % 2
            self.operator(self._p, self._q)
            self._dot()
            vectors.complete(self._pq, 1)
            steps[turn]()
            sums = self._sums[1 - turn]
            if not fused:
                self._precondition(preconditioner, project)
                self._products.bound({3: sums})()
            vectors.complete(sums, _SUMS)
            directions[turn]()
            done += 1
            outcome = watch(done, sums)
        return outcome

    def _bind(self, x: Any, diagonal: Any, fused: bool) -> tuple[list[Any], list[Any]]:
        """Launches of step and direction for even and odd iterations."""
        z = self._r if fused else self._z
        steps, directions = [], []
        for before, now in (self._sums, self._sums[::-1]):
            steps.append(self._step.bound({1: before, 3: diagonal, 6: x, 8: now}))
            directions.append(self._direction.bound({1: now, 2: before, 3: diagonal, 4: z}))
        return steps, directions

    def _start(self, b: Any, x: Any, guess: bool) -> None:
        """Makes r = b - A x."""
        runtime, one = self.vectors.runtime, np.float64(1)
        if not guess:
            runtime.zero(x, self.vectors.num_bytes)
            self._axpby.bound({1: one, 2: b, 3: np.float64(0), 4: self._r})()
            return
        self.operator(x, self._q)
        self._axpby.bound({1: one, 2: b, 3: np.float64(0), 4: self._r})()
        self._axpby.bound({1: -one, 2: self._q, 3: one, 4: self._r})()

    def _precondition(self, preconditioner: Preconditioner, project: Callable[[Any], None] | None) -> None:
        """Makes z = M r."""
        if preconditioner.apply is not None:
            preconditioner.apply(self._r, self._z)
        elif preconditioner.diagonal is not None:
            self._multiply.bound({1: preconditioner.diagonal})()
        else:
            self._axpby.bound({1: np.float64(1), 2: self._r, 3: np.float64(0), 4: self._z})()
        if project is not None:
            project(self._z)


class _Watch:
    """Reads the norms behind the device's back and asks the test about them."""

    def __init__(self, method: CG, test: Callable[[int, float], int], norm: str):
        self._method = method
        self._test = test
        self._row = _ROW[norm]
        self._pending: deque[tuple[int, Any, Any]] = deque()
        self._first = np.zeros(2)  # r.z and p.q, whose signs must stay

    def __call__(self, iteration: int, sums: Any) -> Outcome | None:
        """Takes the sums of an iteration; the outcome when one that was read says stop."""
        host = self._method._hosts[iteration % len(self._method._hosts)]
        self._pending.append((iteration, self._method.vectors.runtime.read_later(sums, host), host))
        if len(self._pending) <= self._method.lag:
            return None
        checked, event, host = self._pending.popleft()
        event.wait()
        norm, reason = self._judge(checked, self._method.vectors.totals(host))
        return Outcome(iteration, norm, reason) if reason else None

    def _judge(self, iteration: int, totals: Any) -> tuple[float, int | str]:
        """Norm and reason to stop of an iteration's sums; a NaN passes to nobody."""
        rz, pq = totals[0], totals[3]
        value = totals[self._row]
        norm = float(np.sqrt(abs(value)))
        if not np.isfinite(totals).all():
            return norm, NOT_FINITE
        if pq * self._first[1] < 0 or (iteration and pq == 0 and rz != 0):
            return norm, INDEFINITE_OPERATOR
        if rz * self._first[0] < 0:
            return norm, INDEFINITE_PRECONDITIONER
        self._first = np.where(self._first == 0, (rz, pq), self._first)
        return norm, self._test(iteration, norm)
