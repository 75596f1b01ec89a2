"""BiCGStab (van der Vorst, 1992) with vectors and scalars on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import BREAKDOWN, NOT_FINITE, Outcome, Test
from femgpu.krylov.system import System
from femgpu.krylov.vectors import Vectors
from femgpu.krylov.watch import Watch

# Sums of a step, in the order of `bicgstab_step`: r.s0, r.r, and v.s0, t.t, s.s of the step itself.
_ROWS = 5
# Of these, the ones that are sums over this rank's entries.
_SUMS = 2
_FILE = "bicgstab.cl"


class BiCGStab:
    """Solves A x = b by the stabilised biconjugate gradients; the shadow residual s0 is the first one.

    An iteration is two operators and five launches. The norm of each iteration is read while the next ones are under way (`lag`):
    a solve ends up to `lag` iterations later than its test asked for.

    Args:
        vectors: kernels and lengths.
        lag: iterations that are handed over before a norm is looked at, at most.

    Attributes:
        lag: for the next solve, no more than the first one given.
    """

    def __init__(self, vectors: Vectors, lag: int = 0):
        self.vectors, self.lag = vectors, lag
        self._system = System(vectors)
        self._r, self._shadow, self._p, self._v, self._t, self._y = (vectors.empty() for _ in range(6))
        r, p, v, t = self._r, self._p, self._v, self._t
        self._products, self._vs, self._ts = vectors.sums(_ROWS), vectors.sums(1), vectors.sums(3)
        self._scalars = vectors.runtime.upload(np.ones(3))
        self._watch = Watch(vectors, _ROWS, lag)

        def kernel(name: str, *arguments: Any) -> Any:
            return vectors.kernel(name, *arguments, file=_FILE)

        self._first = kernel("bicgstab_products", r, self._shadow, self._products)
        self._direction = kernel("bicgstab_direction", self._products, self._scalars, r, v, p)
        self._dot = vectors.kernel("dot_product", v, self._shadow, self._vs)
        self._half = kernel("bicgstab_half", self._products, self._vs, self._scalars, v, r)
        self._sums = kernel("bicgstab_sums", t, r, self._ts)
        self._step = kernel("bicgstab_step", self._ts, self._vs, self._scalars, p, t, self._shadow, self._y, r, self._products)

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
        self._right, self._test = right, test
        self._start(b, x, guess)
        self._watch.begin(self._judge, self.lag, test.limit)
        outcome, done = self._watch(0, self._products), 0
        step = self._step.bound({7: self._y if right else x})
        while outcome is None:
            self._direction()
            system.apply(self._p, self._v, right)
            self._dot()
            vectors.complete(self._vs, 0, 1)
            self._half()
            system.apply(self._r, self._t, right)
            self._sums()
            vectors.complete(self._ts, 0, 3)
            step()
            vectors.complete(self._products, 0, _SUMS)
            done += 1
            outcome = self._watch(done, self._products)
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
        runtime.zero(self._products, 8 * _ROWS * vectors.num_groups)  # sums of another solve
        self._first()
        vectors.complete(self._products, 0, _SUMS)

    def _add_solution(self, x: Any) -> None:
        self._system.precondition(self._y, self._t)
        self._system.add(1, self._t, x)

    def _judge(self, iteration: int, totals: npt.NDArray[np.float64]) -> tuple[float, int | str]:
        """Norm and reason to stop of an iteration's sums; a NaN passes to nobody."""
        rho, rr, vs, tt, ss = totals
        norm = float(np.sqrt(rr))
        if not np.isfinite(totals).all():
            return norm, NOT_FINITE
        if iteration and (vs == 0 or (tt == 0 and ss != 0)):
            return norm, BREAKDOWN
        return norm, self._test(iteration, norm) or (BREAKDOWN if rho == 0 else 0)
