"""1D matrices cut into what the items of a GPU hold of them, that multiply lines by a matrix together.

Four items have a line: item t the numbers t, t + 4, t + 8, ... of it, of what is multiplied and of the products alike. A matrix
instruction multiplies eight such lines, or sixteen, by four columns and eight rows of a matrix, of which each of its 32 items
brings one number: item 4 g + t that of column t and of the row whose product the instruction leaves in column g of its result.
Where even and odd parts of lines are multiplied items have numbers t, t + 4, ... of each part, so of the line these and as many
from its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from femgpu.element import Tensor


@dataclass(frozen=True)
class Part:
    """What some lines, or their even or odd parts, are multiplied by: a matrix of so many rows and columns."""

    rows: int
    columns: int

    @property
    def eights(self) -> int:
        """Instructions for all rows."""
        return -(-self.rows // 8)

    @property
    def fours(self) -> int:
        """Instructions for all columns."""
        return -(-self.columns // 4)

    @property
    def instructions(self) -> int:
        """Of eight rows and four columns, and so numbers of the matrix that an item holds."""
        return self.eights * self.fours

    def pack(self, matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(32 instructions,) the numbers of the items side by side, those of the columns first; filled up with zeros."""
        full = np.zeros((8 * self.eights, 4 * self.fours))
        full[: self.rows, : self.columns] = matrix[: self.rows, : self.columns]
        # Column 2 t + e of a result belongs to item t, which keeps number t + 4 e there.
        return full.reshape(self.eights, 2, 4, self.fours, 4).transpose(0, 3, 2, 1, 4).ravel()


@dataclass(frozen=True)
class LineProduct:
    """A 1D matrix that lines are multiplied by.

    Attributes:
        letter: `B` values or `D` derivatives.
        table: number of the tabulation.
        p1d: basis functions per direction.
        q1d: points per direction.
        back: whether from points to nodes: by the transposed matrix.
        splits: whether even and odd parts of lines are multiplied, of points and nodes that are symmetric.
    """

    letter: str
    table: int
    p1d: int
    q1d: int
    back: bool
    splits: bool = False

    @property
    def matrix(self) -> str:
        """The macro of the matrix (q1d, p1d)."""
        return f"LINE_{self.letter}{self.table}"

    @property
    def name(self) -> str:
        """Of its numbers in a kernel."""
        return f"{self.letter}{self.table}{'_back' * self.back}"

    @property
    def rows(self) -> int:
        """Numbers of a product."""
        return self.p1d if self.back else self.q1d

    @property
    def columns(self) -> int:
        """Numbers that are multiplied."""
        return self.q1d if self.back else self.p1d

    @property
    def sign(self) -> int:
        """Of the matrix read from its end."""
        return -1 if self.letter == "D" else 1

    @property
    def parts(self) -> tuple[Part, ...]:
        """The whole matrix, or what even and odd parts of lines are multiplied by.

        In the middle of a line of products values have no odd part, and derivatives no even one.
        """
        if not self.splits:
            return (Part(self.rows, self.columns),)
        rows = (-(-self.rows // 2), self.rows // 2)[:: self.sign]
        return Part(rows[0], -(-self.columns // 2)), Part(rows[1], self.columns // 2)

    @property
    def instructions(self) -> int:
        """Of all parts."""
        return sum(part.instructions for part in self.parts)

    @property
    def additions(self) -> int:
        """For a line, to take it apart and to put products together."""
        return self.splits * (self.columns + self.rows)

    def pack(self, matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(32 instructions,) the numbers of the items, part by part.

        Args:
            matrix: (q1d, p1d).
        """
        whole = matrix.T if self.back else matrix
        if not self.splits:
            return self.parts[0].pack(whole)
        # What is in the middle of a line is its even part, and no sum of two.
        halves = ((whole + sign * whole[:, ::-1]) / 2 for sign in (1, -1))
        return np.concatenate([part.pack(half) for part, half in zip(self.parts, halves, strict=True)])


def pack_fragments(products: Iterable[LineProduct], tensor: Tensor) -> npt.NDArray[np.float64]:
    """What items hold of all matrices, one after the other.

    Args:
        products: the products.
        tensor: the 1D factors.
    """
    return np.concatenate([product.pack(getattr(tensor.factors[product.table], product.letter)) for product in products])


def splits_lines(q1d: int, p1ds: Iterable[int]) -> bool:
    """Whether even and odd parts of lines take fewer instructions than whole lines, there and back.

    Args:
        q1d: points per direction.
        p1ds: basis functions per direction of each field and row.
    """
    products = [(p1d, q1d, back) for p1d in p1ds for back in (False, True)]
    whole, parts = (sum(LineProduct("B", 0, *size, splits).instructions for size in products) for splits in (False, True))
    return parts < whole
