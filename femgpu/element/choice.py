"""Which rule an integral is computed by."""

from __future__ import annotations

from femgpu.element.facets import FacetQuadrature, facet_rules, petsc_facet_rules
from femgpu.element.quadrature import Quadrature, petsc_rule, scheme_rule


def choose_rule(cell: str, degree: int | None, scheme: str = "default", element_degree: int = 1, order: int = -1) -> Quadrature:
    """The rule of an integral over cells.

    Args:
        cell: name of the reference cell.
        degree: the degree that the rule integrates exactly; None asks for the points that PETSc gives an element by itself.
        scheme: one of `SCHEMES`.
        element_degree: the degree of the element that PETSc chooses its points by.
        order: `-petscfe_default_quadrature_order`: from 0 on PETSc's points of that order, whatever degree and scheme say.

    Returns:
        The rule; the same object for the same arguments.

    Raises:
        FormError: for an unknown scheme, a negative degree, and where the scheme has no rule of this degree on this cell.
    """
    if order < 0 and degree is not None:
        return scheme_rule(cell, degree, scheme)
    return petsc_rule(cell, element_degree, None if order < 0 else order)


def choose_facet_rules(
    cell: str, degree: int | None, scheme: str = "default", element_degree: int = 1, order: int = -1
) -> tuple[FacetQuadrature, ...]:
    """The rules of an integral over facets, one for each type of facet. Arguments and errors as those of `choose_rule`."""
    if order < 0 and degree is not None:
        return facet_rules(cell, degree, scheme)
    return petsc_facet_rules(cell, element_degree, None if order < 0 else order)
