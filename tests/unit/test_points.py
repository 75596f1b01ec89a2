"""Finding points in cells, and values of functions at points."""

from pathlib import Path

import numpy as np
import pytest
from random_meshes import ALL_CELLS, MIXED, random_mesh, random_mixed

import femgpu
from femgpu.element import reference_cell
from femgpu.errors import DataError
from femgpu.mesh import Mesh, box
from femgpu.mesh.box_tree import BoxTree

DATA = Path(__file__).parents[1] / "data"
COUNTS = {1: (9,), 2: (5, 4), 3: (3, 3, 2)}
pytestmark = pytest.mark.timeout(120)


def make(kind, seed=0):
    if "+" in kind:
        return random_mixed(kind, (4, 4) if "triangle" in kind else (3, 3, 2), seed)
    return random_mesh(kind, COUNTS[reference_cell(kind).dim], seed)


def reference_points(cell, num, rng):
    """Points of a reference cell; some on its boundary."""
    vertices = reference_cell(cell).vertices
    weights = rng.dirichlet(np.ones(len(vertices)), num)
    weights[: num // 4] *= rng.integers(0, 2, weights[: num // 4].shape)
    weights[weights.sum(axis=1) == 0, 0] = 1
    return weights / weights.sum(axis=1, keepdims=True) @ vertices


def points_of_cells(mesh, num, rng):
    """Points of the mesh, those of all ranks on all of them."""
    here = []
    for block in mesh.blocks:
        cells = rng.integers(max(block.num_cells, 1), size=num)[: num * block.num_cells]
        reference = reference_points(block.cell, num, rng)[: len(cells)]
        basis = block.coord_element.tabulate(reference)[0]
        here.append(np.einsum("nb,nbd->nd", basis, block.coords[block.coord_dofs[cells]]))
    return np.concatenate([np.zeros((0, mesh.dim)), *sum(mesh.mpi.allgather(here), [])])


@pytest.mark.parallel([1, 3])
def test_on_any_number_of_ranks():
    """In one test: ranks take long to start."""
    check_values_at_points_of_all_cell_types()
    check_every_point_has_one_cell_of_one_rank()
    check_points_that_are_refused()


def check_values_at_points_of_all_cell_types():
    """x0 x1 is a function of degree 2 on every mapped cell; each field of a mixed function, vectors and tensors too."""
    for seed, kind in enumerate((*ALL_CELLS, *MIXED)):
        dm = make(kind, seed)
        mesh = Mesh.of(dm)
        points = points_of_cells(mesh, 40, np.random.default_rng(seed))
        first, last = points[:, 0], points[:, -1]
        scalar, vector = femgpu.FunctionSpace(dm, "Lagrange", 2), femgpu.FunctionSpace(dm, "DG", 1, 2)
        w = femgpu.Function(femgpu.MixedSpace({"one": vector, "two": scalar}))
        w.sub("one").interpolate(lambda x: np.array([x[0], 1 - x[-1]]))
        w.sub("two").interpolate(lambda x: x[0] * x[-1])
        expected = np.c_[first, 1 - last, first * last]
        np.testing.assert_allclose(w.evaluate(points), expected, atol=1e-13, err_msg=kind)
        np.testing.assert_allclose(w.sub("one").evaluate(points), expected[:, :2], atol=1e-13)
        two = w.sub("two").evaluate(points)
        assert two.shape == (len(points),)
        np.testing.assert_allclose(two, expected[:, 2], atol=1e-13)
        tensor = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0, (2, 3)))
        tensor.interpolate(np.arange(6.0))
        np.testing.assert_array_equal(tensor.evaluate(points), np.broadcast_to(np.arange(6.0).reshape(2, 3), (len(points), 2, 3)))


def check_every_point_has_one_cell_of_one_rank():
    mesh = Mesh.of(random_mesh("quadrilateral", (6, 5)))
    points = np.random.default_rng(3).uniform(-0.2, 1.2, (500, 2))
    points[:20] = np.random.default_rng(4).choice(mesh.mpi.bcast(mesh.coords), 20)
    found = mesh.find_points(points)
    np.testing.assert_array_equal(found.inside, ((points >= 0) & (points <= 1)).all(axis=1))
    holders = mesh.mpi.allreduce((found.cells >= 0).astype(int))
    np.testing.assert_array_equal(holders, found.inside)
    here = found.cells >= 0
    basis = mesh.coord_element.tabulate(found.reference[here])[0]
    images = np.einsum("nb,nbd->nd", basis, mesh.coords[mesh.block.coord_dofs[found.cells[here]]])
    np.testing.assert_allclose(images, points[here], atol=1e-14)


CURVED = sorted(path for path in DATA.glob("*.msh") if not path.stem.startswith("named"))


@pytest.mark.parametrize("path", CURVED, ids=lambda path: path.stem)
def test_curved_cells(path, rng):
    """The coordinates as a function give back the points; the boundaries of these coarse balls miss the sphere by up to 4 %."""
    dm = femgpu.mesh.read(path)
    mesh = Mesh.of(dm)
    points = points_of_cells(mesh, 3000, rng)
    position = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", mesh.coord_element.degree, mesh.dim))
    position.interpolate(femgpu.coordinates(dm))
    np.testing.assert_allclose(position.evaluate(points), points, atol=1e-12)
    if "ring" not in path.stem:
        radius = np.abs(mesh.coords).max()
        directions = rng.normal(size=(200, mesh.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        assert mesh.find_points(0.94 * radius * directions).inside.all()
        assert not mesh.find_points(1.06 * radius * directions).inside.any()


@pytest.mark.parametrize("cell", ALL_CELLS)
def test_tolerance_at_the_boundary(cell):
    """1e-10 of a cell's size is inside, a little more is not; far from the origin the coordinates' rounding counts too."""
    dim = reference_cell(cell).dim
    counts = COUNTS[dim]
    mesh = Mesh.of(box(counts, cell=cell))
    points = np.full((2, dim), 1 / 3)
    points[:, 0] = 1 + np.array([0.5e-10, 4e-10]) / counts[0]
    np.testing.assert_array_equal(mesh.find_points(points).inside, [True, False])
    corner = np.full((1, dim), 1e8)
    far = Mesh.of(box(counts, cell=cell, lower=corner[0], upper=corner[0] + 1))
    inside = corner + np.random.default_rng(0).uniform(0, 1, (50, dim))
    assert far.find_points(np.concatenate([inside, corner, corner + 1])).inside.all()
    assert not far.find_points(corner - 1e-4).inside.any()


def test_periodic_cells_keep_their_places():
    dm = box((5, 4), cell="quadrilateral", periodic=True)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 1))
    u.interpolate(femgpu.coordinates(dm)[0])
    points = np.random.default_rng(0).uniform(0, 1, (100, 2))
    np.testing.assert_allclose(u.evaluate(points), points[:, 0], atol=1e-14)


def test_thin_cells_of_many_sizes():
    """Cells a thousand times longer than wide, next to each other with sizes over six orders of magnitude."""
    dm = box((30, 30), cell="triangle")
    local = dm.getCoordinatesLocal()
    x = local.getArray().reshape(-1, 2).copy()
    x[:, 1] = 10.0 ** (-6 * (1 - x[:, 1])) - 1e-6
    local.setArray(x.ravel())
    dm.setCoordinatesLocal(local)
    mesh = Mesh.of(dm)
    points = points_of_cells(mesh, 2000, np.random.default_rng(0))
    assert mesh.find_points(points).inside.all()


def test_boxes_that_hold_points(rng):
    """Against all pairs; also without boxes, and with one."""
    points = rng.uniform(0, 1, (200, 3))
    for num in (0, 1, 3, 4, 5, 333):
        lower = rng.uniform(0, 1, (num, 3))
        upper = lower + rng.exponential(0.2, (num, 3))
        point, boxes = BoxTree(lower, upper).search(points)
        dense = ((lower <= points[:, None]) & (points[:, None] <= upper)).all(axis=2)
        assert len(point) == dense.sum() and dense[point, boxes].all()
        assert len(set(zip(point.tolist(), boxes.tolist(), strict=True))) == len(point)


def test_many_points_in_many_cells():
    """1e5 points in 1e5 cells: seconds, not minutes, which the timeout says."""
    dm = box((224, 224), cell="triangle")
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1))
    u.interpolate(lambda x: x[0] - 2 * x[1])
    points = np.random.default_rng(0).uniform(0, 1, (100000, 2))
    np.testing.assert_allclose(u.evaluate(points), points @ [1, -2], atol=1e-13)


def check_points_that_are_refused():
    dm = random_mesh("triangle", (4, 4))
    mesh = Mesh.of(dm)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1, 2))
    with pytest.raises(DataError, match=r"point 1, \[0.5, 1.25\], lies outside of the mesh \(2 of 3 do\).*outside='nan'"):
        u.evaluate([[0.5, 0.5], [0.5, 1.25], [3, 3]])
    values = u.evaluate([[0.5, 0.5], [0.5, 1.25]], outside="nan")
    np.testing.assert_array_equal(values, [[0, 0], [np.nan, np.nan]])
    with pytest.raises(DataError, match="outside='zero': expected 'raise' or 'nan'"):
        u.evaluate([[0.5, 0.5]], outside="zero")
    with pytest.raises(DataError, match=r"shape \(3,\).*\(num_points, 2\), or \(2,\) for one point"):
        u.evaluate([0.5, 0.5, 0.5])
    with pytest.raises(DataError, match=r"shape \(1, 3\).*\(num_points, 2\)"):
        u.evaluate([[0.5, 0.5, 0.5]])
    with pytest.raises(DataError, match=r"point 1, \[nan, 0.0\], is not finite \(1 of 2\)"):
        u.evaluate([[0, 0], [np.nan, 0]])
    with pytest.raises(DataError, match="expected numbers"):
        u.evaluate([["a", "b"]])
    assert u.evaluate(np.zeros((0, 2))).shape == (0, 2)
    if mesh.mpi.size > 1:
        with pytest.raises(DataError, match="differ from those of rank 0"):
            u.evaluate([[0.5, 0.1 * mesh.mpi.rank]])
