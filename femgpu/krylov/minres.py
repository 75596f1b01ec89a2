"""MINRES (Paige and Saunders, 1975) with vectors and scalars on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import BREAKDOWN, INDEFINITE_PRECONDITIONER, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import KRYLOV, Vectors
from femgpu.krylov.watch import Watch

# |b - A x|^2 where it is asked for, norm by the recurrence, z.r, the new diagonal entry of the triangular factor.
_ROWS = 4
_FILE = "minres.cl"


class MINRES:
    """Solves A x = b for a symmetric A, definite or not, and a symmetric definite preconditioner M.

    An iteration is the operator, the preconditioner and six launches, one of them of a single group.

    Args:
        vectors: kernels and lengths.
        check: see `Watch`; a solve goes on until the norm that ends it was looked at, but not past its limit.

    Attributes:
        files: with the kernels, in `kernels/cl`.
        check: for the next solve, 1 or the one given first.
    """

    files: ClassVar[tuple[str, ...]] = (KRYLOV, _FILE)

    def __init__(self, vectors: Vectors, check: int = 1):
        self.vectors, self.check = vectors, check
        self._system = System(vectors)
        r, before, z, v, q, w, last = (vectors.empty() for _ in range(7))
        self._r, self._z, self._v, self._q, self._zeroed = r, z, v, q, (before, w, last)
        alpha, zr = vectors.sums(1), vectors.sums(1)
        self._alpha, self._zr = alpha, zr
        state = vectors.runtime.upload(np.zeros(16))
        self._watch = Watch(vectors, _ROWS, check)
        slot = self._watch.slots[0]

        def kernel(name: str, *arguments: Any) -> Any:
            return vectors.kernel(name, *arguments, file=_FILE)

        self._dot = vectors.kernel("dot_product", np.int32(0), z, r, zr)
        self._first = kernel("minres_start", zr, state, slot).bound({}, 1)
        self._vector = kernel("minres_vector", state, z, v)
        self._lanczos = kernel("minres_alpha", state, before, v, q, alpha)
        self._next = kernel("minres_next", state, alpha, q, before, r)
        self._rotation = kernel("minres_rotation", alpha, zr, state, slot)
        self._step = kernel("minres_step", state, v, w, last, q)
        self._residual = kernel("minres_residual", r, q, slot)

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
        self._true, judge = norm == "unpreconditioned", partial(self._judge, test)
        self._watch.begin(self.check, test.limit)
        slots, step = self._watch.slots, self._step.bound({5: x})

        @cache
        def rotation(number: int) -> Any:
            return self._rotation.bound({4: slots[number]}, 1)

        @cache
        def residual(number: int) -> Any:
            return self._residual.bound({1: b, 3: slots[number]})

        def look(iteration: int) -> Outcome | None:
            """Computes |b - A x|^2 where it is the norm that was asked for; the outcome when it is time to stop."""
            if self._true:
                number = iteration % len(slots)
                system.operator(x, self._q)
                residual(number)()
                vectors.complete(slots[number], 0, 1)
            return self._watch(iteration, judge)

        system.residual(b, x, guess, self._r)
        for vector in self._zeroed:
            vectors.runtime.zero(vector, vectors.num_bytes)
        system.precondition(self._r, self._z)
        self._dot()
        vectors.complete(self._zr, 0, 1)
        self._first()
        done = 0
        while not (outcome := look(done)):
            self._vector()
            system.operator(self._v, self._q)
            self._lanczos()
            vectors.complete(self._alpha, 0, 1)
            self._next()
            system.precondition(self._r, self._z)
            self._dot()
            vectors.complete(self._zr, 0, 1)
            done += 1
            rotation(done % len(slots))()
            step()
        return outcome

    def _judge(self, test: Test, iteration: int, sums: npt.NDArray[np.float64]) -> Outcome | None:
        """The outcome where an iteration's sums say stop; a NaN passes to nobody."""
        residual, phi, zr, gamma = sums
        norm = float(np.sqrt(residual) if self._true else abs(phi))
        if not np.isfinite(sums).all():
            return Outcome(iteration, norm, NOT_FINITE)
        if zr < 0:
            return Outcome(iteration, norm, INDEFINITE_PRECONDITIONER)
        reason: int | str = BREAKDOWN if gamma == 0 else test(iteration, norm)
        return Outcome(iteration, norm, reason) if reason else None
