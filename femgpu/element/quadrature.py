"""Quadrature rules on PETSc's reference cells, from basix or from PETSc itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import basix
import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element.reference import reference_cell
from femgpu.errors import FormError


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
def basix_rule(cell: str, degree: int) -> Quadrature:
    """The default rule of basix: Xiao-Gimbutas on simplices up to degree 30, products of Gauss-Jacobi otherwise.

    On prisms basix would take products of three rules of Gauss-Jacobi: here it is the triangle's rule times Gauss.

    Args:
        cell: name of the reference cell.
        degree: degree of exactness, at least 0.

    Returns:
        The rule; the same object for the same arguments.

    Raises:
        FormError: for a negative degree.
    """
    if degree < 0:
        raise FormError(f"quadrature degree {degree}: expected at least 0")
    reference = reference_cell(cell)
    if cell == "prism":
        triangle, interval = basix_rule("triangle", degree), basix_rule("interval", degree)
        return _frozen(cell, *_product(triangle, interval), degree, f"basix{degree}")
    points, weights = basix.make_quadrature(basix.CellType[cell], degree)
    # basix lives on [0, 1]^dim.
    return _frozen(cell, 2.0 * points - 1.0, weights * 2.0**reference.dim, degree, f"basix{degree}")


@cache
def petsc_rule(cell: str, degree: int, order: int | None = None) -> Quadrature:
    """The rule that PETSc gives a Lagrange element by itself.

    Args:
        cell: name of the reference cell.
        degree: degree of the element.
        order: `-petscfe_default_quadrature_order`, which is no degree: PETSc takes order + 1 points per direction; None:
            the element's degree.

    Returns:
        The rule; the same object for the same arguments.
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
    points = np.array(points, np.float64).reshape(-1, reference.dim)
    return _frozen(cell, points, np.array(weights, np.float64), exact, f"petsc{degree if given < 0 else given}")


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
