"""Geometric quantities as UFL expressions of the Jacobian, the normal and the sizes of a cell and of its facets.

The normal says which facet of its cell it is: J^T n points along the outward normal of the reference cell's facet, whatever the map
(n is along J^-T N, Nanson's formula).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import ufl
from ufl import classes
from ufl.compound_expressions import determinant_expr, inverse_expr

from femgpu.errors import FormError
from femgpu.forms.ufl.show import show
from femgpu.mesh import Mesh
from femgpu.spaces import FACET_QUANTITIES, cell_quantity, facet_directions, mesh_of


def define(e: Any, domain: Any, on_facets: bool) -> Any:
    """An expression for one of `DEFINED`.

    Args:
        e: the quantity.
        domain: the ufl.Mesh.
        on_facets: whether the integral is over facets.

    Raises:
        FormError: for a quantity of facets in cells, or of facets that have none.
    """
    name = type(e).__name__
    if name not in FACET_QUANTITIES:
        return DEFINITIONS[type(e)](domain)
    if not on_facets:
        raise FormError(
            f"{name} where there is no facet: {show(e)}; expected ds or dS, or a quantity of cells such as CellDiameter"
        )
    if "Edge" in name and domain.topological_dimension < 3:
        raise FormError(f"{name} in {domain.topological_dimension}D: {show(e)}; facets have edges in 3D only: expected FacetArea")
    return _of_facet(e, domain)


def mesh_on(domain: Any, e: Any) -> Mesh:
    """The mesh that a quantity is of.

    Raises:
        FormError: for a domain that femgpu did not make.
    """
    mesh = mesh_of(domain)
    if mesh is None:
        raise FormError(f"{type(e).__name__} on {domain}, which is not a mesh of femgpu's: {show(e)}; take all spaces from femgpu")
    return mesh


def _inverse(domain: Any) -> Any:
    return inverse_expr(ufl.Jacobian(domain))


def _determinant(domain: Any) -> Any:
    return determinant_expr(ufl.Jacobian(domain))


def _of_facet(e: Any, domain: Any) -> Any:
    """The component for this facet of a quantity that the cell has for each of its facets."""
    mesh = mesh_on(domain, e)
    sizes, others = cell_quantity(mesh, type(e).__name__), facet_directions(mesh)[1:]
    jacobian, normal, dim = ufl.Jacobian(domain), ufl.FacetNormal(domain), domain.topological_dimension
    pulled = [sum(jacobian[i, k] * normal[i] for i in range(dim)) for k in range(dim)]
    level = 0.5 * reduce(ufl.max_value, map(abs, pulled))
    result = sizes[0]
    for place, direction in enumerate(others, 1):
        here = reduce(ufl.And, [_is(value, entry, level) for value, entry in zip(pulled, direction, strict=True)])
        result = ufl.conditional(here, sizes[place], result)
    return result


def _is(value: Any, entry: int, level: Any) -> Any:
    """Whether a number that is -1, 0 or 1 but for scale and rounding is this one; the scale is twice the level."""
    return ufl.lt(abs(value), level) if entry == 0 else ufl.gt(entry * value, level)


DEFINITIONS: dict[type, Callable[[Any], Any]] = {
    classes.JacobianInverse: _inverse,
    classes.JacobianDeterminant: _determinant,
}
DEFINED = (*DEFINITIONS, *(getattr(classes, name) for name in FACET_QUANTITIES))
