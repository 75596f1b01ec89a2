"""Plans: their arithmetic, and what they refuse."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_works import cell, diffusion, field, matrix, residual, tensor, tiled, transposed

from femgpu.errors import PlanError
from femgpu.kernels import RowsWork, Table, Wish, schedule_named
from femgpu.kernels.schedules import (
    CellPlan,
    TiledPlan,
)
from femgpu.kernels.schedules.tiled_cycles import cycles
from femgpu.kernels.schedules.transposed import LEAST_ITEMS
from femgpu.model import Beta, Limits


def test_beta_model_of_the_paper():
    beta = Beta(dim=2, num_basis=3, num_comp=1, num_qpts=1, word=4)
    assert Fraction(beta.flops, beta.bytes) == Fraction(41, 22)
    assert beta.bound(220.0) == pytest.approx(410.0)
    assert Fraction(replace(beta, word=8).flops, replace(beta, word=8).bytes) == Fraction(41, 44)


@pytest.mark.parametrize(
    "num_basis, num_comp, num_qpts, block, cells",
    [(3, 1, 1, 3, 3), (3, 1, 3, 3, 3), (6, 1, 4, 12, 12), (4, 3, 8, 24, 8), (3, 2, 4, 12, 6), (10, 1, 14, 70, 70)],
)
def test_a_block_fills_its_items_in_both_phases(num_basis, num_comp, num_qpts, block, cells):
    plan = transposed(num_basis, num_comp, num_qpts, local_limit=10**6)
    assert plan.block_size == math.lcm(num_basis * num_comp, num_qpts) == block
    assert plan.batch_cells == cells
    assert replace(plan, num_blocks=3).batch_cells == 3 * cells
    # An item keeps its point in one phase and its row in the other, and no row waits for a half-filled round.
    assert plan.chunk_items % plan.work.num_qpts == plan.chunk_items % plan.work.num_rows == 0
    assert plan.batch_cells * plan.work.num_rows % plan.chunk_items == 0


def test_small_chunks_stand_side_by_side():
    plan = transposed(num_blocks=4, num_batches=16)
    (step,) = plan.steps()
    assert (plan.chunk_items, plan.group_chunks, step.items) == (12, 6, 72)
    assert step.group_cells == 12 * 16 * 6
    assert replace(plan, num_blocks=64).group_chunks == 1
    assert "4 blocks x 16 batches of 12 cells" in str(plan)


@given(
    num_basis=st.integers(1, 40),
    num_comp=st.integers(1, 3),
    num_qpts=st.integers(1, 40),
    num_blocks=st.integers(1, 200),
    num_batches=st.integers(1, 40),
    num_cells=st.integers(0, 10**7),
    group_limit=st.sampled_from([64, 256, 1024]),
)
def test_plans_fit_the_device_and_cover_the_cells(num_cells, group_limit, **sizes):
    plan = transposed(**sizes, group_limit=group_limit, local_limit=49152)
    (step,) = plan.steps()
    assert 1 <= step.items <= plan.group_limit
    assert plan.local_bytes <= plan.local_limit
    assert plan.batch_cells >= 1
    assert step.items >= min(LEAST_ITEMS, plan.chunk_items)
    groups, rest = divmod(step.global_size(num_cells), step.items)
    assert rest == 0
    assert (groups - 1) * step.group_cells < num_cells <= groups * step.group_cells or num_cells == groups == 0


def test_local_memory_counts_what_stands_in_it():
    plan = transposed(6, 2, 4, precision="single")
    staged, fluxes = 6 * 2 + 5, 4 * 2 * (1 + 2)
    assert plan.cell_local_bytes == 4 * (staged + fluxes)
    # Without the barrier that staging brings, a batch must not overwrite the fluxes of the one before.
    direct = transposed(6, 2, 1, precision="single")
    assert [replace(direct, num_batches=count).cell_local_bytes for count in (1, 2)] == [4 * 2 * (1 + 2), 4 * 2 * 2 * (1 + 2)]
    # On a GPU points are an odd number of words apart.
    assert replace(direct, unroll=1).cell_local_bytes == 4 * 7
    assert replace(plan, precision="double").local_bytes == 2 * plan.local_bytes
    assert cell(6, 2, 4).local_bytes == 0


def test_transposed_refuses_what_a_gpu_has_no_room_for():
    work = transposed(6, 2, 4).work
    needed = transposed(6, 2, 4, unroll=1, geometry="recomputed").cell_local_bytes
    small, enough = (Limits(local_bytes=needed + room, unroll=1) for room in (-1, 0))
    assert f"needs {needed} bytes" in schedule_named("transposed").refuses(work, small)
    assert not schedule_named("transposed").refuses(work, enough)
    assert all(plan.batch_cells > 0 for plan in schedule_named("transposed").plans(work, enough, Wish()))


def test_batches_and_cells_of_one_point_and_more():
    given = [(3, 1, 1), (3, 2, 1), (3, 1, 4), (3, 2, 4)]
    plans = [next(iter(schedule_named("transposed").plans(transposed(*sizes).work, Limits(), Wish()))) for sizes in given]
    assert [plan.num_batches for plan in plans] == [1, 1, 4, 4]
    # With one point each item has a cell, whatever the number of components.
    assert [(plan.chunk_items, plan.batch_cells) for plan in plans] == [(96, 96), (96, 96), (120, 120), (120, 60)]


def test_stored_geometry_of_triangles_with_one_point_takes_four_numbers():
    for dim, points, words in ((2, 1, 4), (2, 4, 5), (3, 1, 10)):
        plan = transposed(dim + 1, 1, points, dim=dim, geometry="stored")
        assert (plan.geometry_words, replace(plan, geometry="recomputed").geometry_words) == (words, 0)


def test_bytes_per_cell():
    fields = (field("u", "u", 3), field("a0", "a", 1, table=0))
    plan = cell(precision="single", source="evector", fields=fields)
    assert plan.bytes == 4 * (3 + 1 + 5 + 3)
    fused = cell(precision="single", fields=fields)
    assert fused.bytes == plan.bytes + 4 * (3 + 1)
    # An atomic add reads and writes; the rows' offsets cost nothing where a field has the same.
    assert replace(fused, scatter="atomic").bytes == fused.bytes + 4 * 3 + 4 * 3
    beside = residual(fields=fields, rows=(RowsWork(0, 0, 3, 1, beside="u"),))
    assert CellPlan(beside, precision="single", scatter="atomic").bytes == fused.bytes + 4 * 3


def test_fields_of_one_vector_share_an_argument():
    fields = (field("u_v", "u", 6, 2, vector="u"), field("u_p", "u", 3, table=1, offset=2, vector="u"))
    plan = cell(6, 2, fields=fields, tables=(Table(6), Table(3)))
    (vector,) = (array for array in plan.arguments() if array.role == ("vector", "u"))
    assert vector.words == 6 * 2 + 3


@pytest.mark.parametrize(
    "make, changes, said",
    [
        (cell, {"target": "jacobian"}, "target 'jacobian': expected one of residual"),
        (cell, {"precision": "half"}, "precision 'half'"),
        (cell, {"geometry": "rebuilt"}, "geometry 'rebuilt': expected one of stored, recomputed"),
        (cell, {"scatter": "color"}, "scatter 'color': expected one of atomic, evector"),
        (transposed, {"num_blocks": 0}, "-petscfe_num_blocks 0: expected at least 1"),
        (transposed, {"num_batches": -4}, "-petscfe_num_batches -4: expected at least 1"),
        (tiled, {"lanes": 3, "cells": 3}, "tiled with 3 lanes: expected one of 1, 2, 4, 8"),
        (
            tiled,
            {"lanes": 2, "cells": 3},
            "tiled with 3 cells, 2 of an item, 1 parts, 1 points: expected at least 1 of each, and full",
        ),
        (
            tiled,
            {"mma": 8, "lanes": 2, "cells": 8, "parts": 4},
            "with 4 parts of 4 items, 2 lanes, double: expected a multiple of 8",
        ),
    ],
)
def test_refused_plans(make, changes, said):
    with pytest.raises(PlanError, match=said):
        make(**changes)


@pytest.mark.parametrize(
    "name, changes, limits, said",
    [
        ("transposed", {"target": "matrix"}, Limits(), "computes residuals and actions, not a matrix$"),
        ("matrix", {"target": "action"}, Limits(), "computes element matrices, not a action$"),
        ("matrix", {"target": "matrix", "reference": True}, Limits(), "in physical coordinates only"),
        (
            "matrix",
            {"target": "matrix", "num_comp": 1024, "writes": frozenset({"g3"})},
            Limits(),
            "matrices of 1024 components need 32776 bytes .* the device has 32768",
        ),
        ("cell", {"target": "matrix"}, Limits(), "schedule cell computes no element matrices; use schedule matrix"),
        ("transposed", {"facet": True}, Limits(), "serves cells, not facets; use schedule cell"),
        (
            "transposed",
            {"num_qpts": 3},
            Limits(local_bytes=64),
            "bytes of local memory for one cell; the device has 64 .*-femgpu_sched",
        ),
        ("cell", {"target": "diagonal", "reference": True}, Limits(), "a diagonal in physical coordinates only"),
        ("tiled", {"target": "state"}, Limits(), "computes residuals, actions and diagonals, not a state; use schedule cell"),
        ("tiled", {"target": "diagonal", "reference": True}, Limits(), "a diagonal of first derivatives in physical coordinates"),
        ("tiled", {"target": "diagonal", "writes": frozenset({"g8"})}, Limits(), "a diagonal of first derivatives"),
        ("tiled", {"target": "diagonal", "rows": (RowsWork(0, 0, 1, 1, twin=1),) * 2}, Limits(), "do not go on beyond a facet"),
        (
            "tiled",
            {},
            Limits(local_bytes=48),
            "tiled needs 64 bytes of local memory for one cell; the device has 48 .*_schedule cell",
        ),
        ("sumfact", {"target": "matrix"}, Limits(), "schedule sumfact computes no matrix; use schedule cell or matrix"),
        ("sumfact", {"target": "diagonal", "reference": True}, Limits(), "a diagonal of first derivatives in physical coordinates"),
        ("sumfact", {"facet": True}, Limits(), "serves cells, not facets; use schedule cell"),
        ("sumfact", {"tensor": None}, Limits(), "numbered alike, which those of this triangle are not; use schedule cell"),
        ("gemm", {"target": "functional"}, Limits(), "schedule gemm computes residuals and actions, not a functional"),
        ("gemm", {"tensor": None}, Limits(), "numbered alike, which those of this triangle are not; use schedule cell"),
        ("gemm", {"facet": True}, Limits(), "serves first derivatives over cells"),
        ("gemm", {}, Limits(local_bytes=64), "needs .* bytes of local memory for one cell; the device has 64"),
        ("sumfact", {}, Limits(stack_bytes=64), "needs .* bytes for one cell; a stack has 64: use schedule cell"),
    ],
)
def test_refusals(name, changes, limits, said):
    entry = schedule_named(name)
    assert re.search(said, entry.refuses(residual(**{"tensor": tensor(2, 1, 2)} | changes), limits))
    assert not entry.refuses(
        residual(target=entry.targets[0], tensor=tensor(2, 1, 2)), replace(limits, stack_bytes=0, local_bytes=32768)
    )


def test_schedules_by_name():
    with pytest.raises(PlanError, match="schedule 'sideways': expected one of gemm, sumfact, tiled, cell, transposed"):
        schedule_named("sideways")
    with pytest.raises(PlanError, match="cell:group_size=2048: the device allows 1 to 1024"):
        next(schedule_named("cell").plans(residual(), Limits(), Wish(parameters=(("group_size", 2048),))))
    for given_, said in ((("width", 3), "width=3: expected one of 1, 2, 4, 8"), (("points", 0), "points=0: expected at least 1")):
        with pytest.raises(PlanError, match=f"tiled:{said}"):
            next(schedule_named("tiled").plans(residual(), Limits(), Wish(parameters=(given_,))))


@pytest.mark.parametrize("name", ["cell", "transposed", "matrix", "tiled"])
@given(
    num_basis=st.integers(1, 60),
    num_comp=st.integers(1, 3),
    num_qpts=st.integers(1, 60),
    items=st.sampled_from([32, 256, 1024]),
    local_bytes=st.sampled_from([16384, 49152]),
    stack_bytes=st.sampled_from([0, 1 << 20]),
    geometry=st.sampled_from(["stored", "recomputed"]),
)
def test_plans_of_a_schedule_are_legal(name, num_basis, num_comp, num_qpts, items, local_bytes, stack_bytes, geometry):
    """All that a schedule offers fits the device; the default comes first and follows the wish."""
    limits = Limits(items=items, local_bytes=local_bytes, stack_bytes=stack_bytes)
    entry, writes = schedule_named(name), {"matrix": frozenset({"g0", "g3"})}
    work = residual(num_basis, num_comp, num_qpts, target=entry.targets[0], writes=writes.get(name, frozenset({"f0", "f1"})))
    if entry.refuses(work, limits):
        return
    plans = list(entry.plans(work, limits, Wish("mixed", geometry, "atomic")))
    assert len(set(plans)) == len(plans) >= 1
    for plan in plans:
        (step,) = plan.steps()
        assert 1 <= step.items <= items and step.group_cells >= 1 and plan.local_bytes <= local_bytes
        assert (plan.precision, plan.geometry, plan.scatter) == ("mixed", geometry, "atomic")
        assert 0 < plan.seconds(limits.ceiling) < 1


@pytest.mark.parametrize(
    "num_basis, tile, rows, columns", [(4, 84, 4, 1), (10, 84, 10, 2), (27, 84, 27, 3), (27, 32, 27, 1), (64, 84, 32, 2)]
)
def test_tiles_fit_registers_and_write_whole_sectors(num_basis, tile, rows, columns):
    work, limits = matrix(num_basis, 1, 27).work, Limits(tile=tile, group=128, local_bytes=200_000)
    plan = next(schedule_named("matrix").plans(work, limits, Wish()))
    assert (plan.tile_rows, plan.tile_columns) == (rows, columns)
    assert rows * columns <= tile and plan.column_tiles >= 4
    assert plan.local_bytes <= limits.local_bytes // 3 and plan.items <= 256
    sparse = next(schedule_named("matrix").plans(replace(work, place="ushort"), limits, Wish(scatter="atomic")))
    assert sparse.local_bytes == plan.local_bytes + 16 * plan.group_cells * num_basis <= limits.local_bytes // 3
    # Whoever asks for points may fill the whole memory.
    asked = next(schedule_named("matrix").plans(work, limits, Wish(parameters=(("points", 14), ("cells", 2)))))
    assert asked.points == 14 and asked.passes == 2


def test_points_of_tiles_take_the_place_of_coefficients():
    """Where one pass takes all points; rows of words end where four of them are in different banks."""
    plan = TiledPlan(diffusion(4, 24), geometry="recomputed", cells=16, lanes=2, vectors=2, parts=24, mma=8)
    (step,) = plan.steps()
    assert (plan.passes, plan.items, step.barriers, step.global_size(33)) == (1, 96, 3, 288)
    assert plan.local_bytes == 8 * (10 + max(35, 24 * 3)) * 20 and [tile.words for tile in plan.table_tiles] == [
        3 * 9 * 3 * 32,
        3 * 6 * 3 * 2 * 32,
    ]
    twice = replace(plan, parts=16)
    assert twice.passes == 2 and twice.local_bytes == 8 * (10 + 35 + 16 * 3) * 20
    alone = replace(plan, mma=0, parts=4, unroll=2048, points=6)
    # Shares of tables are read 16 bytes at a time.
    assert alone.local_bytes == 8 * (10 + 72) * 16 and [tile.width for tile in alone.table_tiles] == [18, 10]


def test_long_pointwise_functions_are_compiled_once():
    """Points then pass through local memory, which has room for what they read."""
    plan = TiledPlan(diffusion(2, 4, 3, pointwise_size=400), lanes=2, cells=64, parts=4, unroll=2048)
    assert plan.unrolls_points and plan.point_words == 9
    longer = replace(plan, work=replace(plan.work, pointwise_size=1000, num_cell_state=1))
    assert not longer.unrolls_points and longer.point_words == 9 and longer.kept_words == 11
    second = field("u", "u", 10, 3, value=True, vector="u")
    assert replace(longer, work=replace(longer.work, fields=(*longer.work.fields, second))).point_words == 9 + 12


@pytest.mark.parametrize(
    ("num_basis", "num_qpts", "extra", "taken"),
    [
        # Scalars and their gradients: an item keeps twice the basis functions and ten numbers more.
        (20, 10, 0, False),
        (20, 10, 3, False),
        (20, 10, 4, True),
        # More points than are unrolled; more basis functions.
        (20, 60, 0, True),
        (21, 10, 0, True),
        (19, 10, 0, False),
        # Fewer numbers than either bound.
        (15, 10, 0, False),
    ],
)
def test_tiled_leaves_unrolled_points_alone(num_basis, num_qpts, extra, taken):
    gpu, entry = Limits(items=1024, local_bytes=200 << 10, mma=16, unroll=2048, block=32, group=128), schedule_named("tiled")
    rows, fields = (RowsWork(0, 0, num_basis, 1, value=False),), (field("w", "w", num_basis, value=False),)
    work = replace(diffusion(1, num_qpts, tables=(Table(num_basis), Table(4)), num_state=extra), rows=rows, fields=fields)
    numbers = TiledPlan(work, geometry="recomputed").cell_numbers
    assert entry.volunteers(work, gpu) == taken, numbers


def test_tiled_is_taken_where_registers_do_not_hold_a_cell():
    gpu, entry = Limits(items=1024, local_bytes=200 << 10, mma=16, unroll=2048, block=32, group=128), schedule_named("tiled")
    for degree, num_qpts, num_comp, taken in (
        (2, 4, 1, False),
        (3, 14, 1, False),
        (4, 24, 1, True),
        (8, 177, 1, True),
        (2, 4, 3, False),
        (3, 14, 3, True),
    ):
        work = diffusion(degree, num_qpts, num_comp)
        assert entry.volunteers(work, gpu) == taken
        # Of facets where registers do not hold what both cells have, and gradients are wanted.
        facets, held = replace(work, facet=True), TiledPlan(work, geometry="recomputed").cell_numbers
        plain = tuple(replace(entry, value=True, gradient=False) for entry in work.fields)
        assert entry.volunteers(facets, gpu) == (held >= 160)
        assert not entry.volunteers(replace(facets, fields=plain), gpu) and not entry.volunteers(facets, Limits())
        default, *others = entry.plans(work, gpu, Wish("double", "recomputed", "atomic"))
        assert default.mma and default.items % 32 == 0 and default.cells % 8 == 0 and len(others) == 11
        assert [plan.mma for plan in others] == [16] * 7 + [0] * 4
        assert cycles(default) <= min(map(cycles, others[:7])) < math.inf
        # Others than double precision items multiply by themselves.
        assert not next(entry.plans(work, gpu, Wish("single", "recomputed", "atomic"))).mma
    assert not any(entry.volunteers(diffusion(*given), Limits()) for given in ((2, 4), (3, 14), (8, 177)))
    # Diagonals by squares of so many basis functions.
    for degree, num_qpts, num_comp in ((2, 4, 3), (3, 14, 1), (4, 24, 1)):
        work = diffusion(degree, num_qpts, num_comp, target="diagonal", fields=(), writes=frozenset({"g3"}))
        assert entry.volunteers(work, gpu) == entry.volunteers(work, Limits()) == (degree > 2)
        # Those of facets, and of other cells, were not timed on a GPU.
        for other in (replace(work, facet=True), replace(work, cell="prism")):
            assert not entry.volunteers(other, gpu) and entry.volunteers(other, Limits()) == (degree > 2)
        # Coefficients of a higher degree count for nothing.
        fine = replace(work, tables=(work.tables[0], Table(4), Table(84)))
        assert entry.volunteers(fine, gpu) == (degree > 2)
    # An item that would hold more than its registers.
    assert cycles(TiledPlan(diffusion(8, 177), cells=8, lanes=2, parts=8, mma=8, points=20)) == math.inf
    asked = Wish(parameters=(("cells", 64), ("width", 4), ("parts", 3), ("points", 2), ("mma", 0)))
    plan = next(entry.plans(diffusion(3, 14), gpu, asked))
    assert (plan.cells, plan.lanes, plan.vectors, plan.parts, plan.points, plan.mma) == (64, 2, 2, 3, 2, 0)
    # As much of it as there is room for.
    assert next(entry.plans(diffusion(3, 14), replace(gpu, local_bytes=1024), asked)).local_bytes <= 1024
