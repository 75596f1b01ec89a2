"""Geometric quantities as UFL expressions of the Jacobian, the normal and the volume of a cell.

On an affine simplex the normal says which facet it is: with barycentric coordinates b_i on the unit cell, J^T n is
-grad b_i(X) / |grad b_i(x)| there, where grad b_i(X) is the i-th unit vector for i > 0, and (-1, ..., -1) for i = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import combinations
from typing import Any

import ufl
from ufl import classes
from ufl.compound_expressions import determinant_expr, inverse_expr

from femgpu.errors import FormError
from femgpu.forms.ufl.show import show


def define(e: Any, domain: Any, on_facets: bool) -> Any:
    """An expression for one of `DEFINITIONS`.

    Args:
        e: the quantity.
        domain: the ufl.Mesh.
        on_facets: whether the integral is over facets.

    Raises:
        FormError: for a quantity of facets in cells, or of facets that have none.
    """
    name = type(e).__name__
    if "Facet" in name:
        if not on_facets:
            raise FormError(
                f"{name} where there is no facet: {show(e)}; expected ds or dS, or a quantity of cells such as CellDiameter"
            )
        if not domain.is_piecewise_linear_simplex_domain():
            raise FormError(
                f"{name} of cells that are not affine simplices: {show(e)}; maps of their facets need not be linear, and "
                "nothing on them constant: expected a quantity of cells such as CellDiameter or CellVolume"
            )
        if "Edge" in name and domain.topological_dimension < 3:
            raise FormError(
                f"{name} in {domain.topological_dimension}D: {show(e)}; facets have edges in 3D only: expected FacetArea"
            )
    return DEFINITIONS[type(e)](domain)


def _inverse(domain: Any) -> Any:
    return inverse_expr(ufl.Jacobian(domain))


def _determinant(domain: Any) -> Any:
    return determinant_expr(ufl.Jacobian(domain))


def _facet_area(domain: Any) -> Any:
    """Dim volume |grad b_i|, one in 1D, as UFL has it."""
    dim = domain.topological_dimension
    if dim == 1:
        return classes.FloatValue(1.0)
    return dim * ufl.CellVolume(domain) / reduce(ufl.max_value, map(abs, _pulled_normal(domain)))


def _shortest_edge(domain: Any) -> Any:
    return _facet_edge(domain, ufl.min_value)


def _longest_edge(domain: Any) -> Any:
    return _facet_edge(domain, ufl.max_value)


def _facet_edge(domain: Any, choose: Callable[[Any, Any], Any]) -> Any:
    """A choice of the edges of the facet that lies opposite to a vertex of a tetrahedron."""
    jacobian = ufl.Jacobian(domain)
    columns = [[jacobian[i, k] for i in range(3)] for k in range(3)]
    corners = [[0.0] * 3, *columns]
    square = {(a, b): sum((p - q) ** 2 for p, q in zip(corners[b], corners[a], strict=True)) for a, b in combinations(range(4), 2)}
    chosen = [reduce(choose, [length for pair, length in square.items() if vertex not in pair]) for vertex in range(4)]
    pulled = _pulled_normal(domain)
    level = -0.5 * reduce(ufl.max_value, map(abs, pulled))
    result = chosen[0]
    for entry, length in zip(pulled, chosen[1:], strict=True):
        result = ufl.conditional(ufl.lt(entry, level), length, result)
    return ufl.sqrt(result)


def _pulled_normal(domain: Any) -> list[Any]:
    """The components of J^T n."""
    jacobian, normal, dim = ufl.Jacobian(domain), ufl.FacetNormal(domain), domain.topological_dimension
    return [sum(jacobian[i, k] * normal[i] for i in range(dim)) for k in range(dim)]


DEFINITIONS: dict[type, Callable[[Any], Any]] = {
    classes.JacobianInverse: _inverse,
    classes.JacobianDeterminant: _determinant,
    classes.FacetArea: _facet_area,
    classes.MinFacetEdgeLength: _shortest_edge,
    classes.MaxFacetEdgeLength: _longest_edge,
}
