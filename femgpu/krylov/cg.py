"""The method of conjugate gradients (Hestenes and Stiefel) with vectors, alpha and beta on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.kernels import DOT_SLOTS
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import INDEFINITE_OPERATOR, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import Vectors
from femgpu.krylov.watch import Watch

# Sums of an iteration in the order of `cl/krylov.cl`: r.z, z.z, r.r, p.q, q.Mq; the first three come with r, the others with q.
_ROWS, _FIRST = 5, 3
_ROW = {"natural": 0, "preconditioned": 1, "unpreconditioned": 2}


class CG:
    """Solves A x = b for a symmetric A and a symmetric preconditioner, both definite.

    With a diagonal preconditioner or none an iteration is the operator and two launches, which move 8 words per entry (10 with a
    diagonal, and one more where the operator does not sum p.q itself), of which one prepares the next product. Otherwise it is the
    operator, the preconditioner and four launches.
    The norm of each iteration is read while the next ones are under way (`lag`), so that a solve ends up to `lag` iterations later
    than its test asked for, but not past its limit.

    Args:
        vectors: kernels and lengths.
        lag: iterations that are handed over before a norm is looked at, at most.
        flexible: the preconditioner may be another at each iteration: each direction is made conjugate to the one before
            (Notay, SIAM J. Sci. Comput. 22, 2000).

    Attributes:
        lag: for the next solve, no more than the first one given.
    """

    def __init__(self, vectors: Vectors, lag: int = 0, flexible: bool = False):
        self.vectors, self.lag, self._flexible = vectors, lag, flexible
        self._system = System(vectors)
        # Directions take turns, as do sums: beta is a quotient of this iteration's and the next one's, x moves two steps at a time.
        self._p = vectors.empty(), vectors.empty()
        self._sums = vectors.sums(_ROWS), vectors.sums(_ROWS)
        self._r, self._q, self._z = (vectors.empty() for _ in range(3))
        self._step, self._slots = vectors.runtime.upload(np.zeros(2)), vectors.runtime.upload(np.zeros(DOT_SLOTS))
        self._behind = False
        self._watch = Watch(vectors, _ROWS, lag)
        p, q, r, z, sums = self._p[0], self._q, self._r, self._z, self._sums[0]
        self._residual_products = vectors.kernel("residual_products", r, z, q if flexible else None, sums)
        self._cg_products = vectors.kernel("cg_products", None, None, p, q, sums)
        update = (np.int32(0), sums, None, p, self._p[1], q, z, r, self._sums[1], self._step, None, None, None)
        self._cg_update = vectors.kernel("cg_update", *update)
        self._cg_finish = vectors.kernel("cg_finish", self._step, p, z)
        self._cg_step = vectors.kernel("cg_step", sums, p, q, z, r)
        self._cg_direction = vectors.kernel("cg_direction", np.int32(flexible), sums, self._sums[1], z, p)

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
        runtime = self.vectors.runtime
        for sums in self._sums:
            runtime.zero(sums, 8 * _ROWS * self.vectors.num_groups)  # those of another solve
        self._test, self._row = test, None if norm is None else _ROW[norm]
        self._first = np.zeros(2)  # r.z and p.q, whose signs must stay
        self._watch.begin(self._judge, self.lag, test.limit)
        self._system.begin(operator, preconditioner, project)
        self._system.residual(b, x, guess, self._r)
        if self._system.simple and not self._flexible:
            return self._solve_diagonal(operator, x)
        return self._solve(operator, x)

    def solution(self, x: Any, out: Any) -> None:
        """Puts the iterate whose norm was looked at last into a buffer, without a lag; x is that of `solve`."""
        self._system.copy(x, out)
        if self._behind:
            self._cg_finish.bound({2: self._p[0], 3: out})()

    def _solve_diagonal(self, operator: Operator, x: Any) -> Outcome:
        """The loop for a diagonal preconditioner; iteration k has its direction and sums in place k % 2."""
        vectors, sums, p, q = self.vectors, self._sums, self._p, self._q
        diagonal, add = self._system.diagonal, operator.add
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
            turn, last = done % 2, done == self._test.limit
            self._behind = bool(turn)
            if not last:
                if add is not None:
                    add(p[turn], q, slots)
                else:
                    operator.apply(p[turn], q)
                products[turn]()
            vectors.complete(sums[turn], 0, _FIRST if last else _ROWS)
            if outcome := self._look(done, sums[turn]):
                break
            updates[turn]()
            done += 1
        if done % 2:
            self._cg_finish.bound({2: p[0], 3: x})()
        return outcome

    def _solve(self, operator: Operator, x: Any) -> Outcome:
        """The loop for any preconditioner; iteration k has its sums in place k % 2."""
        vectors, sums, p = self.vectors, self._sums, self._p[0]
        self._behind = False
        both = (0, 1)
        products = [self._residual_products.bound({4: sums[turn]}) for turn in both]
        steps = [self._cg_step.bound({1: sums[turn], 4: x}) for turn in both]
        directions = [self._cg_direction.bound({2: sums[1 - turn], 3: sums[turn]}) for turn in both]
        with_q = [self._cg_products.bound({5: sums[turn]}) for turn in both]
        come = _FIRST + self._flexible  # sums that come with z
        for vector in (p, self._q):
            vectors.runtime.zero(vector, vectors.num_bytes)
        self._system.precondition(self._r, self._z)
        products[0]()
        vectors.complete(sums[0], 0, come)
        directions[1]()  # with sums of zero: p = z
        done = 0
        while True:
            turn = done % 2
            if done < self._test.limit:
                operator.apply(p, self._q)
                with_q[turn]()
                vectors.complete(sums[turn], _FIRST, _ROWS)
            if outcome := self._look(done, sums[turn]):
                return outcome
            steps[turn]()
            self._system.precondition(self._r, self._z)
            products[1 - turn]()
            vectors.complete(sums[1 - turn], 0, come)
            directions[turn]()
            done += 1

    def _look(self, iteration: int, sums: Any) -> Outcome | None:
        """Takes the sums of an iteration; the outcome when it is time to stop."""
        if self._row is not None:
            return self._watch(iteration, sums)
        return Outcome(iteration, np.nan, self._test(iteration, np.nan)) if iteration == self._test.limit else None

    def _judge(self, iteration: int, totals: npt.NDArray[np.float64]) -> tuple[float, int | str]:
        """Norm and reason to stop of an iteration's sums; a NaN passes to nobody."""
        assert self._row is not None
        rz, pq = totals[0], totals[3]
        norm = float(np.sqrt(abs(totals[self._row])))
        if not np.isfinite(totals).all():
            return norm, NOT_FINITE
        reason: int | str = self._test(iteration, norm)
        if not reason and (pq * self._first[1] < 0 or (pq == 0 and rz != 0)):
            reason = INDEFINITE_OPERATOR
        if not reason and rz * self._first[0] < 0:
            reason = INDEFINITE_PRECONDITIONER
        self._first = np.where(self._first == 0, (rz, pq), self._first)
        return norm, reason
