"""femgpu's numbers for a weak form on a mesh, and the frame in which an oracle computes its own.

Both sides know the same polynomials u, w and coefficients, which lie in their spaces, so that no dofs have to be matched. An oracle
is told the vertices of the cells as PETSc lists them, the labels of the boundary, and femgpu's quadrature points; on curved cells
also the nodes of coordinates and fields. It returns pieces: points of cells or facets with their measure, and fields there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import ufl
from petsc4py import PETSc
from polynomials import Polynomial

from femgpu import Constant, Function, FunctionSpace, MixedSpace, NonlinearProblem
from femgpu.element import LagrangeElement

# PETSc's reference vertices: tetrahedra and prisms list x and y swapped, hexahedra turn their lower face over.
VERTICES = {
    "triangle": [[-1, -1], [1, -1], [-1, 1]],
    "tetrahedron": [[-1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]],
    "quadrilateral": [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    "hexahedron": [[-1, -1, -1], [-1, 1, -1], [1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]],
    "prism": [[-1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, 1], [-1, 1, 1]],
}
POLYTOPES = {
    PETSc.DM.PolytopeType.TRIANGLE: "triangle",
    PETSc.DM.PolytopeType.QUADRILATERAL: "quadrilateral",
    PETSc.DM.PolytopeType.TETRAHEDRON: "tetrahedron",
    PETSc.DM.PolytopeType.HEXAHEDRON: "hexahedron",
    PETSc.DM.PolytopeType.TRI_PRISM: "prism",
}
# Far below rounding: the imaginary part then is the derivative to the last digit.
STEP = 1e-40


class Shape(NamedTuple):
    """What a field is made of."""

    degree: int
    shape: tuple[int, ...] = ()
    continuous: bool = True

    @property
    def num_comp(self):
        return int(np.prod(self.shape, dtype=int))


class Values(NamedTuple):
    """A field at points: value (*shape, cells, points), gradient (*shape, dim, ...), second derivatives (*shape, dim, dim, ...)."""

    value: Any
    grad: Any
    hess: Any = None

    def plus(self, other, factor):
        return Values(*(None if a is None else a + factor * b for a, b in zip(self, other, strict=True)))

    def times(self, factor):
        return Values(*(None if a is None else factor * a for a in self))


@dataclass
class Place:
    """Points of cells, or of facets.

    Attributes:
        x: (dim, cells, points).
        measure: (cells, points) weights times volume or area.
        vertices: (cells, num_vertices, dim) of the cells.
        volume: (cells, 1) of the cells.
        n: (dim, cells, points) outward unit normals; None in cells.
        sides: (cells,) labels of the facets.
    """

    x: np.ndarray
    measure: np.ndarray
    vertices: np.ndarray
    volume: np.ndarray | None = None
    n: np.ndarray | None = None
    sides: np.ndarray | None = None

    def on(self, *labels):
        """(cells, 1) one on the facets with these labels, else zero."""
        return np.isin(self.sides, labels)[:, None].astype(float)

    @property
    def h(self):
        """(cells, 1) diameters."""
        edges = self.vertices[:, :, None] - self.vertices[:, None]
        return np.linalg.norm(edges, axis=3).max(axis=(1, 2))[:, None]


@dataclass
class Cells:
    """The cells of one type as PETSc lists them.

    Attributes:
        cell: the type.
        ids: (num_cells, num_vertices) vertex numbers.
        vertices: (num_cells, num_vertices, dim).
        nodes: (num_nodes, dim) of the coordinates on the reference cell, where they are more than vertices.
        coords: (num_cells, num_nodes, dim) where they are in space.
    """

    cell: str
    ids: np.ndarray
    vertices: np.ndarray
    nodes: np.ndarray | None = None
    coords: np.ndarray | None = None


def read_cells(dm):
    """The cells of each type, and the vertices' coordinates."""
    start, end = dm.getDepthStratum(0)
    section, values = dm.getCoordinateSection(), dm.getCoordinatesLocal().array_r
    where = np.array([section.getOffset(vertex) for vertex in range(start, end)])
    points = values[where[:, None] + np.arange(dm.getCoordinateDim())]
    found = {}
    for cell in range(*dm.getHeightStratum(0)):
        closure = dm.getTransitiveClosure(cell)[0]
        found.setdefault(POLYTOPES[dm.getCellType(cell)], []).append(closure[(closure >= start) & (closure < end)] - start)
    return {name: Cells(name, np.array(ids), points[np.array(ids)]) for name, ids in found.items()}, points


def label_sides(dm):
    """Labels the boundary 1, 2 and 3 by the place of each facet's middle; labels by the facets' vertices."""
    start, end = dm.getDepthStratum(0)
    _, points = read_cells(dm)
    middle = points.mean(axis=0)
    if dm.hasLabel("Face Sets"):
        dm.removeLabel("Face Sets")
    dm.createLabel("Face Sets")
    sides = {}
    for facet in range(*dm.getHeightStratum(1)):
        if dm.getSupportSize(facet) == 1:
            closure = dm.getTransitiveClosure(facet)[0]
            ids = closure[(closure >= start) & (closure < end)] - start
            centre = points[ids].mean(axis=0)
            label = 2 if centre[0] > middle[0] else 3 if centre[1] > middle[1] else 1
            dm.getLabel("Face Sets").setValue(facet, label)
            sides[frozenset(ids.tolist())] = label
    return sides


class Geometry:
    """What a form may use of the mesh, for UFL."""

    def __init__(self, dm, domain, degree):
        self.dm = dm
        self.x, self.n = ufl.SpatialCoordinate(domain), ufl.FacetNormal(domain)
        self.h, self.volume = ufl.CellDiameter(domain), ufl.CellVolume(domain)
        self.dx, self.ds = ufl.dx(degree=degree), ufl.ds(degree=degree)

    def constant(self, value):
        return Constant(self.dm, value)


class Comparison:
    """A weak form on a mesh with random polynomials for its functions, and femgpu's numbers for it.

    Args:
        problem: one of `weak_forms`.
        dm: the mesh; its boundary is labelled anew.
        degree: degree of the problem's spaces.
        rng: random numbers.
        set_options: the fixture.
        diagonal: whether the diagonal is compared too.

    Attributes:
        cells: the cells of each type.
        sides: the label of each exterior facet, by its vertices.
        polynomials: by "u", "w" and "k", for each field its Shape and its polynomial.
        rules: quadrature of the cells of each type, and of the facets.
        numbers: r(u).w_i by ("residual", i), w_i.J(u)w_j by ("action", i, j), and the trace of J(u) by ("trace",), i and j fields;
            for each the values that femgpu has for it, matrix-free and assembled.
    """

    def __init__(self, problem, dm, degree, rng, set_options, diagonal=False):
        self.problem, self.diagonal = problem, diagonal
        self.sides = label_sides(dm)
        self.cells, self.points = read_cells(dm)
        dim = dm.getDimension()
        unknowns, coefficients = problem.unknowns(dim, degree), problem.coefficients(dim, degree)
        size = getattr(problem, "size", 1.0)
        lower = self.points.min(axis=0)
        self.polynomials = {
            key: {name: (shape, _polynomial(shape, rng, lower, scale)) for name, shape in shapes.items()}
            for key, shapes, scale in (("u", unknowns, size), ("w", unknowns, 1.0), ("k", coefficients, 1.0))
        }
        space = _space(dm, unknowns)
        u, parts = _function(space, self.polynomials["u"])
        tests = ufl.TestFunctions(space) if len(unknowns) > 1 else [ufl.TestFunction(space)]
        k = {
            name: _function(_space(dm, {name: shape}), {name: self.polynomials["k"][name]})[0]
            for name, shape in coefficients.items()
        }
        geometry = Geometry(dm, space.ufl_domain(), 2 * degree)
        F = problem.form(geometry, parts, dict(zip(unknowns, tests, strict=True)), k)
        set_options("cross_", femgpu_pmat="assembled", femgpu_qdata=getattr(problem, "qdata", "recompute"))
        solver = NonlinearProblem(F, u, options_prefix="cross_")
        self._read_mesh(space.mesh)
        self._read_rules(solver.operator.local.terms)
        directions = {name: _function(space, {name: self.polynomials["w"][name]})[0].vec for name in unknowns}
        self.numbers = _numbers(solver, u.vec, directions, diagonal)

    def _read_mesh(self, mesh):
        """Takes the nodes of curved cells, and checks that others are what they are meant to be."""
        for block in mesh.blocks:
            group = self.cells[block.cell]
            assert block.num_cells == len(group.ids)
            if block.coord_element.degree > 1:
                group.nodes, group.coords = block.coord_element.nodes, block.coords[block.coord_dofs]
            else:
                assert block.reference.is_simplex or not block.affine.any()

    def _read_rules(self, terms):
        self.rules, self.facet_rules = {}, {}
        for term in terms:
            rules = self.rules if term.facets is None else self.facet_rules
            known = rules.setdefault(term.block.cell, [])
            if not any(rule is term.quadrature for rule in known):
                known.append(term.quadrature)
        assert all(len(rules) == 1 for rules in self.rules.values())

    @property
    def curved(self):
        """Whether polynomials are only interpolated by the fields, and not in their spaces."""
        return any(group.nodes is not None for group in self.cells.values())

    def nodes(self, cell, shape):
        """(num_basis, dim) where femgpu's dofs are, on PETSc's reference cell."""
        return LagrangeElement(cell, shape.degree, shape.continuous).nodes

    def expected(self, pieces):
        """An oracle's numbers.

        Args:
            pieces: each with a `place`, `values(shape, polynomial)`, and, where the diagonal is compared, `basis(shape)`.
        """
        total = Counter()
        for piece in pieces:
            integrand = self.problem.cell if piece.place.n is None else self.problem.facet
            if integrand is not None:
                total.update(self._piece(piece, integrand))
        return dict(total)

    def _piece(self, piece, integrand):
        place = piece.place
        u, w, k = ({name: piece.values(*data) for name, data in self.polynomials[key].items()} for key in "uwk")

        def integral(state, test):
            values = integrand(place, state, test, k)
            return np.einsum("eq,eq->", place.measure, values)

        found = {}
        for i in w:
            found["residual", i] = float(integral(u, _only(w, i)))
            for j in w:
                found["action", i, j] = float(integral(_moved(u, _only(w, j)), _only(w, i)).imag / STEP)
        if self.diagonal:
            zero = {name: each.times(0) for name, each in w.items()}
            found["trace",] = 0.0
            for name, (shape, _) in self.polynomials["u"].items():
                for function in piece.basis(shape):
                    direction = {**zero, name: function}
                    found["trace",] += float(integral(_moved(u, direction), direction).imag / STEP)
        return found

    def difference(self, expected):
        """The largest relative difference, and which number it is of; what should be zero counts against all of its kind."""
        assert set(self.numbers) == set(expected)
        sizes = Counter()
        for key, value in expected.items():
            sizes[key[0]] += abs(value)
        found = [
            (abs(got - value) / (abs(value) or sizes[key[0]]), key) for key, value in expected.items() for got in self.numbers[key]
        ]
        # Unlike max(), argmax() finds what is not a number.
        return found[int(np.argmax([difference for difference, _ in found]))]


def _polynomial(shape, rng, lower, scale):
    """A polynomial that is positive on the mesh, whose lower corner is given."""
    polynomial = Polynomial(len(lower), shape.degree, rng, shape.num_comp)
    polynomial.coefficients *= scale
    return lambda x: polynomial([line - start for line, start in zip(x, lower, strict=True)])


def _space(dm, shapes):
    spaces = {
        name: FunctionSpace(dm, "Lagrange" if shape.continuous else "DG", shape.degree, shape=shape.shape)
        for name, shape in shapes.items()
    }
    return MixedSpace(spaces) if len(spaces) > 1 else next(iter(spaces.values()))


def _function(space, polynomials):
    """A function with some of its fields set, and its parts by name for forms."""
    function = Function(space)
    if not isinstance(space, MixedSpace):
        for _, polynomial in polynomials.values():
            function.interpolate(polynomial)
        return function, dict.fromkeys(polynomials, function)
    for name, (_, polynomial) in polynomials.items():
        function.sub(name).interpolate(polynomial)
    return function, {field.name: function.sub(field.name) for field in space.fields}


def _numbers(solver, u, directions, diagonal):
    matrices = [solver.jacobian, solver.snes.getJacobian()[1]]
    out = u.duplicate()
    out.set(np.nan)
    solver.residual(u, out)
    numbers = {("residual", i): [out.dot(w)] for i, w in directions.items()}
    solver.linearise(u)
    assert [matrix.getType() for matrix in matrices] == ["python", "seqaij"]
    for j, w in directions.items():
        for matrix in matrices:
            out.set(np.nan)
            matrix.mult(w, out)
            for i, test in directions.items():
                numbers.setdefault(("action", i, j), []).append(out.dot(test))
    if diagonal:
        numbers["trace",] = [matrix.getDiagonal().sum() for matrix in matrices]
    return numbers


def _only(w, name):
    return {other: each if other == name else each.times(0) for other, each in w.items()}


def _moved(u, direction):
    return {name: each.plus(direction[name], 1j * STEP) for name, each in u.items()}


def hull_distance(points, vertices):
    """Largest distance of points from the plane through vertices of a facet."""
    edges = vertices[1:] - vertices[0]
    away = points - vertices[0]
    within = np.linalg.lstsq(edges.T, away.T, rcond=None)[0]
    return np.abs(away.T - edges.T @ within).max()
