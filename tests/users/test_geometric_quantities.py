"""UFL's geometric quantities against formulas of the vertices."""

import itertools

import numpy as np
import pytest
import ufl
from random_meshes import ALL_CELLS, random_cells

import femgpu
from femgpu import FunctionSpace
from femgpu.element import reference_cell
from femgpu.errors import FormError
from femgpu.mesh import Mesh
from femgpu.mesh.geometry import vertex_nodes

STEP = 1e-40


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


@pytest.mark.parametrize("cell", ["interval", "triangle", "tetrahedron"])
def test_quantities_of_facets(rng, cell):
    """Each facet's integral of 1 + x0 is known by its vertices."""
    dm = random_cells(cell, 4, rng)
    mesh = Mesh.of(dm)
    (block,), domain = mesh.blocks, FunctionSpace(dm, "DG", 0).ufl_domain()
    weight, area = 1 + ufl.SpatialCoordinate(domain)[0], ufl.FacetArea(domain)
    vertices, (cells, facets) = corners_of(block), mesh.exterior[1:]
    corners = vertices[cells[:, None], np.array(reference_cell(cell).facets)[facets]]
    edges = corners[:, 1:] - corners[:, :1]
    areas = np.sqrt(np.linalg.det(edges @ edges.swapaxes(1, 2))) / (block.dim - 1 or 1)
    expected = areas * (1 + corners[..., 0].mean(axis=1))
    assert femgpu.assemble(weight * area * ufl.ds) == pytest.approx((expected * areas).sum(), rel=1e-12)
    if cell == "tetrahedron":
        short, long = quantity("MinFacetEdgeLength", domain), quantity("MaxFacetEdgeLength", domain)
        lengths = np.array([np.linalg.norm(corners[:, a] - corners[:, b], axis=1) for a, b in ((0, 1), (0, 2), (1, 2))])
        sizes = lengths.min(axis=0) + lengths.max(axis=0) ** 2
        assert femgpu.assemble(weight * (short + long**2) * ufl.ds) == pytest.approx((expected * sizes).sum(), rel=1e-12)


def test_quantities_of_facets_are_refused(rng):
    """Where there is no facet, where it bends, where it has no edges."""
    for cell, name, measure, message in (
        ("triangle", "FacetArea", ufl.dx, "FacetArea where there is no facet"),
        ("quadrilateral", "FacetArea", ufl.ds, "FacetArea of cells that are not affine simplices"),
        ("triangle", "MaxFacetEdgeLength", ufl.ds, "MaxFacetEdgeLength in 2D: .* expected FacetArea"),
    ):
        domain = FunctionSpace(random_cells(cell, 2, rng), "DG", 0).ufl_domain()
        with pytest.raises(FormError, match=message):
            femgpu.assemble(quantity(name, domain) * measure)
