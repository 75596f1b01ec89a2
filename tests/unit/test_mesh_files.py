import itertools
import json
import os
import random
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.element import LagrangeElement, default_rule
from femgpu.errors import MeshError
from femgpu.mesh import FieldShape, Mesh, box, create, read, refine, set_fields

DATA = Path(__file__).resolve().parents[1] / "data"
VOLUMES = json.loads((DATA / "volumes.json").read_text())
pytestmark = pytest.mark.timeout(120)
parallel = pytest.mark.parallel([1, 3])


def volume(mesh, degree=9):
    rule = default_rule(mesh.cell, degree)
    return mesh.mpi.allreduce(float((np.linalg.det(mesh.block.jacobians(rule.points)) @ rule.weights).sum()))


def nodes_agree(mesh, degree):
    """Largest distance between the places of one dof seen from its cells."""
    element = LagrangeElement(mesh.cell, degree)
    [(offsets,)], size = set_fields(mesh, mesh.clone_dm(), [FieldShape("u", degree)])
    points = mesh.block.physical_points(element.nodes)
    placed = np.zeros((size, mesh.dim))
    placed[offsets] = points
    return np.abs(placed[offsets] - points).max(initial=0)


def on_first_rank(action):
    if MPI.COMM_WORLD.rank == 0:
        action()
    MPI.COMM_WORLD.barrier()


@parallel
def test_curved_volumes_are_those_that_gmsh_integrates():
    for name, expected in VOLUMES.items():
        mesh = Mesh.of(read(DATA / name))
        assert mesh.coord_element.degree == int(name[-5]), name
        assert volume(mesh) == pytest.approx(expected, rel=1e-11), name
        assert not mesh.block.affine.all() or mesh.mpi.size > 1, name
        assert nodes_agree(mesh, 3) < 1e-12, name
        labels = mesh.labels()
        assert labels["Cell Sets"] == [7] and labels["Face Sets"] == [5]
        assert mesh.mpi.allreduce(len(mesh.cells(7))) == mesh.num_cells_global


@parallel
def test_curved_boundary_is_on_the_ball():
    mesh = Mesh.of(read(DATA / "ball_3.msh"))
    cells, facets = mesh.facets(5)
    nodes = mesh.coord_element.facet_nodes()
    for cell, facet in zip(cells, facets, strict=True):
        points = mesh.coords[mesh.block.coord_dofs[cell, nodes[facet]]]
        assert np.linalg.norm(points, axis=1) == pytest.approx(1, abs=1e-9)


@parallel
def test_refinement_keeps_curved_cells():
    for name, expected in VOLUMES.items():
        dm = read(DATA / name)
        mesh, fine = Mesh.of(dm), Mesh.of(refine(dm))
        assert fine.num_cells_global == 2**mesh.dim * mesh.num_cells_global
        assert fine.coord_element.degree == mesh.coord_element.degree
        assert volume(fine) == pytest.approx(expected, rel=1e-11), name
        assert volume(Mesh(dm)) == pytest.approx(expected, rel=1e-11), "the coarse mesh is left alone"
        assert nodes_agree(fine, 2) < 1e-12
        assert fine.labels().keys() >= {"Cell Sets", "Face Sets"}


def test_refinement_of_straight_cells():
    fine = Mesh.of(refine(box((2, 2), "triangle", comm=PETSc.COMM_SELF)))
    assert fine.num_cells == 32 and volume(fine) == pytest.approx(1)


@parallel
def test_periodic_boxes():
    for dim in (1, 2, 3):
        check_periodic(dim)


def check_periodic(dim):
    plex = PETSc.DMPlex().createBoxMesh([4, 3, 3][:dim], simplex=False, periodic=[True] * dim, interpolate=True)
    plex.distribute(0)
    mesh = Mesh.of(plex)
    assert volume(mesh) == pytest.approx(1) and mesh.block.affine.all()
    assert mesh.mpi.allreduce(len(mesh.facets("boundary")[0])) == 0
    dm = mesh.clone_dm()
    [(offsets,)], _ = set_fields(mesh, dm, [FieldShape("u", 2)])
    assert dm.createGlobalVec().getSize() == 2**dim * [4, 12, 36][dim - 1]
    assert offsets.shape == (mesh.num_cells, 3**dim)


# What a file may suffer, as an action on the text of a good one.
DAMAGES = {
    "empty": lambda text: "",
    "no gmsh file": lambda text: "hello world\n" * 20,
    "random bytes": lambda text: random.Random(0).randbytes(3000),
    "header only": lambda text: text[: text.index("$Entities")],
    "cut in the nodes": lambda text: text[: text.index("$Elements") // 2],
    "cut in the elements": lambda text: text[: text.index("$Elements") + 300],
    "a number is lost": lambda text: text.replace(text[text.index("$Elements") :].splitlines()[4], "1 2", 1),
    "a word among the nodes": lambda text: text[: text.index("$Nodes") + 50] + " what " + text[text.index("$Nodes") + 50 :],
    "not a number": lambda text: text.replace(node_line(text), "nan 0 0", 1),
    "a node that is not there": lambda text: text.replace(cell_line(text), renumbered(cell_line(text)), 1),
    "an element type that is not there": lambda text: text.replace("\n2 1 11 ", "\n2 1 777 ").replace("\n3 1 11 ", "\n3 1 777 "),
}


def node_line(text):
    return next(line for line in text[text.index("$Nodes") :].splitlines() if line.count(".") == 3)


def cell_line(text):
    return text[: text.index("$EndElements")].splitlines()[-1]


def renumbered(line):
    return " ".join([*line.split()[:-1], "123456"])


@pytest.mark.parallel([1, 3])
def test_malformed_files_raise_on_all_ranks(folder):
    good = (DATA / "ball_2.msh").read_text()
    for damage, apply in DAMAGES.items():
        path = folder / f"{damage}.msh"
        content = apply(good)
        assert content != good
        on_first_rank(lambda: path.write_bytes(content if isinstance(content, bytes) else content.encode()))  # noqa: B023
        with pytest.raises(MeshError, match=damage):
            read(path)


@pytest.mark.parallel([1, 3])
def test_files_that_cannot_be_read(folder):
    with pytest.raises(MeshError, match=r"none.msh' does not exist; expected a path relative to"):
        read(folder / "none.msh")
    on_first_rank((folder / "dir.msh").mkdir)
    with pytest.raises(MeshError, match=r"dir.msh' is not a file"):
        read(str(folder / "dir.msh"))
    for suffix in ("foo", "h5", "ply"):
        path = folder / f"random.{suffix}"
        on_first_rank(lambda path=path: path.write_bytes(os.urandom(500)))
        with pytest.raises(MeshError, match=rf"random.{suffix}"):
            read(path)


@pytest.mark.parallel([1, 3])
def test_gmsh_formats(folder):
    for version, binary in itertools.product(("2.2", "4.1"), (0, 1)):
        check_format(folder, version, binary)


def check_format(folder, version, binary):
    gmsh = pytest.importorskip("gmsh")
    path = folder / "square.msh"

    def write():
        gmsh.initialize()
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("Mesh.MshFileVersion", float(version))
        gmsh.option.setNumber("Mesh.Binary", binary)
        gmsh.model.occ.addRectangle(0, 0, 0, 2, 1)
        gmsh.model.occ.synchronize()
        gmsh.model.addPhysicalGroup(1, [2], 3)
        gmsh.model.addPhysicalGroup(2, [1], 4)
        gmsh.model.mesh.generate(2)
        gmsh.write(str(path))
        gmsh.finalize()

    on_first_rank(write)
    mesh = Mesh.of(read(path))
    assert volume(mesh) == pytest.approx(2)
    assert mesh.labels() == {"Cell Sets": [4], "Face Sets": [3]}
    cells, facets = mesh.facets(3)
    for cell, facet in zip(cells, facets, strict=True):
        corners = mesh.coords[mesh.block.coord_dofs[cell, list(mesh.reference.facets[facet])]]
        np.testing.assert_allclose(corners[:, 0], 2)
    assert mesh.mpi.allreduce(len(cells)) > 0


CREATIONS = (
    ("-dm_plex_dim 2", "triangle", 8, 1),
    ("-dm_plex_dim 3 -dm_refine 1", "tetrahedron", 48, 1),
    ("-dm_plex_dim 2 -dm_plex_box_faces 3,2 -dm_plex_box_lower -1,0 -dm_plex_box_upper 2,4", "triangle", 12, 12),
    ("-dm_plex_dim 2 -dm_plex_simplex 0 -dm_plex_box_faces 3,2 -dm_plex_box_upper 2,4", "quadrilateral", 6, 8),
    ("-dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 2,2,2 -dm_refine 1", "hexahedron", 64, 1),
    ("-dm_plex_dim 1 -dm_plex_box_faces 5", "interval", 5, 1),
    (f"-dm_plex_filename {DATA / 'disk_2.msh'} -dm_refine 2", "triangle", None, VOLUMES["disk_2.msh"]),
)

REFUSALS = (
    ("-dm_plex_dim 3 -dm_plex_box_faces 2,2", "expected 3 numbers"),
    ("-dm_plex_dim 2 -dm_plex_box_faces 2,x", "dm_plex_box_faces 2,x"),
    ("-dm_plex_dim 2 -dm_plex_box_upper -1,1", "below"),
    ("-dm_plex_dim 2 -dm_plex_box_bd periodic", "dm_plex_box_bd"),
    ("-dm_plex_filename none.msh", "'none.msh' does not exist"),
    ("-dm_plex_dim 3 -dm_plex_shape ball", "No grid generator"),
    (f"-dm_plex_filename {DATA / 'disk_2.msh'} -dm_refine_pre 1", "expected -dm_refine"),
)


@contextmanager
def options(text):
    words = text.split()
    for name, value in zip(words[::2], words[1::2], strict=True):
        PETSc.Options().setValue(name, value)
    yield
    for name in words[::2]:
        PETSc.Options().delValue(name)


@parallel
def test_create():
    for text, cell, cells, size in CREATIONS:
        with options(text):
            mesh = Mesh.of(create())
            assert PETSc.Options().hasName("dm_refine") == ("dm_refine" in text)
        assert mesh.cell == cell and cells in (None, mesh.num_cells_global)
        assert volume(mesh) == pytest.approx(size, rel=1e-11)
        assert mesh.mpi.size == 1 or mesh.mpi.allreduce(int(mesh.num_cells > 0)) > 1


@pytest.mark.parallel([1, 3])
def test_create_refuses():
    for text, message in REFUSALS:
        with options(text), pytest.raises(MeshError, match=message):
            create()
