"""Plans of schedule cell: cells side by side, points that are unrolled, combinations."""

from dataclasses import replace

import pytest
from plan_works import cell, diffusion, field, residual

from femgpu.element import LagrangeElement, mirror_of, mirrored_derivatives, mirrored_polynomials
from femgpu.errors import PlanError
from femgpu.kernels import RowsWork, Symmetry, Table, Wish, schedule_named
from femgpu.kernels.schedules import CellLanesPlan, CellPlan, CellSumsPlan, TiledPlan
from femgpu.model import Limits

GPU = Limits(native_atomics=True, unroll=2048, block=32, group=128, local_bytes=200 << 10)


def test_cells_stand_side_by_side_on_cpus():
    """Of residuals and actions over cells; elsewhere, and with one lane, each item has a cell."""
    schedule, cpu = schedule_named("cell"), Limits(lanes=4, stack_bytes=1 << 20)

    def first(work, limits=cpu, **wish):
        return next(iter(schedule.plans(work, limits, Wish(**wish))))

    plan = first(residual())
    assert isinstance(plan, CellLanesPlan) and plan.steps()[0].group_cells == 4 * plan.group_size
    assert plan.group_size * plan.private_bytes <= 32768
    # Points are unrolled, with literals for tables, while there are few operations and the function at a point is short.
    works = [diffusion(2, points, pointwise_size=size) for points, size in ((14, 0), (24, 0), (14, 50))]
    plans = [CellLanesPlan.wished(work, cpu, Wish(), lanes=4) for work in works]
    assert [plan.unrolls_points for plan in plans] == [True, False, False]
    assert [plan.table_space for plan in plans] == ["__constant", "__global", "__global"]
    assert first(residual(), parameters=(("lanes", 8), ("group_size", 3))).steps()[0].group_cells == 24
    assert first(residual(), precision="single").lanes == 8
    others = [
        first(residual(), parameters=(("lanes", 1),)),
        first(residual(), Limits()),
        first(residual(facet=True)),
        first(residual(), precision="mixed"),
        first(residual(target="functional", rows=(), writes=frozenset({"f0"})), parameters=(("lanes", 4),)),
    ]
    assert [type(other) for other in others] == [CellPlan] * 5
    with pytest.raises(PlanError, match="cell:lanes=3: expected one of 1, 2, 4, 8"):
        first(residual(), parameters=(("lanes", 3),))


def test_points_are_unrolled_as_long_as_instructions_stay_at_hand():
    def plan(work, limits=GPU):
        return CellPlan.wished(work, limits, Wish("double", scatter="atomic"))

    work = diffusion(3, 24)
    assert 1.5 < work.num_qpts * work.point_size / GPU.unroll < 5 and plan(work).unrolls_points
    # Where they reach twice as much of what the device does.
    rolled = replace(plan(work), unroll=work.point_size)
    assert rolled.unrolls_basis and not rolled.unrolls_points
    assert 1.5 < rolled.seconds(GPU.ceiling) / plan(work).seconds(GPU.ceiling) <= 2
    others = [
        plan(diffusion(3, 45)),
        # Long functions at the points, which compilers take a time for; tables that are arguments; seldom used.
        plan(replace(diffusion(2, 24), pointwise_size=180)),
        plan(replace(work, facet=True)),
        plan(replace(diffusion(2, 14), target="diagonal")),
        plan(replace(diffusion(1, 4), rows=(), target="functional")),
        plan(work, Limits()),
        plan(work, replace(GPU, unroll=work.point_size - 1)),
    ]
    assert not any(other.unrolls_points for other in others)
    assert plan(replace(diffusion(2, 24), pointwise_size=160)).unrolls_points
    assert plan(replace(work, target="residual")).unrolls_points and plan(diffusion(1, 1, facet=True)).unrolls_points
    # As long as they are few with few rows.
    facets = [plan(diffusion(2, points, facet=True)).unrolls_points for points in (6, 7)]
    assert facets == [True, False]
    times = [replace(other, precision="single").seconds(GPU.ceiling) for other in (rolled, plan(work))]
    assert times[0] > 1.3 * times[1]


def test_functions_of_a_cell_become_those_of_vectors():
    plan = cell(plan=CellLanesPlan, lanes=2, precision="single")
    assert plan.adapted("real f(TABLE const real *B, accum *e)") == "float2 f(TABLE const real *B, float2 *e)"
    gathered = "(float2)(d_geometry[AT_d_geometry(cell0, (q) + 1)], d_geometry[AT_d_geometry(cell1, (q) + 1)])"
    assert plan.word("d_geometry", "(q) + 1") == gathered
    assert plan.adapted("for (int c = 0;") == '_Pragma("clang loop unroll(full)") for (int c = 0;'
    whole, rolled = '_Pragma("clang loop unroll(full)") ', '_Pragma("unroll 1") '
    for text, marked in (("UNROLL\n  for (int b = 0;", "for (int b = 0;"), ("for (int q = 0;", "for (int q = 0;")):
        assert plan.adapted(text) == whole + marked
        assert replace(plan, work=diffusion(2, 24)).adapted(text) == rolled + marked


def test_a_mass_on_tetrahedra_of_degree_4_has_its_tables_in_constant_memory():
    gpu, entry = replace(GPU, items=1024, mma=16), schedule_named("tiled")

    def mass(num_basis, num_qpts, **changes):
        fields = (field("w", "w", num_basis, gradient=False),)
        rows = (RowsWork(0, 0, num_basis, 1, gradient=False),)
        given = dict(tables=(Table(num_basis), Table(4)), writes=frozenset({"f0"}), reference=True, num_state=0) | changes
        return replace(diffusion(1, num_qpts), fields=fields, rows=rows, **given)

    work = mass(35, 35)
    plan = CellPlan.wished(work, gpu, Wish("double", "recomputed", "atomic"))
    assert 32768 < 8 * plan.words_of() < 61440 and plan.table_space == "__constant" and plan.unrolls_points
    assert not entry.volunteers(work, gpu)
    # Of triangles tiles take less time from fewer numbers on, of degree 5 in any case.
    assert entry.volunteers(replace(work, cell="triangle"), gpu) and entry.volunteers(mass(56, 56), gpu)
    assert CellPlan.wished(mass(56, 56), gpu, Wish("double")).table_space == "__global"
    # More numbers than that, and derivatives.
    assert entry.volunteers(replace(work, num_cell_state=9), gpu) and entry.volunteers(diffusion(4, 20), gpu)


@pytest.mark.parametrize(
    ("cell", "degree", "modes", "num_comp", "saved", "schedule"),
    [
        # Poisson's equation and elasticity; None: too little is saved, or too much is left, or tables are too long.
        ("tetrahedron", 2, 1, 1, 320, None),
        ("triangle", 3, 2, 1, 224, None),
        ("triangle", 4, 3, 1, 576, "cell"),
        ("triangle", 4, 3, 2, 1152, "cell"),
        ("triangle", 6, 5, 2, 4608, "cell"),
        ("triangle", 7, 6, 1, 3968, "cell"),
        ("triangle", 7, 6, 2, 7936, None),
        ("triangle", 8, 7, 1, 6400, None),
        ("tetrahedron", 3, 2, 1, 1696, "cell"),
        ("tetrahedron", 3, 2, 3, 5088, "cell"),
        ("tetrahedron", 4, 3, 1, 6088, "cell"),
        ("tetrahedron", 4, 3, 3, 18264, None),
        ("tetrahedron", 3, 2, 4, 6784, "tiled"),
        ("tetrahedron", 5, 4, 1, 17248, None),
    ],
)
def test_combinations_where_they_save_enough(cell, degree, modes, num_comp, saved, schedule):
    """On a GPU groups then add up, in both precisions, and no tiles are taken as long as registers hold a cell."""
    gpu, (_, begins) = replace(GPU, items=1024, mma=16), mirrored_polynomials(cell, modes)
    mirror, dim = mirror_of(LagrangeElement(cell, degree)), 2 if cell == "triangle" else 3
    num_basis, symmetry = len(mirror.order), Symmetry(((0, mirror),), begins, mirrored_derivatives(cell)[1], False)
    work = replace(
        diffusion(1, begins[-1], num_comp, cell=cell, dim=dim),
        num_state=0,
        modes=modes,
        symmetry=symmetry,
        rows=(RowsWork(0, 0, num_basis, num_comp, value=False, nodes=0),),
        fields=(replace(field("w", "w", num_basis, num_comp, value=False), nodes=0),),
        tables=(Table(num_basis), Table(dim + 1)),
    )
    plan = CellPlan.wished(work, gpu, Wish("double", "recomputed", "atomic"))
    assert (plan.savings, plan.mirrored) == (saved, schedule is not None)
    assert plan.flops + saved * plan.mirrored == replace(plan, work=replace(work, symmetry=None)).flops
    if schedule:
        assert schedule_named("tiled").volunteers(work, gpu) == (schedule == "tiled")
        # Where adding is slow, and groups are small, tiles are as they were.
        numbers = TiledPlan(work, geometry="recomputed").cell_numbers
        for limits in (replace(gpu, native_atomics=False), replace(gpu, local_bytes=16 << 10)):
            assert schedule_named("tiled").volunteers(work, limits) == (
                num_basis >= 15 and numbers >= (60 if num_basis <= 20 else 48)
            )
        for precision in ("double", "single"):
            first = next(iter(schedule_named("cell").plans(work, gpu, Wish(precision, "recomputed", "atomic"))))
            assert isinstance(first, CellSumsPlan) and first.beats_cells and first.mirrored
        small = replace(gpu, local_bytes=8 << 10)
        assert type(next(iter(schedule_named("cell").plans(work, small, Wish("double", "recomputed", "atomic"))))) is CellPlan
        broken = replace(work, rows=(replace(work.rows[0], continuous=False),))
        assert type(next(iter(schedule_named("cell").plans(broken, gpu, Wish("double", "recomputed", "atomic"))))) is CellPlan
