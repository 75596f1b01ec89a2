"""Prisms and meshes of several cell types: numbering, geometry, facets, files; periodic boxes of all cells."""

import itertools
import re
import sys
from collections import Counter

import numpy as np
import pytest
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, mixed_grid, mixed_plex, random_mesh, random_mixed

from femgpu.element import default_rule, reference_cell
from femgpu.errors import FormError, MeshError
from femgpu.mesh import FieldShape, Mesh, box, create, read, refine, set_fields

COUNTS = {1: (7,), 2: (4, 3), 3: (3, 2, 2)}
pytestmark = pytest.mark.timeout(180)
parallel = pytest.mark.parallel([1, 3])


def make(kind, seed=0, **arguments):
    """A random mesh of a cell type or of several."""
    dim = reference_cell(kind.split("+")[0]).dim
    counts = (4, 3, 3)[:dim] if "+" in kind else COUNTS[dim]
    return Mesh.of((random_mixed if "+" in kind else random_mesh)(kind, counts, seed, **arguments))


def volume(mesh):
    total = 0.0
    for block in mesh.blocks:
        rule = default_rule(block.cell, 4)
        total += float((np.linalg.det(block.jacobians(rule.points)) @ rule.weights).sum())
    return mesh.mpi.allreduce(total)


def distances(mesh, a, b):
    """(num, dim) differences of points, those of a whole period counted as nothing."""
    period = np.asarray(mesh.dm.getPeriodicity()[2])
    period = np.where(period > 0, period, np.inf) if len(period) else np.full(mesh.dim, np.inf)
    difference = a - b
    return difference - np.where(np.isfinite(period), np.round(difference / period) * np.where(np.isfinite(period), period, 0), 0)


def place(mesh, field, offsets, num_local):
    """(num_local, dim) where the dofs of component 0 of a field are; nan for the others. Checks that all cells agree."""
    placed = np.full((num_local, mesh.dim), np.nan)
    points = [block.physical_points(field.element(block.cell).nodes) for block in mesh.blocks]
    for each, where in zip(offsets, points, strict=True):
        assert each.dtype == np.int32 and each.shape == where.shape[:2]
        placed[each] = where
    for each, where in zip(offsets, points, strict=True):
        assert np.abs(distances(mesh, placed[each], where)).max(initial=0) < 2e-14
    return placed


def check_numbering(mesh, fields):
    """Dofs of all fields fill the local vector; each has one place, seen from all cells and on all ranks, and no two share it."""
    dm = mesh.clone_dm()
    offsets, num_local = set_fields(mesh, dm, fields)
    local, owned = dm.createLocalVec(), dm.createGlobalVec()
    assert local.getLocalSize() == num_local
    used = []
    for field, of in zip(fields, offsets, strict=True):
        placed = place(mesh, field, of, num_local)
        present = np.flatnonzero(np.isfinite(placed[:, 0]))
        used += [present + component for component in range(field.num_comp)]
        if field.continuous:
            assert len(np.unique(placed[present].round(9), axis=0)) == len(present)
        for axis in range(mesh.dim):
            local.setArray(np.nan_to_num(placed[:, axis], nan=7.0))
            dm.localToGlobal(local, owned)
            dm.globalToLocal(owned, local)
            again = np.where(np.isfinite(placed), local.getArray()[:, None], np.nan)[present, axis]
            assert (
                np.abs(distances(mesh, placed[present], np.c_[placed[present, :axis], again, placed[present, axis + 1 :]])).max(
                    initial=0
                )
                < 2e-14
            )
    np.testing.assert_array_equal(np.sort(np.concatenate(used)), np.arange(num_local))
    return dm


def fields_of(degree):
    return [
        FieldShape("velocity", degree, num_comp=2),
        FieldShape("pressure", max(1, degree - 1)),
        FieldShape("heat", degree, False),
    ]


@parallel
def test_dofs_land_on_one_point_from_all_cells():
    for kind, degree in itertools.product(("prism", *MIXED), (1, 2, 3, 4)):
        mesh = make(kind, seed=degree)
        check_numbering(mesh, fields_of(degree))


@parallel
def test_bubbles_beside_other_fields():
    for kind, degree in (("triangle", 1), ("triangle", 2), ("tetrahedron", 1), ("tetrahedron", 3)):
        fields = [FieldShape("pressure", 1), FieldShape("velocity", degree, num_comp=2, bubble=True), FieldShape("heat", 1, False)]
        check_numbering(make(kind, seed=degree), fields)


@pytest.mark.parametrize("kind", ["prism", *MIXED])
def test_many_fields_and_high_degrees(kind):
    mesh = make(kind, comm=PETSc.COMM_SELF)
    check_numbering(mesh, [FieldShape(f"field{i}", 1 + i % 2) for i in range(18)])
    check_numbering(mesh, [FieldShape("u", 6), FieldShape("heat", 7, False), FieldShape("mean", 0)])


def test_more_fields_than_petsc_holds():
    mesh = make("triangle", comm=PETSc.COMM_SELF)
    check_numbering(mesh, [FieldShape(f"field{i}", 1 + i % 2) for i in range(18)])
    with pytest.raises(FormError, match="names that differ"):
        set_fields(mesh, mesh.clone_dm(), [FieldShape("u", 1), FieldShape("u", 2)])
    with pytest.raises(FormError, match="at least one"):
        set_fields(mesh, mesh.clone_dm(), [])


@parallel
def test_blocks_volumes_and_facets():
    for kind in ("prism", *MIXED):
        mesh = make(kind, seed=3)
        assert [block.cell for block in mesh.blocks] == kind.split("+")
        # Where all three occur, there is nothing above the hexahedra: half of x, a third of z.
        missing = 1 / 6 if kind.count("+") == 2 else 0.0
        assert volume(mesh) == pytest.approx(1 - missing, rel=1e-13)
        check_blocks(mesh)
        straight = make(kind, seed=4, distort=0.0)
        assert all(block.affine.all() for block in straight.blocks)
        surface, flux = facet_integrals(straight)
        assert flux == pytest.approx(straight.dim * (1 - missing), rel=1e-12)
        assert surface == pytest.approx(2 * straight.dim - 2 * missing, rel=1e-12)


def check_blocks(mesh):
    ids = np.concatenate([block.ids for block in mesh.blocks])
    np.testing.assert_array_equal(np.sort(ids), np.arange(mesh.num_cells))
    number, index = mesh.locate(ids)
    expected = np.concatenate([np.full(block.num_cells, block.index) for block in mesh.blocks])
    np.testing.assert_array_equal(number, expected)
    for block in mesh.blocks:
        np.testing.assert_array_equal(block.ids[index[number == block.index]], block.ids)
        assert block.coords is mesh.coords and block.coord_dofs.dtype == np.int32 and (np.diff(block.ids) > 0).all()
    if len(mesh.blocks) > 1:
        for name in ("cell", "reference", "coord_element", "block"):
            with pytest.raises(MeshError, match="Mesh.blocks"):
                getattr(mesh, name)


def facet_integrals(mesh):
    """Area of the boundary and flux of x through it; cells are affine."""
    surface = flux = 0.0
    cells, facets = mesh.facets("boundary")
    for number, index, facet in zip(*mesh.locate(cells), facets, strict=True):
        block = mesh.blocks[number]
        loop = block.reference.vertices[list(block.reference.loops[facet])]
        jacobian = block.jacobians(loop[:1], [index])[0, 0]
        edges = np.array([loop[1] - loop[0], loop[-1] - loop[0]]) @ jacobian.T
        if mesh.dim == 2:
            normal = np.array([edges[0][1], -edges[0][0]])
        else:
            normal = np.cross(*edges) / (2 if block.reference.facet_cells[facet] == "triangle" else 1)
        inside = block.physical_points(block.reference.vertices.mean(axis=0)[None], [index])[0, 0]
        centre = block.physical_points(loop.mean(axis=0)[None], [index])[0, 0]
        surface += np.linalg.norm(normal)
        flux += abs(normal @ (centre - inside)) / ((centre - inside) @ normal) * (normal @ centre)
    return mesh.mpi.allreduce(surface), mesh.mpi.allreduce(flux)


def test_polynomials_are_interpolated_exactly():
    for kind in ("prism", *MIXED):
        mesh = make(kind, seed=8, distort=0.0, comm=PETSc.COMM_SELF)
        for degree in (1, 3):
            check_interpolation(mesh, degree)


def check_interpolation(mesh, degree):
    rng = np.random.default_rng(degree)
    powers = np.array([p for p in itertools.product(range(degree + 1), repeat=mesh.dim) if sum(p) <= degree])
    weights = rng.uniform(-1, 1, len(powers))

    def polynomial(x):
        return np.prod(x[..., None, :] ** powers, axis=-1) @ weights

    field = FieldShape("u", degree)
    [offsets], num_local = set_fields(mesh, mesh.clone_dm(), [field])
    values = polynomial(place(mesh, field, offsets, num_local))
    for block, each in zip(mesh.blocks, offsets, strict=True):
        points = rng.dirichlet(np.ones(block.reference.num_vertices), 5) @ block.reference.vertices
        found = values[each] @ field.element(block.cell).tabulate(points)[0].T
        np.testing.assert_allclose(found, polynomial(block.physical_points(points)), rtol=0, atol=1e-12)


@pytest.mark.parallel([3])
def test_named_fields_split_by_name():
    for kind in ("prism", "tetrahedron+prism"):
        mesh = make(kind)
        dm = mesh.clone_dm()
        fields = [FieldShape("velocity", 2, num_comp=3), FieldShape("pressure", 1)]
        set_fields(mesh, dm, fields)
        names, sets, _ = dm.createFieldDecomposition()
        assert names == ["velocity", "pressure"]
        matrix = dm.createMat()
        matrix.shift(2.0)
        split = PETSc.PC().create(mesh.comm)
        split.setDM(dm)
        split.setType("fieldsplit")
        split.setOperators(matrix)
        split.setUp()
        solvers = split.getFieldSplitSubKSP()
        assert [solver.getOptionsPrefix() for solver in solvers] == ["fieldsplit_velocity_", "fieldsplit_pressure_"]
        sizes = [solver.getOperators()[0].getSize()[0] for solver in solvers]
        assert sizes == [each.getSize() for each in sets] and sum(sizes) == dm.createGlobalVec().getSize()


@pytest.mark.parametrize("kind", ["prism", *MIXED])
def test_inverted_cells_are_named_by_their_number_in_the_mesh(kind):
    dm = (random_mixed if "+" in kind else random_mesh)(kind, (2, 2, 2)[: 2 if "tri" in kind else 3], comm=PETSc.COMM_SELF)
    mesh = Mesh.of(dm.clone())
    block = mesh.blocks[-1]
    vertex = block.coords[block.coord_dofs[-1, 0]]
    x = dm.getCoordinatesLocal().getArray().reshape(-1, mesh.dim)
    x[np.abs(x - vertex).max(axis=1) < 1e-12] += 10.0
    with pytest.raises(MeshError, match=r"cells have det J <= 0") as error:
        Mesh.of(dm)
    cell = int(re.search(r"the first is cell (\d+) with vertices \(", str(error.value)).group(1))
    (number,), (index,) = mesh.locate([cell])
    named = mesh.blocks[number]
    assert f" {named.cell} cells" in str(error.value)
    assert np.abs(named.coords[named.coord_dofs[index]] - vertex).max(axis=1).min() < 1e-12


def test_tensor_prisms_and_pyramids_are_refused():
    points = np.random.default_rng(0).random((6, 3))
    tensor = PETSc.DMPlex().createFromCellList(3, np.arange(6, dtype=np.int32)[None], points, comm=PETSc.COMM_SELF)
    with pytest.raises(MeshError, match="tri prism tensor are not supported.*extrude_use_tensor 0"):
        Mesh.of(tensor)
    pyramid = PETSc.DMPlex().createFromCellList(3, np.arange(5, dtype=np.int32)[None], points[:5], comm=PETSc.COMM_SELF)
    with pytest.raises(MeshError, match="pyramid are not supported"):
        Mesh.of(pyramid)


GMSH = {
    "triangle": (2, [0, 1, 2]),
    "quadrilateral": (3, [0, 1, 2, 3]),
    "tetrahedron": (4, [0, 2, 1, 3]),
    "hexahedron": (5, [0, 3, 2, 1, 4, 5, 6, 7]),
    "prism": (6, [0, 2, 1, 3, 4, 5]),
}


def gmsh_text(points, blocks, sides=()):
    """A file of format 2 with cells in region 1 and 2, facets (type, vertices) in region 7."""
    rows = []
    for region, (cell, cells) in enumerate(blocks.items(), 1):
        kind, order = GMSH[cell]
        rows += [f"{kind} 2 {region} {region} " + " ".join(map(str, row[order] + 1)) for row in cells]
    rows += [f"{kind} 2 7 7 " + " ".join(map(str, np.array(row) + 1)) for kind, row in sides]
    points = np.c_[points, np.zeros((len(points), 3 - points.shape[1]))]
    nodes = "".join(f"{i} {x!r} {y!r} {z!r}\n" for i, (x, y, z) in enumerate(points.tolist(), 1))
    elements = "".join(f"{i} {row}\n" for i, row in enumerate(rows, 1))
    return (
        f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n{len(points)}\n{nodes}$EndNodes\n"
        f"$Elements\n{len(rows)}\n{elements}$EndElements\n"
    )


@pytest.mark.parallel([3])
def test_gmsh_files_of_several_cell_types(folder):
    for kind in MIXED:
        points, blocks = mixed_grid(kind, (4, 3, 3)[: 2 if "tri" in kind else 3])
        path = folder / f"{kind}.msh"
        bottom = np.flatnonzero(points[:, -1] == 0)
        sides = []
        for cell, cells in blocks.items():
            for loop in reference_cell(cell).loops:
                on = np.isin(cells[:, loop], bottom).all(axis=1)
                sides += [({2: 1, 3: 2, 4: 3}[len(loop)], row) for row in cells[on][:, loop]]
        if PETSc.COMM_WORLD.rank == 0:
            path.write_text(gmsh_text(points, blocks, sides))
        PETSc.COMM_WORLD.barrier()
        mesh = Mesh.of(read(path))
        assert [block.cell for block in mesh.blocks] == kind.split("+")
        for region, cells in enumerate(blocks.values(), 1):
            assert mesh.mpi.allreduce(len(mesh.cells(region))) == len(cells)
        assert mesh.mpi.allreduce(len(mesh.facets(7)[0])) == len(sides)
        check_numbering(mesh, [FieldShape("u", 3)])
        mesh = Mesh.of(refine(read(path)))
        assert mesh.num_cells_global == 2**mesh.dim * sum(map(len, blocks.values()))
        check_numbering(mesh, [FieldShape("u", 2)])


def test_second_order_prisms_are_refused(tmp_path):
    vertices = reference_cell("prism").vertices[[0, 2, 1, 3, 4, 5]]
    edges = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (3, 5), (4, 5)]
    middle = [vertices[list(edge)].mean(axis=0) for edge in edges]
    centres = [vertices[[0, 1, 3, 4]].mean(axis=0), vertices[[0, 2, 3, 5]].mean(axis=0), vertices[[1, 2, 4, 5]].mean(axis=0)]
    for kind, points in ((13, [*vertices, *middle, *centres]), (18, [*vertices, *middle])):
        nodes = "".join(f"{i} {x} {y} {z}\n" for i, (x, y, z) in enumerate(points, 1))
        numbers = " ".join(map(str, range(1, len(points) + 1)))
        path = tmp_path / f"{kind}.msh"
        path.write_text(
            f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n{len(points)}\n{nodes}$EndNodes\n"
            f"$Elements\n1\n1 {kind} 2 1 1 {numbers}\n$EndElements\n"
        )
        with pytest.raises(
            MeshError, match="prism cells with 18 nodes.*first-order|elements of type 18, which PETSc does not read"
        ):
            read(path, comm=PETSc.COMM_SELF)
    curved = PETSc.DMPlex().createFromFile(str(tmp_path / "13.msh"), comm=PETSc.COMM_SELF)
    with pytest.raises(MeshError, match="15 coordinate nodes for 6 vertices"):
        Mesh.of(curved)


PERIODS = ((True, True, True), (True, False, True), (False, True, False))


@parallel
def test_periodic_boxes():
    """Dofs at both ends of a period are one."""
    for cell in ALL_CELLS:
        dim = reference_cell(cell).dim
        counts, lower, upper = (4, 3, 3)[:dim], (-1.0, 0.0, 2.0)[:dim], (1.0, 0.5, 5.0)[:dim]
        for periods in dict.fromkeys(each[:dim] for each in PERIODS):
            dm = box(counts, cell, lower, upper, periodic=periods)
            check_periodic(Mesh.of(dm), counts, periods)
        fine = Mesh.of(refine(dm))
        check_periodic(fine, [2 * count for count in counts], periods)


def check_periodic(mesh, counts, periods):
    dim = mesh.dim
    assert volume(mesh) == pytest.approx((2, 1, 3)[dim - 1], rel=1e-12)
    fields = [FieldShape("u", 3), FieldShape("p", 2)]
    dm = check_numbering(mesh, fields)
    sizes = [np.prod([f.degree * n + (not p) for n, p in zip(counts, periods, strict=True)]) for f in fields]
    assert dm.createGlobalVec().getSize() == sum(sizes)
    sides = {1: ((1, 2),), 2: ((4, 2), (1, 3)), 3: ((6, 5), (3, 4), (1, 2))}[dim]
    expected = sorted(itertools.chain(*[pair for pair, period in zip(sides, periods, strict=True) if not period]))
    assert mesh.labels().get("Face Sets", []) == expected
    boundary = mesh.mpi.allreduce(len(mesh.facets("boundary")[0]))
    assert boundary == sum(mesh.mpi.allreduce(len(mesh.facets(value)[0])) for value in expected)
    assert bool(boundary) != all(periods)


def test_cells_that_are_too_wide_for_the_period():
    dm = box((4, 3), "quadrilateral", periodic=True, comm=PETSc.COMM_SELF)
    x = dm.getCellCoordinatesLocal().getArray()
    x[: 4 * 2 : 2] *= 3
    with pytest.raises(MeshError, match="wider than half of the period"):
        Mesh.of(dm)


CREATIONS = (
    ("-dm_plex_dim 3 -dm_plex_cell triangular_prism -dm_plex_box_faces 3,2,2 -dm_refine 1", "prism", 192, 1),
    ("-dm_plex_dim 3 -dm_plex_cell tetrahedron -dm_plex_box_faces 1,1,1", "tetrahedron", 6, 1),
    ("-dm_plex_dim 2 -dm_plex_box_faces 3,4 -dm_plex_box_bd periodic,none -dm_refine 1", "triangle", 96, 1),
    ("-dm_plex_dim 3 -dm_plex_box_faces 3,3,3 -dm_plex_box_bd none,periodic,PERIODIC -dm_refine 2", "tetrahedron", 10368, 1),
    ("-dm_plex_dim 2 -dm_plex_simplex 0 -dm_plex_box_faces 3,4 -dm_plex_box_bd periodic,periodic", "quadrilateral", 12, 1),
    (
        "-dm_plex_dim 2 -dm_plex_box_faces 3,2 -dm_extrude 3 -dm_plex_transform_extrude_use_tensor 0 "
        "-dm_plex_transform_extrude_thickness 0.5",
        "prism",
        36,
        0.5,
    ),
)

REFUSALS = (
    ("-dm_plex_dim 2 -dm_plex_cell triangular_prism", "expected -dm_plex_dim 3"),
    ("-dm_plex_dim 2 -dm_plex_box_bd periodic", "expected 2 entries"),
    ("-dm_plex_dim 2 -dm_plex_box_bd twist,none", "none or periodic"),
    ("-dm_plex_dim 2 -dm_plex_box_faces 2,4 -dm_plex_box_bd periodic,none", "at least 3"),
    ("-dm_plex_dim 2 -dm_plex_box_faces 3,3 -dm_plex_box_bd periodic,none -dm_refine_pre 1", "expected -dm_refine"),
)


def set_all(set_options, text):
    words = text.split()
    set_options(**{name.lstrip("-"): value for name, value in zip(words[::2], words[1::2], strict=True)})


@pytest.mark.parametrize(("text", "cell", "num_cells", "size"), CREATIONS)
def test_create(set_options, text, cell, num_cells, size):
    set_all(set_options, text)
    mesh = Mesh.of(create(PETSc.COMM_SELF))
    assert (mesh.cell, mesh.num_cells) == (cell, num_cells)
    assert volume(mesh) == pytest.approx(size, rel=1e-12)
    check_numbering(mesh, [FieldShape("u", 2)])


@pytest.mark.parametrize(("text", "message"), REFUSALS)
def test_create_refuses(set_options, text, message):
    set_all(set_options, text)
    with pytest.raises(MeshError, match=message):
        create(PETSc.COMM_SELF)


@pytest.mark.parallel([3])
def test_ranks_without_a_cell_type():
    """One prism among tetrahedra: ranks agree on the types, some have no prism or no cell at all."""
    points, blocks = mixed_grid("tetrahedron+prism", (1, 1, 2))
    mesh = Mesh.of(mixed_plex_distributed({"tetrahedron": blocks["tetrahedron"], "prism": blocks["prism"]}, points))
    assert [block.cell for block in mesh.blocks] == ["tetrahedron", "prism"]
    assert any(mesh.mpi.allgather(min(block.num_cells for block in mesh.blocks) == 0))
    assert volume(mesh) == pytest.approx(1)
    check_numbering(mesh, fields_of(3))
    assert mesh.mpi.allreduce(len(mesh.facets("boundary")[0])) == 16


def mixed_plex_distributed(blocks, points):
    dm = mixed_plex(blocks, points, np.random.default_rng(0))
    dm.distribute(0)
    return dm


def calls(kind, count):
    """Number of calls of every function while a mesh is read and numbered."""
    plain, counts, self = "+" not in kind, (count, count, 2), PETSc.COMM_SELF
    dm = box(counts, kind, comm=self) if plain else random_mixed(kind, counts, comm=self)
    found = Counter()

    def note(frame, event, builtin):
        if event == "call":
            found[frame.f_code] += 1
        elif event == "c_call":
            found[builtin.__qualname__] += 1

    # cProfile would also count what other threads call meanwhile.
    sys.setprofile(note)
    mesh = Mesh.of(dm)
    set_fields(mesh, mesh.clone_dm(), fields_of(3))
    mesh.facets("boundary")
    mesh.locate(np.arange(mesh.num_cells))
    if plain:
        box(counts, kind, comm=self)
    sys.setprofile(None)
    return mesh.num_cells, found


@pytest.mark.parametrize("kind", ["prism", "hexahedron+prism"])
def test_no_function_is_called_once_per_cell(kind):
    calls(kind, 3)
    (few, small), (many, large) = calls(kind, 6), calls(kind, 16)
    grown = {function: count - small[function] for function, count in large.items()}
    worst = sorted(grown.items(), key=lambda entry: -entry[1])[:5]
    assert max(grown.values()) <= 20 < (many - few) / 10, worst
