"""A linear system with its preconditioner as Krylov methods use them, on device buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from femgpu.krylov.operator import Operator, Preconditioner
from femgpu.krylov.vectors import Vectors

_ONE, _ZERO = np.float64(1), np.float64(0)


class System:
    """A x = b and M.

    Args:
        vectors: kernels and lengths.

    Attributes:
        operator: q = A p on buffers.
        diagonal: of M, where that is all that M is and nothing is projected; else None.
    """

    operator: Callable[[Any, Any], None]

    def __init__(self, vectors: Vectors):
        self.vectors = vectors
        self.diagonal: Any = None
        self._preconditioner = Preconditioner()
        self._project: Callable[[Any], None] | None = None
        self._work = vectors.empty()
        self._axpby = vectors.kernel("axpby", _ONE, self._work, _ZERO, self._work)
        self._multiply = vectors.kernel("multiply", self._work, self._work, self._work)

    def begin(self, operator: Operator, preconditioner: Preconditioner, project: Callable[[Any], None] | None) -> None:
        """Takes A, M, and what removes the null space from what M gives, for a solve."""
        self.operator = operator.apply
        self._preconditioner, self._project = preconditioner, project
        self.diagonal = preconditioner.diagonal if self.simple else None

    @property
    def simple(self) -> bool:
        """Whether M is a diagonal or 1, and nothing is projected: kernels can apply it by the way."""
        return self._preconditioner.apply is None and self._project is None

    def copy(self, source: Any, target: Any) -> None:
        """Target = source."""
        self._axpby.bound({1: _ONE, 2: source, 3: _ZERO, 4: target})()

    def add(self, factor: int, source: Any, target: Any) -> None:
        """Target += factor times source; the factor is 1 or -1."""
        self._axpby.bound({1: np.float64(factor), 2: source, 3: _ONE, 4: target})()

    def residual(self, b: Any, x: Any, guess: bool, r: Any) -> None:
        """Makes r = b - A x; without a guess x becomes zero."""
        self.copy(b, r)
        if guess:
            self.operator(x, self._work)
            self.add(-1, self._work, r)
        else:
            self.vectors.runtime.zero(x, self.vectors.num_bytes)

    def precondition(self, r: Any, z: Any) -> None:
        """Makes z = M r."""
        given = self._preconditioner
        if given.apply is not None:
            given.apply(r, z)
        elif given.diagonal is not None:
            self._multiply.bound({1: given.diagonal, 2: r, 3: z})()
        else:
            self.copy(r, z)
        if self._project is not None:
            self._project(z)

    def apply(self, p: Any, out: Any, right: bool = False) -> None:
        """Makes out = M A p, or A M p where M stands on the right."""
        if self.simple and self.diagonal is None:
            self.operator(p, out)
        elif right:
            self.precondition(p, self._work)
            self.operator(self._work, out)
        else:
            self.operator(p, self._work)
            self.precondition(self._work, out)
