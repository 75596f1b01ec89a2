"""BiCGStab (van der Vorst, 1992) with vectors and scalars on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import BREAKDOWN, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import KRYLOV, Vectors
from femgpu.krylov.watch import Watch

# Sums of a step, in the order of `bicgstab_step`: r.s0, r.r, and v.s0, t.t, s.s of the step itself.
_ROWS = 5
# Of these, the ones that are sums over this rank's entries.
_SUMS = 2
_FILE = "bicgstab.cl"


class BiCGStab:
    """Solves A x = b by the stabilised biconjugate gradients; the shadow residual s0 is the first one.

    An iteration is two operators and five launches.

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
        self._r, self._shadow, self._p, self._v, self._t, self._y = (vectors.empty() for _ in range(6))
        r, p, v, t = self._r, self._p, self._v, self._t
        self._watch = Watch(vectors, _ROWS, check)
        self._slots, self._vs, self._ts = self._watch.slots, vectors.sums(1), vectors.sums(3)
        now, after = self._slots[:2]
        self._scalars = vectors.runtime.upload(np.ones(3))

        def kernel(name: str, *arguments: Any) -> Any:
            return vectors.kernel(name, *arguments, file=_FILE)

        self._first = kernel("bicgstab_products", r, self._shadow, now)
        self._direction = kernel("bicgstab_direction", now, self._scalars, r, v, p)
        self._dot = vectors.kernel("dot_product", np.int32(0), v, self._shadow, self._vs)
        self._half = kernel("bicgstab_half", now, self._vs, self._scalars, v, r)
        self._sums = kernel("bicgstab_sums", t, r, self._ts)
        self._step = kernel("bicgstab_step", self._ts, self._vs, self._scalars, p, t, self._shadow, self._y, r, after)

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
        """Iterates until the test says so; arguments as in `GMRES.solve`."""
        vectors, system = self.vectors, self._system
        system.begin(operator, preconditioner, project)
        self._right, judge = right, partial(self._judge, test)
        self._watch.begin(self.check, test.limit)
        self._start(b, x, guess)
        slots, solution, done = self._slots, self._y if right else x, 0

        @cache
        def launches(number: int) -> tuple[Any, Any, Any]:
            """Direction, half step and step with the sums of an iteration in a slot."""
            now, after = slots[number], slots[(number + 1) % len(slots)]
            return self._direction.bound({1: now}), self._half.bound({1: now}), self._step.bound({7: solution, 9: after})

        while not (outcome := self._watch(done, judge)):
            direction, half, step = launches(done % len(slots))
            direction()
            system.apply(self._p, self._v, right)
            self._dot()
            vectors.complete(self._vs, 0, 1)
            half()
            system.apply(self._r, self._t, right)
            self._sums()
            vectors.complete(self._ts, 0, 3)
            step()
            done += 1
            vectors.complete(slots[done % len(slots)], 0, _SUMS)
        if right:
            self._add_solution(x)
        return outcome

    def solution(self, x: Any, out: Any) -> None:
        """Puts the iterate so far into a buffer, x being that of `solve`."""
        self._system.copy(x, out)
        if self._right:
            self._add_solution(out)

    def _start(self, b: Any, x: Any, guess: bool) -> None:
        vectors, system, runtime = self.vectors, self._system, self.vectors.runtime
        if self._right:
            system.residual(b, x, guess, self._r)
            runtime.zero(self._y, vectors.num_bytes)
        else:
            system.residual(b, x, guess, self._t)
            system.precondition(self._t, self._r)
        system.copy(self._r, self._shadow)
        for vector in (self._p, self._v):
            runtime.zero(vector, vectors.num_bytes)
        runtime.write(self._scalars, np.ones(3))
        self._first()
        vectors.complete(self._slots[0], 0, _SUMS)

    def _add_solution(self, x: Any) -> None:
        self._system.precondition(self._y, self._t)
        self._system.add(1, self._t, x)

    def _judge(self, test: Test, iteration: int, sums: npt.NDArray[np.float64]) -> Outcome | None:
        """The outcome where an iteration's sums say stop; a NaN passes to nobody."""
        rho, rr, vs, tt, ss = sums
        norm = float(np.sqrt(rr))
        if not np.isfinite(sums).all():
            return Outcome(iteration, norm, NOT_FINITE)
        if iteration and (vs == 0 or (tt == 0 and ss != 0)):
            return Outcome(iteration, norm, BREAKDOWN)
        reason = test(iteration, norm) or (BREAKDOWN if rho == 0 else 0)
        return Outcome(iteration, norm, reason) if reason else None
