"""Plans of schedule gemm: what items hold of matrices, lattices, banks, instructions."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_works import field, sumfact

from femgpu.bench import evector
from femgpu.errors import PlanError
from femgpu.kernels import RowsWork, Wish, pack_fragments, render, schedule_named, schedules
from femgpu.kernels.fragments import LineProduct, splits_lines
from femgpu.kernels.schedules import GemmPlan
from femgpu.model import Limits
from femgpu.model.bakeoff import PROBLEMS
from femgpu.model.ceilings import CEILINGS
from femgpu.operators.ways import choose_plan
from femgpu.options import Settings
from femgpu.runtime import current

GPU = Limits(items=1024, local_bytes=200 << 10, mma=16, unroll=2048, group=128, ceiling=CEILINGS[0])
ITEM = np.arange(32)


def diffusion(q1d, p1d, dim=3, value=False, num_comp=1, **changes):
    """A plan for the action of a Laplacian."""
    n = p1d**dim
    fields, rows = (field("w", "w", n, num_comp, value=value),), (RowsWork(0, 0, n, num_comp, value=value),)
    changes = dict(fields=fields, rows=rows, writes=frozenset({"f1"}), target="action", affine=False) | changes
    return sumfact(dim, q1d, p1d, 2, plan=GemmPlan, coord_table=1, geometry="recomputed", **changes)


def multiply(part, fragments, lines):
    """Eight lines by a part of a matrix.

    As PTX says which item has what: of the lines (8, 4), of the matrix (4, 8), of the products (8, 8).
    """
    padded, found = np.pad(lines, ((0, 0), (0, 4 * part.fours - lines.shape[1]))), np.empty((8, 8 * part.eights))
    for n, entries in enumerate(fragments.reshape(part.eights, part.fours, 32)):
        sums = np.zeros((8, 8))
        for s in range(part.fours):
            left, right = np.empty((8, 4)), np.empty((4, 8))
            left[ITEM // 4, ITEM % 4] = padded[ITEM // 4, 4 * s + ITEM % 4]
            right[ITEM % 4, ITEM // 4] = entries[s]
            sums += left @ right
        for e in range(2):
            found[ITEM // 4, 4 * (2 * n + e) + ITEM % 4] = sums[ITEM // 4, 2 * (ITEM % 4) + e]
    assert not found[:, part.rows :].any()
    return found[:, : part.rows]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("p1d, q1d", [(2, 3), (5, 6), (8, 9), (16, 17)])
def test_instructions_multiply_lines(p1d, q1d, back, rng):
    """Products are those of the matrix."""
    matrix, product = rng.uniform(-1, 1, (q1d, p1d)), LineProduct("B", 0, p1d, q1d, back)
    lines, (part,) = rng.uniform(-1, 1, (8, product.columns)), product.parts
    found = multiply(part, product.pack(matrix), lines)
    np.testing.assert_allclose(found, lines @ (matrix if back else matrix.T), rtol=0, atol=1e-14)


@pytest.mark.parametrize("letter", ["B", "D"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("p1d, q1d", [(2, 3), (5, 6), (9, 10), (13, 14), (16, 17), (9, 9)])
def test_instructions_multiply_parts_of_lines(p1d, q1d, back, letter, rng):
    """Products of even and odd parts, put together; matrices read from their end are the same but for the sign of derivatives."""
    product = LineProduct(letter, 0, p1d, q1d, back, True)
    matrix = rng.uniform(-1, 1, (q1d, p1d))
    matrix += product.sign * matrix[::-1, ::-1]
    lines = rng.uniform(-1, 1, (8, product.columns))
    half, middle = product.columns // 2, product.columns % 2
    near, far = lines[:, : half + middle], lines[:, ::-1][:, : half + middle].copy()
    far[:, half:] = 0  # a number in the middle is one, not two
    (even, odd), fragments = product.parts, product.pack(matrix)
    evens = multiply(even, fragments[: 32 * even.instructions], near + far)
    odds = multiply(odd, fragments[32 * even.instructions :], (near - far)[:, :half])
    found = np.zeros((8, product.rows))
    found[:, : even.rows] += evens
    found[:, : odd.rows] += odds
    mirrored = found[:, ::-1]
    count = product.rows // 2
    mirrored[:, :count] = product.sign * (evens[:, :count] - odds[:, :count])
    np.testing.assert_allclose(found, lines @ (matrix if back else matrix.T), rtol=0, atol=1e-13)


def test_parts_of_lines_where_they_take_fewer_instructions():
    """Of nine nodes and ten points two times three for ten; of seven and eight as many; not of points that are not symmetric."""
    assert LineProduct("B", 0, 9, 10, False).instructions == 6 and LineProduct("B", 0, 9, 10, False, True).instructions == 3
    assert splits_lines(10, [9]) and splits_lines(14, [13]) and splits_lines(17, [16])
    assert not splits_lines(8, [7]) and not splits_lines(7, [6])
    assert not diffusion(10, 9, mma=16, tile=2, cells=4, items=8).splits


@pytest.mark.parametrize(("degree", "items"), [(12, 128), (15, 160)])
def test_benches_of_evectors_that_it_takes(degree, items):
    """Measured on an H200: values of a scalar and a number stored at each point, in double precision."""
    case = evector._Case(current(), evector._term(PROBLEMS["bp10"], degree, 8), Settings())
    work, term = case.choices(Settings(), 0)[0].plan.work, case.term
    for changes, taken in (
        ({}, True),
        ({"mma": 8}, False),
        ({"precision": "single"}, False),
        ({"num_state": 0}, False),
        ({"num_state": 7}, False),
        ({"target": "residual"}, False),
        ({"source": "lvector"}, False),
        ({"pointwise_flops": 17}, False),
    ):
        limits = replace(GPU, mma=changes.pop("mma", 16), registers=65536)
        settings = Settings(precision=changes.pop("precision", "double"))
        plan = choose_plan(replace(work, **changes), term, settings, limits).plan
        assert isinstance(plan, GemmPlan) == taken
        if taken:
            assert (plan.cells, plan.items, plan.mma, plan.splits) == (1, items, 16, True)


def test_what_items_hold_stands_product_by_product():
    plan = diffusion(4, 3, mma=16, tile=2, cells=4, items=8)
    tensor, names = plan.work.tensor, [product.name for product in plan.line_products]
    assert sorted(names) == ["B0", "B0_back", "D0", "D0_back"]
    packed = pack_fragments(plan.line_products, tensor)
    for product in plan.line_products:
        start = plan.start(product)
        found = packed[start : start + 32 * product.instructions]
        np.testing.assert_array_equal(found, product.pack(getattr(tensor.factors[0], product.letter)))


def test_lattices_of_a_gradient():
    """Three for each component; what becomes of one takes its place, and values add none."""
    for value in (False, True):
        plan = diffusion(4, 3, value=value)
        (sums,) = plan.lattices
        assert plan.places(sums) == {(): 0, (0,): 0, (1,): 1, (0, 0): 0, (0, 1): 2, (1, 0): 1}
        assert plan.branches(sums, 1) == [(0, [(0, "0"), (1, "2")]), (1, [(0, "1")])]
        assert plan.branches(sums, 2) == [
            (0, [(0, "c")] * value + [(1, "(3 + c * DIM)")]),
            (2, [(0, "(2 + c * DIM)")]),
            (1, [(0, "(1 + c * DIM)")]),
        ]
        assert plan.num_lattices == 3 and plan.steps()[0].barriers == 4
    assert diffusion(4, 3, num_comp=3).num_lattices == 9
    assert diffusion(4, 3, dim=2).num_lattices == 2 and diffusion(4, 3, dim=2).steps()[0].barriers == 2
    # Where points are nodes nothing but derivatives is multiplied.
    collocated = diffusion(3, 3)
    factors = replace(collocated.work.tensor.factors[0], nodes=collocated.work.tensor.points, B=np.eye(3))
    tensor = replace(collocated.work.tensor, factors=(factors, collocated.work.tensor.factors[1]))
    collocated = replace(collocated, work=replace(collocated.work, tensor=tensor))
    assert {product.name for product in collocated.line_products} == {"D0", "D0_back"}


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("p1d", range(2, 10))
@pytest.mark.parametrize("q1d", range(3, 11))
def test_four_lines_come_from_different_banks(dim, p1d, q1d):
    """Half of the items of an instruction at a time, in the 16 banks of numbers in double precision."""
    plan = diffusion(q1d, p1d, dim, mma=16, tile=2, cells=4, items=8)
    *strides, cell = plan.strides
    numbers, lines = np.meshgrid(np.arange(4), np.arange(4))
    assert strides[-1] == 1 and cell == plan.num_lattices * plan.slab and plan.slab >= strides[0] * q1d
    for axis, stride in enumerate(strides):
        # Neighbouring lines are neighbours along the first of the other directions.
        assert len(set((numbers * stride + lines * strides[axis == 0]).ravel() % 16)) == 16
    # No two numbers of a lattice in one place.
    counts = (q1d, max(p1d, q1d), p1d)[:dim] if dim == 3 else (q1d, p1d)
    places = sum(np.multiply(index, stride) for index, stride in zip(np.indices(counts), strides, strict=True))
    assert len(set(places.ravel())) == places.size and places.max() < plan.slab


def test_instructions_and_local_memory_of_diffusion():
    """Along each direction two, three and three products of all lines; each lattice is written once and read once."""
    p, q = 5, 6
    plan = diffusion(q, p, mma=16, tile=2, cells=4, items=32)
    each = 2  # instructions for a line of five numbers to six, and back
    assert plan.instructions == pytest.approx(2 * each * (2 * p**2 + 3 * p * q + 3 * q**2) / 16)
    assert plan.local_traffic == 2 * 8 * (4 * q * p**2 + 6 * q**2 * p)
    assert plan.turns(q**2) == 3 and plan.turns(p * q) == plan.turns(p**2) == 2
    # Twice the lines take twice the instructions of eight.
    assert replace(plan, mma=8, tile=1).instructions == 2 * plan.instructions
    assert plan.seconds(GPU.ceiling) > plan.bytes / GPU.ceiling.copy


def test_quotients_are_exact():
    """Of lines by lines in a row; in 32 bits, as kernels compute them."""
    template = (Path(schedules.__file__).parents[1] / "cl" / "gemm.cl.mako").read_text()
    assert "#define QUOTIENT(a, n) ((a) * ((1u << 24) / (n) + 1) >> 24)" in template
    for n in range(1, 256):
        lines = np.arange(255 * n, dtype=np.uint32)
        found = lines * np.uint32((1 << 24) // n + 1) >> np.uint32(24)
        np.testing.assert_array_equal(found, lines // np.uint32(n))


def test_plans_of_a_device():
    entry = schedule_named("gemm")
    work = diffusion(6, 5).work
    assert not entry.volunteers(work, GPU)
    found = list(entry.plans(work, GPU, Wish("double", "recomputed", "atomic")))
    assert found[0].mma == 16 and (found[0].cells, found[0].items * found[0].cells) == (2, 128)
    # Those that leave room for another group come first.
    large = next(entry.plans(diffusion(10, 9).work, GPU, Wish("double", "recomputed", "atomic")))
    assert (large.cells, large.mma) == (1, 16) and 2 * large.local_bytes <= GPU.local_bytes
    assert {plan.mma for plan in found} == {0, 16} and len(found) == len(set(found))
    assert all(plan.local_bytes <= GPU.local_bytes and plan.items * plan.cells <= GPU.items for plan in found)
    assert not any(plan.mma for plan in entry.plans(work, GPU, Wish("single")))
    asked = next(entry.plans(work, GPU, Wish(parameters=(("cells", 3), ("items", 5)))))
    assert (asked.cells, asked.items, asked.mma) == (3, 32, 16)
    alone = next(entry.plans(work, GPU, Wish(parameters=(("tile", 4), ("items", 9), ("cells", 2)))))
    assert (alone.cells, alone.items, alone.tile, alone.mma) == (2, 9, 4, 0)
    # A bound on registers holds where compilers can be held to one, and a group has that many.
    bound, held = Wish(parameters=(("registers", 128),)), replace(GPU, registers=32 << 10)
    plans = list(entry.plans(work, held, bound))
    assert {plan.registers for plan in plans} == {128} and all(plan.items * plan.cells <= 256 for plan in plans)
    assert {plan.registers for plan in entry.plans(work, GPU, bound)} == {0}
    source = render(plans[0], "for (int i = 0; i < 3; ++i) f1[i] = w_x[i];", np.zeros((1, plans[0].words_of())))
    assert "#define MAX_REGISTERS 128" in source and "reqd_work_group_size" not in source
    for asked, match in (
        (16, "16: expected a bound from 32 to 255"),
        (63, "63: expected at least 64 with instructions of 16 lines"),
    ):
        with pytest.raises(PlanError, match=f"gemm:registers={match}"):
            next(entry.plans(work, held, Wish(parameters=(("registers", asked),))))
    # Of what is asked for as many cells and warps as there is room for.
    large = next(entry.plans(work, held, Wish(parameters=(("registers", 255), ("cells", 8), ("items", 64), ("mma", 1)))))
    assert (large.cells, large.items, large.mma) == (2, 64, 16)
    # Where no two groups fit a multiprocessor, either.
    (only, *_) = entry.plans(diffusion(17, 16).work, GPU, Wish("double", "recomputed", "atomic"))
    assert (only.cells, only.mma) == (1, 16) and 2 * only.local_bytes > GPU.local_bytes
    # Without matrix instructions numbers go from item to item; on a GPU whose kernels have them written out they are not asked for.
    cpu = next(entry.plans(work, Limits(), Wish(parameters=(("mma", 1),))))
    assert cpu.mma == 8 and cpu.exchanges and not replace(cpu, atomics="ptx").exchanges
    assert not next(entry.plans(work, replace(GPU, mma=0, atomics="ptx"), Wish(parameters=(("mma", 1),)))).mma
    with pytest.raises(PlanError, match="tile=N,mma=N: items have lines, or multiply them together; give one of these"):
        next(entry.plans(work, GPU, Wish(parameters=(("tile", 2), ("mma", 1)))))
    with pytest.raises(PlanError, match="gemm:cells=0: expected at least 1"):
        next(entry.plans(work, GPU, Wish(parameters=(("cells", 0),))))
    with pytest.raises(
        PlanError, match="instructions of 16 lines: expected double precision, a multiple of 32 items .* not single"
    ):
        diffusion(6, 5, precision="single", mma=16, tile=2, cells=4, items=8)
