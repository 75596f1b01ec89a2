"""1D factors of elements and rules on the cells that are products of intervals.

On intervals, quadrilaterals and hexahedra the basis functions of a Lagrange element are products of 1D ones, and the points
of Gauss, Gauss-Lobatto and vertex rules are all combinations of 1D points. Places of a lattice are numbered lexicographically, x
fastest; `lattice` has the number of the basis function, or of the point, at each place:

    phi[lattice[i + p1d (j + p1d k)]](x, y, z) = l_i(x) l_j(y) l_k(z),    points[lattice[i + q1d (j + q1d k)]] = (x_i, x_j, x_k).

With both in that order the tabulation (num_qpts, num_basis) is the product of matrices B (q1d, p1d), one per direction, and the
derivative along a direction has D in place of its B. Simplices have no such factors; a prism has those of its axis only, and
counts as a cell without.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from femgpu.element.facets import FacetQuadrature
from femgpu.element.lagrange import LagrangeElement, line_element
from femgpu.element.lattice import find_lattice, lattice_places, same
from femgpu.element.quadrature import Quadrature
from femgpu.element.reference import TENSOR_CELLS

Array = npt.NDArray[np.float64]
# What mirroring points and nodes does to values, first and second derivatives.
_SIGNS = (1.0, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Factors:
    """A Lagrange element in one direction, at the 1D points of a rule. All arrays are read-only.

    Attributes:
        nodes: (p1d,) 1D nodes, increasing.
        B: (q1d, p1d) values; exactly the identity where the points are the nodes.
        D: (q1d, p1d) first derivatives.
        H: (q1d, p1d) second derivatives.
        end_B: (2, p1d) values at -1 and 1, between which the facets lie.
        end_D: (2, p1d) first derivatives there.
        end_H: (2, p1d) second derivatives there.
        lattice: (num_basis,) int32, the number in PETSc's order of the basis function at each place of the lattice.
    """

    nodes: Array
    B: Array
    D: Array
    H: Array
    end_B: Array
    end_D: Array
    end_H: Array
    lattice: npt.NDArray[np.int32]

    @property
    def p1d(self) -> int:
        """Basis functions per direction."""
        return len(self.nodes)

    @cached_property
    def collocated(self) -> bool:
        """Whether the points are the nodes, so that nothing needs interpolating."""
        return self.B.shape == (self.p1d, self.p1d) and np.array_equal(self.B, np.eye(self.p1d))


@dataclass(frozen=True, eq=False)
class Tensor:
    """A rule on cells or facets and the elements tabulated at its points, by their 1D factors. Compared by identity.

    Attributes:
        cell: name of the reference cell.
        points: (q1d,) 1D points, increasing, read-only.
        weights: (q1d,) 1D weights, read-only; they sum to 2.
        D: (q1d, q1d) derivatives at the points of the polynomial through values at the points: differentiates what is
            interpolated, D_element = D B where q1d is at least p1d; read-only.
        factors: the elements' factors, in the order of the elements.
        lattice: (num_facets, num_qpts) int32, the number in the rule of the point at each place of the lattice; one "facet" for
            rules on cells. The lattice of a facet has the cell's axes but the one across it, in their order.
        axes: (num_facets,) the axis across each facet of the rule; empty for rules on cells.
        sides: (num_facets,) 0 for the facet where that axis begins, 1 where it ends: the row of `end_B`.
    """

    cell: str
    points: Array
    weights: Array
    D: Array
    factors: tuple[Factors, ...]
    lattice: npt.NDArray[np.int32]
    axes: tuple[int, ...] = ()
    sides: tuple[int, ...] = ()

    @property
    def q1d(self) -> int:
        """Points per direction."""
        return len(self.points)

    @property
    def ordered(self) -> bool:
        """Whether the rule numbers its points as the lattice does, on all facets where it is one for these."""
        return bool((self.lattice == np.arange(self.lattice.shape[1])).all())


@cache
def tensor_factors(rule: Quadrature | FacetQuadrature, elements: tuple[LagrangeElement, ...]) -> Tensor | None:
    """The 1D factors of a rule and of elements at its points.

    Args:
        rule: a rule on a cell or on facets of a cell.
        elements: elements on that cell, in any number.

    Returns:
        The factors, the same object for the same arguments; None for a cell that is no product of intervals, for the ends of an
        interval, and for a rule or an element that is no product of one and the same 1D rule or element.
    """
    if rule.cell not in TENSOR_CELLS:
        return None
    axes, sides = _across(rule) if isinstance(rule, FacetQuadrature) else ((), ())
    found = _rule_factors(rule, axes)
    if found is None:
        return None
    points, weights, lattice = found
    factors = tuple(entry for entry in (_element_factors(element, points) for element in elements) if entry is not None)
    if len(factors) < len(elements):
        return None
    slopes = _matrices(line_element(points), points)[1]
    return Tensor(rule.cell, points, weights, slopes, factors, lattice, axes, sides)


def _across(rule: FacetQuadrature) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axis and side of each facet of a rule: its outward normal is plus or minus a unit vector."""
    axes = np.abs(rule.normals).argmax(axis=1)
    return tuple(axes.tolist()), tuple((rule.normals[np.arange(len(axes)), axes] > 0).astype(int).tolist())


def _rule_factors(rule: Quadrature | FacetQuadrature, axes: tuple[int, ...]) -> tuple[Array, Array, npt.NDArray[np.int32]] | None:
    """1D points, 1D weights and the lattice of a rule, None where it is no product."""
    planes = [np.delete(points, axis, axis=1) for points, axis in zip(rule.points, axes, strict=True)] if axes else [rule.points]
    dim = planes[0].shape[1]
    grids = [grid for grid in map(find_lattice, planes) if grid is not None] if dim else []
    if len(grids) < len(planes) or not all(same(line, grids[0][0]) for line, _ in grids):
        return None
    points, lattice = grids[0][0], np.array([entry for _, entry in grids])
    weights = np.take_along_axis(rule.weights.reshape(len(planes), -1), lattice, axis=1)
    # The 1D weights sum to 2, so that summing over the other directions leaves a power of it.
    line = weights[0].reshape(-1, len(points)).sum(axis=0) / 2.0 ** (dim - 1)
    if _symmetric(points):
        line = 0.5 * (line + line[::-1])
    products = np.prod(line[lattice_places(len(points), dim)], axis=1)
    if not same(weights, np.broadcast_to(products, weights.shape)):
        return None
    return _frozen(points), _frozen(line), _frozen(lattice)


def _element_factors(element: LagrangeElement, points: Array) -> Factors | None:
    if element.product is None:
        return None
    line, lattice = element.product
    nodes, ends = line.nodes[:, 0], np.array([-1.0, 1.0])
    collocated = same(nodes, points)
    B, D, H = _matrices(line, nodes if collocated else points)
    if collocated:
        B = _frozen(np.eye(len(nodes)))
    return Factors(_frozen(nodes), B, D, H, *_matrices(line, ends), lattice)


def _matrices(line: LagrangeElement, points: Array) -> tuple[Array, Array, Array]:
    """Values, first and second derivatives of a 1D element, their symmetry free of rounding where there is one."""
    values, slopes = line.tabulate(points)
    arrays = [values, slopes[:, :, 0], line.hessians(points)[:, :, 0, 0]]
    if _symmetric(points) and _symmetric(line.nodes[:, 0]):
        arrays = [0.5 * (array + sign * array[::-1, ::-1]) for array, sign in zip(arrays, _SIGNS, strict=True)]
    B, D, H = map(_frozen, arrays)
    return B, D, H


def _symmetric(line: Array) -> bool:
    return np.array_equal(line, -line[::-1])


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array
