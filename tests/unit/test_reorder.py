"""Meshes and vectors in orders that kernels read faster are the same meshes and vectors."""

from pathlib import Path

import numpy as np
import pytest
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, random_mesh, random_mixed

from femgpu import FunctionSpace
from femgpu.element import reference_cell
from femgpu.errors import MeshError
from femgpu.mesh import Mesh, box, locality, read, refine, reorder
from femgpu.mesh.gmsh_file import parse
from femgpu.mesh.reorder import advice

DATA = Path(__file__).resolve().parents[1] / "data"
FILES = sorted(path.name for path in DATA.glob("*.msh"))
COUNTS = {1: (99,), 2: (9, 8), 3: (4, 4, 4)}
pytestmark = pytest.mark.timeout(180)
parallel = pytest.mark.parallel([1, 3])


@pytest.fixture
def whole_groups(monkeypatch):
    """Blocks of as many cells as in use, not the small ones of other tests."""
    monkeypatch.setattr(locality, "BLOCK", 128)


def described(dm):
    """The points of a mesh on all ranks, each as its dimension, the middle of its vertices and what labels say of it."""
    dim, (first, last) = dm.getDimension(), dm.getDepthStratum(0)
    section, x = dm.getCoordinateSection(), dm.getCoordinatesLocal().array_r
    labels = sorted(dm.getLabelName(i) for i in range(dm.getNumLabels()))
    found = set()
    for point in range(*dm.getChart()):
        vertices = [vertex for vertex in dm.getTransitiveClosure(point)[0] if first <= vertex < last]
        middle = np.mean([x[section.getOffset(vertex) :][:dim] for vertex in vertices], axis=0)
        values = tuple(dm.getLabelValue(label, point) for label in labels if label != "celltype")
        found.add((dm.getPointDepth(point), *(np.round(middle, 9) + 0.0), *values))
    return labels, set().union(*dm.comm.tompi4py().allgather(found))


def nodes(dm):
    """The nodes of the cells on all ranks, by cells in the order of their middles."""
    block = Mesh.of(dm).block
    points = block.physical_points(block.coord_element.nodes)
    points = np.concatenate(dm.comm.tompi4py().allgather(points))
    return points[np.lexsort(np.round(points.mean(axis=1), 9).T)]


def reads(offsets, items=32, together=4):
    """How many pieces of a vector neighbouring cells read for a node of each."""
    groups = [offsets[first : first + items] // together for first in range(0, len(offsets) - items + 1, items)]
    return np.mean([len(np.unique(column)) for group in groups for column in group.T])


@parallel
def test_files_give_the_same_meshes(set_options, whole_groups):
    """Straight and curved cells, regions and their names."""
    moved = 0
    for name in FILES:
        found = []
        for value in ("no", "yes"):
            set_options(femgpu_reorder_mesh=value)
            found.append(read(DATA / name))
        plain, ordered = found
        assert described(plain) == described(ordered), name
        np.testing.assert_allclose(*(np.sort(nodes(dm), axis=1) for dm in found), atol=1e-12, err_msg=name)
        chart = plain.getHeightStratum(0)
        moved += any(not np.array_equal(plain.getCone(cell), ordered.getCone(cell)) for cell in range(*chart))
    assert moved or PETSc.COMM_WORLD.rank


@pytest.mark.parametrize("kind", [*ALL_CELLS, *MIXED])
def test_cells_stand_along_a_curve(kind, whole_groups):
    dim = reference_cell(kind.split("+")[0]).dim
    make, counts = (random_mixed, (8, 6, 6)[:dim]) if "+" in kind else (random_mesh, COUNTS[dim])
    dm = make(kind, counts, 5, comm=PETSc.COMM_SELF)
    fresh = reorder(dm)
    assert fresh.handle != dm.handle and described(dm) == described(fresh)
    for before, after in zip(Mesh.of(dm).blocks, Mesh.of(fresh).blocks, strict=True):
        assert before.cell == after.cell and before.num_cells == after.num_cells
        if after.num_cells >= 64:
            assert reads(after.coord_dofs) < 0.9 * reads(before.coord_dofs)


def test_the_view_says_so(whole_groups):
    """What it counts is what is counted here; boxes are not spoken of, nor hexahedra, which gain nothing."""
    assert advice(Mesh.of(random_mesh("hexahedron", (7, 7, 7), 5, comm=PETSc.COMM_SELF))) == ""
    for counts, kind in (((24, 24), "triangle"), ((7, 7, 7), "tetrahedron")):
        dm = random_mesh(kind, counts, 5, comm=PETSc.COMM_SELF)
        (block,) = Mesh.of(dm).blocks
        assert f"from {reads(block.coord_dofs):.0f} pieces" in advice(Mesh.of(dm))
        assert "femgpu.mesh.reorder" in advice(Mesh.of(dm))
        plain = box(counts, kind, comm=PETSc.COMM_SELF)
        assert advice(Mesh.of(reorder(dm))) == "" == advice(Mesh.of(plain))
        # Vertices count, which are what is ordered.
        curved = box(counts, kind, comm=PETSc.COMM_SELF)
        curved.createCoordinateSpace(3, False, True)
        assert advice(Mesh.of(curved)) == ""


@pytest.mark.parametrize("version", [2.2, 4.1])
def test_periodic_files_stay_as_they_are(version, tmp_path, set_options, whole_groups):
    """Of cells across the period PETSc keeps coordinates of their own, which it does not permute."""
    gmsh = pytest.importorskip("gmsh")
    gmsh.initialize()
    gmsh.option.setNumber("General.Terminal", 0)
    gmsh.option.setNumber("Mesh.MshFileVersion", version)
    gmsh.model.occ.addRectangle(0, 0, 0, 1, 1)
    gmsh.model.occ.synchronize()
    gmsh.model.mesh.setPeriodic(1, [2], [4], [1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])
    gmsh.option.setNumber("Mesh.MeshSizeMax", 0.08)
    gmsh.model.mesh.generate(2)
    gmsh.write(str(tmp_path / "ring.msh"))
    gmsh.finalize()
    found = []
    for value in ("no", "yes"):
        set_options(femgpu_reorder_mesh=value)
        found.append(read(tmp_path / "ring.msh", comm=PETSc.COMM_SELF))
    assert found[1].getCoordinatesLocalized()
    np.testing.assert_allclose(*(np.sort(nodes(dm), axis=1) for dm in found), atol=1e-12)


def test_refinements_keep_their_coarse_mesh(whole_groups):
    dm = random_mesh("triangle", (9, 8), 5, comm=PETSc.COMM_SELF)
    fine = refine(dm)
    assert reorder(fine) is fine and advice(Mesh.of(fine)) == ""
    ordered = reorder(dm)
    assert refine(ordered).getCoarseDM().handle == ordered.handle


@pytest.mark.parallel([1, 2])
def test_files_of_petsc(folder, whole_groups):
    """Whose reader puts all cells on one rank, the last one say."""
    if PETSc.COMM_WORLD.rank == 0:
        dm = random_mesh("tetrahedron", (4, 4, 4), 5, comm=PETSc.COMM_SELF)
        viewer = PETSc.ViewerHDF5().create(str(folder / "plain.h5"), "w", comm=PETSc.COMM_SELF)
        viewer.pushFormat(PETSc.Viewer.Format.HDF5_PETSC)
        dm.view(viewer)
        viewer.destroy()
    PETSc.COMM_WORLD.barrier()
    dm = PETSc.DMPlex().createFromFile(str(folder / "plain.h5"), interpolate=True)
    fresh = reorder(dm)
    assert fresh.handle != dm.handle
    fresh.distribute(0)
    assert Mesh.of(fresh).num_cells_global == 384


@parallel
def test_refusals():
    plain = PETSc.DMPlex().createFromCellList(2, np.array([[0, 1, 2]], np.int32), np.eye(3)[:, :2], interpolate=False)
    for wrong in (PETSc.DMDA().create([4, 4]), PETSc.DMPlex().create(), plain):
        with pytest.raises(MeshError):
            reorder(wrong)


@pytest.mark.parametrize("kind", ["triangle", "tetrahedron"])
def test_boxes_stay_as_they_are(kind, whole_groups):
    dm = box((8, 6, 6)[: reference_cell(kind).dim], kind, comm=PETSc.COMM_SELF)
    assert reorder(dm) is dm
    periodic = box((4, 3, 3)[: reference_cell(kind).dim], kind, periodic=True, comm=PETSc.COMM_SELF)
    assert reorder(periodic) is periodic
    with pytest.raises(MeshError, match="DMPlex"):
        reorder("mesh.msh")


@pytest.mark.parametrize("kind, degree", [("triangle", 2), ("triangle", 3), ("tetrahedron", 2), ("tetrahedron", 3)])
def test_cells_of_a_block_find_a_part_of_theirs_side_by_side(kind, degree, whole_groups):
    """Fewer pieces than in PETSc's order, and about as few as in the order that is computed node by node here."""
    dm = box((16, 12) if kind == "triangle" else (6, 5, 5), kind, comm=PETSc.COMM_SELF)
    ordered, plain = (FunctionSpace(dm, "Lagrange", degree, reorder=yes).offsets for yes in (True, False))
    num_cells, num_basis = plain.shape
    slots = np.arange(num_cells)[:, None] // 128 * num_basis + np.arange(num_basis)
    keys = np.full(plain.max() + 1, np.inf)
    np.minimum.at(keys, plain, slots * 128 + np.arange(num_cells)[:, None] % 128)
    ideal = np.argsort(np.argsort(keys))[plain]
    assert reads(ordered) < 0.95 * reads(plain)
    assert reads(ordered) < (1.05 if degree == 2 else 2) * reads(ideal)


def test_elements_with_a_header_each_are_read_together(rng):
    """gmsh writes its format 2.2 in binary that way; a mesh of a million cells is none of a million pieces."""
    x, count = rng.uniform(size=(30, 3)), 500
    triangles = np.array([rng.permutation(30)[:3] + 1 for _ in range(count)], "i4")
    lines = np.array([rng.permutation(30)[:2] + 1 for _ in range(7)], "i4")
    data = b"$MeshFormat\n2.2 1 8\n" + np.array([1], "i4").tobytes() + b"\n$EndMeshFormat\n$Nodes\n30\n"
    data += b"".join(np.array([i + 1], "i4").tobytes() + row.tobytes() for i, row in enumerate(x)) + b"\n$EndNodes\n"
    rows = [(2, triangles[:200]), (1, lines), (2, triangles[200:])]
    data += f"$Elements\n{count + 7}\n".encode()
    for kind, nodes_of in rows:
        for i, row in enumerate(nodes_of):
            data += np.array([kind, 1, 2, i + 1, 5, 6, *row], "i4").tobytes()
    whole = parse(data + b"\n$EndElements\n")
    assert [len(nodes_of) for _, nodes_of in whole.elements] == [200, 7, 300]
    for (_, given), (_, found) in zip(rows, whole.elements, strict=True):
        np.testing.assert_array_equal(found, given)
