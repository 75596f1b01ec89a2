"""Plans of schedule sumfact: operations, barriers, local memory; which lines pencils keep, where stored numbers stand."""

from dataclasses import replace

import numpy as np
import pytest
from plan_works import field, sumfact

from femgpu.bench import evector
from femgpu.bench.bakeoff import weak_form
from femgpu.bench.grid import Grid, GridSpace
from femgpu.errors import PlanError
from femgpu.forms import bilinear_form
from femgpu.kernels import SECOND, RowsWork, Wish, schedule_named
from femgpu.kernels.arguments import state_plane, state_word
from femgpu.kernels.array import Layout
from femgpu.kernels.schedules import (
    SumfactGroupPlan,
    SumfactPencilPlan,
    SumfactPlan,
    SumfactPlanePlan,
    SumfactSlicePlan,
)
from femgpu.kernels.tables import parity_parts
from femgpu.model import Limits
from femgpu.model.bakeoff import PROBLEMS
from femgpu.operators import make_terms
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import Device, current

GPU = Limits(items=1024, unroll=2048, block=32, group=128, local_bytes=227 << 10, mma=16)


def test_operations_of_sum_factorisation():
    """A gradient in 3D and its transpose take 18 contractions from the basis, 12 at the points, 6 where these are the nodes."""
    for n in (3, 6, 9):
        plain = sumfact(3, n, n, geometry="stored")
        counts = [
            sum(step.flops for sums in (*plan.fields, *plan.rows) for step in sums.evaluation())
            for plan in (replace(plain, derivatives=1), plain)
        ]
        assert counts == [18 * 2 * n**4, 12 * 2 * n**4]
        assert schedule_named("sumfact").volunteers(plain.work, Limits())
        gpu = Limits(unroll=1000, local_bytes=1 << 17)
        assert schedule_named("sumfact").volunteers(plain.work, gpu)
        # Pencils are for residuals and actions, and for what fits local memory.
        assert not schedule_named("sumfact").volunteers(replace(plain.work, target="state"), gpu)
        assert not schedule_named("sumfact").volunteers(plain.work, replace(gpu, local_bytes=1024))
    # A field of few functions has less to contract before all directions are at the points.
    few = sumfact(3, 8, 2)
    assert not few.fields[0].collocates and replace(few, derivatives=2).fields[0].collocates
    # Points that do not determine the polynomial.
    assert not replace(sumfact(3, 2, 3), derivatives=2).fields[0].collocates


def test_barriers_and_local_memory_of_sum_factorisation():
    """Barriers around 4 contractions each way, all components abreast, and the element once."""
    for num_comp in (1, 3):
        fields, rows = (field("w", "w", 64, num_comp, value=False),), (RowsWork(0, 0, 64, num_comp, value=False),)
        plan = sumfact(3, 4, 4, plan=SumfactGroupPlan, fields=fields, rows=rows, items=16, cells=2, writes=frozenset({"f1"}))
        # Derivatives along the directions are independent one way, and add to the same the other way.
        assert [len(plan.evaluation), len(plan.integration)] == [4, 6]
        assert plan.local_bytes == 2 * plan.needed_bytes == 2 * 8 * 2 * (4 + 1 + 2) * num_comp * 64
        # A lattice for each derivative of a component, and one for its values; the rows take those of the field.
        pencils = SumfactPencilPlan(plan.work, cells=2, derivatives=2)
        assert pencils.serves and pencils.items == 16
        assert pencils.local_bytes == 2 * pencils.needed_bytes == 2 * 8 * 4 * num_comp * 64
        # On a GPU neighbours read from different banks.
        assert 2 * pencils.needed_bytes <= replace(pencils, unroll=2048).local_bytes <= 2.8 * pencils.needed_bytes
        # A lattice for each component.
        planes = SumfactPlanePlan(plan.work, cells=2, derivatives=2)
        assert planes.serves == (num_comp == 1) and planes.items == 4 and planes.local_bytes == 2 * 8 * num_comp * 64
    assert not replace(pencils, work=replace(plan.work, writes=SECOND)).serves
    # Numbers that cross local memory: of derivatives, and where points are nodes of an interpolation, too.
    assert pencils.local_traffic == 3 * 8 * (19 + 8) * 64 and planes.local_traffic == 3 * 8 * (8 + 4) * 64
    assert planes.beats_pencils and not SumfactPlanePlan(sumfact(3, 8, 7).work).beats_pencils
    # Where memory bounds both, and of several components from 4 points per direction on, pencils take less time.
    for changes in (dict(source="evector"), dict(num_state=6)):
        assert not SumfactPlanePlan(replace(planes.work, **changes), derivatives=2).beats_pencils
        assert not SumfactSlicePlan(replace(sumfact(3, 6, 6).work, **changes), derivatives=2).beats_pencils
    with pytest.raises(
        PlanError, match="sumfact:lanes=N,items=N: an item has cells, or cells have items, pencils, planes or slices; give one"
    ):
        next(schedule_named("sumfact").plans(plan.work, Limits(), Wish(parameters=(("lanes", 4), ("items", 4)))))
    wish = Wish(parameters=(("items", 16), ("cells", 100)))
    plans = schedule_named("sumfact").plans(plan.work, Limits(local_bytes=plan.needed_bytes * 3), wish)
    assert next(plans).cells == 3
    gpu = Limits(unroll=2048, group=128, local_bytes=227 << 10)
    (default, *_) = schedule_named("sumfact").plans(pencils.work, gpu, Wish())
    assert type(default) is SumfactPencilPlan and (default.items, default.cells) == (16, 2)
    # As many items of a warp as possible have something to do, but a warp less is worth some idle items; groups fill the registers.
    for q1d, cells in ((6, 5), (7, 3), (8, 1), (9, 1)):
        offered = schedule_named("sumfact").plans(sumfact(3, q1d, q1d).work, gpu, Wish())
        first = next(plan for plan in offered if type(plan) is SumfactPencilPlan)
        assert (first.items, first.cells) == (q1d**2, cells)
    # What is stored at the points arrives sooner for small groups; three components leave room for four groups.
    stored = replace(sumfact(3, 6, 6).work, num_state=6)
    (default, *_) = schedule_named("sumfact").plans(stored, gpu, Wish())
    assert (default.items, default.cells, default.loads_next) == (36, 1, True)
    vector = replace(sumfact(3, 7, 6).work, fields=(field("w", "w", 216, 3),), rows=(RowsWork(0, 0, 216, 3),))
    (default, *_) = schedule_named("sumfact").plans(vector, gpu, Wish())
    assert (default.items, default.cells) == (49, 1) and 2 * default.needed_bytes > gpu.local_bytes // 4
    # A warp of slices or two, whose lattices are little larger than their numbers.
    for q1d, p1d, cells in ((6, 6, 10), (6, 5, 10), (7, 6, 4)):
        (default, *_) = schedule_named("sumfact").plans(sumfact(3, q1d, p1d).work, gpu, Wish())
        assert type(default) is SumfactSlicePlan and (default.items, default.cells) == (q1d, cells)
        assert default.cells_first and 3 * q1d**3 <= default.strides[-1] <= 1.1 * 3 * q1d**3
    planes = SumfactPlanePlan(sumfact(3, 4, 3).work, derivatives=2)
    assert planes.axes == (1, 2, 0) and planes.monomial(0, 2) == "map[3]"
    assert planes.node(3) == "(size_t)(l % 3) * 3 + (size_t)(l / 3) * 9 + (size_t)(item) * 1"
    # Rows must be their counterparts backwards.
    assert not SumfactPencilPlan(sumfact(3, 4, 3).work, derivatives=2).splits
    # Registers hold a cell of degree 1.
    (default, *_) = schedule_named("sumfact").plans(sumfact(3, 2, 2).work, gpu, Wish())
    assert type(default) is SumfactPlan and (default.lanes, default.group_size) == (1, 128)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (5, 5), (6, 6)])
def test_parts_of_a_matrix(rows, columns, sign, rng):
    """Sums and differences of a vector's ends are all that half of the rows need, and the others are these backwards."""
    matrix, vector = rng.random((rows, columns)), rng.random(columns)
    matrix += sign * matrix[::-1, ::-1]
    sums, differences = vector + vector[::-1], vector - vector[::-1]
    sums[columns // 2] /= 1 + columns % 2
    even, odd = parity_parts(matrix)
    even, odd = even @ sums[: even.shape[1]], odd @ differences[: odd.shape[1]]
    found = np.concatenate([even + odd, sign * (even - odd)[: rows // 2][::-1]])
    np.testing.assert_allclose(found, matrix @ vector, rtol=0, atol=1e-14)


def pencils(q1d, p1d, num_comp=1, value=True, gradient=True, **changes):
    """A plan for an action on hexahedra; with as many nodes as points these are the points."""
    work = sumfact(3, q1d, p1d).work
    if q1d == p1d:
        (factors,) = work.tensor.factors
        work = replace(work, tensor=replace(work.tensor, factors=(replace(factors, B=np.eye(p1d)),)))
    fields = (field("w", "w", p1d**3, num_comp, value=value, gradient=gradient),)
    rows = (RowsWork(0, 0, p1d**3, num_comp, value=value, gradient=gradient),)
    work = replace(work, target="action", fields=fields, rows=rows, reference=True, **changes)
    return SumfactPencilPlan.wished(work, GPU, Wish("double"), cells=1, derivatives=2, block=1)


def test_lines_are_kept_where_registers_hold_them():
    # Of what is not differentiated, whatever its degree, as long as its text is short.
    masses = [pencils(q1d, q1d - 1, gradient=False) for q1d in (4, 10, 17)]
    assert all(plan.keeps_lines for plan in masses)
    assert not pencils(10, 9, gradient=False, pointwise_size=205).keeps_lines
    assert not replace(masses[0], unroll=0).keeps_lines
    # Where derivatives are taken the points must be the nodes, and few: fewer where numbers are stored there.
    kept = [pencils(q1d, q1d, num_state=state).keeps_lines for state in (0, 6) for q1d in range(3, 9)]
    assert kept == [True] * 5 + [False] + [True] * 3 + [False] * 3
    assert not pencils(5, 4).keeps_lines
    # A component has a line of values and one of slopes; the others stand in lattices.
    plan = pencils(4, 4, 2)
    assert plan.at_point(plan.rows[0], "l_rows") == [
        (0, "value_f0[0 + n]"),
        (2, "l_rows[2 * SLAB + at + n * PLANE]"),
        (3, "l_rows[3 * SLAB + at + n * PLANE]"),
        (4, "slope_f0[0 + n]"),
        (1, "value_f0[4 + n]"),
        (5, "l_rows[5 * SLAB + at + n * PLANE]"),
        (6, "l_rows[6 * SLAB + at + n * PLANE]"),
        (7, "slope_f0[4 + n]"),
    ]
    plan = pencils(9, 9, value=False)
    assert plan.at_point(plan.lattices[0], "l_fields")[2] == (3, "l_fields[3 * SLAB + at + n * PLANE]")


def test_arguments_hold_the_parts_of_some_matrices(monkeypatch):
    """CUDA has 4 KB for a kernel's arguments: of three elements of high degree the text has the numbers."""
    monkeypatch.setattr(SumfactPencilPlan, "symmetric", True)
    assert [pencils(q1d, q1d - 1).passes_lines for q1d in (4, 10, 17)] == [True] * 3
    work = pencils(17, 16).work
    (factors,) = work.tensor.factors
    fields = tuple(replace(work.fields[0], name=f"u{i}", table=i) for i in range(3))
    work = replace(work, tensor=replace(work.tensor, factors=(factors,) * 3), fields=fields)
    plan = SumfactPencilPlan.wished(work, GPU, Wish("double"), cells=1, derivatives=2, block=1)
    assert plan.splits and not plan.passes_lines


@pytest.mark.parametrize(("value", "gradient"), [(True, False), (False, True), (True, True)])
def test_what_is_kept_does_not_cross_local_memory(value, gradient):
    kept, rolled = pencils(4, 4, value=value, gradient=gradient), pencils(4, 4, value=value, gradient=gradient, pointwise_size=9999)
    assert kept.keeps_lines and not rolled.keeps_lines and kept.private_bytes > rolled.private_bytes
    # Written and read, fields and rows; a value that is differentiated is written all the same.
    spared = 4 * value + 4 * gradient - (value and gradient)
    assert rolled.local_traffic - kept.local_traffic == 8 * 4**3 * spared


def test_stored_numbers_are_loaded_ahead():
    for q1d, p1d, gradient, state, ahead, following in (
        (10, 9, False, 4, True, False),
        (10, 9, False, 5, False, True),
        (5, 5, True, 7, True, False),
        (6, 6, True, 7, False, True),
        (6, 5, True, 1, False, True),
        (6, 5, True, 0, False, False),
    ):
        plan = pencils(q1d, p1d, gradient=gradient, num_state=state)
        assert (plan.loads_ahead, plan.loads_next) == (ahead, following), (q1d, p1d, state)
    assert not replace(pencils(6, 5, num_state=1), unroll=0).loads_next


def test_points_that_are_taken_together():
    """A divisor of the points on a line if there is one, of long lines with numbers stored at their points."""
    together = {10: 1, 11: 3, 12: 4, 13: 3, 14: 2, 15: 3, 16: 4}
    assert {q1d: pencils(q1d, q1d, num_state=7).points_together for q1d in together} == together
    assert [pencils(12, 11, num_state=count).points_together for count in (0, 11, 40)] == [1, 2, 1]


def test_what_later_cells_read_is_asked_for():
    """Values between E-vectors, from 15 points per direction on, where an NVIDIA GPU takes the instruction."""

    def asked(q1d, atomics="ptx", gradient=False, source="evector"):
        return replace(pencils(q1d, q1d - 1, gradient=gradient, source=source, num_state=1), atomics=atomics)

    plan = asked(15)
    assert [array.name for array in plan.asked] == ["d_w", "d_state"]
    assert plan.cells_ahead == 8_000_000 // (8 * (14**3 + 15**3))
    assert not any(other.asked for other in (asked(14), asked(15, "cas"), asked(15, gradient=True), asked(15, source="lvector")))


@pytest.mark.parametrize("q1d", range(2, 13))
@pytest.mark.parametrize("planes", [False, True])
def test_each_stored_number_has_a_word(q1d, planes):
    """A permutation; on planes neighbouring points are neighbours, unless a warp does not cover a plane, nor sectors fill it."""
    work = replace(sumfact(3, q1d, 2).work, num_state=3)
    plane = state_plane(work) * planes
    text, points = state_word(work, "i", plane).replace("/", "//").replace("NUM_STATE", "3"), range(q1d**3)
    words = np.array([[eval(text, {"q": q, "i": i}) for i in range(3)] for q in points])
    assert sorted(words.ravel()) == list(range(3 * q1d**3))
    assert words[1, 0] == (1 if planes and q1d not in (7, 9, 11) else 3)
    # The host finds them there.
    layout = Layout(plane=plane, together=3) if plane else Layout()
    assert np.array_equal(layout.positions(2, 3 * q1d**3), [words.ravel(), words.ravel() + 3 * q1d**3])
    numbers = np.arange(6.0 * q1d**3).reshape(2, -1)
    assert np.array_equal(layout.unpack(layout.pack(numbers), *numbers.shape), numbers)


def test_planes_of_several_components_are_few():
    """Up to 4 and 7 points per direction of one component, 3 and 4 of several; nodes are points in the first case."""
    for num_comp, most in ((1, (4, 7)), (3, (3, 4))):
        for turns in (False, True):
            beats = []
            for q1d in range(2, 10):
                work = pencils(q1d, q1d - turns, num_comp).work
                beats.append(SumfactPlanePlan(work, derivatives=2).beats_pencils)
            assert sum(beats) == most[turns] - 1 and beats == sorted(beats, reverse=True)


def test_rows_are_multiplied_by_matrices_with_weights_in_them():
    """By planes that rebuild a map in physical coordinates, of rows with derivatives."""
    values = (RowsWork(0, 0, 27, 1, gradient=False),)
    plan = SumfactPlanePlan(replace(sumfact(3, 4, 3).work, affine=False), derivatives=2, geometry="recomputed")
    stored, slices = replace(plan, geometry="stored"), SumfactSlicePlan(plan.work, derivatives=2, geometry="recomputed")
    pulled, mass = (replace(plan, work=replace(plan.work, **given)) for given in (dict(reference=True), dict(rows=values)))
    assert [other.weighs_lines for other in (plan, stored, slices, pulled, mass)] == [True] + [False] * 4


def first(work, limits=GPU, **parameters):
    """The plan that the schedule offers first."""
    wish = Wish("double", "recomputed", "atomic", tuple(parameters.items()))
    return next(iter(schedule_named("sumfact").plans(work, limits, wish)))


def work_of(name, degree, **changes):
    """The action of a bake-off problem."""
    problem = PROBLEMS[name]
    (term,) = make_terms(bilinear_form(weak_form(problem, GridSpace(Grid((2, 2, 2)), degree, problem.num_comp))), Settings())
    return make_work(term, "action", term.integral.action, **changes)


def test_bounds_on_registers():
    """By default where they were measured, and as they are asked for, where a compiler can be told."""
    nvidia, work = replace(GPU, registers=65536), work_of("bp3", 2)
    plan = first(work, nvidia)
    assert type(plan) is SumfactPlanePlan and plan.registers == 168
    assert plan.shape.endswith(" B local, 168 registers at most") and ("MAX_REGISTERS", 168) in plan.steps()[0].macros
    assert [first(work_of(*given), nvidia).registers for given in (("bp3", 3), ("bp3", 4), ("bp4", 2), ("bp1", 2))] == [
        0,
        168,
        168,
        0,
    ]
    assert [first(work, nvidia, registers=bound).registers for bound in (32, 255)] == [32, 255]
    plan = first(work, nvidia, pencils=3, registers=96)
    assert type(plan) is SumfactPencilPlan and (plan.cells, plan.registers) == (3, 96)
    others = [first(work, registers=96), first(replace(work, num_state=6), nvidia), first(replace(work, source="evector"), nvidia)]
    assert [other.registers for other in others] == [0] * 3
    assert "MAX_REGISTERS" not in dict(others[0].steps()[0].macros)
    assert [first(replace(work_of("bp3", p), pointwise_flops=3), nvidia).registers for p in (2, 4)] == [0, 0]
    # Groups that start: 800 items have room for 80 registers each; of 81 on they get 88, for which there are 23 times 32 items.
    plans = [first(work, nvidia, planes=200), *(first(work, nvidia, planes=200, registers=bound) for bound in (80, 81))]
    assert [(plan.items * plan.cells, plan.registers) for plan in plans] == [(800, 0), (800, 80), (736, 81)]
    assert nvidia.holds(736, 88) and not nvidia.holds(737, 88) and not nvidia.holds(736, 89)
    assert nvidia.holds(1024, 0) and GPU.holds(1024, 0) and not GPU.holds(1, 1)
    for wrong, limits in ((31, nvidia), (256, nvidia), (256, GPU)):
        with pytest.raises(PlanError, match=f"sumfact:registers={wrong}: expected a bound from 32 to 255"):
            first(work, limits, registers=wrong)
    with pytest.raises(PlanError, match="sumfact:registers=N: expected with pencils, planes or slices, or alone"):
        first(work, nvidia, items=4, registers=96)


@pytest.mark.parametrize(
    "q1d, p1d, gradient, bounds",
    [
        (12, 11, False, 88),
        (16, 15, False, 128),
        (11, 10, False, 0),
        (9, 9, True, 80),
        (10, 10, True, 0),
        (7, 6, True, 64),
        (12, 11, True, 0),
    ],
)
def test_bounds_of_pencils_between_evectors(q1d, p1d, gradient, bounds):
    plan = pencils(q1d, p1d, gradient=gradient, num_state=7 if gradient else 1, source="evector")
    assert plan.fast_registers == bounds
    vector = pencils(q1d, p1d, 3, gradient=gradient, num_state=7 if gradient else 1, source="evector")
    assert vector.fast_registers == replace(plan, precision="single").fast_registers == 0
    assert pencils(q1d, p1d, gradient=gradient, num_state=1).fast_registers == 0


@pytest.fixture
def unrolled(monkeypatch):
    """Plans as a GPU has them, but for what its atomic operations are."""
    plain = Device.limits.fget
    given = dict(registers=65536, unroll=2048, local_bytes=200 << 10)
    monkeypatch.setattr(Device, "limits", property(lambda device: replace(plain(device), **given)))


@pytest.mark.parametrize(
    "name, degree, bound, block, copies",
    [
        ("bp10", 3, 0, 4, False),
        ("bp10", 9, 0, 2, False),
        ("bp10", 10, 88, 1, True),
        ("bp10", 13, 112, 1, False),
        ("bp35", 6, 64, 1, False),
        ("bp35", 8, 80, 2, False),
        ("bp35", 10, 0, 2, False),
        ("bp30", 5, 64, 4, False),
        ("bp30", 6, 0, 1, False),
    ],
)
def test_what_benches_of_evectors_have(name, degree, bound, block, copies, unrolled):
    """Whose functions multiply stored numbers with a value and a gradient."""
    case = evector._Case(current(), evector._term(PROBLEMS[name], degree, 8), Settings())
    (chosen,) = case.choices(Settings(), 0)
    plan = chosen.plan
    assert type(plan) is SumfactPencilPlan
    assert (plan.registers, plan.block, plan.copies) == (bound, block, copies)
    assert plan.cells_first == (block > 1) and (block == 1 or plan.cells == block)
    assert 0 < plan.work.pointwise_flops <= 16
    other = replace(plan, work=replace(plan.work, pointwise_flops=17))
    assert (other.fast_registers, other.fast_block, other.fast_copies) == (0, 1, False)


@pytest.mark.parametrize("name, degree", [("bp10", 3), ("bp30", 4), ("bp35", 10)])
@pytest.mark.parametrize("copies", [0, 1])
def test_cells_side_by_side_are_right(name, degree, copies, unrolled):
    """Of which the last block is not full: between E-vectors, against the twin."""
    cells = 2 if degree > 9 else 4
    settings = Settings(schedule=f"sumfact:pencils={cells},copies={copies}")
    case = evector._Case(current(), evector._term(PROBLEMS[name], degree, 4 * cells + 1), settings)
    (chosen,) = case.choices(settings, 0)
    assert (chosen.plan.block, chosen.plan.copies) == (cells, copies)
    case.take(chosen)
    assert case.error(PROBLEMS[name]) < 1e-13


def test_copies_are_of_stored_numbers():
    """By instructions of a GPU; half a block of cells is none."""
    work = pencils(12, 11, gradient=False, num_state=1, source="evector").work
    nvidia = replace(GPU, atomics="ptx", registers=65536)
    assert first(work, nvidia, pencils=1).copies and not first(work, nvidia, pencils=1, copies=0).copies
    assert not first(replace(work, num_state=0), nvidia, pencils=1, copies=1).copies
    assert not first(work, replace(nvidia, mma=0), pencils=1).copies
    with pytest.raises(PlanError, match="sumfact:copies=2: expected 0 or 1"):
        first(work, nvidia, pencils=1, copies=2)
    with pytest.raises(PlanError, match="sumfact:shared=3: expected 0 or 1"):
        first(work, nvidia, pencils=1, shared=3)
    with pytest.raises(PlanError, match="copies=1,shared=1: .* give one of these"):
        first(work, nvidia, pencils=1, copies=1, shared=1)
    work = pencils(5, 4, gradient=False, num_state=1, source="evector").work
    assert [first(work, GPU, pencils=cells).block for cells in (1, 2, 4, 6, 8)] == [1, 1, 4, 1, 4]
