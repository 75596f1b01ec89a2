"""Lagrange elements as UFL sees them: cell, shape, degree, identity pull-back."""

from __future__ import annotations

from typing import Any

import ufl
from ufl.finiteelement import AbstractFiniteElement
from ufl.pullback import MixedPullback, identity_pullback
from ufl.sobolevspace import H1, L2

from femgpu.element import LagrangeElement
from femgpu.spaces.field import entry_components


class UFLLagrange(AbstractFiniteElement):
    """A Lagrange element of any value shape.

    Args:
        cell: name of the cell.
        degree: polynomial degree.
        shape: value shape.
        continuous: whether neighbouring cells share nodes.
        symmetric: whether values are symmetric tensors. UFL sees all of their entries.
        bubble: whether there is a node in the middle of each cell, see `LagrangeElement`.
    """

    def __init__(
        self,
        cell: str,
        degree: int,
        shape: tuple[int, ...] = (),
        continuous: bool = True,
        symmetric: bool = False,
        bubble: bool = False,
    ):
        self._key = (cell, degree, shape, continuous, symmetric, bubble)
        self._scalar = LagrangeElement(cell, degree, continuous, bubble=bubble)
        self._cell = ufl.Cell(cell)

    def __repr__(self) -> str:
        return "UFLLagrange({!r}, {!r}, {!r}, {!r}, {!r}, {!r})".format(*self._key)

    def __str__(self) -> str:
        cell, degree, shape, continuous, symmetric, bubble = self._key
        values = f", {shape}{', symmetric' if symmetric else ''}" if shape else ""
        return f"{'P' if continuous else 'DP'}{degree}{'+B' if bubble else ''}({cell}{values})"

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UFLLagrange) and self._key == other._key

    @property
    def family(self) -> str:
        """What FunctionSpaces of this element are called."""
        return self._scalar.family

    @property
    def sobolev_space(self) -> Any:
        """H1 where continuous, else L2."""
        return H1 if self._key[3] else L2

    @property
    def symmetric(self) -> bool:
        """Whether values are symmetric tensors."""
        return self._key[4]

    @property
    def pullback(self) -> Any:
        """The identity: values are physical components."""
        return identity_pullback

    @property
    def embedded_superdegree(self) -> int:
        """The degree, bubbles included; on tensor cells in each variable, which is how product rules count theirs."""
        return self._scalar.polynomial_degree

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


class UFLMixed(AbstractFiniteElement):
    """The element of a mixed space: the parts' components one after the other.

    Args:
        parts: the elements of the fields.
    """

    def __init__(self, parts: tuple[UFLLagrange, ...]):
        self._parts = parts

    def __repr__(self) -> str:
        return f"UFLMixed({self._parts!r})"

    def __str__(self) -> str:
        return " x ".join(map(str, self._parts))

    def __hash__(self) -> int:
        return hash(("mixed", self._parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UFLMixed) and self._parts == other._parts

    @property
    def sobolev_space(self) -> Any:
        """H1 where all parts are continuous, else L2."""
        return H1 if all(part.sobolev_space is H1 for part in self._parts) else L2

    @property
    def pullback(self) -> Any:
        """Part by part, each the identity."""
        return MixedPullback(self)

    @property
    def embedded_superdegree(self) -> int:
        """The largest degree of the parts."""
        return max(part.embedded_superdegree for part in self._parts)

    @property
    def embedded_subdegree(self) -> int:
        """The smallest degree of the parts."""
        return min(part.embedded_subdegree for part in self._parts)

    @property
    def cell(self) -> ufl.Cell:
        """The UFL cell."""
        return self._parts[0].cell

    @property
    def reference_value_shape(self) -> tuple[int, ...]:
        """All components in one axis."""
        return (sum(part.reference_value_size for part in self._parts),)

    @property
    def sub_elements(self) -> tuple[UFLLagrange, ...]:
        """The parts."""
        return self._parts


def components_of(element: Any) -> tuple[int, ...]:
    """The stored component of each entry of an element's value, entries counted row by row, those of a mixed one field by field."""
    if not isinstance(element.pullback, MixedPullback):
        return entry_components(element.reference_value_shape, isinstance(element, UFLLagrange) and element.symmetric)
    found: tuple[int, ...] = ()
    for part in element.sub_elements:
        first = max(found, default=-1) + 1
        found += tuple(first + component for component in components_of(part))
    return found


def num_components(element: Any) -> int:
    """The components of an element's value that are stored."""
    return max(components_of(element)) + 1
