"""Which rules an integral is computed by."""

from __future__ import annotations

from collections.abc import Iterable

from femgpu.element.facets import FacetQuadrature, facet_rules, petsc_facet_rules
from femgpu.element.lagrange import LagrangeElement
from femgpu.element.quadrature import Quadrature, petsc_rule, scheme_rule


def choose_rules(
    cell: str,
    kind: str,
    degree: int | None,
    scheme: str = "default",
    elements: Iterable[LagrangeElement] = (),
    order: int = -1,
) -> tuple[Quadrature, ...] | tuple[FacetQuadrature, ...]:
    """The rules of an integral: one over cells, one for each type of facet over facets.

    Args:
        cell: name of the reference cell.
        kind: "cell", "exterior_facet" or "interior_facet".
        degree: the degree that the rules integrate exactly; None asks for the points that PETSc gives an element by itself.
        scheme: one of `SCHEMES`.
        elements: of the fields that are read or tested with: PETSc's points are those of the highest degree.
        order: `-petscfe_default_quadrature_order`: from 0 on PETSc's points of that order, whatever degree and scheme say.

    Returns:
        The rules; the same objects for the same arguments.

    Raises:
        FormError: for an unknown scheme, a negative degree, and where the scheme has no rule of this degree on this cell.
    """
    on_cells, turned = kind == "cell", {"turned": True} if kind == "interior_facet" else {}
    if order < 0 and degree is not None:
        return (scheme_rule(cell, degree, scheme),) if on_cells else facet_rules(cell, degree, scheme, **turned)
    largest, given = max(element.polynomial_degree for element in elements), None if order < 0 else order
    return (petsc_rule(cell, largest, given),) if on_cells else petsc_facet_rules(cell, largest, given, **turned)
