"""Set-up in bulk against the plain formulas: maps of cells in chunks, nodes of some cells, marks of prescribed dofs."""

import numpy as np
import pytest

from femgpu import FunctionSpace, mesh, runtime
from femgpu.element import LagrangeElement
from femgpu.errors import MeshError
from femgpu.kernels import Layout
from femgpu.mesh import geometry
from femgpu.operators.arrays import CellArrays

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism")


def bent_cells(cell, rng, count=11):
    """Element, nodes, and the nodes of cells that are moved a little, every third of them by an affine map."""
    element = LagrangeElement(cell, 1)
    dim = element.reference.dim
    maps = np.eye(dim) + 0.1 * rng.uniform(-1, 1, (count, dim, dim))
    nodes = element.nodes @ maps + rng.uniform(-9, 9, (count, 1, dim))
    bent = np.arange(count) % 3 > 0
    nodes[bent] += 0.05 * rng.uniform(-1, 1, nodes[bent].shape)
    order = rng.permutation(nodes.shape[0] * nodes.shape[1]).astype(np.int32)
    coords = np.empty((len(order), dim))
    coords[order] = nodes.reshape(-1, dim)
    return element, coords, order.reshape(nodes.shape[:2]), nodes, bent


@pytest.mark.parametrize("cell", CELLS)
def test_maps_in_chunks(cell, rng, monkeypatch):
    monkeypatch.setattr(geometry, "CHUNK", 4)
    element, coords, dofs, nodes, bent = bent_cells(cell, rng)
    points = np.concatenate([element.nodes, element.nodes.mean(axis=0, keepdims=True)])
    values, grads = element.tabulate(points)
    mapped = geometry.map_points(coords, dofs, values)
    np.testing.assert_allclose(mapped, np.einsum("pb,ebd->epd", values, nodes), atol=1e-13)
    assert np.array_equal(mapped[:, :-1], nodes)
    jacobians = np.einsum("pbk,ebi->epik", grads, nodes)
    np.testing.assert_allclose(geometry.map_jacobians(coords, dofs, grads), jacobians, atol=1e-13)
    found = geometry._determinants(nodes.swapaxes(0, 1), grads)
    np.testing.assert_allclose(found, np.linalg.det(jacobians).T, atol=1e-13)
    affine = geometry.affine_mask(element, coords, dofs)
    assert np.array_equal(affine, ~bent | geometry.always_affine(element))
    ids = np.arange(len(dofs), dtype=np.int32)
    geometry.check_orientation(element, coords, dofs, affine, ids, points)
    coords[dofs[6]] = -coords[dofs[6]] if element.reference.dim % 2 else coords[dofs[6]] * [-1, 1]
    with pytest.raises(MeshError, match=f"1 of 11 {cell} cells have det J <= 0 .* the first is cell 6"):
        geometry.check_orientation(element, coords, dofs, affine, ids, points)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_nodes_of_some_cells(shape, rng, monkeypatch):
    monkeypatch.setattr("femgpu.mesh.geometry.CHUNK", 5)
    space = FunctionSpace(mesh.box((3, 4), cell="triangle"), "Lagrange", 2, shape=shape)
    positions, points = space.nodes()
    wanted = np.sort(rng.choice(positions, 7, replace=False))
    marked = np.zeros(space.num_local, bool)
    marked[wanted] = True
    found, where = space.nodes(marked)
    assert np.array_equal(found, wanted) and np.array_equal(where, points[np.isin(positions, wanted)])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_marks_of_prescribed_dofs(shape, rng):
    """~offset where any component of the node is prescribed."""
    space = FunctionSpace(mesh.box((2, 3), cell="triangle"), "Lagrange", 2, shape=shape)
    prescribed = (rng.random(space.num_local) < 0.2).astype(np.uint8)

    class Term:
        element = staticmethod(lambda field: field.elements[0])
        offsets = staticmethod(lambda field: field.offsets[0])

    chosen = runtime.current()
    packed = CellArrays(chosen, prescribed)._offsets(Term, space.field, True, Layout())
    found = chosen.read(packed, np.empty(space.offsets.size, np.int32))
    any_of = prescribed[space.offsets[:, :, None] + np.arange(space.num_comp)].any(axis=2)
    assert np.array_equal(found.reshape(space.offsets.shape), np.where(any_of, ~space.offsets, space.offsets))
