"""Quadrature rules on PETSc's reference cells, from basix or from PETSc itself.

Of a degree, the scheme
- "default" takes Xiao-Gimbutas rules on simplices, on tetrahedra of degree 16 to 20 those of Jaskowiec and Sukumar (2021), which
  PETSc has, Gauss products on tensor cells, triangle times Gauss on prisms;
- "GLL" takes Gauss-Lobatto-Legendre products with the least number of points that is exact: q points per direction, at least
  2, are exact to degree 2 q - 3, so that degree 2 k - 1 gives k + 1 points, the nodes of Lagrange elements of degree k;
- "vertex" takes the mean over the vertices times the volume, which is exact to degree 1, whatever the degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import basix
import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element.lattice import lattice_places
from femgpu.element.reference import TENSOR_CELLS, reference_cell
from femgpu.errors import FormError

# What `quadrature_rule` in the metadata of a measure may say.
SCHEMES = ("default", "GLL", "vertex")
# Polynomials are integrated exactly up to this degree where nobody gives one: symmetric rules on simplices end there.
EXACT_DEGREE = 30
# Degrees of symmetric rules on tetrahedra that PETSc has and basix has not: 304 points in place of 729, 552 in place of 1331.
_PETSC_DEGREES = range(16, 21)


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Points and weights on a reference cell.

    Attributes:
        cell: name of the reference cell.
        points: (num_qpts, dim), read-only.
        weights: (num_qpts,), read-only; they sum to the volume of the reference cell.
        degree: polynomials up to this degree (in each variable on tensor cells, in total on simplices, and in the triangle
            and along the axis of prisms) are integrated exactly.
        name: where the rule comes from, for views and cache keys: the same name and cell mean the same points.
    """

    cell: str
    points: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    degree: int
    name: str

    @property
    def num_qpts(self) -> int:
        """Number of points."""
        return len(self.weights)


@cache
def default_rule(cell: str, degree: int) -> Quadrature:
    """The rule of the scheme "default": basix's but for tetrahedra of degree 16 to 20, where PETSc has symmetric ones.

    basix's are Xiao-Gimbutas rules on triangles to degree 30 and tetrahedra to 15, products of Gauss-Jacobi otherwise. On prisms
    basix would take products of three rules of Gauss-Jacobi: here it is the triangle's rule times Gauss. The first coordinate is
    fastest in products.

    Args:
        cell: name of the reference cell.
        degree: degree of exactness, at least 0.

    Returns:
        The rule; the same object for the same arguments.

    Raises:
        FormError: for a negative degree.
    """
    _check_degree(degree)
    reference = reference_cell(cell)
    if cell == "prism":
        triangle, interval = default_rule("triangle", degree), default_rule("interval", degree)
        return _frozen(cell, *_product(triangle, interval), degree, f"basix{degree}")
    if cell == "tetrahedron" and degree in _PETSC_DEGREES:
        points, weights, _ = petsc_c.symmetric_rule(3, degree)
        return _frozen(cell, points, weights, degree, f"petsc_symmetric{degree}")
    points, weights = basix.make_quadrature(basix.CellType[cell], degree)
    # basix lives on [0, 1]^dim.
    return _frozen(cell, 2.0 * _first_fastest(cell, points) - 1.0, weights * 2.0**reference.dim, degree, f"basix{degree}")


@cache
def gll_rule(cell: str, degree: int) -> Quadrature:
    """Products of Gauss-Lobatto-Legendre rules with (degree + 4) // 2 points, the first coordinate fastest.

    Up to degree 1 that is the vertex rule, and simplices and prisms have it, too.

    Args:
        cell: name of the reference cell.
        degree: degree of exactness, at least 0.

    Returns:
        The rule, whose own degree may be larger by one; the same object for the same arguments.

    Raises:
        FormError: for a negative degree, and above degree 1 on a cell that is no product of intervals.
    """
    _check_degree(degree)
    if cell not in TENSOR_CELLS:
        if degree > 1:
            raise FormError(
                f'quadrature_rule "GLL" of degree {degree} on a {cell}: Gauss-Lobatto rules exist on {", ".join(TENSOR_CELLS)} '
                f'only; expected degree 1 or less (the vertex rule), or quadrature_rule "default"'
            )
        return vertex_rule(cell)
    dim, num = reference_cell(cell).dim, (degree + 4) // 2
    points, weights = _gauss_lobatto(num)
    places = lattice_places(num, dim)
    return _frozen(cell, points[places], np.prod(weights[places], axis=1), 2 * num - 3, f"gll{num}")


@cache
def vertex_rule(cell: str) -> Quadrature:
    """Equal weights at the vertices, in PETSc's order; exact to degree 1. The same object for the same cell."""
    reference = reference_cell(cell)
    weights = np.full(reference.num_vertices, reference.volume / reference.num_vertices)
    return _frozen(cell, reference.vertices.copy(), weights, 1, "vertex")


def scheme_rule(cell: str, degree: int, scheme: str) -> Quadrature:
    """The rule of a scheme; the same object for the same arguments.

    Args:
        cell: name of the reference cell.
        degree: degree of exactness, at least 0; the vertex rule does not ask for it.
        scheme: one of `SCHEMES`.

    Raises:
        FormError: for any other scheme, a negative degree, and where the scheme has no rule of this degree on this cell.
    """
    if scheme not in SCHEMES:
        raise FormError(f"quadrature_rule {scheme!r} is not supported; expected one of {', '.join(map(repr, SCHEMES))}")
    if scheme == "vertex":
        return vertex_rule(cell)
    return (gll_rule if scheme == "GLL" else default_rule)(cell, degree)


def collocated_degree(degree: int) -> int:
    """The degree for which the scheme "GLL" takes the nodes of Lagrange elements of a degree as points."""
    return max(1, 2 * degree - 1)


@cache
def petsc_rule(cell: str, degree: int, order: int | None = None) -> Quadrature:
    """The rule that PETSc gives a Lagrange element by itself.

    Args:
        cell: name of the reference cell.
        degree: degree of the element.
        order: `-petscfe_default_quadrature_order`, which is no degree: PETSc takes order + 1 points per direction; None:
            the element's degree.

    Returns:
        The rule; on products the first coordinate is fastest, not the last as in PETSc. The same object for the same arguments.
    """
    reference = reference_cell(cell)
    given = -1 if order is None else order
    if cell == "prism":
        # On the triangle PETSc takes its conical product here, also where it has a symmetric rule.
        given = degree if given < 0 else given
        points, weights, exact = petsc_c.default_rule(PETSc.DM.PolytopeType.TRI_PRISM, given)
        return _frozen(cell, points, weights, exact, f"petsc{given}")
    fe = PETSc.FE().createLagrange(reference.dim, 1, reference.is_simplex, degree, given, comm=PETSc.COMM_SELF)
    rule = fe.getQuadrature()
    points, weights = rule.getData()
    exact = rule.getOrder()
    fe.destroy()
    points = _first_fastest(cell, np.array(points, np.float64).reshape(-1, reference.dim))
    return _frozen(cell, points, np.array(weights, np.float64), exact, f"petsc{degree if given < 0 else given}")


def _check_degree(degree: int) -> None:
    if degree < 0:
        raise FormError(f"quadrature degree {degree}: expected at least 0")


def _gauss_lobatto(num: int) -> tuple[npt.NDArray, npt.NDArray]:
    """At least 2 points, increasing, and weights on [-1, 1]. Basix's come in another order and with some roundings more."""
    top = legendre.Legendre.basis(num - 1)
    slope, curvature = top.deriv(1), top.deriv(2)
    # Inside, the roots of the derivative are those of a Jacobi polynomial: eigenvalues, and one step of Newton.
    k = np.arange(1, num - 2)
    inner = np.linalg.eigvalsh(np.diag(np.sqrt(k * (k + 2) / ((2 * k + 1) * (2 * k + 3))), -1)) if num > 2 else np.zeros(0)
    inner = inner - slope(inner) / curvature(inner)
    points = np.concatenate([[-1.0], 0.5 * (inner - inner[::-1]), [1.0]])
    return points, 2.0 / (num * (num - 1) * top(points) ** 2)


def _first_fastest(cell: str, points: npt.NDArray) -> npt.NDArray:
    """Points with the last coordinate fastest in the order of lattices, so that neighbours store their numbers side by side."""
    return points[:, ::-1] if cell in TENSOR_CELLS else points


def _product(triangle: Quadrature, interval: Quadrature) -> tuple[npt.NDArray, npt.NDArray]:
    """Points and weights of the product on the prism; the triangle's points follow each other."""
    across = np.tile(triangle.points, (interval.num_qpts, 1))
    along = np.repeat(interval.points, triangle.num_qpts, axis=0)
    weights = np.outer(interval.weights, triangle.weights).ravel()
    return np.concatenate([across, along], axis=1), weights


def _frozen(cell: str, points: npt.NDArray, weights: npt.NDArray, degree: int, name: str) -> Quadrature:
    points, weights = np.ascontiguousarray(points), np.ascontiguousarray(weights)
    points.flags.writeable = weights.flags.writeable = False
    return Quadrature(cell, points, weights, degree, name)
