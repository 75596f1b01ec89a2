"""Plans of schedule cell in which work-groups, and items of CPUs, add up results before they leave."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from plan_works import diffusion, field, residual

from femgpu.errors import PlanError
from femgpu.kernels import RowsWork, Table, Wish, schedule_named
from femgpu.kernels.node_lists import MOST_SLOTS, SLICE
from femgpu.kernels.schedules import CellLanesPlan, CellLaneSumsPlan, CellPlan, CellSumsPlan
from femgpu.model import Limits
from femgpu.operators.sums import segment_cells

GPU = Limits(native_atomics=True, unroll=2048, block=32, group=128, local_bytes=200 << 10)


def test_items_of_cpus_add_up_their_cells():
    """Of continuous functions with several nodes, and where they are asked for, as many cells as have room."""
    schedule, cpu = schedule_named("cell"), Limits(lanes=4, stack_bytes=1 << 20)

    def plans(work, limits=cpu, scatter="evector", **parameters):
        return list(schedule.plans(work, limits, Wish(scatter=scatter, parameters=tuple(parameters.items()))))

    work = diffusion(2, 14)
    work = replace(work, rows=(replace(work.rows[0], nodes=0),), fields=(replace(work.fields[0], nodes=0),))
    first, second, *_ = plans(work)
    assert (type(first), first.cells, first.lanes, type(second)) == (CellLaneSumsPlan, 128, 4, CellLanesPlan)
    assert first.steps()[0].global_size(129) == 2 and first.bytes < second.bytes
    assert isinstance(plans(diffusion(1, 1, 3))[0], CellLaneSumsPlan)
    apart = replace(diffusion(2, 14), rows=(replace(diffusion(2, 14).rows[0], continuous=False),))
    others = [plans(apart), plans(diffusion(1, 1)), plans(diffusion(2, 14), lanes=4), plans(diffusion(2, 14), group_size=2)]
    others.append(plans(diffusion(2, 14), scatter="atomic"))
    assert {type(found[0]) for found in others} == {CellLanesPlan}
    (asked,) = plans(diffusion(1, 1), lanes=2, sums=64)
    assert (type(asked), asked.cells, asked.lanes) == (CellLaneSumsPlan, 64, 2)
    assert plans(diffusion(2, 14), replace(cpu, local_bytes=8192), lanes=4, sums=128)[0].cells == 64
    for wrong in (48, 1024):
        with pytest.raises(PlanError, match=f"lanes=4,sums={wrong}: expected for sums .*, a multiple of 32 up to 512"):
            plans(diffusion(2, 14), lanes=4, sums=wrong)
    for limits, more in ((GPU, {}), (cpu, {"turns": 2}), (cpu, {"group_size": 4})):
        with pytest.raises(PlanError, match=r"cell:lanes=4,sums=32.*on CPUs only, and have no other parameters"):
            plans(diffusion(2, 14), limits, lanes=4, sums=32, **more)
    # Without room for a slice of cells they stand side by side all the same.
    assert type(plans(diffusion(2, 14), replace(cpu, local_bytes=512), lanes=4, sums=128)[0]) is CellLanesPlan


def test_e_vectors_have_room_for_sums():
    """Whatever the number of cells, of groups that may be asked for; others are an error, of works that add up."""
    schedule, limits = schedule_named("cell"), replace(GPU, items=1024)

    def plans(work, scatter="evector", **parameters):
        return list(schedule.plans(work, limits, Wish(scatter=scatter, parameters=tuple(parameters.items()))))

    for asked in ({"sums": 96}, {"sums": 160, "turns": 3}, {"sums": 64, "slots": 256}):
        plan = plans(diffusion(1, 1), **asked)[0]
        (entry,) = plan.lists
        for count in (1, 95, 96, 511, 512, 1000, 1024, 1025):
            term = SimpleNamespace(use="", facets=None, num_cells=count)
            groups = -(-count // plan.group_cells)
            assert groups * entry.num_slots <= segment_cells(term, 32) * entry.num_basis
    for wrong in ({"sums": 48}, {"sums": 512, "turns": 3}, {"sums": 32, "slots": 256}):
        with pytest.raises(PlanError, match=r"a multiple of 32 items, up to 512 cells, and no more slots than these have nodes"):
            plans(diffusion(1, 1), **wrong)
        assert isinstance(plans(diffusion(1, 1), scatter="atomic", **wrong)[0], CellSumsPlan)
        for work in (diffusion(1, 1, facet=True), diffusion(1, 1, rows=(), target="state")):
            assert type(plans(work, **wrong)[0]) is CellPlan
    assert segment_cells(SimpleNamespace(use="", facets=object(), num_cells=33), 32) == 64
    assert segment_cells(SimpleNamespace(use="matrices", facets=None, num_cells=33), 32) == 0


@pytest.mark.parametrize(
    ("cell", "num_basis", "num_comp", "more", "most"),
    [
        ("triangle", 3, 1, {}, 50),
        ("triangle", 6, 1, {}, 30),
        ("triangle", 6, 1, dict(precision="single"), 0),
        ("triangle", 6, 1, dict(target="residual"), 0),
        ("triangle", 10, 1, {}, 135),
        ("triangle", 15, 1, {}, 90),
        ("triangle", 21, 1, {}, 0),
        ("triangle", 10, 2, {}, 70),
        ("triangle", 15, 2, {}, 0),
        ("triangle", 6, 3, {}, 70),
        ("triangle", 6, 2, dict(target="residual"), 60),
        ("triangle", 10, 2, dict(target="residual"), 0),
        ("tetrahedron", 10, 1, {}, 220),
        ("tetrahedron", 10, 1, dict(precision="single"), 128),
        ("tetrahedron", 20, 1, {}, 150),
        ("tetrahedron", 56, 1, {}, 0),
        ("tetrahedron", 20, 1, dict(precision="single"), 0),
        ("tetrahedron", 10, 2, {}, 128),
        ("tetrahedron", 10, 3, dict(precision="single"), 440),
        ("tetrahedron", 10, 4, {}, 440),
        ("tetrahedron", 20, 3, {}, 0),
        ("tetrahedron", 10, 3, dict(target="residual"), 128),
    ],
)
def test_operations_of_groups_that_add_up(cell, num_basis, num_comp, more, most):
    """Up to how many for each result they are the default."""
    wish = Wish(more.get("precision", "double"), scatter="atomic")
    dim = 2 if cell == "triangle" else 3
    rows, fields = (RowsWork(0, 0, num_basis, num_comp),), (field("w", "w", num_basis, num_comp),)
    sizes = dict(cell=cell, dim=dim, tables=(Table(num_basis), Table(dim + 1)), target=more.get("target", "action"))
    work = replace(diffusion(1, 1, num_comp, **sizes), rows=rows, fields=fields)
    base = next(iter(schedule_named("cell").plans(work, GPU, wish))).flops

    def first(flops):
        plan = next(iter(schedule_named("cell").plans(replace(work, pointwise_flops=flops - base), GPU, wish)))
        assert plan.flops == flops
        return type(plan)

    most *= work.num_rows
    assert (first(max(most, base)), first(max(most, base) + 1)) == (CellSumsPlan if most else CellPlan, CellPlan)


def test_groups_add_up_where_that_was_faster():
    """Functions of low degree on simplices, where adding to memory is fast and bounds them, and wherever they are asked for."""
    schedule = schedule_named("cell")

    def plans(work, limits=GPU, scatter="atomic", precision="double", **parameters):
        return list(schedule.plans(work, limits, Wish(precision, scatter=scatter, parameters=tuple(parameters.items()))))

    def linear(**changes):
        work = diffusion(1, 1, **changes)
        return replace(work, rows=(replace(work.rows[0], nodes=0),), fields=(replace(work.fields[0], nodes=0),))

    first = plans(linear())[0]
    assert isinstance(first, CellSumsPlan) and first.group_size == 128 and first.lists[0].fields == ("w",)
    # 512 entries: sums in (512 + 31 * 16) / 32 rows, more than values at as many nodes; a node, a count and a place of each.
    assert first.local_bytes == 8 * 33 * 31 + 7 * 512
    (asked,) = plans(linear(), Limits(), sums=100)
    assert asked.steps()[0].group_cells == asked.group_size == 100
    # Where results are not added: whole slices of nodes, and no zeros are needed.
    stored = plans(linear(), scatter="evector")[0]
    assert isinstance(stored, CellSumsPlan) and not stored.zeroes and stored.group_size % SLICE == 0
    # As many as fit, and none where there is no room.
    assert plans(linear(), Limits(local_bytes=8192), sums=128)[0].group_size == 64
    assert not isinstance(plans(linear(), Limits(local_bytes=128), sums=128)[0], CellSumsPlan)
    assert plans(diffusion(4, 24), sums=256)[0].lists[0].num_slots <= MOST_SLOTS
    # Fewer bytes than each cell by itself, of which as much passes for each cell.
    plain = plans(linear(), group_size=128)[0]
    assert type(plain) is CellPlan and first.bytes < plain.bytes
    others = [
        plans(linear(), Limits())[0],
        plans(linear(), sums=0)[0],
        plans(linear(), precision="mixed")[0],
        plans(linear(source="evector"), scatter="evector", sums=128)[0],
        plans(linear(facet=True), scatter="evector", sums=128)[0],
        plans(linear(target="functional"), scatter="evector", sums=128)[0],
        plans(linear(affine=False))[0],
        plans(diffusion(3, 14))[0],
        plans(diffusion(2, 45, pointwise_flops=100))[0],
        plans(replace(linear(), rows=(replace(linear().rows[0], continuous=False),)))[0],
        plans(linear(), replace(GPU, items=128))[0],
    ]
    assert {type(other) for other in others} == {CellPlan}
    # Actions on vectors, of more operations.
    vector = diffusion(2, 18)
    vector = replace(vector, rows=(replace(vector.rows[0], num_comp=3),), fields=(replace(vector.fields[0], num_comp=3),))
    (action, other), busy = (
        (plans(replace(vector, target=target))[0] for target in ("action", "residual")),
        replace(vector, num_qpts=45),
    )
    assert 220 < action.flops / vector.num_rows <= 440
    assert (type(action), type(other), type(plans(busy)[0])) == (CellSumsPlan, CellPlan, CellPlan)
    # By a model, too, only where it was measured.
    assert first.seconds(GPU.ceiling) < plain.seconds(GPU.ceiling)
    many = next(plan for plan in plans(diffusion(2, 45)) if isinstance(plan, CellSumsPlan))
    assert many.seconds(GPU.ceiling) > plans(diffusion(2, 45))[0].seconds(GPU.ceiling)
    # Vectors, and in single precision; on triangles, in larger groups, actions of scalars only if they are short and double.
    assert all(isinstance(plans(diffusion(1, 1, 3), precision=precision)[0], CellSumsPlan) for precision in ("double", "single"))
    flat = [diffusion(1, 1, num_comp, cell="triangle", dim=2) for num_comp in (1, 2)]
    assert [(type(plan), plan.group_size) for plan in (plans(work)[0] for work in flat)] == [(CellSumsPlan, 256)] * 2
    assert isinstance(plans(flat[1], precision="single")[0], CellSumsPlan)
    others = [
        plans(flat[0], precision="single")[0],
        plans(replace(flat[0], target="residual"))[0],
        plans(replace(flat[0], pointwise_flops=200))[0],
        plans(diffusion(2, 14), precision="single")[0],
        plans(diffusion(2, 24))[0],
    ]
    assert [type(other) for other in others] == [CellPlan] * 5
    # Of degree 2 also scalars on tetrahedra with more of them; each item reads four nodes at a time there, of vertices one.
    scalar = plans(diffusion(2, 14))[0]
    assert isinstance(scalar, CellSumsPlan) and 128 < scalar.flops / scalar.work.num_rows <= 220
    assert (scalar.reads(scalar.lists[0]), first.reads(first.lists[0])) == (4, 1)
    # Vectors of degree 3 on triangles, in groups of 128.
    cubic, fluxes = RowsWork(0, 0, 10, 2, value=False), field("w", "w", 10, 2, value=False)
    flat = replace(diffusion(1, 6, 2, cell="triangle", dim=2, tables=(Table(10), Table(3))), rows=(cubic,), fields=(fluxes,))
    assert (type(plans(flat)[0]), plans(flat)[0].group_size) == (CellSumsPlan, 128)
    # A measurement may take what is no default.
    assert any(isinstance(plan, CellSumsPlan) for plan in plans(diffusion(3, 14)))
    for wrong in (-1, 1025):
        with pytest.raises(PlanError, match=f"cell:sums={wrong}: the device allows work-groups of 1 to 1024 items"):
            plans(linear(), sums=wrong)
    with pytest.raises(
        PlanError, match="cell:sums=48: groups add .*-femgpu_precision mixed.*; use .*, or schedule cell without sums"
    ):
        plans(linear(), sums=48, precision="mixed")


def test_numbers_of_a_node_stand_in_vectors():
    """Where there are four or more in single precision, on GPUs; aligned, and in no more local memory."""

    def plan(num_comp, precision="single", limits=GPU, geometry="recomputed"):
        work = diffusion(1, 1, num_comp, coord_table=0)
        work = replace(work, rows=(replace(work.rows[0], nodes=0),), fields=(replace(work.fields[0], nodes=0),))
        wish = Wish(precision, geometry, scatter="atomic", parameters=(("sums", 128),))
        return next(iter(schedule_named("cell").plans(work, limits, wish)))

    assert [plan(num_comp).lists[0].vector_widths for num_comp in range(1, 6)] == [(4,), (4, 1), (4, 2), (4, 2, 1), (4, 4)]
    others = [plan(2, "double"), plan(2, limits=Limits()), plan(3, geometry="stored"), plan(4, geometry="stored")]
    assert not any(other.lists[0].vector_widths for other in others)
    (entry,) = plan(3).lists
    assert [(array.name, array.ctype, [(name, c) for name, _, c in array.numbers]) for array in entry.vector_arrays] == [
        ("s_values0_0", "float4", [("x", 0), ("x", 1), ("x", 2), ("w", 0)]),
        ("s_values0_1", "float2", [("w", 1), ("w", 2)]),
    ]
    assert plan(3).local_bytes == replace(plan(3), unroll=0).local_bytes


@pytest.mark.parametrize(
    "cell, num_comp, precision, turns, slots",
    [
        ("triangle", 1, "single", 3, 256),
        ("triangle", 2, "single", 3, 256),
        ("triangle", 1, "double", 2, 256),
        ("triangle", 2, "double", 1, 256),
        ("tetrahedron", 1, "single", 3, 0),
        ("tetrahedron", 1, "double", 1, 0),
        ("tetrahedron", 3, "single", 1, 0),
    ],
)
def test_items_of_groups_have_as_many_cells_as_local_memory_is_good_for(cell, num_comp, precision, turns, slots):
    """At vertices, where twelve groups still find room; several cells' results stand behind the values at the nodes.

    On triangles first of all in rows that are as long for all nodes, of which it is known that three cells fit.
    """
    dim = 2 if cell == "triangle" else 3
    rows = (RowsWork(0, 0, dim + 1, num_comp, nodes=0),)
    fields = (replace(field("u", "u", dim + 1, num_comp), nodes=0), replace(field("a0", "a", 1, 1), table=1))
    tables = (Table(dim + 1), Table(1))
    work = replace(
        diffusion(1, 1, num_comp, cell=cell, dim=dim, tables=tables, target="residual"), rows=rows, fields=fields, coord_table=0
    )
    first = next(iter(schedule_named("cell").plans(work, GPU, Wish(precision, "recomputed", scatter="atomic"))))
    assert isinstance(first, CellSumsPlan) and first.slots == slots
    if slots:
        (entry,), words = first.lists, 4 * (precision == "single") or 8
        assert (first.turns, first.group_size, entry.packed, entry.kept, first.takes_local) == (3, 128, True, num_comp == 1, False)
        kept = 0 if num_comp == 1 else 5 * slots
        # Rows of a component with a gap behind each but the last one, and another between components.
        sums = num_comp * 6 * slots + 64 // words * (7 * num_comp - 2)
        assert first.local_bytes == kept + words * (slots * entry.num_values + sums)
        assert entry.num_places == 6 * (slots + 64 // words) and first.sliced().group_size == (128 if turns > 1 else 256)
        # Parts of a mesh have groups that need more.
        wish = Wish(precision, "recomputed", scatter="atomic", whole=False)
        assert first.sliced() == next(iter(schedule_named("cell").plans(work, GPU, wish)))
        first = first.sliced()
    assert first.turns == turns and first.sliced() is first
    assert first.steps()[0].group_cells == turns * first.group_size == first.lists[0].cells
    (asked,) = schedule_named("cell").plans(
        work, GPU, Wish(precision, "recomputed", scatter="atomic", parameters=(("sums", 64), ("turns", 2)))
    )
    (entry,) = asked.lists
    values, sums = entry.num_values * entry.num_slots, (num_comp - 1) * entry.comp_step + entry.num_places
    assert (asked.group_size, asked.turns) == (64, 2)
    assert asked.local_bytes == 7 * entry.num_slots + asked.itemsize("real") * (values + sums)
    # Offsets of the coefficient, of which each cell has one, may be left out.
    assert [array.role[0] for array in first.arguments() if "offsets" in array.name] == ["cell_offsets"]


def test_items_of_groups_have_fewer_cells_where_the_worst_mesh_decides():
    """Local memory for all lists of nodes is an argument, as large as the mesh needs it, up to 48 KB only."""
    rows, fields = (RowsWork(0, 0, 4, 1, nodes=0),), tuple(replace(field(name, name, 4, 1), nodes=0) for name in "uw")
    work = replace(diffusion(1, 1, tables=(Table(4),), target="action"), rows=rows, fields=fields, coord_table=0)
    plan = CellSumsPlan(work, "single", "recomputed", "atomic", unroll=GPU.unroll, group_size=128)
    assert not replace(plan, turns=3).takes_local and replace(plan, turns=2).takes_local and plan.worth_turns == 2


@pytest.mark.parametrize("parameters", [{"turns": 2}, {"turns": 2, "group_size": 64}, {"sums": 64, "turns": 2000}])
def test_cells_of_an_item_are_asked_for_with_sums(parameters):
    with pytest.raises(PlanError, match=r"cell:turns=\d+: expected the cells of each item of a group, as in cell:sums=128,turns=2"):
        list(schedule_named("cell").plans(diffusion(1, 1), GPU, Wish(scatter="atomic", parameters=tuple(parameters.items()))))


@pytest.mark.parametrize("parameters", [{"slots": 256}, {"sums": 128, "slots": 100}, {"sums": 128, "slots": 4128}])
def test_rows_of_a_group_are_asked_for_in_slices(parameters):
    said = r"cell:slots=\d+: expected slots for the nodes of a group, a multiple of 32 up to 4096, as in cell:sums=128"
    with pytest.raises(PlanError, match=said):
        list(schedule_named("cell").plans(diffusion(1, 1), GPU, Wish(scatter="atomic", parameters=tuple(parameters.items()))))


def test_rows_fit_where_slices_do():
    """For these take their place where a mesh needs more slots; who makes lists numbers 4096 entries of a group at most."""

    def first(**parameters):
        wish = Wish("single", "recomputed", scatter="atomic", parameters=tuple(parameters.items()))
        return next(iter(schedule_named("cell").plans(residual(), GPU, wish)))

    def fitting(**parameters):
        return first(**parameters).group_size

    assert fitting(sums=1024, slots=32) == fitting(sums=1024)
    assert [fitting(sums=sums, turns=16, slots=2048) for sums in (64, 85, 86, 128)] == [64, 85, 43, 64]
    # Of no more cells for each item than were asked for.
    assert [first(sums=128, turns=turns, slots=256).sliced().turns for turns in (1, 2, 4)] == [1, 2, 3]
    # Discontinuous functions share no nodes.
    plan = first(sums=128, turns=3)
    broken = replace(plan.work, rows=(replace(plan.work.rows[0], continuous=False),))
    assert (plan.worth_slots, replace(plan, work=broken).worth_slots) == (256, 0)


def test_items_of_groups_have_one_cell_where_nodes_are_not_vertices():
    """Also where local memory has room for more."""
    plan = CellSumsPlan(diffusion(2, 4), "single", "recomputed", "atomic", unroll=GPU.unroll, group_size=32)
    several = replace(plan, turns=2)
    assert several.takes_local and several.typical_bytes <= (227 << 10) // 12 and plan.worth_turns == 1
