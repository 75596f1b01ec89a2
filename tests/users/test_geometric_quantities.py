"""UFL's geometric quantities against formulas of the vertices."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import ufl
from random_meshes import ALL_CELLS, random_cells, random_mixed

import femgpu
from femgpu import FunctionSpace
from femgpu.element import reference_cell
from femgpu.errors import FormError
from femgpu.mesh import Mesh
from femgpu.mesh.geometry import vertex_nodes

STEP = 1e-40
DATA = Path(__file__).resolve().parents[1] / "data"


def place(cell, vertices, X):
    """Images (num_cells, num_points, dim) of points of the unit cell, complex ones too."""
    corners = (reference_cell(cell).vertices + 1) / 2
    flat = {"triangle": 2, "tetrahedron": 3, "prism": 2}.get(cell, 0)
    shapes = []
    for corner in corners:
        tensor = np.prod(corner * X[:, None] + (1 - corner) * (1 - X[:, None]), axis=2)[:, 0] if flat == 0 else 1
        if flat:
            simplex = X[:, :flat] @ corner[:flat] if corner[:flat].any() else 1 - X[:, :flat].sum(axis=1)
            height = np.prod(corner[flat:] * X[:, flat:] + (1 - corner[flat:]) * (1 - X[:, flat:]), axis=1)
            tensor = simplex * height
        shapes.append(tensor)
    return np.einsum("vp,evd->epd", np.array(shapes), vertices)


def corners_of(block):
    return block.coords[block.coord_dofs[:, vertex_nodes(block.coord_element)]]


def values(dm, expression):
    """What an expression is at the nodes of broken degree 1, (num_cells, num_nodes, ...), and these nodes on the unit cell."""
    function = femgpu.Function(FunctionSpace(dm, "DG", 1, expression.ufl_shape))
    function.interpolate(expression)
    field, nodes = function.space.field, function.space.field.elements[0].nodes
    found = function.local_array()[field.dofs(0)]
    return found.reshape(len(found), len(nodes), *expression.ufl_shape), (nodes + 1) / 2


@pytest.mark.parametrize("cell", ALL_CELLS)
def test_quantities_of_cells(rng, cell):
    """Maps at points of cells, sizes of cells, all of them again when the mesh has moved."""
    dm = random_cells(cell, 3, rng, "distorted")
    (block,), domain = Mesh.of(dm).blocks, FunctionSpace(dm, "DG", 0).ufl_domain()
    names = ("CellCoordinate", "Jacobian", "JacobianDeterminant", "JacobianInverse", "MinCellEdgeLength", "MaxCellEdgeLength")
    for _ in range(2):
        found = {name: values(dm, quantity(name, domain)) for name in names}
        X = found["Jacobian"][1]
        vertices, dim = corners_of(block), block.dim
        J = np.stack([place(cell, vertices, X + 1j * STEP * axis).imag / STEP for axis in np.eye(dim)], axis=-1)
        close(found["CellCoordinate"], np.broadcast_to(X, (len(J), *X.shape)))
        close(found["Jacobian"], J)
        close(found["JacobianDeterminant"], np.linalg.det(J))
        close(found["JacobianInverse"], np.linalg.inv(J))
        unit = (reference_cell(cell).vertices + 1) / 2
        flat = {"triangle": 2, "tetrahedron": 3, "prism": 2}.get(cell, 0)
        pairs = [(a, b) for a, b in itertools.combinations(range(len(unit)), 2) if is_edge(unit[a], unit[b], flat)]
        lengths = np.array([np.linalg.norm(vertices[:, a] - vertices[:, b], axis=1) for a, b in pairs])
        close(found["MinCellEdgeLength"], np.repeat(lengths.min(axis=0)[:, None], len(X), axis=1))
        close(found["MaxCellEdgeLength"], np.repeat(lengths.max(axis=0)[:, None], len(X), axis=1))
        dm.getCoordinates().scale(1.5)


def quantity(name, domain):
    return getattr(ufl.classes, name)(domain)


def is_edge(a, b, flat):
    """Whether two vertices of the unit cell have an edge: in its simplex, or along one axis."""
    return not (a[flat:] != b[flat:]).any() if (a[:flat] != b[:flat]).any() else (a != b).sum() == 1


def close(found, expected):
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


def patch(corners, num_points=12):
    """Points (num_facets, num_qpts, dim) and weights of facets by their vertices, which go around."""
    points, weights = np.polynomial.legendre.leggauss(num_points)
    points, weights = (points + 1) / 2, weights / 2
    count = corners.shape[1]
    if count == 1:
        return corners, np.ones((len(corners), 1))
    a, b = (grid.ravel() for grid in np.meshgrid(points, points)) if count > 2 else (points, 0 * points)
    weights = np.outer(weights, weights).ravel() if count > 2 else weights
    if count == 3:
        b, weights = b * (1 - a), weights * (1 - a)
    if count == 4:
        shapes = np.array([(1 - a) * (1 - b), a * (1 - b), a * b, (1 - a) * b])
        first, second = np.array([b - 1, 1 - b, b, -b]), np.array([a - 1, -a, a, 1 - a])
    else:
        shapes, one = np.array([1 - a - b, a, b][:count]), np.ones_like(a)
        first, second = np.array([-one, one, 0 * one][:count]), np.array([-one, 0 * one, one][:count])
    tangents = [np.einsum("vq,fvd->fqd", table, corners) for table in (first, second)][: min(count, 3) - 1]
    tangents = np.stack(tangents, axis=3)
    return np.einsum("vq,fvd->fqd", shapes, corners), weights * np.sqrt(np.linalg.det(tangents.swapaxes(2, 3) @ tangents))


@pytest.mark.parametrize("cell", ALL_CELLS)
def test_quantities_of_facets(rng, cell):
    """Each facet's integral of 1 + x0 is known by its vertices; bent facets by a rule of ours, and a finer one here."""
    dm = random_cells(cell, 4, rng)
    mesh = Mesh.of(dm)
    (block,), space = mesh.blocks, FunctionSpace(dm, "DG", 0)
    domain, reference = space.ufl_domain(), reference_cell(cell)
    weight, ds = 1 + ufl.SpatialCoordinate(domain)[0], ufl.ds(degree=18)
    names = ["FacetArea", *(["MinFacetEdgeLength", "MaxFacetEdgeLength"] if block.dim == 3 else [])]
    expected = dict.fromkeys(names, 0.0)
    vertices, (cells, facets) = corners_of(block), mesh.exterior[1:]
    for facet, loop in enumerate(reference.loops):
        corners = vertices[cells[facets == facet]][:, list(loop)]
        points, measures = patch(corners)
        sums = (measures * (1 + points[..., 0])).sum(axis=1)
        lengths = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
        sizes = {"FacetArea": measures.sum(axis=1)}
        sizes |= {"MinFacetEdgeLength": lengths.min(axis=1, initial=np.inf), "MaxFacetEdgeLength": lengths.max(axis=1, initial=0)}
        for name in names:
            expected[name] += (sums * sizes[name] ** 2).sum()
    flat = not any(len(loop) == 4 for loop in reference.loops)
    for name in names:
        found = femgpu.assemble(weight * quantity(name, domain) ** 2 * ds)
        assert found == pytest.approx(expected[name], rel=1e-12 if flat else 1e-7)


@pytest.mark.parametrize("name", ["disk_2.msh", "ball_3.msh", "thick_quarter_ring_2.msh", "tetrahedron+hexahedron+prism"])
def test_area_of_curved_facets(name):
    """Each facet's integral of one over its area is one, on the boundary and between cells."""
    dm = femgpu.mesh.read(str(DATA / name)) if name.endswith("msh") else random_mixed(name, (3, 2, 2), 3)
    mesh = Mesh.of(dm)
    area = ufl.FacetArea(FunctionSpace(dm, "DG", 0).ufl_domain())
    assert femgpu.assemble(1 / area * ufl.ds(degree=24)) == pytest.approx(len(mesh.exterior.cells), rel=1e-6)
    assert femgpu.assemble(1 / area * ufl.dS(degree=24)) == pytest.approx(len(mesh.interior.cells), rel=1e-6)


def test_quantities_of_facets_are_refused(rng):
    """Where there is no facet, where it has no edges."""
    for cell, name, measure, message in (
        ("triangle", "FacetArea", ufl.dx, "FacetArea where there is no facet"),
        ("quadrilateral", "MaxFacetEdgeLength", ufl.ds, "MaxFacetEdgeLength in 2D: .* expected FacetArea"),
    ):
        space = FunctionSpace(random_cells(cell, 2, rng), "DG", 0)
        with pytest.raises(FormError, match=message):
            femgpu.assemble(quantity(name, space.ufl_domain()) * measure)
