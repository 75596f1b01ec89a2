"""Where tables of coefficients in even and odd polynomials have no zeros."""

from __future__ import annotations

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

    @property
    def parities(self) -> list[int]:
        """Classes that have polynomials."""
        return [parity for parity in range(len(self.begins) - 1) if self.polynomials(parity)]

    def polynomials(self, parity: int) -> range:
        """Those of a class."""
        return range(*self.begins[parity : parity + 2])

    def functions(self, table: int, parity: int, applied: int = 0) -> range:
        """The combinations of basis functions that have coefficients of the polynomials of a class.

        Args:
            table: number of their table.
            parity: the class.
            applied: class of what is applied to the functions, a derivative say; 0: their values.
        """
        begins = self.mirror(table).begins
        return range(*begins[parity ^ applied : (parity ^ applied) + 2])

    def count(self, table: int, applied: int = 0) -> int:
        """Numbers of a table that are not left out."""
        sizes = [(len(self.polynomials(parity)), len(self.functions(table, parity, applied))) for parity in self.parities]
        return sum(one * (one + 1) // 2 if self.triangular else one * other for one, other in sizes)
