"""The method of conjugate gradients (Hestenes and Stiefel) with vectors, alpha and beta on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from femgpu.kernels import DOT_SLOTS
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome
from femgpu.krylov.vectors import Vectors

# Sums of an iteration in the order of `cl/krylov.cl`: r.z, z.z, r.r, p.q, q.Mq; the first three come with r, the others with q.
_ROWS, _FIRST = 5, 3
_ROW = {"natural": 0, "preconditioned": 1, "unpreconditioned": 2}


class CG:
    """Solves A x = b for a symmetric A and a symmetric preconditioner, both definite.

    With a diagonal preconditioner or none an iteration is the operator and two launches, which move 8 words per entry (10 with a
    diagonal, and one more where the operator does not sum p.q itself), of which one prepares the next product. Otherwise it is the
    operator, the preconditioner and four launches.
    The norm of each iteration is read while the next ones are under way (`lag`), so that a solve ends up to `lag` iterations later
    than its test asked for.

    Args:
        vectors: kernels and lengths.
        lag: iterations that are handed over before a norm is looked at.
    """

    def __init__(self, vectors: Vectors, lag: int = 0):
        self.vectors = vectors
        self.lag = lag
        # Directions take turns, as do sums: beta is a quotient of this iteration's and the next one's, x moves two steps at a time.
        self._p = vectors.empty(), vectors.empty()
        self._sums = vectors.sums(_ROWS), vectors.sums(_ROWS)
        self._r, self._q, self._z = (vectors.empty() for _ in range(3))
        self._step, self._slots = vectors.runtime.upload(np.zeros(2)), vectors.runtime.upload(np.zeros(DOT_SLOTS))
        self._behind = False
        self._hosts = [vectors.runtime.pinned(_ROWS * vectors.num_groups) for _ in range(lag + 1)]
        p, q, r, z, sums = self._p[0], self._q, self._r, self._z, self._sums[0]
        self._axpby = vectors.kernel("axpby", np.float64(0), r, np.float64(0), z)
        self._multiply = vectors.kernel("multiply", q, r, z)
        self._residual_products = vectors.kernel("residual_products", r, z, sums)
        self._cg_products = vectors.kernel("cg_products", None, None, p, q, sums)
        update = (np.int32(0), sums, None, p, self._p[1], q, z, r, self._sums[1], self._step, None, None, None)
        self._cg_update = vectors.kernel("cg_update", *update)
        self._cg_finish = vectors.kernel("cg_finish", self._step, p, z)
        self._cg_step = vectors.kernel("cg_step", sums, p, q, z, r)
        self._cg_direction = vectors.kernel("cg_direction", sums, self._sums[1], z, p)

    def solve(
        self,
        operator: Operator,
        b: Any,
        x: Any,
        preconditioner: Preconditioner,
        test: Callable[[int, float], int],
        limit: int,
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
            test: gets iteration and norm, in order, and returns a reason to stop other than 0; must do so at the limit.
            limit: most iterations.
            norm: `preconditioned` |z|, `unpreconditioned` |r| or `natural` (r.z)^(1/2); None: nothing is read, and the test is
                asked at the limit only, with NaN.
            guess: whether x holds one.
            project: takes the null space out of what the preconditioner gave.
        """
        runtime = self.vectors.runtime
        for sums in self._sums:
            runtime.zero(sums, 8 * _ROWS * self.vectors.num_groups)  # those of another solve
        self._start(operator, b, x, guess)
        watch = _Watch(self, test, limit, norm)
        if preconditioner.apply is None and project is None:
            return self._solve_diagonal(operator, x, preconditioner.diagonal, watch)
        return self._solve(operator, x, preconditioner, project, watch)

    def solution(self, x: Any, out: Any) -> None:
        """Puts the iterate whose norm was looked at last into a buffer, without a lag; x is that of `solve`."""
        self._axpby.bound({1: np.float64(1), 2: x, 3: np.float64(0), 4: out})()
        if self._behind:
            self._cg_finish.bound({2: self._p[0], 3: out})()

    def _solve_diagonal(self, operator: Operator, x: Any, diagonal: Any, watch: _Watch) -> Outcome:
        """The loop for a diagonal preconditioner; iteration k has its direction and sums in place k % 2."""
        vectors, sums, p, q = self.vectors, self._sums, self._p, self._q
        add = operator.add
        slots = None if add is None else self._slots
        both = (0, 1)
        products = [self._cg_products.bound({1: slots, 2: diagonal, 3: p[turn], 5: sums[turn]}) for turn in both]
        given = {3: diagonal, 7: x, 11: operator.mask, 12: operator.scale, 13: slots}
        places = [{2: sums[turn], 4: p[turn], 5: p[1 - turn], 9: sums[1 - turn]} for turn in both]
        updates = [self._cg_update.bound({1: np.int32(turn), **places[turn], **given}) for turn in both]
        for vector in (p[1], q):
            vectors.runtime.zero(vector, vectors.num_bytes)
        self._cg_update.bound({1: np.int32(0), **places[1], **given})()  # with sums of zero: p = z
        done = 0
        while True:
            turn, last = done % 2, done == watch.limit
            self._behind = bool(turn)
            if not last:
                if add is not None:
                    add(p[turn], q, slots)
                else:
                    operator.apply(p[turn], q)
                products[turn]()
            vectors.complete(sums[turn], 0, _FIRST if last else _ROWS)
            if outcome := watch(done, sums[turn]):
                break
            updates[turn]()
            done += 1
        if done % 2:
            self._cg_finish.bound({2: p[0], 3: x})()
        return outcome

    def _solve(
        self, operator: Operator, x: Any, preconditioner: Preconditioner, project: Callable[[Any], None] | None, watch: _Watch
    ) -> Outcome:
        """The loop for any preconditioner; iteration k has its sums in place k % 2."""
        vectors, sums, p = self.vectors, self._sums, self._p[0]
        self._behind = False
        both = (0, 1)
        products = [self._residual_products.bound({3: sums[turn]}) for turn in both]
        steps = [self._cg_step.bound({1: sums[turn], 4: x}) for turn in both]
        directions = [self._cg_direction.bound({1: sums[1 - turn], 2: sums[turn]}) for turn in both]
        with_q = [self._cg_products.bound({5: sums[turn]}) for turn in both]
        vectors.runtime.zero(p, vectors.num_bytes)
        self._precondition(preconditioner, project)
        products[0]()
        vectors.complete(sums[0], 0, _FIRST)
        directions[1]()  # with sums of zero: p = z
        done = 0
        while True:
            turn = done % 2
            if done < watch.limit:
                operator.apply(p, self._q)
                with_q[turn]()
                vectors.complete(sums[turn], _FIRST, _ROWS)
            if outcome := watch(done, sums[turn]):
                return outcome
            steps[turn]()
            self._precondition(preconditioner, project)
            products[1 - turn]()
            vectors.complete(sums[1 - turn], 0, _FIRST)
            directions[turn]()
            done += 1

    def _start(self, operator: Operator, b: Any, x: Any, guess: bool) -> None:
        """Makes r = b - A x."""
        runtime, one = self.vectors.runtime, np.float64(1)
        self._axpby.bound({1: one, 2: b, 3: np.float64(0), 4: self._r})()
        if guess:
            operator.apply(x, self._q)
            self._axpby.bound({1: -one, 2: self._q, 3: one, 4: self._r})()
        else:
            runtime.zero(x, self.vectors.num_bytes)

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

    def __init__(self, method: CG, test: Callable[[int, float], int], limit: int, norm: str | None):
        self.limit = limit
        self._method = method
        self._test = test
        self._row = None if norm is None else _ROW[norm]
        self._pending: deque[tuple[int, Any, Any]] = deque()
        self._first = np.zeros(2)  # r.z and p.q, whose signs must stay

    def __call__(self, iteration: int, sums: Any) -> Outcome | None:
        """Takes the sums of an iteration; the outcome when one that was read says stop. At the limit all are read."""
        if self._row is None:
            return Outcome(iteration, np.nan, self._test(iteration, np.nan)) if iteration == self.limit else None
        method = self._method
        host = method._hosts[iteration % len(method._hosts)]
        self._pending.append((iteration, method.vectors.runtime.read_later(sums, host), host))
        while len(self._pending) > (method.lag if iteration < self.limit else 0):
            checked, event, host = self._pending.popleft()
            event.wait()
            norm, reason = self._judge(self._row, checked, method.vectors.totals(host))
            if reason:
                return Outcome(iteration, norm, reason)
        return None

    def _judge(self, row: int, iteration: int, totals: Any) -> tuple[float, int | str]:
        """Norm and reason to stop of an iteration's sums; a NaN passes to nobody."""
        rz, pq = totals[0], totals[3]
        norm = float(np.sqrt(abs(totals[row])))
        if not np.isfinite(totals).all():
            return norm, NOT_FINITE
        reason: int | str = self._test(iteration, norm)
        if not reason and (pq * self._first[1] < 0 or (pq == 0 and rz != 0)):
            reason = INDEFINITE_OPERATOR
        if not reason and rz * self._first[0] < 0:
            reason = INDEFINITE_PRECONDITIONER
        self._first = np.where(self._first == 0, (rz, pq), self._first)
        return norm, reason
