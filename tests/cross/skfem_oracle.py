"""The same numbers from scikit-fem's elements, mappings and facets, on meshes of one cell type."""

import numpy as np
import skfem
from comparison import VERTICES, Place, Values, hull_distance

ELEMENTS = {
    ("triangle", 0): skfem.ElementTriP0,
    ("triangle", 1): skfem.ElementTriP1,
    ("triangle", 2): skfem.ElementTriP2,
    ("triangle", 3): skfem.ElementTriP3,
    ("triangle", 4): skfem.ElementTriP4,
    ("tetrahedron", 0): skfem.ElementTetP0,
    ("tetrahedron", 1): skfem.ElementTetP1,
    ("tetrahedron", 2): skfem.ElementTetP2,
    ("quadrilateral", 0): skfem.ElementQuad0,
    ("quadrilateral", 1): skfem.ElementQuad1,
    ("quadrilateral", 2): skfem.ElementQuad2,
    ("hexahedron", 0): skfem.ElementHex0,
    ("hexahedron", 1): skfem.ElementHex1,
    ("hexahedron", 2): skfem.ElementHex2,
    ("prism", 1): skfem.ElementWedge1,
}
MESHES = {
    "triangle": skfem.MeshTri,
    "tetrahedron": skfem.MeshTet,
    "quadrilateral": skfem.MeshQuad,
    "hexahedron": skfem.MeshHex,
    "prism": skfem.MeshWedge1,
}


class Piece:
    """Points of some cells or facets.

    Args:
        cell: type of the cells.
        basis: makes scikit-fem's basis of an element at the points.
        place: where they are.
    """

    def __init__(self, cell, basis, place):
        self.cell, self.place = cell, place
        self._make, self._bases = basis, {}

    def values(self, shape, polynomial):
        """The interpolant of a polynomial."""
        if shape.degree not in self._bases:
            self._bases[shape.degree] = self._make(ELEMENTS[self.cell, shape.degree]())
        basis = self._bases[shape.degree]
        parts = [basis.interpolate(dofs) for dofs in np.reshape(polynomial(basis.doflocs), (shape.num_comp, -1))]
        arrays = [np.stack([np.asarray(part) for part in parts]), np.stack([part.grad for part in parts])]
        return Values(*(array.reshape(*shape.shape, *array.shape[1:]) for array in arrays))


def pieces(comparison):
    """The points of all cells and of all exterior facets.

    scikit-fem sorts the vertices of simplices and of facets: there is a piece for every order, so that the rule's points are the
    same physical points.
    """
    (cells,) = comparison.cells.values()
    element = ELEMENTS[cells.cell, 1]()
    order = [int(np.argmin(np.abs(_corners(cells.cell) - 2 * vertex + 1).sum(axis=1))) for vertex in element.refdom.p.T]
    mesh = MESHES[cells.cell](comparison.points.T.copy(), cells.ids[:, order].T.copy())
    (rule,) = comparison.rules[cells.cell]
    yield from _cell_pieces(cells, mesh, rule)
    for rule in comparison.facet_rules.get(cells.cell, ()):
        yield from _facet_pieces(comparison, cells, mesh, rule)


def _cell_pieces(cells, mesh, rule):
    corners = _corners(cells.cell)
    volumes = skfem.CellBasis(mesh, mesh.elem(), intorder=6).dx.sum(axis=1, keepdims=True)
    # Position in PETSc's list of each of scikit-fem's vertices.
    where = (mesh.t.T[:, :, None] == cells.ids[:, None, :]).argmax(axis=2)
    for listing in np.unique(where, axis=0):
        chosen = np.flatnonzero((where == listing).all(axis=1))
        points = _carried(rule.points, corners[listing], mesh.elem.refdom.p.T)
        quadrature = points.T, rule.weights / 2 ** len(mesh.p)

        def make(element, chosen=chosen, quadrature=quadrature):
            return skfem.CellBasis(mesh, element, quadrature=quadrature, elements=chosen)

        basis = make(mesh.elem())
        x = np.asarray(basis.global_coordinates())
        yield Piece(cells.cell, make, Place(x, basis.dx, cells.vertices[chosen], volumes[chosen]))


def _facet_pieces(comparison, cells, mesh, rule):
    corners, own = _corners(cells.cell), mesh.brefdom.p.T
    facets = np.flatnonzero(mesh.f2t[1] == -1)
    groups = {}
    for facet in facets:
        ids = cells.ids[mesh.f2t[0, facet]].tolist()
        groups.setdefault(tuple(ids.index(vertex) for vertex in mesh.facets[:, facet]), []).append(facet)
    for listing, members in groups.items():
        chosen = np.array(members)
        place = [i for i, points in enumerate(rule.points) if hull_distance(points, corners[list(listing)]) < 1e-12]
        if not place:
            continue
        points = _carried(rule.points[place[0]], corners[list(listing)], own)
        weights = rule.weights[place[0]] / rule.weights[place[0]].sum() * (0.5 if len(own) == 3 else 1.0)

        def make(element, chosen=chosen, quadrature=(points.T, weights)):
            return skfem.FacetBasis(mesh, element, quadrature=quadrature, facets=chosen)

        basis = make(mesh.elem())
        x, n = np.asarray(basis.global_coordinates()), np.asarray(basis.normals)
        sides = np.array([comparison.sides[frozenset(mesh.facets[:, facet].tolist())] for facet in chosen])
        yield Piece(cells.cell, make, Place(x, basis.dx, cells.vertices[mesh.f2t[0, chosen]], n=n, sides=sides))


def _carried(points, corners, images):
    """Points under the affine map that takes corners to their images."""
    return np.c_[np.ones(len(points)), points] @ np.linalg.lstsq(np.c_[np.ones(len(corners)), corners], images, rcond=None)[0]


def _corners(cell):
    return np.array(VERTICES[cell], float)
