"""Regions by name, by label, by position: in boundary conditions, in forms, on every cell type, refined, written and read."""

from pathlib import Path

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import ds, dx, grad, inner

import femgpu
from femgpu.element import CELL_NAMES, reference_cell
from femgpu.errors import FormError, MeshError
from femgpu.io import read_h5
from femgpu.mesh import Mesh

DATA = Path(__file__).resolve().parents[1] / "data"
pytestmark = pytest.mark.timeout(120)
parallel = pytest.mark.parallel([1, 3])


def prescribed(bc):
    """Coordinates of the nodes that a condition prescribes, of all ranks, each once, sorted; of a scalar space."""
    positions, points = bc.space.nodes()
    here = points[np.isin(positions, bc.local_rows)]
    return np.unique(np.round(np.concatenate(bc.space.mesh.mpi.allgather(here)), 9) + 0.0, axis=0)


def nodes(space, where):
    """Coordinates of the nodes of a space where a function says."""
    here = space.nodes()[1]
    every = np.unique(np.round(np.concatenate(space.mesh.mpi.allgather(here)), 9) + 0.0, axis=0)
    return every[where(every.T)]


def centred_box(cell):
    """A box [-1, 1]^dim of 4 grid cells per direction."""
    dim = reference_cell(cell).dim
    return femgpu.mesh.box([4] * dim, cell, [-1] * dim, [1] * dim)


def in_middle(x):
    """The middle half of the box."""
    return (np.abs(x) < 0.5 + 1e-9).all(axis=0)


@parallel
@pytest.mark.parametrize("name", ["named_plate_2.msh", "named_plate_4.msh"])
def test_names_of_gmsh_in_measures_and_conditions(name):
    dm = femgpu.mesh.read(DATA / name)
    # Version 2 of the format does not tell the groups of points from other numbers.
    points = ["origin"] * name.endswith("4.msh")
    check_plate(dm, points)
    check_plate(femgpu.mesh.refine(dm), points)


def check_plate(dm, points):
    one = femgpu.Constant(dm, 1.0)
    measures = {ds("left"): 1, ds("right side"): 1, ds("sides"): 3, dx("inclusion"): 0.25, dx("matrix"): 0.75}
    # A region counts as often as it is named.
    measures |= {
        ds(("left", "sides")): 4,
        ds(11, subdomain_data="left"): 1,
        dx(21, subdomain_data="Cell Sets") + dx("inclusion") + dx: 1.5,
    }
    for measure, expected in measures.items():
        assert femgpu.assemble(one * measure) == pytest.approx(expected), str(measure)
    V = femgpu.FunctionSpace(dm, "P", 2)
    frame = lambda x: in_middle(2 * x - 1) & (np.abs(2 * x - 1).max(axis=0) > 0.5 - 1e-9)  # noqa: E731
    regions = {
        "left": lambda x: x[0] < 1e-9,
        "interface": frame,
        "inclusion": lambda x: in_middle(2 * x - 1),
        ("right side", *points): lambda x: (x[0] > 1 - 1e-9) | (bool(points) & (x.sum(axis=0) < 1e-9)),
        **{point: lambda x: x.sum(axis=0) < 1e-9 for point in points},
        ("Cell Sets", 21): lambda x: in_middle(2 * x - 1),
        "boundary": lambda x: np.abs(2 * x - 1).max(axis=0) > 1 - 1e-9,
    }
    for region, where in regions.items():
        np.testing.assert_array_equal(prescribed(femgpu.DirichletBC(V, 0.0, region)), nodes(V, where), err_msg=str(region))


@parallel
def test_names_of_gmsh_in_three_dimensions(folder, set_options):
    set_options(dm_plex_filename=str(DATA / "named_box.msh"), dm_refine="1")
    V = femgpu.FunctionSpace(femgpu.mesh.create(), "P", 3)
    check_box(V)
    femgpu.write(folder / "box.h5", femgpu.Function(V, name="u"))
    dm, _ = read_h5(folder / "box.h5")
    check_box(femgpu.FunctionSpace(dm, "P", 1))


def check_box(V):
    for region, where in {
        "body": lambda x: x[0] > -1,
        "left": lambda x: x[0] < 1e-9,
        "edge/of it": lambda x: x[0] + x[1] < 1e-9,
        ("Vertex Sets", 7): lambda x: x.sum(axis=0) < 1e-9,
    }.items():
        np.testing.assert_array_equal(prescribed(femgpu.DirichletBC(V, 0.0, region)), nodes(V, where), err_msg=str(region))
    # A group called as a label of PETSc's is known by its number.
    with pytest.raises(MeshError, match=r"no region 'depth'.*'edge/of it': value 7.*'left'"):
        femgpu.DirichletBC(V, 0.0, "depth")


@parallel
@pytest.mark.parametrize("cell", CELL_NAMES)
def test_marked_regions_on_every_cell(cell, folder):
    dm = centred_box(cell)
    before = femgpu.FunctionSpace(dm, "P", 2)
    dim = Mesh.of(dm).dim
    low, middle = lambda x: x[0] < -1 + 1e-9, in_middle
    corner = lambda x: (x < -1 + 1e-9).all(axis=0)  # noqa: E731
    edge = lambda x: (x[: max(1, dim - 1)] < -1 + 1e-9).all(axis=0)  # noqa: E731
    chosen = {"low": (low, None), "cells": (middle, dim), "facets": (middle, dim - 1), "corner": (corner, 0)}
    if dim == 3:
        chosen["edge"] = (edge, 1)
    for name, (where, of_dim) in chosen.items():
        femgpu.mesh.mark(dm, name, where, of_dim)
    expected = {name: (nodes(before, where), name == "facets") for name, (where, _) in chosen.items()}

    def check(space):
        for name, (points, some) in expected.items():
            found = prescribed(femgpu.DirichletBC(space, 0.0, name))
            if some:  # inside of cells are no nodes of facets
                found, points = (np.unique(np.abs(each), axis=0) for each in (found, points))
                assert {tuple(x) for x in found} <= {tuple(x) for x in points} and len(found)
            else:
                np.testing.assert_array_equal(found, points, err_msg=name)

    check(before)
    check(femgpu.FunctionSpace(dm, "P", 2))
    check(femgpu.FunctionSpace(femgpu.mesh.refine(dm), "P", 1))
    mesh = Mesh.of(dm)
    assert mesh.mpi.allreduce(len(mesh.cells("cells"))) == mesh.num_cells_global // 2**dim
    assert mesh.mpi.allreduce(len(mesh.facets("low")[0])) == mesh.mpi.allreduce(len(mesh.facets(low_side(dim))[0]))
    femgpu.write(folder / f"{cell}.h5", femgpu.Function(before, name="u"))
    check(femgpu.FunctionSpace(read_h5(folder / f"{cell}.h5")[0], "P", 2))


def low_side(dim):
    """The value of "Face Sets" at the low end of x."""
    return {1: 1, 2: 4, 3: 6}[dim]


@parallel
def test_a_region_may_be_on_one_rank_only():
    dm = femgpu.mesh.box((4, 4), "quadrilateral")
    V = femgpu.FunctionSpace(dm, "P", 1)
    femgpu.mesh.mark(dm, "pin", lambda x: np.abs(x - 1).max(axis=0) < 1e-9, 0)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    x = femgpu.coordinates(dm)
    F = inner(grad(u - x[0] + 2 * x[1]), grad(v)) * dx
    for region in ("pin", lambda x: np.abs(x - 1).max(axis=0) < 1e-9):
        u.interpolate(0.0)
        bc = femgpu.DirichletBC(V, 5.0, region)
        np.testing.assert_array_equal(prescribed(bc), [[1, 1]])
        femgpu.NonlinearProblem(F, u, bc, options_prefix="pin_").solve()
        assert femgpu.error_norm(u, 6 + x[0] - 2 * x[1], "L2") < 1e-4


@parallel
def test_regions_that_overlap_count_twice_in_every_operator(set_options):
    dm = femgpu.mesh.box((3, 3), "triangle")
    half = femgpu.mesh.mark, lambda x: x[0] < 0.7
    half[0](dm, "half", half[1], 2)
    half[0](dm, "part", half[1])
    V = femgpu.FunctionSpace(dm, "P", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    u.interpolate(lambda x: 1 + x[0] * x[1])
    measure = dx("half") + dx + ds("part") + ds(("part", "boundary"))
    once = dx("half") + ds("part")
    set_options("both_", pc_type="jacobi", femgpu_jacobian="assembled")
    set_options("one_", pc_type="jacobi")
    sums = []
    for prefix, forms in (("both_", [u**2 * v * measure]), ("one_", [u**2 * v * m for m in (once, dx + ds, ds("part"))])):
        total = [0.0, 0.0]
        for form in forms:
            problem = femgpu.NonlinearProblem(form, u, options_prefix=prefix)
            f, y = u.vec.duplicate(), u.vec.duplicate()
            problem.residual(u.vec, f)
            problem.linearise(u.vec)
            problem.jacobian.mult(u.vec, y)
            total = [total[0] + f.array, total[1] + y.array]
        sums.append(total)
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12)


@parallel
def test_labels_of_the_user_in_measures():
    dm = femgpu.mesh.box((4, 4), "triangle")
    start, end = dm.getHeightStratum(0)
    dm.createLabel("zones")
    for cell in range(start, end):
        dm.getLabel("zones").setValue(cell, 5 if dm.computeCellGeometryFVM(cell)[1][0] < 0.5 else 6)
    one = femgpu.Constant(dm, 1.0)
    zones, sides = ufl.Measure("dx", subdomain_data=dm.getLabel("zones")), ds(subdomain_data="Face Sets")
    assert femgpu.assemble(one * zones(5)) == pytest.approx(0.5)
    assert femgpu.assemble(one * zones((5, 6)) + one * sides((2, 3)) + one * zones) == pytest.approx(4)
    assert femgpu.assemble(one * dx("zones") + one * ds(1, subdomain_data="marker")) == pytest.approx(5)
    with pytest.raises(MeshError, match="no value 7 in label 'zones'.*'zones': values 5, 6"):
        femgpu.assemble(one * zones(7))
    with pytest.raises(FormError, match="subdomain_data of type list is not supported; expected the name of a label"):
        femgpu.assemble(one * dx(3, subdomain_data=[1]))
    # UFL takes a pair for a sum: what reads like a value of a label is refused instead.
    with pytest.raises(
        FormError, match=r"write dx\(5, subdomain_data='Cell Sets'\) for the number, or dx\(5, subdomain_data='zones'\)"
    ):
        femgpu.assemble(one * dx(("zones", 5)))
    assert femgpu.assemble(one * ds("marker") + one * ds(2, subdomain_data="Face Sets")) == pytest.approx(5)


@parallel
def test_unknown_names_are_refused_with_those_there_are():
    dm = femgpu.mesh.box((2, 2), "triangle")
    femgpu.mesh.mark(dm, "inlet", lambda x: x[0] < 1e-9)
    V = femgpu.FunctionSpace(dm, "P", 1)
    known = "no region 'inlett'; it has 'Face Sets': values 1, 2, 3, 4; 'inlet': value 1; 'marker'"
    with pytest.raises(MeshError, match=known):
        femgpu.DirichletBC(V, 0.0, "inlett")
    with pytest.raises(MeshError, match=known):
        femgpu.assemble(femgpu.Constant(dm, 1.0) * ds("inlett"))
    with pytest.raises(MeshError, match="'inlet' marks no cells"):
        femgpu.assemble(femgpu.Constant(dm, 1.0) * dx("inlet"))
    for region in ("inlet", "boundary"):
        with pytest.raises(MeshError, match="has no node of DP0"):
            femgpu.DirichletBC(femgpu.FunctionSpace(dm, "DG", 0), 0.0, region)


@parallel
def test_what_cannot_be_marked():
    dm = femgpu.mesh.box((2, 2), "triangle")
    everywhere = lambda x: x[0] > -1  # noqa: E731
    for name in ("", ".", "depth", "Face Sets", "boundary", "everywhere", 3):
        with pytest.raises(MeshError, match="the name of a region is .*; expected a word other than '.', 'Cell Sets'"):
            femgpu.mesh.mark(dm, name, everywhere)
    with pytest.raises(MeshError, match="dimension 3; expected 0 to 2"):
        femgpu.mesh.mark(dm, "a", everywhere, 3)
    with pytest.raises(MeshError, match="no facet of the boundary has all its vertices"):
        femgpu.mesh.mark(dm, "a", lambda x: x[0] > 2)
    with pytest.raises(MeshError, match="returned float64 of shape .*; expected booleans"):
        femgpu.mesh.mark(dm, "a", lambda x: x[0])
    with pytest.raises(MeshError, match="returned float64 of shape .*; expected booleans"):
        femgpu.DirichletBC(femgpu.FunctionSpace(dm, "P", 1), 0.0, lambda x: x[0])
    assert "a" not in Mesh.of(dm).labels()


@parallel
def test_a_region_is_replaced_and_outlives_the_users_dm():
    dm = femgpu.mesh.box((4, 4), "triangle")
    V = femgpu.FunctionSpace(dm, "P", 1)
    femgpu.mesh.mark(dm, "side", lambda x: x[0] < 1e-9)
    del dm
    np.testing.assert_array_equal(prescribed(femgpu.DirichletBC(V, 0.0, "side")), nodes(V, lambda x: x[0] < 1e-9))
    femgpu.mesh.mark(V.dm, "side", lambda x: x[1] < 1e-9)
    np.testing.assert_array_equal(prescribed(femgpu.DirichletBC(V, 0.0, "side")), nodes(V, lambda x: x[1] < 1e-9))


@parallel
def test_both_places_of_a_period_are_found():
    dm = femgpu.mesh.box((4, 3), "triangle", periodic=(True, False))
    V = femgpu.FunctionSpace(dm, "P", 1)
    for place in (0, 1):
        femgpu.mesh.mark(dm, "seam", lambda x: np.abs(x[0] - place) < 1e-9, 1)  # noqa: B023
        rows = femgpu.DirichletBC(V, 0.0, "seam").local_rows
        owned = V.numbering.global_of_local[rows]
        mine = (owned >= V.numbering.first) & (owned < V.numbering.first + V.numbering.num_owned)
        assert V.mesh.mpi.allreduce(int(mine.sum())) == 4


@parallel
def test_a_label_called_boundary_is_not_taken_for_the_whole():
    dm = femgpu.mesh.box((3, 3), "triangle")
    V = femgpu.FunctionSpace(dm, "P", 1)
    dm.createLabel("boundary")
    label = dm.getLabel("boundary")

    def add(*sides):
        for side in sides:
            for point in dm.getStratumIS("Face Sets", side).getIndices() if dm.getStratumSize("Face Sets", side) else ():
                label.setValue(point, 3)

    add(2)
    with pytest.raises(MeshError, match=r"label 'boundary' that marks other facets; write \('boundary', \(3,\)\)"):
        femgpu.DirichletBC(V, 0.0)
    np.testing.assert_array_equal(prescribed(femgpu.DirichletBC(V, 0.0, ("boundary", 3))), nodes(V, lambda x: x[0] > 1 - 1e-9))
    add(1, 3, 4)
    assert len(prescribed(femgpu.DirichletBC(V, 0.0))) == 12


@parallel
def test_discontinuous_spaces_have_the_nodes_of_cells_with_the_facet():
    dm = femgpu.mesh.box((3, 3), "quadrilateral")
    V = femgpu.FunctionSpace(dm, "DG", 1)
    # Every label of the boundary marks the same, whether it has the vertices, too, or comes from refinement.
    rows = [V.mesh.mpi.allreduce(len(femgpu.DirichletBC(V, 0.0, region).local_rows)) for region in ("boundary", ("marker", 1))]
    assert rows == [4 * 3 * 2 - 4] * 2
    fine = femgpu.FunctionSpace(femgpu.mesh.refine(dm), "DG", 1)
    rows = [fine.mesh.mpi.allreduce(len(femgpu.DirichletBC(fine, 0.0, region).local_rows)) for region in (2, "boundary")]
    assert rows == [6 * 2, 4 * 6 * 2 - 4]


@parallel
def test_the_view_counts_conflicts_of_conditions():
    dm = femgpu.mesh.box((3, 3), "triangle")
    V = femgpu.FunctionSpace(dm, "P", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx
    low, right, top = (femgpu.DirichletBC(V, value, region) for value, region in ((0.0, 1), (1.0, 2), (1.0, 3)))
    problem = femgpu.NonlinearProblem(F, u, [low, right, top], options_prefix="conflict_")
    problem.insert_boundary_values(u.vec)
    assert "10 prescribed, 1 of them to different values by several conditions, of which the last rules" in problem.report()
    assert u.evaluate([[1.0, 0.0]])[0] == pytest.approx(1)
    again = femgpu.NonlinearProblem(F, u, [right, top], options_prefix="conflict_")
    again.insert_boundary_values(u.vec)
    assert "7 prescribed (rows" in again.report()


def test_pointwise_forms_take_names():
    dm = femgpu.mesh.read(DATA / "named_plate_4.msh", comm=PETSc.COMM_SELF)
    V = femgpu.FunctionSpace(dm, "P", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    bodies = {"left": 1, ("sides", "right side"): 2, ("Face Sets", 12): 3, ("sides", 13): 4}
    form = femgpu.PointwiseForm(
        V, f0="f0[0] = u[0];", g0="g0[0] = 1;", facets={key: dict(f0=f"f0[0] = {size};") for key, size in bodies.items()}
    )
    F = u * v * dx + v * ds("left") + 2 * v * ds(("sides", "right side")) + 3 * v * ds(12) + 4 * v * ds("sides")
    vectors = []
    for each in (form, F):
        problem = femgpu.NonlinearProblem(each, u, options_prefix="names_")
        vectors.append(u.vec.duplicate())
        problem.residual(u.vec, vectors[-1])
    np.testing.assert_allclose(vectors[0].array, vectors[1].array, atol=1e-14)
    with pytest.raises(FormError, match=r"has an id of .* twice; expected each once, here \['left'\]"):
        femgpu.PointwiseForm(V, f0="f0[0] = 1;", facets={"left": dict(f0="f0[0] = 1;"), ("left", "sides"): dict(f0="f0[0] = 1;")})


def test_measures_over_other_places_are_refused_in_plain_words():
    dm = femgpu.mesh.box((2, 2), "triangle", comm=PETSc.COMM_SELF)
    one = femgpu.Constant(dm, 1.0)
    with pytest.raises(FormError, match=r"dP \(vertex integrals\) is not supported; expected dx, ds or dS"):
        femgpu.assemble(one * ufl.dP)


def test_malformed_names_in_a_file(tmp_path):
    text = (DATA / "named_plate_2.msh").read_text()
    (tmp_path / "bad.msh").write_text(text.replace('1 11 "left"', "1 left"))
    with pytest.raises(MeshError, match=r"bad.msh' cannot be read: b'1 left' stands in \$PhysicalNames.* malformed"):
        femgpu.mesh.read(tmp_path / "bad.msh", comm=PETSc.COMM_SELF)
