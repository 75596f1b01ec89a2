import gc
import itertools
import weakref

import numpy as np
import pytest
from petsc4py import PETSc
from random_meshes import ALL_CELLS, random_mesh

from femgpu import mesh as femgpu_mesh
from femgpu import petsc_c
from femgpu.element import LagrangeElement, default_rule, reference_cell
from femgpu.errors import MeshError
from femgpu.mesh import FieldShape, Mesh, box, set_fields

COUNTS = {1: (7,), 2: (4, 3), 3: (3, 2, 2)}
pytestmark = pytest.mark.timeout(120)
parallel = pytest.mark.parallel([1, 2, 3])
cells = pytest.mark.parametrize("cell", ALL_CELLS)


def counts(cell):
    return COUNTS[reference_cell(cell).dim]


def volume(mesh, degree=6):
    rule = default_rule(mesh.cell, degree)
    return mesh.mpi.allreduce(float((np.linalg.det(mesh.block.jacobians(rule.points)) @ rule.weights).sum()))


def space(mesh, degree, num_comp=1):
    """Element, DM and offsets of a Lagrange space."""
    dm = mesh.clone_dm()
    [(offsets,)], size = set_fields(mesh, dm, [FieldShape("u", degree, num_comp=num_comp)])
    return LagrangeElement(mesh.cell, degree), dm, offsets, size


@parallel
def test_dofs_land_on_one_point_from_all_cells():
    """On randomly numbered and oriented cells, and the owners of ghost dofs agree."""
    for cell in ALL_CELLS:
        for degree in range(1, 6 if reference_cell(cell).is_simplex else 5):
            check_dofs(Mesh.of(random_mesh(cell, counts(cell), seed=degree)), degree)


def check_dofs(mesh, degree):
    element, dm, offsets, size = space(mesh, degree)
    assert offsets.shape == (mesh.num_cells, element.num_basis) and offsets.dtype == np.int32
    points = mesh.block.physical_points(element.nodes)
    placed = np.full((size, mesh.dim), np.nan)
    placed[offsets] = points
    np.testing.assert_allclose(placed[offsets], points, atol=1e-12)
    assert np.isfinite(placed).all(), "every dof belongs to a cell"
    assert len(np.unique(placed.round(9), axis=0)) == size, "no two dofs share a point"
    local, owned = dm.createLocalVec(), dm.createGlobalVec()
    for axis in range(mesh.dim):
        local.setArray(placed[:, axis])
        dm.localToGlobal(local, owned)
        dm.globalToLocal(owned, local)
        np.testing.assert_allclose(local.getArray(), placed[:, axis], atol=1e-12)


@parallel
def test_box_volume_and_sides():
    for cell in ALL_CELLS:
        check_box(cell)


def check_box(cell):
    dim = reference_cell(cell).dim
    lower, upper = (-1.0, 0.0, 2.0)[:dim], (1.0, 0.5, 5.0)[:dim]
    mesh = Mesh.of(box(counts(cell), cell, lower, upper))
    assert (mesh.cell, mesh.dim, mesh.coord_element.degree) == (cell, dim, 1)
    assert volume(mesh) == pytest.approx(np.prod(np.subtract(upper, lower)), rel=1e-13)
    split = {"triangle": 2, "tetrahedron": 6, "prism": 2}.get(cell, 1)
    assert mesh.num_cells_global == split * np.prod(counts(cell)) == mesh.mpi.allreduce(mesh.num_cells)
    assert mesh.block.affine.all()
    sides = {1: ((1, 2),), 2: ((4, 2), (1, 3)), 3: ((6, 5), (3, 4), (1, 2))}[dim]
    assert mesh.labels()["Face Sets"] == sorted(itertools.chain(*sides))
    for axis, values in enumerate(sides):
        for value, where in zip(values, (lower[axis], upper[axis]), strict=True):
            np.testing.assert_allclose(facet_centres(mesh, value)[:, axis], where, atol=1e-14)
    every = mesh.mpi.allreduce(len(mesh.facets("boundary")[0]))
    assert every == sum(mesh.mpi.allreduce(len(mesh.facets(value)[0])) for value in range(1, 2 * dim + 1))
    assert every == mesh.mpi.allreduce(len(mesh.facets(("marker", 1))[0]))
    assert every == mesh.mpi.allreduce(len(mesh.facets(tuple(range(1, 2 * dim + 1)))[0]))


def facet_centres(mesh, region):
    cell, local = mesh.facets(region)
    assert cell.dtype == local.dtype == np.int32
    corners = np.array([mesh.reference.vertices[list(facet)].mean(axis=0) for facet in mesh.reference.facets])
    return np.array([mesh.block.physical_points(corners[k : k + 1], [c])[0, 0] for c, k in zip(cell, local, strict=True)]).reshape(
        -1, mesh.dim
    )


@cells
def test_box_sides_are_numbered_as_petsc_does(cell):
    dim = reference_cell(cell).dim
    own = Mesh.of(box((2,) * dim, cell, comm=PETSc.COMM_SELF))
    plex = PETSc.DMPlex().createBoxMesh([2] * dim, simplex=False, interpolate=True, comm=PETSc.COMM_SELF)
    for value in range(1, 2 * dim + 1):
        expected = facet_centres(Mesh.of(plex), value)
        found = facet_centres(own, value)
        for axis in range(dim):
            assert {0.0, 1.0} & set(expected[:, axis].round(12)) == {0.0, 1.0} & set(found[:, axis].round(12))


@parallel
def test_closed_surface():
    """The integral of x.n over the boundary is dim times the volume: checks local facet numbers against the cone order."""
    for cell in ALL_CELLS:
        check_surface(cell)


def check_surface(cell):
    mesh = Mesh.of(random_mesh(cell, counts(cell), seed=5, distort=0.0))
    total = 0.0
    for c, k in zip(*mesh.facets("boundary"), strict=True):
        corners = mesh.reference.vertices[list(mesh.reference.loops[k])]
        normal = outward(mesh.reference, corners)
        centre = corners.mean(axis=0)[None]
        jacobian = mesh.block.jacobians(centre, [c])[0, 0]
        measure = np.linalg.det(jacobian) * np.linalg.solve(jacobian.T, normal)
        total += mesh.block.physical_points(centre, [c])[0, 0] @ measure
    assert mesh.mpi.allreduce(total) == pytest.approx(mesh.dim, rel=1e-12)


def outward(reference, corners):
    """Outward normal of a facet of the reference cell, given by its corners in order, as long as the facet's measure."""
    if reference.dim == 1:
        normal = np.ones(1)
    elif reference.dim == 2:
        normal = np.array([[0, 1], [-1, 0]]) @ (corners[1] - corners[0])
    else:
        normal = np.cross(corners[1] - corners[0], corners[-1] - corners[0]) / (2 if len(corners) == 3 else 1)
    return normal * np.sign(normal @ (corners[0] - reference.vertices.mean(axis=0)))


def test_mesh_is_one_per_dm():
    dm = box((2, 2), "triangle", comm=PETSc.COMM_SELF)
    mesh = Mesh.of(dm)
    assert Mesh.of(dm) is mesh and Mesh.of(mesh.clone_dm()) is mesh
    snes = PETSc.SNES().create(comm=PETSc.COMM_SELF)
    snes.setDM(dm)
    assert Mesh.of(snes.getDM()) is mesh
    assert dm.getNumFields() == mesh.dm.getNumFields() == 0


def test_labels_made_after_the_mesh_count():
    dm = box((2, 2), "triangle", comm=PETSc.COMM_SELF)
    mesh = Mesh.of(dm)
    dm.createLabel("Cell Sets")
    dm.getLabel("Cell Sets").setValue(3, 8)
    np.testing.assert_array_equal(mesh.cells(8), [3])
    dm.getLabel("Face Sets").setValue(int(dm.getStratumIS("Face Sets", 1).getIndices()[0]), 1)
    assert len(mesh.facets(1)[0]) == 2
    del dm
    assert mesh.labels()["Face Sets"] == [1, 2, 3, 4]


def test_meshes_do_not_outlive_their_dm():
    dm = box((2, 2), "triangle", comm=PETSc.COMM_SELF)
    mesh = weakref.ref(Mesh.of(dm))
    assert mesh() is not None
    dm.destroy()
    gc.collect()
    assert mesh() is None


def test_view_and_users_dm_is_left_alone():
    dm = box((2, 2), "triangle", comm=PETSc.COMM_SELF)
    before = dm.getCoordinatesLocal().getArray().copy()
    assert "8 triangle cells on 1 rank, coordinates of degree 1 (affine); Face Sets 1,2,3,4" in Mesh.of(dm).view()
    np.testing.assert_array_equal(dm.getCoordinatesLocal().getArray(), before)


@pytest.mark.parallel([2, 3, 4])
def test_ranks_without_cells():
    for cell in ALL_CELLS:
        check_few_cells(cell)


def check_few_cells(cell):
    dim = reference_cell(cell).dim
    plex = femgpu_mesh.box(1, "interval") if dim == 1 else femgpu_mesh.box((1,) * dim, cell)
    mesh = Mesh.of(plex)
    empty = mesh.mpi.allreduce(int(mesh.num_cells == 0))
    assert empty == max(0, mesh.mpi.size - mesh.num_cells_global)
    element, _, offsets, _ = space(mesh, 2, num_comp=2)
    assert offsets.shape == (mesh.num_cells, element.num_basis)
    assert mesh.block.jacobians(element.nodes).shape == (mesh.num_cells, element.num_basis, dim, dim)
    assert mesh.block.affine.shape == (mesh.num_cells,)
    assert volume(mesh) == pytest.approx(1)
    assert mesh.mpi.allreduce(len(mesh.facets(1)[0])) >= 1
    assert mesh.num_cells_global >= 1 and cell in mesh.view()


@parallel
def test_missing_labels_are_refused_on_all_ranks():
    mesh = Mesh.of(box((3, 3), "triangle"))
    with pytest.raises(MeshError, match=r"no value 9 in label 'Face Sets'.*'Face Sets': values 1, 2, 3, 4.*'marker': value 1"):
        mesh.facets(9)
    with pytest.raises(MeshError, match="no value 8, 9 in label"):
        mesh.facets((1, 8, 9))
    with pytest.raises(MeshError, match="no label 'Inlet'"):
        mesh.facets(("Inlet", 1))
    with pytest.raises(MeshError, match="no label 'Cell Sets'"):
        mesh.cells((1,))
    with pytest.raises(MeshError, match="marks no cells"):
        mesh.cells(("Face Sets", 1))


@pytest.mark.parametrize("region", [None, "", (), 1.5, True, ("",), ("marker", ()), ("marker", 1.5), (1, "a")])
def test_malformed_regions(region):
    with pytest.raises(MeshError, match="expected 'boundary'"):
        Mesh.of(box((1, 1), "triangle", comm=PETSc.COMM_SELF)).facets(region)


@parallel
def test_cells_by_label_and_interior_facets():
    dm = box((4, 4), "quadrilateral")
    dm.createLabel("Cell Sets")
    dm.createLabel("inner")
    start, end = dm.getHeightStratum(0)
    mine = np.arange(start, end, 2, dtype=np.int32)
    dm.getLabel("Cell Sets").insertIS(PETSc.IS().createGeneral(mine, comm=PETSc.COMM_SELF), 5)
    inside = [f for f in range(*dm.getHeightStratum(1)) if dm.getSupportSize(f) == 2]
    dm.getLabel("inner").insertIS(PETSc.IS().createGeneral(inside, comm=PETSc.COMM_SELF), 1)
    mesh = Mesh.of(dm)
    np.testing.assert_array_equal(mesh.cells(5), mine - start)
    assert mesh.cells((5,)).dtype == np.int32
    with pytest.raises(MeshError, match="marks no facet of the boundary"):
        mesh.facets(("inner", 1))


@parallel
def test_affine_cells_are_told_apart():
    for cell in ("quadrilateral", "hexahedron"):
        check_affine(cell)


def check_affine(cell):
    counts = (8, 4, 2)[: reference_cell(cell).dim]
    dm = box(counts, cell, lower=[1000.0] * len(counts), upper=[1001.0] * len(counts))
    vec = dm.getCoordinatesLocal()
    x = vec.getArray().reshape(-1, len(counts))
    x[:] = x @ np.array([[1, 0.3, 0.1], [0, 1.0, 0.2], [0, 0, 0.7]])[: len(counts), : len(counts)]
    assert Mesh.of(dm.clone()).block.affine.all()
    moved = np.abs(x[:, 0] - 1000) < 1e-3
    x[moved, 0] -= 1e-4 * np.sin(7 * x[moved, 1])
    mesh = Mesh.of(dm)
    assert mesh.mpi.allreduce(int(mesh.block.affine.sum())) == mesh.num_cells_global * 7 // 8
    corner = mesh.reference.vertices
    spread = np.ptp(mesh.block.jacobians(corner), axis=1).max(axis=(1, 2))
    np.testing.assert_array_equal(mesh.block.affine, spread < 1e-9)


@cells
def test_inverted_cells_are_named(cell):
    dm = random_mesh(cell, (2,) * reference_cell(cell).dim, comm=PETSc.COMM_SELF)
    x = dm.getCoordinatesLocal().getArray().reshape(-1, reference_cell(cell).dim)
    x[:, 0] *= -1
    with pytest.raises(MeshError, match=rf"of \d+ {cell} cells have det J <= 0 .* the first is cell 0 with vertices \("):
        Mesh.of(dm)


@parallel
def test_one_collapsed_cell_raises_on_all_ranks():
    dm = box((4, 4), "quadrilateral")
    x = dm.getCoordinatesLocal().getArray().reshape(-1, 2)
    x[np.abs(x - 0.25).sum(axis=1) < 1e-6] = (0.8, 0.8)
    with pytest.raises(MeshError, match="det J <= 0"):
        Mesh.of(dm)


def test_coordinates_that_are_not_finite():
    dm = box((2, 2), "triangle", comm=PETSc.COMM_SELF)
    dm.getCoordinatesLocal().getArray()[0] = np.nan
    with pytest.raises(MeshError, match="not finite"):
        Mesh.of(dm)


def test_unsupported_meshes_are_refused_by_name():
    self = PETSc.COMM_SELF
    points = np.array([[0, 0], [1, 0], [0, 1], [1, 1.0]])
    flat = PETSc.DMPlex().createFromCellList(2, np.array([[0, 1, 2]], np.int32), np.c_[points, points[:, 0]], comm=self)
    with pytest.raises(MeshError, match="dimension 2 in a space of dimension 3"):
        Mesh.of(flat)
    bare = PETSc.DMPlex().createFromCellList(2, np.array([[0, 1, 2]], np.int32), points, interpolate=False, comm=self)
    with pytest.raises(MeshError, match=r"dm.interpolate\(\)"):
        Mesh.of(bare)
    prism = PETSc.DMPlex().createFromCellList(
        3, np.arange(6, dtype=np.int32)[None], np.random.default_rng(0).random((6, 3)), comm=self
    )
    with pytest.raises(MeshError, match="cells of type tri prism tensor are not supported"):
        Mesh.of(prism)
    nothing = PETSc.DMPlex().create(comm=self)
    nothing.setDimension(2)
    nothing.setCoordinateDim(2)
    nothing.setChart(0, 0)
    nothing.setUp()
    with pytest.raises(MeshError, match="no cells"):
        Mesh.of(nothing)
    with pytest.raises(MeshError, match="expected a DMPlex"):
        Mesh.of(PETSc.DMDA().create((2, 2), dof=1, stencil_width=1, comm=self, setup=True))


@pytest.mark.parallel([2, 3])
def test_overlap_is_refused():
    dm = box((4, 4), "triangle")
    dm.distributeOverlap(1)
    with pytest.raises(MeshError, match=r"overlap 0"):
        Mesh.of(dm)


def test_box_arguments():
    for arguments, message in (
        (((2, 2), "wedge"), "cell 'wedge'"),
        (((2, 2), "prism"), "expected 3 entries"),
        (((3, 2), "quadrilateral", None, None, None, True), r"faces \(3, 2\), periodic \(True, True\): expected at least 3 cells"),
        (((3, 3), "triangle", None, None, None, (True,)), r"periodic \(True,\): expected 2 entries"),
        (((2, 2), "tetrahedron"), "expected 3 entries"),
        (((0, 2), "triangle"), "at least 1"),
        (((2.5, 2), "triangle"), "at least 1"),
        (((2, 2), "triangle", (0, 0), (1, 0)), "below"),
        (((2, 2), "triangle", (0, 0, 0)), "lower"),
        (((2, 2), "quadrilateral", None, (1, np.inf)), "below"),
        (((1000, 1000, 1000), "tetrahedron"), "too large"),
    ):
        with pytest.raises(MeshError, match=message):
            box(*arguments)


def test_cones():
    dm = box((1, 2), "quadrilateral", comm=PETSc.COMM_SELF)
    np.testing.assert_array_equal(petsc_c.cones(dm, 0, 2), np.concatenate([dm.getCone(0), dm.getCone(1)]))
    np.testing.assert_array_equal(petsc_c.cone_orientations(dm, 1, 2), dm.getConeOrientation(1))
    everything = [dm.getCone(point) for point in range(*dm.getChart())]
    np.testing.assert_array_equal(petsc_c.cones(dm, *dm.getChart()), np.concatenate(everything))
    assert petsc_c.cones(dm, 3, 3).shape == (0,)
    assert petsc_c.cones(dm, *dm.getDepthStratum(0)).shape == (0,)
    assert petsc_c.overlap(dm) == 0


def test_insert_boundary_values_leaves_free_dofs_alone():
    mesh = Mesh.of(box((2, 2), "triangle", comm=PETSc.COMM_SELF))
    _, dm, *_ = space(mesh, 1)
    local = dm.createLocalVec()
    local.set(3.0)
    petsc_c.insert_boundary_values(dm, local)
    assert local.min()[1] == local.max()[1] == 3.0
