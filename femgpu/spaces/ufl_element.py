"""Lagrange elements as UFL sees them: cell, shape, degree, identity pull-back."""

from __future__ import annotations

from typing import Any

import ufl
from ufl.finiteelement import AbstractFiniteElement
from ufl.pullback import identity_pullback
from ufl.sobolevspace import H1, L2


class UFLLagrange(AbstractFiniteElement):
    """A Lagrange element of any value shape.

    Args:
        cell: name of the cell.
        degree: polynomial degree.
        shape: value shape.
        continuous: whether neighbouring cells share nodes.
    """

    def __init__(self, cell: str, degree: int, shape: tuple[int, ...] = (), continuous: bool = True):
        self._key = (cell, degree, shape, continuous)
        self._cell = ufl.Cell(cell)

    def __repr__(self) -> str:
        return "UFLLagrange({!r}, {!r}, {!r}, {!r})".format(*self._key)

    def __str__(self) -> str:
        cell, degree, shape, continuous = self._key
        return f"{'P' if continuous else 'DP'}{degree}({cell}{', ' + str(shape) if shape else ''})"

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UFLLagrange) and self._key == other._key

    @property
    def sobolev_space(self) -> Any:
        """H1 where continuous, else L2."""
        return H1 if self._key[3] else L2

    @property
    def pullback(self) -> Any:
        """The identity: values are physical components."""
        return identity_pullback

    @property
    def embedded_superdegree(self) -> int:
        """The degree; on tensor cells in each variable, which is how product rules count theirs."""
        return self._key[1]

    @property
    def embedded_subdegree(self) -> int:
        """Degree of the largest full polynomial space inside the span."""
        return self._key[1]

    @property
    def cell(self) -> ufl.Cell:
        """The UFL cell."""
        return self._cell

    @property
    def reference_value_shape(self) -> tuple[int, ...]:
        """Shape of a value."""
        return self._key[2]

    @property
    def sub_elements(self) -> tuple[()]:
        """None: components are no elements of their own."""
        return ()
