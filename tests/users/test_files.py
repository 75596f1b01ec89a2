"""Files on full disks, files that were damaged, and what one part of femgpu wrote read by another."""

import resource
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import ufl
from mpi4py import MPI
from petsc4py import PETSc
from random_meshes import random_mixed

import femgpu
from femgpu.element import default_rule
from femgpu.errors import DataError, MeshError
from femgpu.io import Collection, read_h5, write_checkpoint
from femgpu.io.checkpoint import read_checkpoint
from femgpu.mesh import Mesh, checksums
from femgpu.mesh.h5_mesh import dm_for_file
from femgpu.mesh.restriction import FieldShape, set_fields

WORLD = MPI.COMM_WORLD
pytestmark = pytest.mark.timeout(120)


def function(count, value=1.0, cell="triangle", name="u", degree=2, periodic=None):
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    dm = femgpu.mesh.box((count,) * dim, cell=cell, periodic=periodic)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", degree), name)
    u.interpolate(lambda x: value + x[0])
    return u


@contextmanager
def largest_file(num_bytes, on=range(WORLD.size)):
    """Files beyond this size are refused on some ranks, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if WORLD.rank in on:
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_refused(folder, writers, limit, match):
    """All ranks say so, and all files are those that were there before."""
    WORLD.barrier()
    before = contents(folder)
    WORLD.barrier()
    for write in writers:
        with limit(), pytest.raises(DataError, match=match):
            write()
    WORLD.barrier()
    assert contents(folder) == before
    WORLD.barrier()


def h5_writers(folder, u):
    return [lambda: femgpu.write(folder / "u.h5", u), lambda: write_checkpoint(folder / "c.h5", [u], {"time": 2.0})]


@pytest.mark.parallel([1, 3])
def test_h5_where_files_may_not_grow(folder):
    small, large = function(2), function(40)
    for write in h5_writers(folder, small):
        write()
    for num_bytes in (200, 200_000):
        check_refused(folder, h5_writers(folder, large), lambda: largest_file(num_bytes), "u.h5': File too large|c.h5': File too l")  # noqa: B023
    again = femgpu.Function(small.space, "u")
    assert read_checkpoint(folder / "c.h5", [again], ["time"]) == {"time": 2.0}
    np.testing.assert_array_equal(again.local_array(), small.local_array())
    for write in h5_writers(folder, large):
        write()
    assert read_h5(folder / "u.h5")[1]["u"].vec.norm() == pytest.approx(large.vec.norm(), rel=1e-14)


@pytest.mark.parallel([1, 3])
def test_h5_on_a_full_disk(folder):
    """A small disk of its own, for those who may mount one."""
    mounted = WORLD.rank == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], capture_output=True, check=False
    ).returncode  # fmt: skip
    if not WORLD.bcast(mounted):
        pytest.skip("mounting a disk needs root")
    try:
        for write in h5_writers(folder, function(2)):
            write()
        check_refused(folder, h5_writers(folder, function(40)), lambda: largest_file(1 << 40), "No space left on device")
    finally:
        WORLD.barrier()
        if WORLD.rank == 0:
            subprocess.run(["umount", folder], check=True)


@pytest.mark.parallel([1, 3])
def test_h5_where_the_disk_fails_anywhere(folder):
    """In the middle of any array or group, without a word before: all ranks say so, and the file before stays."""
    u = function(5)
    for write in h5_writers(folder, u):
        write()
    WORLD.barrier()
    size = min(len(data) for data in contents(folder).values())
    for num_bytes in np.linspace(0, size - 1, 14 if WORLD.size == 1 else 5).astype(int):
        check_refused(folder, h5_writers(folder, u), lambda: largest_file(num_bytes), r"/[uc].h5': File too large")  # noqa: B023
    assert read_h5(folder / "u.h5")[1]["u"].vec.norm() == pytest.approx(u.vec.norm(), rel=1e-14)


@pytest.mark.parallel([1, 3])
def test_h5_files_are_as_petsc_writes_them(folder):
    """Array by array, on curved, periodic and mixed cells, in the order of points; so PETSc reads them, too."""
    disk = femgpu.mesh.read(Path(__file__).parents[1] / "data" / "disk_3.msh")
    meshes = [disk, femgpu.mesh.box((4, 3), cell="quadrilateral", periodic=(True, False)), function(2, cell="prism").space.dm]
    meshes.append(random_mixed("tetrahedron+hexahedron+prism", (3, 2, 2)))
    for dm in meshes:
        u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 3, shape=(2,), reorder=False), "u")
        u.interpolate(lambda x: (x[0], x[1] ** 3))
        femgpu.write(folder / "u.h5", u)
        names = write_by_petsc(folder / "petsc.h5", u)
        for name in names:
            ours, theirs = (arrays(folder / f"{file}.h5", name) for file in ("u", "petsc"))
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def write_by_petsc(path, u):
    """Returns the names of the arrays."""
    mesh = u.space.mesh
    dm = dm_for_file(mesh)
    coordinates = dm.getCoordinateDM()
    coordinates.setName("coordinates")
    dm.getCoordinates().setName("coordinates")
    PETSc.Options()["dm_plex_view_hdf5_storage_version"] = "3.0.0"
    viewer = PETSc.ViewerHDF5().create(str(path), "w", comm=PETSc.COMM_WORLD)
    viewer.pushFormat(PETSc.Viewer.Format.HDF5_PETSC)
    dm.topologyView(viewer)
    dm.coordinatesView(viewer)
    dm.labelsView(viewer)
    section_dm = mesh.clone_dm()
    set_fields(mesh, section_dm, [FieldShape("u", 3, True, 2)])
    section_dm.setName("u")
    local = section_dm.createLocalVec()
    local.setArray(u.local_array())
    local.setName("u")
    dm.sectionView(viewer, section_dm)
    dm.localVectorView(viewer, section_dm, local)
    viewer.destroy()
    PETSc.Options().delValue("dm_plex_view_hdf5_storage_version")
    names = ["topology/permutation"]
    names += [f"topology/strata/{dim}/{name}" for dim in range(mesh.dim + 1) for name in ("cone_sizes", "cones", "orientations")]
    names += [f"labels/{name}/{value}/indices" for name, values in mesh.labels().items() for value in values]
    for name in ("u", "coordinates"):
        section = section_dm.getLocalSection() if name == "u" else coordinates.getLocalSection()
        parts = ["section", *(f"section/field{i}" for i in range(section.getNumFields()))]
        names += [f"dms/{name}/order", *(f"dms/{name}/{part}/atlas{what}" for part in parts for what in ("Dof", "Off"))]
        names.append(f"dms/{name}/vecs/{name}/{name}")
    return [f"topologies/mesh/{name}" for name in names]


def arrays(path, name):
    """This rank's part of an array in an HDF5 file."""
    group, _, last = name.rpartition("/")
    viewer = PETSc.ViewerHDF5().create(str(path), "r", comm=PETSc.COMM_WORLD)
    viewer.pushGroup(f"/{group}")
    entry = (PETSc.Vec() if "/vecs/" in name else PETSc.IS()).create(PETSc.COMM_WORLD)
    entry.setName(last)
    entry.load(viewer)
    viewer.destroy()
    return entry.array_r.copy() if isinstance(entry, PETSc.Vec) else entry.getIndices().copy()


@pytest.mark.parallel([1, 3])
def test_files_in_parts_replace_each_other_together(folder):
    """One rank's disk is full: the parts of the others stay what they were, too."""
    small, large = function(6), function(40, 2.0)
    path = folder / "u.pvtu"
    femgpu.write(path, small)
    last = [WORLD.size - 1]
    check_refused(folder, [lambda: femgpu.write(path, large)], lambda: largest_file(10_000, last), "u_000.*File too large")
    femgpu.write(path, large)
    WORLD.barrier()
    assert set(contents(folder)) == {"u.pvtu", *(f"u_{rank:04d}.vtu" for rank in range(WORLD.size))}


@pytest.mark.parallel([1, 3])
def test_one_file_and_series_stay(folder):
    small, large = function(6), function(40, 2.0)
    series = Collection(folder / "s.pvd", WORLD)
    femgpu.write(folder / "u.vtu", small)
    series.write(0, 0.0, [small])
    writers = [lambda: femgpu.write(folder / "u.vtu", large), lambda: series.write(1, 1.0, [large])]
    check_refused(folder, writers, lambda: largest_file(10_000, [0]), "File too large")


def damaged(path, data):
    if WORLD.rank == 0:
        path.write_bytes(data)
    WORLD.barrier()
    return path


@pytest.mark.parallel([1, 3])
def test_damaged_h5_files(folder, monkeypatch):
    """Every changed byte is noticed before HDF5 sees it, and every cut."""
    monkeypatch.setattr(checksums, "BLOCK_BYTES", 10_007)
    u = function(4)
    write_checkpoint(folder / "good.h5", [u], {"time": 2.0})
    good = WORLD.bcast((folder / "good.h5").read_bytes() if WORLD.rank == 0 else None)
    path, random = folder / "bad.h5", np.random.default_rng(WORLD.bcast(np.random.SeedSequence().entropy))
    places = [
        0,
        8,
        9,
        13,
        40,
        100,
        *random.integers(len(good), size=20 if WORLD.size == 1 else 5),
        len(good) - 9,
        len(good) - 24,
        len(good) - 40,
    ]
    for place in places:
        data = bytearray(good)
        data[place] ^= 1 << int(random.integers(8))
        if place >= len(good) - 8:
            continue  # the mark of the checksums themselves: what it stands for is whole
        for kind, read in readers(damaged(path, data), u):
            with pytest.raises(
                kind, match=rf"bad.h5' is (damaged|not an HDF5 file|cut)[^\0]*{'' if place < 60 else 'written|checksums'}"
            ):
                read()
    for length in (5, 60, 5000, len(good) - 5000):
        for kind, read in readers(damaged(path, good[:length]), u):
            with pytest.raises(kind, match=r"bad.h5' is (damaged|not an HDF5 file|cut)"):
                read()


def readers(path, u):
    return [
        (DataError, lambda: read_h5(path)),
        (DataError, lambda: read_checkpoint(path, [u], ["time"])),
        (MeshError, lambda: femgpu.mesh.read(path)),
    ]


@pytest.mark.parallel([1, 3])
def test_h5_files_without_checksums(folder):
    """Those of other programs, and what a tool left that changed a file: they are read as they are."""
    u = function(4)
    femgpu.write(folder / "u.h5", u)
    bare = (folder / "u.h5").read_bytes()[: -checksums._FOOT.size - 4]
    WORLD.barrier()
    path = damaged(folder / "bare.h5", bare)
    assert read_h5(path)[1]["u"].vec.norm() == pytest.approx(u.vec.norm(), rel=1e-14)
    assert Mesh.of(femgpu.mesh.read(path)).num_cells_global == 32
    with pytest.raises(DataError, match=r"cut: \d+ of \d+ bytes"):
        read_h5(damaged(path, bare[:-1]))
    foreign = folder / "petsc.h5"
    viewer = PETSc.ViewerHDF5().create(str(foreign), "w", comm=PETSc.COMM_WORLD)
    viewer.pushFormat(PETSc.Viewer.Format.HDF5_PETSC)
    u.space.mesh.clone_dm().view(viewer)
    viewer.destroy()
    assert Mesh.of(femgpu.mesh.read(foreign)).num_cells_global == 32
    with pytest.raises(DataError, match="no group /femgpu; expected a file that femgpu.write made"):
        read_h5(foreign)


@pytest.mark.parallel([1, 3])
def test_meshes_of_written_functions(folder, set_options):
    """mesh.read takes what write made: cells, labels, periods, curved and mixed cells; and says so where it cannot."""
    disk, ball = (femgpu.mesh.read(Path(__file__).parents[1] / "data" / f"{name}_3.msh") for name in ("disk", "ball"))
    curved, solid = (femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1), "u") for dm in (disk, ball))
    mixed = femgpu.Function(femgpu.FunctionSpace(random_mixed("triangle+quadrilateral", (3, 3)), "DG", 0), "u")
    before = curved.space.mesh.coords.copy()
    path = folder / "u.h5"
    for u in (function(3, cell="prism"), function(4, cell="quadrilateral", periodic=(True, False)), mixed, solid, curved):
        femgpu.write(path, u)
        mesh, again = u.space.mesh, Mesh.of(femgpu.mesh.read(path))
        assert again.num_cells_global == mesh.num_cells_global and again.labels() == mesh.labels()
        assert [each.coord_element.degree for each in again.blocks] == [each.coord_element.degree for each in mesh.blocks]
        assert np.array_equal(np.array(again.dm.getPeriodicity()[2]), np.array(mesh.dm.getPeriodicity()[2]))
        assert volume(again) == pytest.approx(volume(mesh), rel=1e-12)
        v = femgpu.Function(femgpu.FunctionSpace(again.dm, "Lagrange", 2), "v")
        v.interpolate(lambda x: x[0])
    assert np.array_equal(Mesh(curved.space.dm).coords, before)
    set_options(dm_plex_filename=str(path), dm_refine=1)
    assert Mesh.of(femgpu.mesh.create()).num_cells_global == 4 * mesh.num_cells_global
    for suffix in ("vtu", "pvtu"):
        femgpu.write(folder / f"u.{suffix}", u)
        with pytest.raises(MeshError, match=rf"u.{suffix}' is for ParaView .* cannot be read back; expected the .h5"):
            femgpu.mesh.read(folder / f"u.{suffix}")


def volume(mesh):
    return mesh.mpi.allreduce(sum(integral(block) for block in mesh.blocks))


def integral(block):
    rule = default_rule(block.cell, 9)
    return float((np.linalg.det(block.jacobians(rule.points)) @ rule.weights).sum())


@pytest.mark.parallel([1, 3])
def test_names_of_functions(folder):
    """They are read back, or refused with the reason before anything is written."""
    V = function(2).space
    names = ["..", "u v", " ", "é∂ζ", "%s", "mesh", "names", "coordinates", 'quo"te', "back\\slash", "a.b", "-", "n" * 255]
    functions = [femgpu.Function(V, name) for name in names]
    for i, u in enumerate(functions):
        u.interpolate(lambda x, i=i: i + x[0])
    femgpu.write(folder / "u.h5", *functions)
    again = read_h5(folder / "u.h5")[1]
    assert list(again) == names
    for u in functions:
        assert again[u.name].vec.norm() == pytest.approx(u.vec.norm(), rel=1e-14)
    for name in (".", "a/b", "/", "a\nb", "a\0b", "n" * 256, "é" * 128):
        with pytest.raises(DataError, match="cannot stand in an .h5 file; expected one without slashes|expected printable names"):
            femgpu.write(folder / "v.h5", femgpu.Function(V, name))
    assert not (folder / "v.h5").exists()


def test_names_of_functions_to_read(tmp_path):
    u = function(2)
    femgpu.write(tmp_path / "u.h5", u)
    for names in ("u", u, [u]):
        with pytest.raises(DataError, match="expected a list of names"):
            read_h5(tmp_path / "u.h5", names)
    assert list(read_h5(tmp_path / "u.h5", ("u",))[1]) == ["u"]


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("suffix", ["h5", "vtu", "pvtu"])
def test_a_name_for_each_rank_is_refused(folder, suffix):
    with pytest.raises(DataError, match="expected one name on all ranks"):
        femgpu.write(folder / f"u{WORLD.rank}.{suffix}", function(2))


@pytest.mark.parallel([1, 2])
def test_functions_without_names_share_a_file(folder):
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle"), "Lagrange", 1)
    one, other, third, named = femgpu.Function(V), femgpu.Function(V), femgpu.Function(V, "u_1"), femgpu.Function(V, "u")
    copy = one.copy()
    for number, u in enumerate((one, other, third, copy, named)):
        u.assign(number)
    femgpu.write(folder / "a.h5", one, other, third, copy)
    assert [u.name for u in (one, other, third, copy)] == ["u", "u_2", "u_1", "u_3"]
    found = read_h5(folder / "a.h5")[1]
    assert {name: u.vec.max()[1] for name, u in found.items()} == {"u": 0, "u_2": 1, "u_1": 2, "u_3": 3}
    femgpu.write(folder / "a.vtu", one, named)
    assert [one.name, named.name] == ["u_1", "u"]
    for twice in ((one, one), (named, named.copy())):
        with pytest.raises(DataError, match="each once"):
            femgpu.write(folder / "a.vtu", *twice)


def test_communicators_of_mpi4py(folder):
    dm = femgpu.mesh.box((2, 2), cell="triangle", comm=WORLD)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1), "u")
    femgpu.write(folder / "u.h5", u)
    assert femgpu.mesh.read(folder / "u.h5", WORLD).comm == read_h5(folder / "u.h5", comm=WORLD)[0].comm == PETSc.COMM_WORLD
    problem = femgpu.TimeProblem(femgpu.time_derivative(u) * ufl.TestFunction(u.space) * ufl.dx, u)
    problem.output(folder / "u.pvd", functions=u)
    u.name = 3
    with pytest.raises(DataError, match="function name 3"):
        femgpu.write(folder / "u.vtu", u)


def test_paths_that_are_none():
    u = function(1)
    problem = femgpu.TimeProblem(femgpu.time_derivative(u) * ufl.TestFunction(u.space) * ufl.dx, u)
    for call in (
        lambda: femgpu.write(3, u),
        lambda: femgpu.write(u, "u.vtu"),
        lambda: femgpu.mesh.read(None),
        lambda: read_h5(None),
        lambda: problem.output(None),
        lambda: problem.checkpoint(3),
        lambda: problem.restart(None),
    ):
        with pytest.raises(DataError, match="the name of a file is .*; expected a string or a Path"):
            call()


@pytest.mark.parallel([1, 2])
def test_changed_bytes_of_foreign_h5_files(folder):
    """No checksum tells of them: a process that tries the file crashes in place of this one."""
    path = folder / "petsc.h5"
    if WORLD.rank == 0:
        viewer = PETSc.ViewerHDF5().create(str(path), "w", comm=PETSc.COMM_SELF)
        viewer.pushFormat(PETSc.Viewer.Format.HDF5_PETSC)
        femgpu.mesh.box((4, 4), comm=PETSc.COMM_SELF).view(viewer)
        viewer.destroy()
    WORLD.barrier()
    assert Mesh.of(femgpu.mesh.read(path)).num_cells_global == 32
    good = bytearray(WORLD.bcast(path.read_bytes() if WORLD.rank == 0 else None))
    # The numbers of edges of the cells; one triangle gets as many as 2**28 + 3.
    good[good.index(b"\3\0\0\0" * 32) + 7] ^= 1 << 4
    with pytest.raises(MeshError, match=r"petsc.h5' is damaged: PETSc's reader crashes, with status"):
        femgpu.mesh.read(damaged(path, good))
