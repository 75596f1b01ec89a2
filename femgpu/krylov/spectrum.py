"""The ends of a spectrum, estimated by some steps of GMRES."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from femgpu.krylov.gmres import GMRES
from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.outcome import BREAKDOWN, NOT_FINITE
from femgpu.krylov.vectors import Vectors

# Reduction of the residual at which an estimate is as good as it gets.
_EXACT = 1e-12


class Spectrum:
    """Estimates the smallest and the largest eigenvalue of M A: from inside the spectrum, the largest soon a good one.

    Args:
        vectors: kernels and lengths.
        steps: products with A.

    Attributes:
        files: with the kernels, in `kernels/cl`.
    """

    files: ClassVar[tuple[str, ...]] = GMRES.files

    def __init__(self, vectors: Vectors, steps: int):
        self._test, self._x = _Steps(steps), vectors.empty()
        self._method = GMRES(vectors, steps)

    def estimate(
        self,
        operator: Operator,
        rhs: Any,
        preconditioner: Preconditioner,
        project: Callable[[Any], None] | None = None,
    ) -> tuple[float, float] | str:
        """Real parts of the ends of the spectrum; collective.

        Args:
            operator: A.
            rhs: a device buffer that has something of all eigenvectors.
            preconditioner: M.
            project: takes the null space out of what the preconditioner gave.

        Returns:
            The two, or why there are none: `NOT_FINITE`, `BREAKDOWN`.
        """
        ended = self._method.solve(operator, rhs, self._x, preconditioner, self._test, project=project)
        values = self._method.hessenberg.eigenvalues().real
        if ended.reason == NOT_FINITE or not len(values):
            return NOT_FINITE if ended.reason == NOT_FINITE else BREAKDOWN
        return float(values.min()), float(values.max())


class _Steps:
    """A test that ends after some iterations, or where the residual is next to nothing.

    Args:
        limit: iterations.
    """

    def __init__(self, limit: int):
        self.limit, self._first = limit, 0.0

    def __call__(self, iteration: int, norm: float) -> int:
        if iteration == 0:
            self._first = norm
        return self.check(iteration, norm)

    def report(self, iteration: int, norm: float) -> None:
        """Tells nobody."""

    def check(self, iteration: int, norm: float) -> int:
        """1 at the end."""
        return int(iteration >= self.limit or norm <= _EXACT * self._first)
