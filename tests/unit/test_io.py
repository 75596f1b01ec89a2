import subprocess
import sys

import numpy as np
import pytest
from mpi4py import MPI
from petsc4py import PETSc
from random_meshes import MIXED, random_mixed

from femgpu.element import reference_cell
from femgpu.errors import DataError
from femgpu.io import picture, read_h5, sampling, vtk_cells, vtu_file, write
from femgpu.mesh import Mesh, box
from femgpu.spaces import Function, FunctionSpace, MixedSpace

WORLD = MPI.COMM_WORLD
CELLS = ("interval", "triangle", "tetrahedron", "quadrilateral", "hexahedron", "prism")
COUNTS = {1: (5,), 2: (3, 2), 3: (2, 1, 2)}
UPPER = (2.0, 1.0, 0.5)


def small_box(cell, comm=None):
    dim = reference_cell(cell).dim
    return box(COUNTS[dim], cell=cell, upper=UPPER[:dim], comm=comm)


def curved_box(cell, comm=None):
    """A box whose coordinates are polynomials of degree 2, but for its corners."""
    dm = small_box(cell, comm)
    dm.createCoordinateSpace(2, False, True)
    local = dm.getCoordinatesLocal()
    x = local.array_r.reshape(-1, dm.getDimension()).copy()
    x[:, 0] += 0.1 * x[:, 1] * (1.0 - x[:, 1])
    local.setArray(x.ravel())
    dm.setCoordinatesLocal(local)
    return dm


def polynomial(x, degree):
    return sum((0.3 + axis) * entry**degree for axis, entry in enumerate(x)) + x[0] ** (degree - 1) * x[-1] - 1.0


def function(dm, degree, name="u", family="Lagrange", shape=(), source=None):
    u = Function(FunctionSpace(dm, family, degree, shape=shape), name=name)
    u.interpolate(source or (lambda x: polynomial(x, degree)))
    return u


def read(path):
    pyvista = pytest.importorskip("pyvista")
    return pyvista.read(str(path))


def inside(cell, count=3):
    """Points inside VTK's reference cell."""
    dim = reference_cell(cell).dim
    points = np.random.default_rng(1).dirichlet(np.ones(dim + 1), count)[:, :dim]
    return np.c_[points, np.zeros((count, 3 - dim))]


def evaluate(grid, cell, values):
    """Places and values inside all cells by VTK's own interpolation: (num, 3), (num, num_entries)."""
    places, found = [], []
    values = np.asarray(values).reshape(len(values), -1)
    for index in range(grid.n_cells):
        vtk_cell = grid.GetCell(index)
        ids = [vtk_cell.GetPointId(i) for i in range(vtk_cell.GetNumberOfPoints())]
        for point in inside(cell):
            place, weights = [0.0] * 3, [0.0] * len(ids)
            vtk_cell.EvaluateLocation(_int_reference(), point.tolist(), place, weights)
            places.append(place)
            found.append(np.array(weights) @ values[ids])
    return np.array(places), np.array(found)


def _int_reference():
    from vtkmodules.vtkCommonCore import reference

    return reference(0)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6, 8, 10])
@pytest.mark.parametrize("cell", CELLS)
def test_lattice_is_the_order_of_vtk(cell, degree):
    model = pytest.importorskip("vtkmodules.vtkCommonDataModel")
    names = {
        "interval": "Curve",
        "triangle": "Triangle",
        "quadrilateral": "Quadrilateral",
        "tetrahedron": "Tetra",
        "hexahedron": "Hexahedron",
        "prism": "Wedge",
    }
    nodes = np.zeros((len(vtk_cells.lattice(cell, degree)), 3))
    nodes[:, : reference_cell(cell).dim] = vtk_cells.lattice(cell, degree) / degree
    vtk_cell = getattr(model, f"vtkLagrange{names[cell]}")()
    assert vtk_cell.GetCellType() == vtk_cells.cell_type(cell, 2)
    vtk_cell.GetPointIds().SetNumberOfIds(len(nodes))
    vtk_cell.GetPoints().SetNumberOfPoints(len(nodes))
    if hasattr(vtk_cell, "SetUniformOrderFromNumPoints"):
        vtk_cell.SetUniformOrderFromNumPoints(len(nodes))
    if cell == "hexahedron":
        nodes[[vtk_cell.NodeNumberingMappingFromVTK8To9([degree] * 3, index) for index in range(len(nodes))]] = nodes.copy()
    for index, node in enumerate(nodes):
        vtk_cell.GetPoints().SetPoint(index, *node)
    vtk_cell.Initialize()
    for index in np.unique(np.linspace(0, len(nodes) - 1, 60, dtype=int)):
        weights = [0.0] * len(nodes)
        vtk_cell.InterpolateFunctions(nodes[index].tolist(), weights)
        assert np.allclose(weights, np.arange(len(nodes)) == index, atol=1e-9)


@pytest.mark.parametrize("degree", range(1, 7))
@pytest.mark.parametrize("cell", CELLS)
def test_dofs_pair_up_with_the_lattice(cell, degree):
    match = sampling._matching(cell, degree)
    assert sorted(match) == list(range(len(match)))


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_polynomials_are_exact_inside_the_cells(folder, cell):
    dm = small_box(cell)
    for degree in (1, 2, 3, 4):
        u = function(dm, degree)
        for suffix in ("vtu", "pvtu"):
            write(folder / f"u.{suffix}", u)
            if WORLD.rank == 0:
                grid = read(folder / f"u.{suffix}")
                check_exact(grid, u.space.mesh, degree, merged=suffix == "vtu")
                if suffix == "vtu":
                    check_meshio(folder / "u.vtu", grid, cell)


@pytest.mark.parallel([1, 2])
def test_functions_with_bubbles(folder):
    """They keep their family in .h5 files; cells of .vtu files have the bubble's degree."""
    dm, x = small_box("triangle"), np.random.default_rng(0).uniform(0.05, 0.95, (9, 2))
    u = function(dm, 1, "u", "P+B", 2, lambda x: np.stack([np.sin(3 * x[0] + x[1]), x[0] * x[1]]))
    w = Function(MixedSpace({"v": FunctionSpace(dm, "P+B", 2), "p": FunctionSpace(dm, "Lagrange", 1)}), "w")
    w.sub("v").interpolate(lambda x: np.exp(x[0] - 2 * x[1]))
    w.sub("p").interpolate(lambda x: x[0])
    written = [u, w.sub("v"), w.sub("p")]
    write(folder / "u.h5", *written)
    found = read_h5(folder / "u.h5")[1]
    for each in written:
        again = found[each.name]
        assert again.space.field.elements == each.space.field.elements
        np.testing.assert_allclose(again.evaluate(x), each.evaluate(x), atol=1e-14)
    write(folder / "u.vtu", u)
    places = data = None
    if WORLD.rank == 0:
        grid = read(folder / "u.vtu")
        places, data = evaluate(grid, "triangle", grid.point_data["u"])
    places, data = WORLD.bcast((places, data))
    np.testing.assert_allclose(data[:, :2], u.evaluate(places[:, :2]), atol=1e-12)


def check_exact(grid, mesh, degree, merged):
    assert grid.n_cells == mesh.num_cells_global
    places, values = evaluate(grid, mesh.cell, grid.point_data["u"])
    assert np.allclose(values[:, 0], polynomial(places[:, : mesh.dim].T, degree), atol=1e-12)
    sizes = np.abs(grid.compute_cell_sizes().cell_data[("Length", "Area", "Volume")[mesh.dim - 1]])
    assert np.all(sizes > 0)
    assert np.isclose(sizes.sum(), np.prod(UPPER[: mesh.dim]))
    if merged:
        assert grid.n_points == np.prod(degree * np.array(COUNTS[mesh.dim]) + 1)


def check_meshio(path, grid, cell):
    """meshio sees what VTK does: it keeps the order of nodes in files, and has one of its own for linear prisms."""
    meshio = pytest.importorskip("meshio")
    mesh = meshio.read(path)
    assert np.array_equal(mesh.points, grid.points) and np.array_equal(mesh.point_data["u"], grid.point_data["u"])
    [block] = mesh.cells
    assert sum(len(each.data) for each in mesh.cells) == grid.n_cells
    nodes, expected = block.data, grid.cell_connectivity.reshape(grid.n_cells, -1)
    degree = round(nodes.shape[1] ** (1 / 3)) - 1
    if block.type == "wedge":
        nodes = nodes[:, [0, 2, 1, 3, 5, 4]]
    elif cell == "hexahedron" and degree > 1:
        vtk_cell = grid.GetCell(0)
        nodes = nodes.copy()
        nodes[:, [vtk_cell.NodeNumberingMappingFromVTK8To9([degree] * 3, i) for i in range(nodes.shape[1])]] = block.data
    assert np.array_equal(nodes, expected)


@pytest.mark.parallel([1, 2])
def test_probing_finds_the_values(folder):
    for cell in ("triangle", "quadrilateral", "tetrahedron", "hexahedron"):
        check_probe(folder, cell)


def check_probe(folder, cell):
    u = function(small_box(cell), 2)
    write(folder / "u.vtu", u)
    if WORLD.rank > 0:
        return
    grid = read(folder / "u.vtu")
    import pyvista

    dim = reference_cell(cell).dim
    x = np.zeros((20, 3))
    x[:, :dim] = np.random.default_rng(2).uniform(0.01, 0.49, (20, dim))
    probed = pyvista.PolyData(x).sample(grid)
    assert np.allclose(probed["u"], polynomial(x[:, :dim].T, 2), atol=1e-10)


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism"])
def test_cells_are_positively_oriented(folder, cell):
    u = function(small_box(cell, PETSc.COMM_SELF), 3)
    write(folder / "u.vtu", u)
    grid = read(folder / "u.vtu")
    dim = u.space.mesh.dim
    steps = 1e-3 * np.vstack([np.zeros(3), np.eye(3)]) + np.array([0.2] * dim + [0.0] * (3 - dim))
    for index in range(grid.n_cells):
        vtk_cell = grid.GetCell(index)
        places = []
        for point in steps:
            place: list[float] = [0.0] * 3
            vtk_cell.EvaluateLocation(_int_reference(), point.tolist(), place, [0.0] * vtk_cell.GetNumberOfPoints())
            places.append(place)
        jacobian = (np.array(places)[1:] - places[0])[:dim, :dim]
        assert np.linalg.det(jacobian) > 0


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("suffix", ["vtu", "pvtu"])
def test_curved_coordinates_are_kept(folder, suffix):
    for cell in ("triangle", "quadrilateral", "tetrahedron"):
        check_curved(folder, cell, suffix)


def check_curved(folder, cell, suffix):
    u = function(curved_box(cell), 1, source=lambda x: x[1])
    mesh = u.space.mesh
    assert mesh.coord_element.degree == 2
    write(folder / f"u.{suffix}", u)
    expected = mesh.block.physical_points(2.0 * inside(cell)[:, : mesh.dim] - 1.0).reshape(-1, mesh.dim)
    expected = np.concatenate(WORLD.allgather(expected))
    if WORLD.rank > 0:
        return
    grid = read(folder / f"u.{suffix}")
    places, values = evaluate(grid, cell, grid.point_data["u"])
    assert np.allclose(places[:, : mesh.dim], expected, atol=1e-13)


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("suffix", ["vtu", "pvtu"])
def test_several_functions_of_different_degree_and_shape(folder, suffix):
    dm = small_box("triangle")
    p = function(dm, 1, name="pressure & <more>")
    v = function(dm, 3, name="v", shape=(2,), source=lambda x: np.stack([x[0] ** 3, x[1]]))
    t = function(dm, 2, name="t", shape=(2, 2), source=lambda x: np.stack([x[0], x[1], x[0] * x[1], 1 + 0 * x[0]]))
    k = function(dm, 0, name="k", family="DG", source=lambda x: x[0] + 10 * x[1])
    write(folder / f"all.{suffix}", p, v, t, k)
    if WORLD.rank > 0:
        return
    grid = read(folder / f"all.{suffix}")
    x, y, _ = grid.points.T
    assert sorted(grid.point_data.keys()) == ["pressure & <more>", "t", "v"]
    assert np.allclose(grid.point_data["pressure & <more>"], polynomial(np.stack([x, y]), 1))
    assert np.allclose(grid.point_data["v"], np.c_[x**3, y, 0 * x])
    zero = 0 * x
    assert np.allclose(grid.point_data["t"], np.c_[x, y, zero, x * y, 1 + zero, zero, zero, zero, zero])
    centres = np.array([np.mean(np.asarray(grid.get_cell(i).points)[:3], axis=0) for i in range(grid.n_cells)])
    assert np.allclose(grid.cell_data["k"], centres[:, 0] + 10 * centres[:, 1])


@pytest.mark.parallel([2])
def test_meshes_of_several_cell_types(folder):
    """Polynomials inside the cells, values of cells in their order, and restarts; a mixed function goes field by field."""
    for kind in MIXED:
        dm = random_mixed(kind, (3, 3, 2)[: 2 if "tri" in kind else 3], distort=0.0)
        V, Q = FunctionSpace(dm, "Lagrange", 3), FunctionSpace(dm, "DG", 0)
        w = Function(MixedSpace({"u": V, "k": Q}))
        w.sub("u").interpolate(lambda x: polynomial(x, 3))
        w.sub("k").interpolate(lambda x: x[0])
        for suffix in ("vtu", "pvtu", "h5"):
            write(folder / f"w.{suffix}", w)
        for suffix in ("vtu", "pvtu"):
            if WORLD.rank == 0:
                grid = read(folder / f"w.{suffix}")
                assert grid.n_cells == V.mesh.num_cells_global and len(set(grid.celltypes)) == len(V.mesh.blocks)
                places, values = evaluate(grid, V.mesh.blocks[0].cell, grid.point_data["u"])
                assert np.allclose(values[:, 0], polynomial(places[:, : V.mesh.dim].T, 3), atol=1e-12)
                centres = [barycentre(np.asarray(grid.get_cell(i).points), grid.celltypes[i]) for i in range(grid.n_cells)]
                assert np.allclose(grid.cell_data["k"], np.array(centres)[:, 0])
        _, held = read_h5(folder / "w.h5")
        expected = Function(held["u"].space)
        expected.interpolate(lambda x: polynomial(x, 3))
        assert np.allclose(held["u"].local_array(), expected.local_array(), atol=1e-14)


def barycentre(points, kind):
    """Mean of the vertices, which come first."""
    return points[: {69: 3, 70: 4, 71: 4, 72: 8, 73: 6}[int(kind)]].mean(axis=0)


@pytest.mark.parallel([2])
def test_h5_keeps_periods(folder):
    for cell in ("triangle", "hexahedron", "prism"):
        dim = reference_cell(cell).dim
        dm = box((4, 3, 3)[:dim], cell, (-1.0, 0.0, 2.0)[:dim], (1.0, 0.5, 5.0)[:dim], periodic=(True, False, True)[:dim])
        u = function(dm, 2, source=lambda x: np.sin(np.pi * x[0]) + x[1])
        write(folder / "u.h5", u)
        again, held = read_h5(folder / "u.h5")
        for a, b in zip(again.getPeriodicity()[1:], dm.getPeriodicity()[1:], strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        expected = Function(held["u"].space)
        expected.interpolate(lambda x: np.sin(np.pi * x[0]) + x[1])
        assert np.allclose(held["u"].local_array(), expected.local_array(), atol=1e-14)
        assert expected.space.num_dofs == u.space.num_dofs


@pytest.mark.parallel([1, 2])
def test_discontinuous_functions_jump(folder):
    dm = small_box("triangle")
    jump = Function(FunctionSpace(dm, "DG", 1), name="jump")
    local = np.zeros(jump.space.num_local)
    number = np.arange(jump.space.mesh.num_cells) + 100.0 * WORLD.rank
    local[jump.space.offsets] = number[:, None]
    jump.set_local(local)
    write(folder / "jump.vtu", jump, function(dm, 2))
    numbers = np.concatenate(WORLD.allgather(number))
    if WORLD.rank > 0:
        return
    grid = read(folder / "jump.vtu")
    assert grid.n_points == 6 * grid.n_cells
    assert np.allclose(grid.point_data["jump"].reshape(-1, 6), np.repeat(numbers[:, None], 6, axis=1))


@pytest.mark.parallel(3)
def test_ranks_without_cells(folder):
    u = function(box((2, 1), cell="quadrilateral"), 2)
    for suffix in ("vtu", "pvtu"):
        write(folder / f"u.{suffix}", u)
        if WORLD.rank == 0:
            assert read(folder / f"u.{suffix}").n_cells == 2


def test_degree_above_vtk_is_sampled(folder):
    u = function(box((1, 1), cell="quadrilateral", comm=PETSc.COMM_SELF), 12, source=lambda x: x[0] ** 3)
    write(folder / "u.vtu", u)
    grid = read(folder / "u.vtu")
    assert grid.n_points == 121
    assert np.allclose(grid.point_data["u"], grid.points[:, 0] ** 3)


def test_arrays_longer_than_a_block():
    rows = np.arange(3 * 200_000, dtype=np.float64).reshape(-1, 3)
    pieces = np.split(rows, [1, 7, 90_000, 90_001])
    blocks = list(vtu_file._blocks(vtu_file.DataArray("Points", "x", np.float64, 3, len(rows), pieces)))
    assert b"".join(bytes(block) for block in blocks) == rows.tobytes()
    assert {len(block) for block in blocks[:-1]} == {vtu_file.BLOCK_BYTES}


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("suffix", ["vtu", "pvtu", "h5"])
def test_refusals_leave_nothing_behind(folder, suffix):
    dm = small_box("triangle")
    u = function(dm, 1)
    occupied = folder / f"occupied.{suffix}"
    if WORLD.rank == 0:
        occupied.mkdir()
    WORLD.barrier()
    with pytest.raises(DataError, match="cannot write"):
        write(occupied, u)
    with pytest.raises(DataError, match="not a folder"):
        write(folder / "nowhere" / f"u.{suffix}", u)
    with pytest.raises(DataError, match="at least one"):
        write(folder / f"u.{suffix}")
    with pytest.raises(DataError, match="each once"):
        write(folder / f"u.{suffix}", u, function(dm, 2))
    with pytest.raises(DataError, match="different meshes"):
        write(folder / f"u.{suffix}", u, function(small_box("triangle"), 1, name="v"))
    with pytest.raises(DataError, match="ends in .vtu"):
        write(folder / "u.xyz", u)
    WORLD.barrier()
    assert [entry.name for entry in folder.iterdir()] == [occupied.name]


@pytest.mark.parallel(3)
def test_h5_with_ranks_without_cells(folder):
    u = function(box((2, 1), cell="quadrilateral"), 2, name="names")
    write(folder / "u.h5", u)
    again = read_h5(folder / "u.h5")[1]["names"]
    assert again.vec.norm() == pytest.approx(u.vec.norm())


def write_all(path, dm):
    u = function(dm, 3)
    w = function(dm, 2, name="w", family="DG", shape=(dm.getDimension(),), source=lambda x: x**2)
    k = function(dm, 0, name="k", family="DG", source=lambda x: x[0])
    write(path, u, w, k)


def check_all(path, comm, cell, curved):
    dm, functions = read_h5(path, comm=comm)
    assert list(functions) == ["u", "w", "k"]
    mesh = Mesh.of(dm)
    assert (mesh.cell, mesh.coord_element.degree) == (cell, 2 if curved else 1)
    assert set(mesh.labels()["Face Sets"]) == set(range(1, 2 * mesh.dim + 1))
    for name, source in {"u": lambda x: polynomial(x, 3), "w": lambda x: x**2, "k": lambda x: x[0]}.items():
        read_back = functions[name]
        expected = Function(read_back.space)
        expected.interpolate(source)
        assert np.allclose(read_back.local_array(), expected.local_array(), atol=1e-14)
    assert functions["u"].space.element.degree == 3
    assert not functions["w"].space.element.continuous


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("cell", ["triangle", "tetrahedron", "hexahedron"])
def test_h5_restarts_on_another_number_of_ranks(folder, cell, curved):
    make = curved_box if curved else small_box
    write_all(folder / "all.h5", make(cell))
    check_all(folder / "all.h5", PETSc.COMM_WORLD, cell, curved)
    if WORLD.rank == 0:
        check_all(folder / "all.h5", PETSc.COMM_SELF, cell, curved)
        write_all(folder / "one.h5", make(cell, PETSc.COMM_SELF))
    WORLD.barrier()
    check_all(folder / "one.h5", PETSc.COMM_WORLD, cell, curved)


@pytest.mark.parallel([1, 2])
def test_h5_refusals(folder):
    u = function(small_box("triangle"), 1)
    with pytest.raises(DataError, match="does not exist"):
        read_h5(folder / "none.h5")
    if WORLD.rank == 0:
        (folder / "text.h5").write_text("not HDF5")
    WORLD.barrier()
    with pytest.raises(DataError, match="not an HDF5 file"):
        read_h5(folder / "text.h5")
    with pytest.raises(DataError, match="slash"):
        write(folder / "u.h5", function(small_box("triangle"), 1, name="a/b"))
    write(folder / "u.h5", u)
    with pytest.raises(DataError, match="holds no function v; it holds u"):
        read_h5(folder / "u.h5", names=["v"])


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_picture_shows_something(folder, cell):
    pyvista = pytest.importorskip("pyvista")
    dm = small_box(cell)
    u = function(dm, 2)
    d = function(dm, 1, name="d", shape=(dm.getDimension(),), source=lambda x: 0.1 * x)
    picture(folder / "u.png", u, edges=True, size=(300, 200))
    picture(folder / "d.png", d, component=1, warp=2.0, size=(300, 200))
    if WORLD.rank == 0:
        assert sorted(entry.name for entry in folder.iterdir()) == ["d.png", "u.png"]
        for name in ("u.png", "d.png"):
            image = pyvista.read(folder / name)
            assert image.dimensions == (300, 200, 1)
            assert len(np.unique(image.point_data.active_scalars, axis=0)) > 50


@pytest.mark.parallel([1, 2])
def test_picture_refusals(folder, monkeypatch):
    u = function(small_box("triangle"), 1)
    with pytest.raises(DataError, match="ends in .png"):
        picture(folder / "u.jpg", u)
    with pytest.raises(DataError, match="component 1"):
        picture(folder / "u.png", u, component=1)
    with pytest.raises(DataError, match="warp"):
        picture(folder / "u.png", u, warp=1.0)
    with pytest.raises(DataError, match="dimension 1"):
        picture(folder / "u.png", function(small_box("interval"), 1))
    failed = subprocess.CompletedProcess([sys.executable], -11, "", "no display")
    monkeypatch.setattr("femgpu.io.pictures.subprocess.run", lambda *_, **__: failed)
    monkeypatch.setattr("femgpu.io.pictures.find_spec", lambda _: True)
    with pytest.raises(DataError, match="libosmesa6"):
        picture(folder / "u.png", u)
    monkeypatch.setattr("femgpu.io.pictures.find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"femgpu\[plot\]"):
        picture(folder / "u.png", u)
    assert not list(folder.iterdir())
