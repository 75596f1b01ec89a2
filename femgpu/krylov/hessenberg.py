"""The least squares problem of GMRES, on the host."""

from __future__ import annotations

from math import hypot

import numpy as np
import numpy.typing as npt


class Hessenberg:
    """Minimises |beta e_0 - H y| for a growing Hessenberg matrix, by Givens rotations (Saad and Schultz, 1986).

    Args:
        size: columns, at most.

    Attributes:
        count: columns so far.
        norm: of the residual.
    """

    def __init__(self, size: int):
        self._given = np.zeros((size + 1, size))
        self._upper = np.zeros((size + 1, size))
        self._right = np.zeros(size + 1)
        self._cosines, self._sines = [0.0] * size, [0.0] * size
        self.begin(0.0)

    def begin(self, beta: float) -> None:
        """Starts anew with no columns."""
        self.count = 0
        self._right[0] = self.norm = beta

    def add(self, column: npt.NDArray[np.float64], below: float, happy: bool = False) -> bool:
        """Takes one more column.

        Args:
            column: (count + 1,) entries on and above the diagonal.
            below: the one under them.
            happy: whether that counts as zero: the solution is exact.

        Returns:
            False where the column is zero after the rotations so far: the matrix is singular, and the column is not taken.
        """
        k = self.count
        self._given[: k + 1, k], self._given[k + 1, k] = column, below
        entries = column.tolist()
        for j in range(k):
            above, entry, c, s = entries[j], entries[j + 1], self._cosines[j], self._sines[j]
            entries[j], entries[j + 1] = c * above + s * entry, c * entry - s * above
        length = entries[k] if happy else hypot(entries[k], below)
        if length == 0.0:
            return False
        self.count += 1
        if happy:
            self.norm = 0.0
        else:
            c, s = self._cosines[k], self._sines[k] = entries[k] / length, below / length
            entries[k] = length
            right = float(self._right[k])
            self._right[k], self._right[k + 1] = c * right, -s * right
            self.norm = abs(s * right)
        self._upper[: k + 1, k] = entries
        return True

    def solution(self) -> npt.NDArray[np.float64]:
        """The minimiser, (count,)."""
        k = self.count
        solution = np.zeros(k)
        for i in range(k - 1, -1, -1):
            solution[i] = (self._right[i] - self._upper[i, i + 1 : k] @ solution[i + 1 :]) / self._upper[i, i]
        return solution

    def eigenvalues(self) -> npt.NDArray[np.complex128]:
        """Eigenvalues of the square part (Ritz values), (count,)."""
        return np.linalg.eigvals(self._given[: self.count, : self.count]).astype(np.complex128)
