"""The V-cycle: smoothing by Chebyshev's iteration on each level, and whatever solves the coarsest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from femgpu.krylov import Chebyshev, Operator, Preconditioner, Spectrum, Vectors
from femgpu.krylov.system import System

# Of the largest eigenvalue, which parts a polynomial of the first kind damps: beyond the estimate, which is one from below.
_RANGE = 0.1, 1.1
_FILE = "preconditioners.cl"


class Level:
    """A level that is smoothed.

    Polynomials in D^-1 A, D the diagonal, over the upper part of the spectrum. The same one stands before and after the coarse
    correction, so that the cycle is symmetric where A is.

    Args:
        vectors: kernels and lengths.
        operator: A.
        steps: products with A before the coarse correction, and as many after it.
        fourth: whether polynomials are those of the fourth kind, which need no lower end of the range.
        noise: (num_owned,) rough entries, from which the largest eigenvalue is found.
        estimate: steps of the estimate.

    Attributes:
        files: with the kernels, in `kernels/cl`.
        vectors: kernels and lengths.
        diagonal: device buffer, the caller's to fill with D before each `update`, which leaves D^-1 there.
        largest: the largest eigenvalue of D^-1 A as it was estimated.
    """

    files: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((*Chebyshev.files, *Spectrum.files, _FILE)))

    def __init__(self, vectors: Vectors, operator: Operator, steps: int, fourth: bool, noise: Any, estimate: int):
        self.vectors, self._operator, self._steps = vectors, operator, steps
        self.diagonal = vectors.empty()
        self._invert = vectors.kernel("invert_diagonal", np.int32(0), np.int32(0), self.diagonal, file=_FILE)
        self.largest = 0.0
        self._preconditioner = Preconditioner(self.diagonal)
        self._smoother = Chebyshev(vectors)
        self._smoother.fourth = fourth
        self._system = System(vectors)
        self._spectrum = Spectrum(vectors, estimate)
        self._noise = vectors.empty()
        vectors.runtime.write(self._noise, noise)

    def update(self) -> str:
        """Takes D over and finds the range of eigenvalues again, after the operator has changed; collective.

        Returns:
            What is wrong with them, empty if nothing.
        """
        self._invert()
        ends = self._spectrum.estimate(self._operator, self._noise, self._preconditioner)
        if isinstance(ends, str):
            return ends
        self.largest = ends[1]
        self._smoother.least, self._smoother.most = (part * self.largest for part in _RANGE)
        return ""

    def smooth(self, b: Any, x: Any, guess: bool) -> None:
        """Improves x, which is zero without a guess."""
        self._smoother.solve(self._operator, b, x, self._preconditioner, None, guess=guess, limit=self._steps)

    def residual(self, b: Any, x: Any, r: Any) -> None:
        """Makes r = b - A x."""
        self._system.begin(self._operator, self._preconditioner, None)
        self._system.residual(b, x, True, r)


class Cycle:
    """z = M r by one V-cycle.

    Args:
        levels: those that are smoothed, the finest first.
        restrict: for each of them, makes the right-hand side of the next one of a residual, between buffers.
        prolong: for each of them, adds the correction of the next one to an approximation.
        solve: makes x of b on the coarsest level, which comes after the last of `levels`.
        coarsest: its vectors.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        restrict: Sequence[Callable[[Any, Any], None]],
        prolong: Sequence[Callable[[Any, Any], None]],
        solve: Callable[[Any, Any], None],
        coarsest: Vectors,
    ):
        self._levels, self._restrict, self._prolong, self._solve = levels, restrict, prolong, solve
        self._residuals = [level.vectors.empty() for level in levels]
        below = [*(level.vectors for level in levels), coarsest][1:]
        self._sides, self._corrections = [vectors.empty() for vectors in below], [vectors.empty() for vectors in below]

    def apply(self, r: Any, z: Any) -> None:
        """Makes z = M r."""
        sides, found = [r, *self._sides], [z, *self._corrections]
        for number, level in enumerate(self._levels):
            level.smooth(sides[number], found[number], guess=False)
            level.residual(sides[number], found[number], self._residuals[number])
            self._restrict[number](self._residuals[number], sides[number + 1])
        self._solve(sides[-1], found[-1])
        for number in reversed(range(len(self._levels))):
            self._prolong[number](found[number + 1], found[number])
            self._levels[number].smooth(sides[number], found[number], guess=True)
