"""An assembly by einsum over basix's tabulations, which shares no code with femgpu.

It has basix's elements with warped nodes, basix's reference cells, a geometry of its own from the vertices, and normals and areas
of facets from the tangents there. On curved cells it takes the nodes that it is told.
"""

from collections import Counter
from functools import cache

import basix
import numpy as np
from comparison import VERTICES, Place, Values, hull_distance


@cache
def element(cell, degree):
    """basix's Lagrange element of any degree."""
    variant = basix.LagrangeVariant.gll_warped if degree else basix.LagrangeVariant.legendre
    return basix.create_element(basix.ElementFamily.P, basix.CellType[cell], degree, variant, discontinuous=degree == 0)


class Basis:
    """Functions that are one at one node and zero at the others; nodes default to basix's own."""

    def __init__(self, cell, degree, nodes=None):
        self.element = element(cell, degree)
        own = self.element.points if degree else basix.geometry(basix.CellType[cell]).mean(axis=0)[None]
        self.nodes = own if nodes is None else nodes
        self.coefficients = np.linalg.inv(self.element.tabulate(0, self.nodes)[0, :, :, 0])

    def tabulate(self, points):
        """Values (point, basis), gradients (..., dim) and second derivatives (..., dim, dim) on the reference cell."""
        tables = self.element.tabulate(2, points)[..., 0] @ self.coefficients
        dim = points.shape[1]
        unit = np.eye(dim, dtype=int)
        first = np.stack([tables[basix.index(*unit[i].tolist())] for i in range(dim)], axis=-1)
        second = [[tables[basix.index(*(unit[i] + unit[j]).tolist())] for j in range(dim)] for i in range(dim)]
        return tables[0], first, np.moveaxis(np.array(second), (0, 1), (-2, -1))


class Group:
    """The cells of one type in basix's order of vertices.

    Args:
        cells: as PETSc lists them.
    """

    def __init__(self, cells):
        self.cell = cells.cell
        corners = basix.geometry(basix.CellType[cells.cell])
        order = [int(np.argmin(np.abs(to_basix(VERTICES[cells.cell]) - corner).sum(axis=1))) for corner in corners]
        self.corners, self.ids, self.vertices = corners, cells.ids[:, order], cells.vertices[:, order]
        self.facets = basix.topology(basix.CellType[cells.cell])[len(corners[0]) - 1]
        if cells.nodes is None:
            self.map, self.coords = Basis(cells.cell, 1, corners), self.vertices
        else:
            degree = next(k for k in range(2, 9) if element(cells.cell, k).dim == len(cells.nodes))
            self.map, self.coords = Basis(cells.cell, degree, to_basix(cells.nodes)), cells.coords

    def geometry(self, points, chosen=slice(None)):
        """x (cell, point, dim), its derivatives (..., k) and second derivatives (..., k, l) by the reference coordinates."""
        return [np.einsum("qn...,end->eqd...", table, self.coords[chosen]) for table in self.map.tabulate(points)]

    def volumes(self):
        """(cells, 1), by a rule that is exact."""
        points, weights = basix.make_quadrature(basix.CellType[self.cell], 3 * self.map.element.degree + 1)
        return (np.abs(np.linalg.det(self.geometry(points)[1])) @ weights)[:, None]


class Piece:
    """Points of some cells: a place, and fields there.

    Args:
        comparison: gives the nodes of fields where they matter.
        group: the cells.
        points: (num_points, dim) on basix's reference cell.
        place: where they are.
        chosen: which of the cells.
    """

    def __init__(self, comparison, group, points, place, chosen):
        self.comparison, self.group, self.points, self.place, self.chosen = comparison, group, points, place, chosen
        _, jacobian, bend = group.geometry(points, chosen)
        self.inverse = np.linalg.inv(jacobian)
        # The derivative of the inverse Jacobian by the reference coordinates: -inverse (d jacobian) inverse.
        self.change = -np.einsum("eqki,eqiml,eqmj->eqkjl", self.inverse, bend, self.inverse, optimize=True)

    def values(self, shape, polynomial):
        """The interpolant of a polynomial."""
        given = self._nodes(shape) if self.comparison.curved else None
        basis = Basis(self.group.cell, shape.degree, given)
        nodes = self.group.geometry(basis.nodes, self.chosen)[0]
        dofs = np.reshape(polynomial(np.moveaxis(nodes, -1, 0)), (*shape.shape, *nodes.shape[:2]))
        value, grad, hess = self._physical(basis)
        return Values(
            np.einsum("...en,qn->...eq", dofs, value),
            np.einsum("...en,eqni->...ieq", dofs, grad, optimize=True),
            np.einsum("...en,eqnij->...ijeq", dofs, hess, optimize=True),
        )

    def basis(self, shape):
        """Every basis function of femgpu's nodes in every component."""
        value, grad, hess = self._physical(Basis(self.group.cell, shape.degree, self._nodes(shape)))
        for n in range(value.shape[1]):
            scalar = (np.broadcast_to(value[:, n], grad.shape[:2]), np.moveaxis(grad[:, :, n], -1, 0))
            scalar += (np.moveaxis(hess[:, :, n], (-2, -1), (0, 1)),)
            for component in np.eye(shape.num_comp):
                unit = component.reshape(shape.shape)
                yield Values(*(np.multiply.outer(unit, part) for part in scalar))

    def _nodes(self, shape):
        return to_basix(self.comparison.nodes(self.group.cell, shape))

    def _physical(self, basis):
        """Values (point, basis), gradients (cell, point, basis, dim) and second derivatives (..., dim, dim) in space."""
        value, first, second = basis.tabulate(self.points)
        grad = np.einsum("qnk,eqki->eqni", first, self.inverse, optimize=True)
        along = np.einsum("qnkl,eqki->eqnil", second, self.inverse, optimize=True)
        along += np.einsum("qnk,eqkil->eqnil", first, self.change, optimize=True)
        return value, grad, np.einsum("eqnil,eqlj->eqnij", along, self.inverse, optimize=True)


def pieces(comparison):
    """The points of all cells and of all exterior facets."""
    groups = {name: Group(cells) for name, cells in comparison.cells.items()}
    users = Counter(frozenset(ids[facet].tolist()) for group in groups.values() for ids in group.ids for facet in group.facets)
    for name, group in groups.items():
        for rule in comparison.rules.get(name, ()):
            yield _cell_piece(comparison, group, rule)
        for rule in comparison.facet_rules.get(name, ()):
            for points, weights in zip(rule.points, rule.weights, strict=True):
                yield from _facet_piece(comparison, group, to_basix(points), weights, users)


def _cell_piece(comparison, group, rule):
    points = to_basix(rule.points)
    x, jacobian, _ = group.geometry(points)
    measure = np.abs(np.linalg.det(jacobian)) * rule.weights / 2 ** points.shape[1]
    place = Place(np.moveaxis(x, -1, 0), measure, group.vertices, group.volumes())
    return Piece(comparison, group, points, place, slice(None))


def _facet_piece(comparison, group, points, weights, users):
    """The exterior facets on that facet of the reference cell which holds the points."""
    (facet,) = [facet for facet in group.facets if hull_distance(points, group.corners[facet]) < 1e-12]
    sets = [frozenset(ids[facet].tolist()) for ids in group.ids]
    chosen = np.array([i for i, ids in enumerate(sets) if users[ids] == 1], int)
    if len(chosen) == 0:
        return
    x, jacobian, _ = group.geometry(points, chosen)
    # Unit tangents of the reference facet and their images.
    edges = group.corners[facet[1:]] - group.corners[facet[0]]
    units = np.linalg.qr(edges[: points.shape[1] - 1].T)[0]
    tangents = np.einsum("eqdk,kt->teqd", jacobian, units)
    normal = np.stack([tangents[0, ..., 1], -tangents[0, ..., 0]], axis=-1) if len(tangents) == 1 else np.cross(*tangents)
    area = np.linalg.norm(normal, axis=-1)
    outward = np.sign(np.einsum("eqd,eqd->eq", normal, x - group.vertices[chosen].mean(axis=1)[:, None]))
    place = Place(
        np.moveaxis(x, -1, 0),
        area * weights / 2 ** len(tangents),
        group.vertices[chosen],
        group.volumes()[chosen],
        np.moveaxis(normal * (outward / area)[..., None], -1, 0),
        np.array([comparison.sides[sets[i]] for i in chosen]),
    )
    yield Piece(comparison, group, points, place, chosen)


def to_basix(points):
    """Points of PETSc's reference cell on basix's: the axes are the same."""
    return (np.array(points, float) + 1) / 2
