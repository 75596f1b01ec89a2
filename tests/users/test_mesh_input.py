"""Meshes as they come: nodes where they belong, gmsh files of all kinds and damaged ones, cells the wrong way round."""

from pathlib import Path

import numpy as np
import pytest
from petsc4py import PETSc

import femgpu
from femgpu.errors import MeshError
from femgpu.mesh import Mesh, read
from femgpu.mesh.gmsh_check import check_gmsh

WORLD = PETSc.COMM_WORLD.tompi4py()
ranks = pytest.mark.parallel([1, 2])
DIMS = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3, "prism": 3}


@pytest.mark.parametrize("cell", DIMS)
def test_nodes_lie_on_the_mesh_bit_for_bit(cell):
    """Those on a vertex at its coordinates, those on planes x = const. through vertices at that x."""
    dim = DIMS[cell]
    box = femgpu.mesh.box((3,) * dim, cell=cell, lower=(-0.1,) * dim, upper=(0.7,) * dim)
    local = box.getCoordinatesLocal()
    levels = np.unique(local.array_r)
    # Coordinates without short binary fractions; 0 among them.
    values = np.array([0.0, 0.1, 1 / 3, 0.7])[np.abs(levels[:, None] - [-0.1, 1 / 6, 13 / 30, 0.7]).argmin(axis=1)]
    local.setArray(values[np.searchsorted(levels, local.array_r)])
    for degree in (1, 2, 3, 4) if dim < 3 else (1, 3):
        x = femgpu.FunctionSpace(box, "Lagrange", degree).nodes()[1]
        per_level = (3 * degree + 1) ** (dim - 1)
        for level in (0.0, 0.1, 1 / 3, 0.7):
            assert [(x[:, axis] == level).sum() for axis in range(dim)] == [per_level] * dim
            assert not (np.signbit(x) & (x == 0)).any()


def test_nodes_on_a_distorted_mesh(rng):
    dm = femgpu.mesh.box((3, 3), cell="quadrilateral")
    local = dm.getCoordinatesLocal()
    local.setArray(local.array_r + rng.uniform(-0.1, 0.1, local.getLocalSize()))
    vertices = {tuple(x) for x in local.array_r.reshape(-1, 2)}
    nodes = {tuple(x) for x in femgpu.FunctionSpace(dm, "Lagrange", 3).nodes()[1]}
    assert vertices <= nodes


def square(order, version, binary, path, tilt=0.0):
    gmsh = pytest.importorskip("gmsh")
    gmsh.initialize()
    gmsh.option.setNumber("General.Terminal", 0)
    gmsh.option.setNumber("Mesh.MshFileVersion", version)
    gmsh.option.setNumber("Mesh.Binary", binary)
    gmsh.option.setNumber("Mesh.MeshSizeMax", 0.6)
    gmsh.model.occ.addDisk(0, 0, 0, 1, 1)
    gmsh.model.occ.rotate([(2, 1)], 0, 0, 0, 1, 0, 0, tilt)
    gmsh.model.occ.synchronize()
    gmsh.model.addPhysicalGroup(1, [1], 3)
    gmsh.model.addPhysicalGroup(2, [1], 4, "inside of it")
    gmsh.model.mesh.generate(2)
    gmsh.model.mesh.setOrder(order)
    gmsh.write(str(path))
    gmsh.model.mesh.reverse()
    gmsh.write(str(path.with_suffix(".reversed.msh")))
    gmsh.finalize()
    return path


FORMATS = [(2.2, 0), (2.2, 1), (4.1, 0), (4.1, 1)]


@pytest.mark.parametrize("version, binary", FORMATS)
def test_order_six(tmp_path, version, binary):
    mesh = Mesh.of(read(square(6, version, binary, tmp_path / "disk.msh")))
    points, weights = np.polynomial.legendre.leggauss(8)
    x, y = ((1 + points[:, None]) / 2, (1 - points[:, None]) * (1 + points) / 4)
    rule = np.stack([np.broadcast_to(x, y.shape), y], axis=-1).reshape(-1, 2)
    weight = (weights[:, None] * weights * (1 - points[:, None]) / 8).ravel()
    area = (np.linalg.det(mesh.block.jacobians(2 * rule - 1)) @ weight).sum() * 4
    assert mesh.coord_element.degree == 6
    assert area == pytest.approx(np.pi, abs=1e-7)


@pytest.mark.parametrize("version, binary", FORMATS)
def test_flipped_bytes(tmp_path, version, binary, rng):
    """What passes the check is read by PETSc, or refused by it: nothing crashes."""
    good = square(1, version, binary, tmp_path / "good.msh").read_bytes()
    sections = [at for at in range(len(good)) if good[at : at + 1] == b"$"]
    refused, path = 0, tmp_path / "bad.msh"
    for trial in range(120):
        bad = bytearray(good)
        at = rng.integers(len(bad)) if trial % 2 else min(int(rng.choice(sections)) + rng.integers(80), len(bad) - 1)
        bad[at] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        try:
            check_gmsh(path)
            Mesh.of(read(path, PETSc.COMM_SELF))
        except MeshError as error:
            refused += 1
            assert "bad.msh" in str(error) or "det J" in str(error)
    assert refused > 40


def test_curved_cells_of_several_types_are_refused(tmp_path):
    """With what to do, for PETSc has no such meshes; straight ones are read."""
    gmsh = pytest.importorskip("gmsh")
    for order in (1, 2):
        gmsh.initialize()
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.5)
        for x in (0, 1):
            gmsh.model.occ.addRectangle(x, 0, 0, 1, 1)
        gmsh.model.occ.fragment([(2, 1)], [(2, 2)])
        gmsh.model.occ.synchronize()
        gmsh.model.mesh.setRecombine(2, 2)
        gmsh.model.mesh.generate(2)
        gmsh.model.mesh.setOrder(order)
        gmsh.write(str(tmp_path / f"order{order}.msh"))
        gmsh.finalize()
    assert len(Mesh.of(read(tmp_path / "order1.msh")).blocks) == 2
    with pytest.raises(MeshError, match="quadrilateral and triangle cells of order 2 or more, .* with first-order cells"):
        read(tmp_path / "order2.msh")


@ranks
def test_surfaces_in_space_are_refused(tmp_path):
    path = Path(WORLD.bcast(str(tmp_path))) / "tilted.msh"
    if WORLD.rank == 0:
        square(1, 4.1, 0, path, tilt=0.5)
    WORLD.barrier()
    with pytest.raises(MeshError, match="dimension 2 in a space of dimension 3: z spans 0.9"):
        read(path)


ONE_TRIANGLE = """$MeshFormat
2.2 0 8
$EndMeshFormat
$Nodes
3
1 0 0 {z}
2 1 0 {z}
3 0 1 {z}
$EndNodes
$Elements
{count}
{elements}
$EndElements
"""


def test_a_plane_at_another_height(tmp_path):
    path = tmp_path / "plane.msh"
    path.write_text(ONE_TRIANGLE.format(z=2.5, count=1, elements="1 2 2 1 1 1 2 3"))
    assert Mesh.of(read(path, PETSc.COMM_SELF)).num_cells == 1


def test_cells_listed_twice(tmp_path):
    path = tmp_path / "twice.msh"
    path.write_text(ONE_TRIANGLE.format(z=0, count=2, elements="1 2 2 1 1 1 2 3\n2 2 2 2 1 2 3 1"))
    with pytest.raises(MeshError, match=r"triangle \[2, 3, 1\] twice.*physical groups"):
        read(path, PETSc.COMM_SELF)
    cells = np.array([[0, 1, 2], [2, 1, 3], [1, 2, 0]], np.int32)
    points = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], float)
    dm = PETSc.DMPlex().createFromCellList(2, cells, points, comm=PETSc.COMM_SELF)
    with pytest.raises(MeshError, match="cell 2 of the mesh has the facets of another cell"):
        Mesh.of(dm)


def test_nodes_that_no_cell_has(recwarn):
    """They are named; nothing else says a word."""
    cells, points = np.array([[0, 1, 2], [2, 1, 3]], np.int32), np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2], [3, 3]], float)
    Mesh.of(PETSc.DMPlex().createFromCellList(2, cells, points[:4], comm=PETSc.COMM_SELF))
    assert not [warning for warning in recwarn if "vertices" in str(warning.message)]
    with pytest.warns(UserWarning, match="2 of 6 vertices of the mesh belong to no cell, the first is vertex 4"):
        Mesh.of(PETSc.DMPlex().createFromCellList(2, cells, points, comm=PETSc.COMM_SELF))


@pytest.mark.parametrize("kind, said", [("1 2 2 1 1 1 2", "may be cut or malformed"), ("1 16 2 1 1 1 2 3", "elements of type 16")])
def test_what_a_message_says(tmp_path, kind, said):
    path = tmp_path / "odd.msh"
    path.write_text(ONE_TRIANGLE.format(z=0, count=1, elements=kind))
    with pytest.raises(MeshError, match=said):
        read(path, PETSc.COMM_SELF)


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_the_remedy_for_shuffled_cells_works(cell, rng):
    """What the message about inverted cells says."""
    dim = DIMS[cell]
    points = np.array([[i >> d & 1 for d in range(dim)] for i in range(2**dim)], float)
    cells = np.array([[0, 1, 3], [0, 2, 3]] if dim == 2 else [[0, a, b, 7] for a in (1, 2, 4) for b in (3, 5, 6) if a & b])
    cells = rng.permuted(cells, axis=1).astype(np.int32)
    det = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]])
    wrong = det < 0 if dim == 2 else det > 0
    cells[0] = cells[0] if wrong[0] else cells[0][[1, 0, *range(2, dim + 1)]]
    wrong[0] = True
    build = PETSc.DMPlex().createFromCellList
    said = r"swap two vertices of each triangle with det\(.*\) < 0" if dim == 2 else r"tetrahedron with det\(.*\) > 0"
    with pytest.raises(MeshError, match=said):
        Mesh.of(build(dim, cells, points, comm=PETSc.COMM_SELF))
    cells[wrong, :2] = cells[wrong, 1::-1]
    mesh = Mesh.of(build(dim, cells, points, comm=PETSc.COMM_SELF))
    assert np.linalg.det(mesh.block.jacobians(np.zeros((1, dim)))).sum() * 2**dim == pytest.approx({2: 2, 3: 6}[dim])


def test_a_mesh_of_gmsh_the_wrong_way_round(tmp_path):
    path = square(1, 4.1, 1, tmp_path / "disk.msh")
    with pytest.raises(MeshError, match=r"gmsh.model.mesh.reverse\(\) turns a mesh around"):
        Mesh.of(read(path.with_suffix(".reversed.msh"), PETSc.COMM_SELF))


@pytest.mark.parametrize(("faces", "cell"), [(4, "interval"), ((4,), "interval"), ((2, 3), "triangle"), ((1, 1, 2), "tetrahedron")])
def test_boxes_of_simplices_need_no_cell(faces, cell):
    dm = femgpu.mesh.box(faces)
    assert Mesh.of(dm).cell == cell
