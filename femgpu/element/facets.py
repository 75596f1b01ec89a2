"""Quadrature on the facets of a reference cell, as points of the cell.

An integral over a facet of a mapped cell is, with outward unit normals N of the reference facet and n of the mapped one,

    dA = |det J| |J^-T N| dA_ref,    n = J^-T N / |J^-T N|    (Nanson's formula),

so that a cell's own geometry at the facet's points is all that a facet term needs.

The first cell of a facet between two sees it as if it were alone. The second one sees it from behind, and turned in some way: for
each of these ways the rule has the points of the second cell that lie, in the same order, where those of the first one do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element.quadrature import Quadrature, scheme_rule
from femgpu.element.reference import ReferenceCell, arrangements, reference_cell


@dataclass(frozen=True, eq=False)
class FacetQuadrature:
    """One rule for those facets of a cell that are of one type.

    Attributes:
        cell: name of the reference cell.
        facets: numbers of the facets, in PETSc's cone order; in a rule for facets between two cells each of them `turns` times.
        points: (num_facets, num_qpts, dim) on the reference cell.
        weights: (num_facets, num_qpts); they sum to the area of the reference facet.
        normals: (num_facets, dim) outward unit normals of the reference cell.
        degree: polynomials on the facet up to this degree are integrated exactly.
        name: where the rule comes from.
        turns: entries for each facet, one for each of the `arrangements` of its vertices; 1: it lies as in the cell.
    """

    cell: str
    facets: tuple[int, ...]
    points: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    normals: npt.NDArray[np.float64]
    degree: int
    name: str
    turns: int = 1

    @property
    def num_qpts(self) -> int:
        """Points per facet."""
        return self.weights.shape[1]

    @property
    def kind(self) -> str:
        """The type of the facets."""
        return reference_cell(self.cell).facet_cells[self.facets[0]]

    def places(self, facets: npt.NDArray, turns: npt.NDArray | int = 0) -> npt.NDArray[np.int32]:
        """Where facets stand in the rule, -1 for those of another type.

        Args:
            facets: (n,) numbers of facets.
            turns: (n,) the arrangement of each; 0 in a rule of one turn.
        """
        place = np.full(len(reference_cell(self.cell).facets), -1, np.int32)
        place[list(self.facets[:: self.turns])] = np.arange(0, len(self.facets), self.turns)
        found = place[facets]
        return np.where(found < 0, found, found + turns).astype(np.int32)


@cache
def facet_rules(cell: str, degree: int, scheme: str = "default", turned: bool = False) -> tuple[FacetQuadrature, ...]:
    """The rules of a scheme on the facets of a cell, one for each type of facet.

    Args:
        cell: name of the reference cell.
        degree: degree of exactness, at least 0.
        scheme: one of `SCHEMES`.
        turned: for facets between two cells: each facet in all arrangements of its vertices.

    Raises:
        FormError: as `scheme_rule` does for the facets.
    """
    return _rules(cell, lambda kind: scheme_rule(kind, degree, scheme), turned)


@cache
def petsc_facet_rules(cell: str, degree: int, order: int | None = None, turned: bool = False) -> tuple[FacetQuadrature, ...]:
    """The rules that PETSc gives the facets of a Lagrange element by itself. Arguments as of `petsc_rule`, `facet_rules`."""
    given = -1 if order is None else order

    def rule(kind: str) -> Quadrature:
        reference = reference_cell(kind)
        # PETSc makes the rule of a facet from that of a cell of one dimension more.
        fe = PETSc.FE().createLagrange(reference.dim + 1, 1, reference.is_simplex, degree, given, comm=PETSc.COMM_SELF)
        points, weights = fe.getFaceQuadrature().getData()
        exact = fe.getFaceQuadrature().getOrder()
        fe.destroy()
        points = np.array(points, np.float64).reshape(-1, reference.dim)
        return Quadrature(kind, points, np.array(weights, np.float64), exact, f"petsc{degree if given < 0 else given}")

    if reference_cell(cell).dim == 1:
        return facet_rules(cell, 0, turned=turned)
    return _rules(cell, rule, turned)


def _rules(cell: str, rule: Callable[[str], Quadrature], turned: bool) -> tuple[FacetQuadrature, ...]:
    reference = reference_cell(cell)
    found = []
    for kind in dict.fromkeys(reference.facet_cells):
        alone = [i for i, entry in enumerate(reference.facet_cells) if entry == kind]
        orders = arrangements(len(reference.loops[alone[0]])) if turned else np.arange(len(reference.loops[alone[0]]))[None]
        facets = tuple(facet for facet in alone for _ in orders)
        if kind == "point":
            points, weights, degree, name = (
                reference.vertices[[reference.facets[i] for i in facets]],
                np.ones((len(facets), 1)),
                0,
                "",
            )
        else:
            plain = rule(kind)
            maps = [_facet_map(reference, i, order) for i in alone for order in orders]
            points = np.array([origin + 0.5 * (plain.points + 1) @ axes for origin, axes in maps])
            # The facet rule lives on [-1, 1]^(dim - 1): the area of the image of the unit square of its axes is 2^-(dim - 1) of it.
            areas = [np.sqrt(np.linalg.det(axes @ axes.T)) / 2 ** len(axes) for _, axes in maps]
            weights, degree, name = np.outer(areas, plain.weights), plain.degree, plain.name
        normals = np.array([_normal(reference, i) for i in facets])
        for array in (points, weights, normals):
            array.flags.writeable = False
        found.append(FacetQuadrature(cell, facets, points, weights, normals, degree, name, len(orders)))
    return tuple(found)


def _facet_map(
    reference: ReferenceCell, facet: int, order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """First vertex of a facet, and the (dim - 1, dim) edges from it along the axes of the facet's own reference cell.

    The vertices of that cell are, in the order of the facet in this one, those with the numbers `order`.
    """
    vertices = reference.vertices[list(reference.loops[facet])][np.argsort(order)]
    axes = (1, 3) if reference.facet_cells[facet] == "quadrilateral" else range(1, reference.dim)
    return vertices[0], np.array([vertices[axis] - vertices[0] for axis in axes])


def _normal(reference: ReferenceCell, facet: int) -> npt.NDArray[np.float64]:
    """(dim,) outward unit normal of a facet of the reference cell."""
    vertices = reference.vertices[list(reference.facets[facet])]
    outward = vertices.mean(axis=0) - reference.vertices.mean(axis=0)
    edges = vertices[1:] - vertices[0]
    normal = np.linalg.svd(edges)[2][-1] if len(edges) else np.ones(1)
    # Zeros are exact: of roundings single precision makes others.
    return np.where(np.abs(normal) < 1e-12, 0.0, normal * np.sign(normal @ outward))
