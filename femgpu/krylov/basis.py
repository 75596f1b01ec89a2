"""Vectors that stand one after the other in one buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.krylov.vectors import Vectors

BASIS = "basis_vectors.cl"
# Rows of partial sums that are written together.
_CHUNK = 8


class Block:
    """Up to `size` vectors.

    Args:
        vectors: kernels and lengths.
        size: room, allocated at once.
    """

    def __init__(self, vectors: Vectors, size: int):
        self._vectors, self._size = vectors, size
        runtime = vectors.runtime
        self._block = runtime.empty(size * vectors.num_bytes)
        self._coefficients = runtime.upload(np.zeros(size))
        zero = np.int32(0)
        self._keep = vectors.kernel("keep_vector", zero, self._block, self._block, file=BASIS)
        arguments = (zero, zero, self._block, self._coefficients, np.float64(1), self._block, None, None, zero)
        self._combine = vectors.kernel("multi_axpy", *arguments, file=BASIS)

    def keep(self, number: int, z: Any) -> None:
        """Makes z vector `number`."""
        self._keep.set(1, np.int32(number))
        self._keep.set(2, z)
        self._keep()

    def combine(self, coefficients: npt.NDArray[np.float64], target: Any) -> None:
        """Target += sum of coefficients[j] times vector j."""
        self._vectors.runtime.write(self._coefficients, coefficients)
        self._combine.set(2, np.int32(len(coefficients)))
        self._combine.set(6, target)
        self._combine()
        self._combine.set(6, self._block)


class Basis(Block):
    """Up to `size` orthonormal vectors, and the one that comes next.

    Args:
        vectors: kernels and lengths.
        size: room, allocated at once.
        modified: Gram-Schmidt one vector after the other, not all of them at once.
        refinement: a second pass of the classical one: `never`, `needed` (where the first took away more than it left), `always`.

    Attributes:
        w: the vector to be made orthogonal to those before it.
        p: the last vector of the basis once more.
    """

    def __init__(self, vectors: Vectors, size: int, modified: bool = False, refinement: str = "never"):
        super().__init__(vectors, size)
        self._modified, self._refinement = modified, refinement
        self.w, self.p = vectors.empty(), vectors.empty()
        self._parts, self._square = vectors.sums(-(-size // _CHUNK) * _CHUNK), vectors.sums(1)
        self._host, self._groups = np.zeros(size), np.zeros(vectors.num_groups)
        zero, minus = np.int32(0), np.float64(-1)
        self._dot = vectors.kernel("multi_dot", zero, zero, self._block, self.w, self._parts, file=BASIS)
        self._add = vectors.kernel("add_parts", zero, self._parts, self._coefficients, file=BASIS)
        arguments = (zero, zero, self._block, self._coefficients, minus, self.w, self._square, None, zero)
        self._subtract = vectors.kernel("multi_axpy", *arguments, file=BASIS)
        self._norm = vectors.kernel("dot_product", zero, self.w, self.w, self._square)
        self._next = vectors.kernel("next_vector", zero, self._square, self.w, self._block, self.p, None, file=BASIS)

    def start(self, column: Any) -> None:
        """Makes w, normalised, the first vector; |w|^2 becomes the first number of the column, a buffer of `size` + 1."""
        self._norm()
        self._append(0, column)

    def orthogonalise(self, count: int, column: Any) -> None:
        """Makes w, orthogonal to `count` vectors and normalised, the next one.

        Args:
            count: vectors so far.
            column: receives the coefficients, and behind them |w|^2.
        """
        if self._modified:
            for j in range(count):
                self._project(j, 1, column)
        else:
            self._project(0, count, column)
            if self._refinement == "always" or (self._refinement == "needed" and self._lost(count)):
                self._project(0, count, column, again=True)
        self._append(count, column)

    def _append(self, count: int, column: Any) -> None:
        self._vectors.complete(self._square, 0, 1)
        self._next.set(1, np.int32(count))
        self._next.set(6, column)
        self._next()

    def _project(self, first: int, count: int, column: Any, again: bool = False) -> None:
        """Takes the parts along some vectors out of w, and puts their sizes into the column."""
        for kernel in (self._dot, self._subtract):
            kernel.set(1, np.int32(first))
            kernel.set(2, np.int32(count))
        self._dot()
        self._add.set(1, np.int32(count))
        self._add()
        vectors, host = self._vectors, self._host[:count]
        if vectors.mpi.size > 1:
            vectors.runtime.write(self._coefficients, vectors.mpi.allreduce(vectors.runtime.read(self._coefficients, host)))
        self._subtract.set(8, column)
        self._subtract.set(9, np.int32(again))
        self._subtract()

    def _lost(self, count: int) -> bool:
        """Whether the last projection took away more than it left; waits for the device."""
        vectors = self._vectors
        left = vectors.mpi.allreduce(vectors.runtime.read(self._square, self._groups).sum())
        taken = vectors.runtime.read(self._coefficients, self._host[:count])
        return bool(left < taken @ taken)
