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
from femgpu.element import basix_rule
from femgpu.errors import DataError, MeshError
from femgpu.io import Collection, h5, read_h5, write_checkpoint
from femgpu.io.checkpoint import read_checkpoint
from femgpu.mesh import Mesh, checksums

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
        check_refused(folder, h5_writers(folder, function(40)), lambda: largest_file(1 << 40), r"No space left .* \d+ are free")
    finally:
        WORLD.barrier()
        if WORLD.rank == 0:
            subprocess.run(["umount", folder], check=True)


@pytest.mark.parallel([1, 3])
def test_sizes_of_h5_files_are_foreseen(folder, monkeypatch):
    foreseen = []
    bound = h5._bytes_at_most
    monkeypatch.setattr(h5, "_bytes_at_most", lambda *arguments: foreseen.append(bound(*arguments)) or foreseen[-1])
    several = [function(3, cell="tetrahedron", degree=degree, name=f"u{degree}") for degree in (1, 2, 3)]
    several = [femgpu.Function(femgpu.FunctionSpace(several[0].space.dm, "DG", k, shape=(3,)), f"v{k}") for k in (0, 1, 3)]
    mixed = femgpu.Function(femgpu.FunctionSpace(random_mixed("tetrahedron+hexahedron+prism", (6, 5, 5)), "Lagrange", 3), "m")
    cases = [[function(2)], [function(40)], several, [mixed]]
    cases += [[function(8, cell=cell)] for cell in ("tetrahedron", "hexahedron", "prism")]
    cases += [[function(12, cell="quadrilateral", periodic=(True, False))], [function(30, degree=5)]]
    for functions in cases:
        femgpu.write(folder / "u.h5", *functions)
        size = (folder / "u.h5").stat().st_size
        assert size < foreseen[-1] < (2.2 if WORLD.size == 1 else 3) * size


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
    places = [0, 8, 9, 13, 40, 100, *random.integers(len(good), size=20), len(good) - 9, len(good) - 24, len(good) - 40]
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
    rule = basix_rule(block.cell, 9)
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
    for name in (".", "a/b", "/", "n" * 256, "é" * 128):
        with pytest.raises(DataError, match="cannot stand in an .h5 file; expected one without slashes"):
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
