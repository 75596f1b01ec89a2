"""The bake-off problems of `femgpu bench`: their meshes against PETSc's, their models against published numbers, their reports."""

import json

import numpy as np
import pytest
import ufl
from petsc4py import PETSc

import femgpu
from femgpu import cli, runtime
from femgpu.bench import actions, bakeoff, evector, peers, residual, tets, ufl_report
from femgpu.bench.bakeoff_report import Result, Timing
from femgpu.bench.grid import VOLUME, Grid, GridSpace, bent, counts_for
from femgpu.bench.tet_grid import TetGrid
from femgpu.cli import main
from femgpu.element import LagrangeElement
from femgpu.errors import DataError, OptionError, PlanError
from femgpu.forms import bilinear_form
from femgpu.model.bakeoff import PROBLEMS, roofline
from femgpu.model.ceilings import CPU
from femgpu.model.tets import TETS
from femgpu.model.ufl_forms import UFL_FORMS
from femgpu.model.ufl_forms import roofline as least_of_three
from femgpu.operators import make_terms
from femgpu.options import Settings
from femgpu.runtime import rates


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Timings of few launches."""
    monkeypatch.setattr(rates, "SECONDS", 1e-3)


def bent_box(counts):
    dm = femgpu.mesh.box(counts, cell="hexahedron", comm=PETSc.COMM_SELF)
    coordinates = dm.getCoordinatesLocal()
    coordinates.setArray(bent(coordinates.array_r.reshape(-1, 3)).ravel())
    dm.setCoordinatesLocal(coordinates)
    return dm


@pytest.mark.parametrize(
    ("counts", "degree", "num_comp"),
    [((3, 4, 5), 1, 1), ((2, 1, 3), 2, 3), ((3, 2, 2), 3, 1), ((1, 2, 2), 5, 2), (counts_for(1e6 / 4**3), 4, 1)],
)
def test_grids_are_numbered_as_meshes_of_users(counts, degree, num_comp):
    """Cells, vertices, coordinates and dofs, the last case with a million of them."""
    space = femgpu.FunctionSpace(bent_box(counts), "Lagrange", degree, shape=(num_comp,) if num_comp > 1 else ())
    grid = Grid(counts)
    made = GridSpace(grid, degree, num_comp)
    for found, expected in (
        (made.offsets, space.offsets),
        (grid.block.coord_dofs, space.mesh.block.coord_dofs),
        (grid.coords, space.mesh.coords),
        (grid.block.affine, space.mesh.block.affine),
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert made.num_local == space.num_local == made.numbering.num_owned == made.num_dofs and made.numbering.is_identity
    if len(grid.block.ids) < 100:
        positions, where = space.nodes()
        for component in range(num_comp):
            np.testing.assert_allclose(made.first_coordinate[positions + component], where[:, 0], rtol=0, atol=1e-15)
        one = femgpu.Constant(space.dm, 1.0)
        assert femgpu.assemble(one * ufl.dx(degree=2)) == pytest.approx(VOLUME, rel=1e-14)


def test_neighbours_share_vertices():
    grid = Grid((3, 2, 4))
    dofs = grid.block.coord_dofs
    for cell in (0, 7, 23):
        shared = np.isin(dofs, dofs[cell]).any(axis=1)
        np.testing.assert_array_equal(grid.neighbours(cell), np.flatnonzero(shared))


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 8])
def test_grids_of_tetrahedra_are_meshes_of_users_with_other_numbers(degree):
    """Nodes have one number each, and stand where the cells say; det J is positive."""
    grid = TetGrid((2, 1, 2))
    made = GridSpace(grid, degree)
    element, offsets = made.field.elements[0], made.offsets
    corners = grid.coords[grid.block.coord_dofs]
    linear = LagrangeElement("tetrahedron", 1)
    shape = [np.column_stack([np.ones(len(nodes)), nodes]) for nodes in (linear.nodes, element.nodes)]
    places = np.einsum("bv,evd->ebd", shape[1] @ np.linalg.inv(shape[0]), corners)
    x = np.full((made.num_local, 3), np.nan)
    x[offsets.ravel()] = places.reshape(-1, 3)
    np.testing.assert_allclose(x[offsets], places, rtol=0, atol=1e-14)
    assert len(np.unique(x.round(9), axis=0)) == made.num_local and grid.block.affine.all()
    np.testing.assert_allclose(made.first_coordinate, x[:, 0], rtol=0, atol=1e-14)
    (term,) = make_terms(bilinear_form(tets.weak_form(TETS["tet_mass"], made)), Settings())
    assert (term.geometry()[..., -1] > 0).all() and term.quadrature.num_qpts * 4 * element.num_basis == TETS["tet_mass"].flops(
        degree
    )
    # A user's box has the same cells and nodes, in another order.
    theirs = femgpu.FunctionSpace(femgpu.mesh.box((2, 1, 2), cell="tetrahedron", comm=PETSc.COMM_SELF), "Lagrange", degree)
    their_corners = bent(theirs.mesh.coords)[theirs.mesh.block.coord_dofs]
    for mine, other in ((corners.mean(axis=1), their_corners.mean(axis=1)), (corners.reshape(-1, 3), their_corners.reshape(-1, 3))):
        np.testing.assert_allclose(np.unique(mine.round(9), axis=0), np.unique(other.round(9), axis=0), rtol=0, atol=1e-8)
    assert (theirs.num_local, theirs.mesh.num_cells) == (made.num_local, grid.num_cells)
    near = grid.neighbours(7)
    shared = np.flatnonzero(np.isin(grid.block.coord_dofs, grid.block.coord_dofs[7]).any(axis=1))
    assert np.isin(shared, near).all()


def test_bench_of_tetrahedra(tmp_path, capsys):
    """Both forms, each against the twin and what is known of it, beside the peer."""
    shown, record = report(tmp_path, capsys, "tets", "--degrees", "2", "--dofs", "200", "--schedules", "auto", "tiled")
    timings = record["timings"]
    assert [(t["problem"], t["schedule"], t["goal"]) for t in timings] == [
        ("tet_mass", "auto", 20), ("tet_mass", "tiled", 20), ("tet_diffusion", "auto", 21), ("tet_diffusion", "tiled", 21),
    ]  # fmt: skip
    assert all(timing["error"] < 1e-13 and timing["GDOFs"] > 0 for timing in timings) and "action: tiled" in timings[1]["plan"]
    assert "tet_diffusion: actions between L-vectors" in shown
    assert main(["bench", "tets", "--dofs", "10", "20"]) == 1 and "--dofs 10 20: expected one number" in capsys.readouterr().err
    # 4 words of a dof, 35 offsets, and one number of geometry.
    assert TETS["tet_mass"].lvector_bytes(4, 6, 64) == 4 * 8 * 64 + 6 * (4 * 35 + 8)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="a box of 2048 x 2048 x 2048 cells has 8.6e[+]09 dofs; 32-bit offsets reach"):
        Grid((2**11,) * 3)
    with pytest.raises(DataError, match="a box of 2048 x 2 x 2 cells has 6.71e[+]09 dofs"):
        GridSpace(Grid((2**11, 2, 2)), 2, 2**16)


def test_models_are_those_of_the_paper():
    """Bytes and operations of a cell between E-vectors, and GDOF/s at 4.3 TB/s between L-vectors."""
    for degree, expected in {
        1: ((344, 483), (576, 336), (1640, 1914)),
        8: ((19664, 98560), (52488, 91854), (67664, 235560)),
        15: ((104840, 893809), (294912, 860160), (340664, 1979582)),
    }.items():
        found = [(problem.evector_bytes(degree), problem.flops(degree)) for problem in map(PROBLEMS.get, ("bp10", "bp35", "bp30"))]
        assert found == list(expected)
    for name, degree, (ideal, atomic) in (("bp1", 2, (46.0, 39.3)), ("bp3", 8, (37.2, 32.7)), ("bp5", 4, (36.6, 32.2))):
        dofs = 10**6 * degree**3
        for adds, expected in ((False, ideal), (True, atomic)):
            moved = PROBLEMS[name].lvector_bytes(degree, 10**6, dofs, atomic=adds)
            assert 4300 * dofs / moved == pytest.approx(expected, abs=0.06)
    assert PROBLEMS["bp5"].lvector_bytes(1, 10**6, 10**6, stored=False, atomic=False) == 104 * 10**6
    assert roofline(4.3e12, 336, 576) == pytest.approx(2.51e12, rel=1e-3)


def test_peers_are_known_by_degree():
    assert set(PROBLEMS) <= set(cli._WORKLOADS) and set(bakeoff.WAYS) == {*bakeoff.USUAL, "rounded"}
    assert peers.peer("bp5", 3) == 21.72 and peers.goal("bp1", 6) == 51
    assert np.isnan([peers.peer("bp5", 9), peers.peer("bp2", 1), peers.goal("bp35", 2)]).all()


def report(folder, capsys, *words):
    """What `femgpu bench` prints and its JSON file."""
    assert main(["bench", *words, "--out", str(folder)]) == 0
    files = {path.suffix: path for path in folder.iterdir()}
    assert set(files) == {".csv", ".json", ".png"} and all(path.stem.startswith(words[0]) for path in files.values())
    record = json.loads(files[".json"].read_text(), parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert len(files[".csv"].read_text().splitlines()) == 1 + len(record["timings"])
    return capsys.readouterr().out, record


def test_bench_between_l_vectors(tmp_path, capsys):
    given = ["--degrees", "1,2", "--dofs", "60", "500", "--schedules", "cell", "--ways", "rebuilt", "stored"]
    shown, record = report(tmp_path, capsys, "bp5", *given)
    assert peers.SOURCE in shown and "cell, rebuilt" in shown and record["peer"] == peers.SOURCE
    timings = record["timings"]
    assert [(t["degree"], t["way"], t["points"]) for t in timings[:4]] == [
        (1, "rebuilt", 8), (1, "stored", 8), (2, "rebuilt", 27), (2, "stored", 27),
    ]  # fmt: skip
    assert [t["dofs"] for t in timings[::2]] == [125, 125, 729, 729] and len(timings) == 8
    for timing in timings:
        assert timing["error"] < 1e-13 and timing["GDOFs"] > 0 and timing["us"] >= timing["best_us"] > 0 and timing["share"] > 0
        assert ("6 stored numbers per point" in timing["plan"]) == (timing["way"] == "stored")
    assert (timings[0]["peer"], timings[0]["goal"]) == (6.56, 9.5)


def test_bench_between_e_vectors(tmp_path, capsys):
    """The paper's number of factors; local memory counts where a plan knows what it moves there."""
    given = ["--degrees", "1", "--cells", "8", "--schedules", "all", "--plans", "1"]
    shown, record = report(tmp_path, capsys, "bp35", *given)
    assert {"cell", "transposed"} <= {t["schedule"] for t in record["timings"]} and record["local_bytes_per_second"] > 0
    for timing in record["timings"]:
        assert "7 stored numbers per point" in timing["plan"] and timing["error"] < 1e-13
        assert (timing["local_GFs"] is not None) == (timing["schedule"] == "gemm")
        assert timing["share"] == pytest.approx(timing["GFs"] / timing["roofline_GFs"]) and timing["cells"] == 8
    assert shown.count("transposed") == 1 and sum(t["tried"] for t in record["timings"]) >= 2


@pytest.mark.parametrize(("name", "stored"), [("bp2", 1), ("bp10", 1)])
def test_mass_stores_one_number(name, stored):
    """Vectors and E-vectors; the volume and the twin are compared in the run."""
    run = evector.run if PROBLEMS[name].evector else bakeoff.run
    given = {} if PROBLEMS[name].evector else {"ways": ("stored",)}
    (timing,) = run(runtime.current(), name, (1,), (24,), **given).timings
    assert f"{stored} stored numbers per point" in timing.plan and timing.error < 1e-13


def test_other_plans_are_timed_beside_the_choice():
    """Work-groups of schedule cell, each with its own launches and the state that it reads."""
    given = {"schedules": ("cell",), "ways": ("stored",), "plans": 2}
    result = bakeoff.run(runtime.current(), "bp5", (1,), (24,), **given)
    assert [timing.tried for timing in result.timings] == [False, True, True]
    assert len({timing.plan for timing in result.timings}) == 2 and all("stored numbers" in t.plan for t in result.timings)


def test_the_table_judges_the_best():
    """Ratios and means over degrees, from numbers that are given."""
    numbers = {"dofs": 8, "cells": 1, "points": 2, "plan": ""}
    common = dict.fromkeys(("us", "best_us", "TFs", "bytes_per_dof", "error"), 1.0) | numbers
    timings = [
        Timing("bp1", degree, 1e7, "auto", way, GDOFs=ratio * peers.peer("bp1", degree), share=0.5, peer=peers.peer("bp1", degree),
               goal=peers.goal("bp1", degree), **common)
        for degree, rates in ((1, (1, 0.9)), (2, (4, 2)), (4, (1, 2)))
        for way, ratio in zip(("default", "stored"), rates, strict=True)
    ]  # fmt: skip
    lines = Result("a device", "double", timings, ["bp1: something refused"], 1e12, CPU).text().splitlines()
    assert lines[4].split()[2:5] == ["71.1", "35.5", "71.1"] and [line.endswith("reached") for line in lines[3:6]] == [
        False,
        True,
        True,
    ]
    assert lines[6:] == [
        "best over peer: at least 1.00, from degree 2 on 2.83 in geometric mean",
        "stored over peer: at least 0.90, from degree 2 on 2.00 in geometric mean",
        "default within 15 % of the best in 2 of 3 degrees",
        "bp1: something refused",
    ]


def test_wrong_actions_are_not_timed(monkeypatch):
    result = actions.result
    monkeypatch.setattr(actions, "result", lambda operator, w: result(operator, w) * (1 + 1e-9))
    with pytest.raises(DataError, match="bp1, degree 1, auto, rebuilt is wrong by 1"):
        bakeoff.run(runtime.current(), "bp1", (1,), (24,), ways=("rebuilt",))


def test_schedules_that_cannot_are_named():
    given = {"degrees": (1,), "sizes": (24,), "ways": ("rebuilt",)}
    with pytest.raises(PlanError, match="bench bp1: no schedule serves; bp1, degree 1, cell:group_size=60000, rebuilt: "):
        bakeoff.run(runtime.current(), "bp1", schedules=("cell:group_size=60000",), **given)
    with pytest.raises(PlanError, match="--schedules matrix: it computes no actions; expected auto, all, or gemm, sumfact, tiled"):
        bakeoff.run(runtime.current(), "bp1", schedules=("auto", "matrix"), **given)
    for wrong in ("nonsense", "cell:rows=3"):
        with pytest.raises(OptionError, match=f"{wrong}.*legal are|{wrong}.*expected"):
            evector.run(runtime.current(), "bp10", (1,), (8,), schedules=(wrong,))


def test_residuals_over_lattices_are_timed(set_options):
    """Nodes of E-vectors then stand in the order of the tensor product; what is timed is compared with the numpy twin."""
    set_options(femgpu_schedule="sumfact")
    V = femgpu.FunctionSpace(femgpu.mesh.box((3, 2), cell="quadrilateral", comm=PETSc.COMM_SELF), "Lagrange", 2, shape=(2,))
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    u.vec.setRandom()
    F = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx + ufl.inner(u, v) * ufl.dx
    told = residual.report(femgpu.NonlinearProblem(F, u))
    assert told.count("residual: sumfact") == 2 and "evector: 6 cells" in told


def test_models_of_forms_are_those_of_the_paper():
    """Operations of a tetrahedron with the points that the paper's package takes; bytes of large boxes of six cells per cube."""
    for name, degree, points, flops, moved in (
        ("poisson", 2, 4, 480, 81), ("poisson", 6, 216, 217728, 932), ("helmholtz", 1, 4, 256, 23),
        ("elasticity", 3, 14, 10080, 316),
    ):  # fmt: skip
        form, cells = UFL_FORMS[name], 6 * 10**6
        assert form.flops(3, degree, points) == flops
        dofs = form.num_comp(3) * 10**6 * degree**3
        assert form.global_bytes(3, degree, cells, dofs, 10**6) / cells == pytest.approx(moved, abs=0.5)
    # Of the state, too: gathered and evaluated, and nothing of it stands in local memory but its tabulation.
    plain, form = UFL_FORMS["elasticity"], UFL_FORMS["hyperelasticity"]
    assert form.flops(2, 3, 7) == 1.5 * plain.flops(2, 3, 7) == 3 * 2 * 4 * 7 * 10
    assert form.global_bytes(2, 3, 8, 90, 9) - plain.global_bytes(2, 3, 8, 90, 9) == 8 * 90
    assert plain.local_bytes(2, 3, 7) == 8 * (2 * 4 * 7 * 10 + 2 * 4 * 7) and UFL_FORMS["mass"].flops(2, 1, 3) == 2 * 2 * 3 * 3
    assert least_of_three(12, 4, 2, 9) == 6 and least_of_three(12, 4, 2, 5) == 5 and least_of_three(12, 4, 2, 9, 8, 3) == 4.5


def test_bench_of_forms(tmp_path, capsys, set_options, monkeypatch):
    """Numbers of the report fit each other; tuned and exhaustively searched."""
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(tmp_path / "cache"))
    set_options(femgpu_schedule="cell", femgpu_tune_best=2)
    given = ["--cells", "18", "--cell", "triangle", "--degrees", "1", "--problems", "hyperelasticity"]
    shown, record = report(tmp_path / "report", capsys, "ufl", *given, "--tuned", "--exhaustive")
    timings = record["timings"]
    assert [(t["problem"], t["cells"], t["points"], t["dofs"]) for t in timings] == [("hyperelasticity", 18, 1, 32)]
    for t in timings:
        flops = 18 * UFL_FORMS[t["problem"]].flops(2, 1, t["points"])
        assert t["error"] < 1e-13 and t["TFs"] == pytest.approx(flops / t["us"] / 1e6)
        assert t["intensity"] == pytest.approx(flops / UFL_FORMS[t["problem"]].global_bytes(2, 1, 18, t["dofs"], 16))
        bound = min(t["intensity"] * record["copy_bytes_per_second"], record["flops_per_second"])
        assert t["roofline_without_local_TFs"] == pytest.approx(bound / 1e12)
        local = 18 * UFL_FORMS[t["problem"]].local_bytes(2, 1, t["points"])
        assert t["roofline_TFs"] == pytest.approx(min(bound, flops / local * record["local_bytes_per_second"]) / 1e12)
        for which in ("", "_without_local"):
            assert t[f"share{which}"] == pytest.approx(t["TFs"] / t[f"roofline{which}_TFs"])
        assert t["default_over_tuned"] == pytest.approx(t["us"] / t["tuned_us"])
        tried = [entry["us"] for entry in record["searches"] if entry["problem"] == t["problem"]]
        assert t["plans"] == len(tried) > 2 and t["first_over_best"] == pytest.approx(min(tried[:2]) / min(tried))
    assert "of 1 cases" in shown and "default / tuned: at most" in shown and "first plans by the model" in shown


def test_forms_that_are_wrong_or_stopped(tmp_path, monkeypatch, capsys):
    """What was measured before stays; other cells and forms are refused by name."""
    given = ["bench", "ufl", "--cells", "4", "--cell", "triangle", "--degrees", "1", "--out", str(tmp_path)]
    result, names = actions.result, []

    def wrong(operator, w):
        names.append(operator)
        return result(operator, w) * (1 + 1e-9 * (len(names) > 1))

    monkeypatch.setattr(actions, "result", wrong)
    assert main([*given, "--problems", "mass", "poisson"]) == 1
    assert "poisson, triangle, degree 1 is wrong by 1.0e-09" in capsys.readouterr().err
    (path,) = tmp_path.glob("ufl-*.csv")
    assert len(path.read_text().splitlines()) == 2
    assert main([*given, "--problems", "BP1"]) == 1 and "--problems BP1: expected mass, poisson" in capsys.readouterr().err
    assert main([*given[:4], "--cell", "prism"]) == 1 and "--cell prism: expected triangle, tetrahedron" in capsys.readouterr().err


def test_the_summary_counts_cases():
    """Refused ones count among those that were asked for."""
    common = dict.fromkeys(
        ("us", "best_us", "GDOFs", "TFs", "intensity", "roofline_TFs", "roofline_without_local_TFs", "error"), 1.0
    )
    timings = [
        ufl_report.Timing("mass", "triangle", degree, 2, dofs=4, points=1, plan="", share=2 * share, share_without_local=share,
                          default_over_tuned=1 + share, plans=5, first_over_best=near, **common)
        for degree, share, near in ((1, 0.3, 1.0), (2, 0.5, 1.2), (3, 0.8, 1.1))
    ]  # fmt: skip
    lines = ufl_report.Result("a device", "double", timings, ["mass: refused"], 4, 1e12, CPU, 1e13).text().splitlines()
    assert lines[6:] == [
        "mass: refused",
        "share of the roofline: at least 0.5 in 3 and 0.75 in 2 of 4 cases",
        "share of the roofline, local memory not counted: at least 0.5 in 2 and 0.75 in 1 of 4 cases",
        "default / tuned: at most 1.80 (mass, triangle, degree 3), 3 cases",
        "first plans by the model: within 10% of the best of all in 2 of 3 cases",
    ]
