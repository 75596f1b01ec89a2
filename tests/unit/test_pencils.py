"""Pencils of schedule sumfact: which lines they keep, what they load ahead, and where stored numbers stand."""

from dataclasses import replace

import numpy as np
import pytest
from plan_works import diffusion, field, sumfact

from femgpu.errors import PlanError
from femgpu.kernels import RowsWork, Table, Wish, schedule_named
from femgpu.kernels.arguments import state_plane, state_word
from femgpu.kernels.array import Layout
from femgpu.kernels.schedules import CellPlan, SumfactPencilPlan, SumfactPlanePlan
from femgpu.model import Limits

GPU = Limits(items=1024, unroll=2048, block=32, group=128, local_bytes=227 << 10, mma=16)


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
    assert plan.numbers(plan.rows[0], "l_rows") == [
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
    assert plan.numbers(plan.lattices[0], "l_fields")[2] == (3, "l_fields[3 * SLAB + at + n * PLANE]")


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


def test_a_mass_on_tetrahedra_of_degree_4_has_its_tables_in_constant_memory():
    entry = schedule_named("tiled")

    def mass(num_basis, num_qpts, **changes):
        fields = (field("w", "w", num_basis, gradient=False),)
        rows = (RowsWork(0, 0, num_basis, 1, gradient=False),)
        given = dict(tables=(Table(num_basis), Table(4)), writes=frozenset({"f0"}), reference=True, num_state=0) | changes
        return replace(diffusion(1, num_qpts), fields=fields, rows=rows, **given)

    work = mass(35, 35)
    plan = CellPlan.wished(work, GPU, Wish("double", "recomputed", "atomic"))
    assert 32768 < 8 * plan.table_words < 61440 and plan.table_space == "__constant" and plan.unrolls_points
    assert not entry.volunteers(work, GPU)
    # Of triangles tiles take less time from fewer numbers on, of degree 5 in any case.
    assert entry.volunteers(replace(work, cell="triangle"), GPU) and entry.volunteers(mass(56, 56), GPU)
    assert CellPlan.wished(mass(56, 56), GPU, Wish("double")).table_space == "__global"
    # More numbers than that, and derivatives.
    assert entry.volunteers(replace(work, num_cell_state=9), GPU) and entry.volunteers(diffusion(4, 20), GPU)


def test_numbers_of_nodes_may_be_kept_in_local_memory():
    rows, fields = (RowsWork(0, 0, 20, 1, beside="w"),), (field("w", "w", 20),)
    work = replace(diffusion(3, 14), rows=rows, fields=fields)
    offers = list(schedule_named("cell").plans(work, GPU, Wish("double", "recomputed", "atomic")))
    assert [plan.offsets for plan in offers[:3]] == [0, 1, 0] and offers[1].kept_offsets == {0: "w"}
    assert offers[1].local_bytes == 4 * 20 * 128 and "offsets in local memory" in str(offers[1])

    def first(work=work, limits=GPU, scatter="atomic", offsets=1):
        wish = Wish("double", "recomputed", scatter, (("offsets", offsets),))
        return next(iter(schedule_named("cell").plans(work, limits, wish)))

    assert first().kept_offsets and not first(offsets=0).kept_offsets
    with pytest.raises(PlanError, match="cell:offsets=2: expected 1"):
        first(offsets=2)
    # Nothing is added, other marks stand there, nobody reads the same, or memory is too small.
    others = [
        first(scatter="evector"),
        first(replace(work, fields=(field("w", "w", 20, masked=True),))),
        first(replace(work, rows=(RowsWork(0, 0, 20, 1),))),
        first(replace(work, facet=True)),
        first(limits=replace(GPU, local_bytes=4 * 20 * 128 - 1)),
    ]
    assert not any(plan.kept_offsets for plan in others)
