"""Tables of coefficients in even and odd polynomials, most of which are zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from femgpu.element import Mirror


@dataclass(frozen=True)
class Symmetry:
    """Where tables of combinations of basis functions have no zeros.

    Attributes:
        mirrors: of each table that is multiplied, its number and the combinations of its basis functions.
        begins: (num_classes + 1,) where each class of the polynomials begins.
        directions: (dim,) classes of the derivatives.
        triangular: whether polynomials are so rotated that, within a class, functions before q have no coefficient of polynomial q.
            So it is where values of one element alone are multiplied with each other, which has as many basis functions as there
            are polynomials: with a mass.
    """

    mirrors: tuple[tuple[int, Mirror], ...]
    begins: tuple[int, ...]
    directions: tuple[int, ...]
    triangular: bool

    def mirror(self, table: int) -> Mirror:
        """The combinations of a table's basis functions."""
        return dict(self.mirrors)[table]

    def polynomials(self, one: int) -> range:
        """Those of a class."""
        return range(*self.begins[one : one + 2])

    def functions(self, table: int, one: int, change: int = 0) -> range:
        """The combinations of basis functions that have coefficients of the polynomials of a class.

        Args:
            table: number of their table.
            one: the class.
            change: class of what is applied to the functions, a derivative say; 0: their values.
        """
        begins = self.mirror(table).begins
        return range(*begins[one ^ change : (one ^ change) + 2])

    def blocks(self, table: int, change: int = 0) -> Iterator[tuple[range, range]]:
        """Polynomials and functions of each class."""
        for one in range(len(self.begins) - 1):
            yield self.polynomials(one), self.functions(table, one, change)
