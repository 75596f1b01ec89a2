"""Every schedule does what the table says it does, and does it right: every entry, whatever the plan and the number of cells."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conformance.bounds import Arithmetic
from conformance.checks import check_modes, check_plan, check_sample, check_sums, make_tasks, make_wish
from conformance.guarded import Guarded
from conformance.plan_count import tried
from conformance.samples import FORMS, HIGH, HIGHEST, LOW, draw, make_problem, make_settings
from conformance.table import MUST, limits_of
from conformance.trial import Trial, make_task
from conftest import CHILD_ENVIRONMENT
from petsc4py import PETSc

from femgpu.kernels import SCHEDULES, Wish, schedule_named
from femgpu.kernels.schedules import CellSumsPlan, cell_plan, cell_sums
from femgpu.operators import make_terms
from femgpu.operators.work import make_work
from femgpu.runtime import for_comm

KINDS = ("residual", "action", "diagonal", "matrix", "functional", "pulled", "stored", "stored pulled")
AXES = dict(
    element=LOW,
    kind=KINDS,
    num_comp=(1, 2, 3),
    form=FORMS,
    shift=(0, 1, 2),
    precision=("double", "single", "mixed"),
    geometry=("stored", "recomputed"),
    scatter=("evector", "atomic"),
    shape=("affine", "distorted", "both"),
    points=("one", "few", "many", "petsc"),
    limits=("device", "blocks"),
    masked=(False, True),
    source=("lvector", "lvector", "evector"),
)
NUM_SAMPLES = 60
HIGH_AXES = AXES | dict(element=HIGH, kind=("residual", "action", "pulled"), num_comp=(1,), form=("simple",), points=("few",))
NUM_HIGH = 10
HIGHEST_AXES = HIGH_AXES | dict(element=HIGHEST)
NUM_HIGHEST = 2
SMALL = [("interval", 1), ("interval", 2), ("triangle", 1), ("triangle", 2), ("quadrilateral", 1), ("tetrahedron", 1)]
UNROLLED_AXES = AXES | dict(element=SMALL, num_comp=(1, 2), points=("few",), limits=("unrolled",))
NUM_UNROLLED = 16
SUMS_AXES = AXES | dict(
    kind=("residual", "action", "diagonal", "pulled", "stored", "stored pulled"),
    form=("all", "mass", "stiffness", "gradients", "fields", "second"),
    precision=("double", "single"),
    source=("lvector",),
    places=("slices", "rows", "kept", "short"),
)
NUM_SUMS = 24
# Of cells side by side.
LANE_SUMS_AXES = SUMS_AXES | dict(
    element=[("tetrahedron", 4), *LOW], kind=("residual", "action", "pulled", "stored"), limits=("device",), places=("lanes",)
)
NUM_LANE_SUMS = 10
UNROLLED_SUMS_AXES = SUMS_AXES | dict(element=SMALL, points=("few",), limits=("unrolled",))
NUM_UNROLLED_SUMS = 9
# In single precision, where a node has four numbers or more: coordinates of vertices and vectors there.
VECTOR_SUMS_AXES = UNROLLED_SUMS_AXES | dict(
    element=[("triangle", 1), ("tetrahedron", 1)],
    num_comp=(2, 3),
    kind=("residual", "action", "pulled"),
    form=("all", "simple"),
    precision=("single",),
    geometry=("recomputed",),
)
NUM_VECTOR_SUMS = 4
# Values at nodes that items read at each point: those of fields that stand with the rows', by items of one cell.
REREAD_SUMS_AXES = UNROLLED_SUMS_AXES | dict(kind=("residual", "action"), form=("all", "simple", "second"), places=("once",))
NUM_REREAD_SUMS = 4
MODES_AXES = AXES | dict(
    element=[(cell, degree) for cell in ("triangle", "tetrahedron") for degree in range(2, 6)],
    kind=("action", "pulled"),
    form=("stiffness", "constants", "values"),
    shape=("affine",),
    points=("many",),
    limits=("device", "blocks", "unrolled"),
)
NUM_MODES = 9
# Isotropic functions on hexahedra, whose maps are had in frames, by schedules that have these.
FRAMES_AXES = AXES | dict(
    element=[("hexahedron", degree) for degree in range(2, 5)],
    kind=("action",),
    form=("isotropic",),
    geometry=("recomputed",),
    shape=("distorted",),
    points=("many",),
    limits=("device", "unrolled"),
    by=("planes", "slices", "pencils", "gemm"),
)
NUM_FRAMES = 8
# Of these many plans are tried, for they are built soon.
SMALL_AXES = AXES | dict(element=[*SMALL, ("quadrilateral", 2)], num_comp=(1, 2), points=("few",))
NUM_SMALL, DRAWN = 6, 4


@pytest.fixture(scope="module")
def runtime():
    return Guarded(for_comm("", PETSc.COMM_SELF.tompi4py()))


@pytest.mark.parametrize("number", range(NUM_SAMPLES))
def test_plans_are_right(seed, rng, runtime, number):
    """Elements of low degree, any form, any target."""
    sample = draw(np.random.default_rng([seed, 1]), NUM_SAMPLES, **AXES)[number]
    check_sample(runtime, sample, rng)


@pytest.mark.parametrize("number", range(NUM_HIGH))
def test_plans_of_high_degrees_are_right(seed, rng, runtime, number):
    sample = draw(np.random.default_rng([seed, 2]), NUM_HIGH, **HIGH_AXES)[number]
    check_sample(runtime, sample, rng)


@pytest.mark.parametrize("number", range(NUM_HIGHEST))
def test_plans_of_highest_degrees_are_right(seed, rng, runtime, number):
    """Of the schedules that are for them."""
    sample = draw(np.random.default_rng([seed, 6]), NUM_HIGHEST, **HIGHEST_AXES)[number]
    check_sample(runtime, sample, rng, [schedule for schedule in SCHEDULES if MUST[schedule.name].degree >= 9])


@pytest.mark.parametrize("number", range(NUM_UNROLLED))
def test_unrolled_plans_are_right(seed, rng, runtime, number):
    """As a GPU has them; few, for they take long to compile."""
    sample = draw(np.random.default_rng([seed, 3]), NUM_UNROLLED, **UNROLLED_AXES)[number]
    check_sample(runtime, sample, rng)


@pytest.mark.parametrize("number", range(NUM_SMALL))
def test_many_plans_are_right(seed, rng, runtime, number):
    """Of one work, whatever their parameters."""
    sample = draw(np.random.default_rng([seed, 7]), NUM_SMALL, **SMALL_AXES)[number]
    check_sample(runtime, sample, rng, drawn=DRAWN)


@pytest.mark.parametrize("number", range(NUM_MODES))
def test_coefficients_for_points_are_right(seed, rng, runtime, number):
    """Of orthonormal polynomials, in place of values at the points of a rule that has more of these."""
    check_modes(runtime, draw(np.random.default_rng([seed, 9]), NUM_MODES, **MODES_AXES)[number], rng)


@pytest.mark.parametrize("number", range(NUM_FRAMES))
def test_frames_are_right(seed, rng, runtime, number):
    """Gradients and fluxes in coordinates that turn from line to line of points."""
    sample = draw(np.random.default_rng([seed, 11]), NUM_FRAMES, **FRAMES_AXES)[number]
    if sample.by in ("planes", "slices"):  # registers and stacks hold no more
        sample.num_comp, sample.element = 1, ("hexahedron", min(sample.element[1], 3))
    if sample.limits == "unrolled":
        sample.element = ("hexahedron", 2)
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, make_settings(sample))
    (task,) = make_tasks(runtime, [schedule_named("sumfact")], sample, term, problem, rng)
    work, limits = (
        make_work(term, "action", task.pointwise, task.prescribed is not None, task.source),
        limits_of(runtime, sample.limits),
    )
    schedule, *asked = ("gemm",) if sample.by == "gemm" else ("sumfact", (sample.by, int(rng.integers(1, 6))))
    plan = next(iter(schedule_named(schedule).plans(work, limits, make_wish(sample, asked))))
    print(sample, plan)
    assert plan.expanded == "frame"
    check_plan(runtime, task, plan, rng)
    tried(plan, sample, "action")


@pytest.mark.parametrize("number", range(NUM_SUMS))
def test_sums_of_groups_are_right(seed, rng, runtime, number, monkeypatch):
    """Of schedule cell, which offers them on GPUs only; nodes that many cells of a group have stand in its list several times.

    Local memory is an argument, and in some of them an array of the kernel, as where it takes much of it.
    """
    if number % 3 == 0:
        monkeypatch.setattr(cell_sums, "_ARGUMENT_BYTES", 0)
    check_sums(runtime, draw(np.random.default_rng([seed, 8]), NUM_SUMS, **SUMS_AXES)[number], rng)


@pytest.mark.parametrize("number", range(NUM_LANE_SUMS))
def test_sums_of_cells_side_by_side_are_right(seed, rng, runtime, number):
    """Of items that have many, as a CPU has them; where they write to an E-vector, and where they add."""
    if runtime.device.limits.block > 1:
        pytest.skip("for CPUs")
    check_sums(runtime, draw(np.random.default_rng([seed, 17]), NUM_LANE_SUMS, **LANE_SUMS_AXES)[number], rng)


@pytest.mark.parametrize("number", range(NUM_UNROLLED_SUMS))
def test_sums_of_unrolled_points_are_right(seed, rng, runtime, number):
    """As a GPU has them."""
    check_sums(runtime, draw(np.random.default_rng([seed, 10]), NUM_UNROLLED_SUMS, **UNROLLED_SUMS_AXES)[number], rng)


@pytest.mark.parametrize("number", range(NUM_VECTOR_SUMS))
def test_sums_with_vectors_at_nodes_are_right(seed, rng, runtime, number):
    """As a GPU has them."""
    plans = check_sums(runtime, draw(np.random.default_rng([seed, 14]), NUM_VECTOR_SUMS, **VECTOR_SUMS_AXES)[number], rng)
    assert plans and all(any(entry.vector_widths for entry in plan.lists) for plan in plans)


@pytest.mark.parametrize("number", range(NUM_REREAD_SUMS))
def test_sums_of_values_read_again_are_right(seed, rng, runtime, number, monkeypatch):
    """As if items had no registers, and loops over points were not unrolled; vectors of values are kept."""
    monkeypatch.setattr(cell_plan, "_REGISTER_BYTES", 0)
    monkeypatch.setattr(CellSumsPlan, "unrolls_points", False)
    plans = check_sums(runtime, draw(np.random.default_rng([seed, 15]), NUM_REREAD_SUMS, **REREAD_SUMS_AXES)[number], rng)
    listed = [plan for plan in plans if any(entry.fields and not entry.vector_widths for entry in plan.lists)]
    assert plans and all(plan.reread for plan in listed)


@pytest.mark.parametrize("element", [("tetrahedron", 3), ("hexahedron", 3)])
def test_large_groups_fit_the_device(rng, runtime, element):
    """Under PoCL private arrays of a whole group stand on a thread's stack: groups must be cut to what fits."""
    sample = SimpleNamespace(element=element, num_comp=3, form="all", shape="affine", points="many")
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, make_settings(sample))
    limits, work = runtime.device.limits, make_work(term, "residual", term.integral.residual)
    for schedule in (schedule for schedule in SCHEDULES if not schedule.refuses(work, limits)):
        task = make_task("residual", term, problem, Arithmetic("double", "recomputed", MUST[schedule.name].lines))
        for largest in MUST[schedule.name].largest():
            scatter = "atomic" if "sums" in dict(largest) else "evector"
            plan = next(iter(schedule.plans(work, limits, Wish("double", "recomputed", scatter, largest))))
            trial = Trial(runtime, task, plan, rng.integers(term.num_cells, size=101))
            trial.launch()
            trial.check()


def test_large_groups_fit_the_smallest_stacks():
    """Those that threads get where `ulimit -s` says unlimited; overflows end the process."""
    test = f"{__file__}::{test_large_groups_fit_the_device.__name__}"
    command = f"ulimit -S -s 2048; exec {sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist -o addopts= {test}"
    done = subprocess.run(
        ["bash", "-c", command], env=CHILD_ENVIRONMENT | {"FEMGPU_TEST_PART": "0/1"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("items", "cells", "parts"), [(1024, 2, 1), (40, 1, 3), (1024, 0, 3)])
def test_matrices_fit_little_local_memory(rng, runtime, items, cells, parts):
    """A pass for each point; more than one work-group per cell where items are few; one component in each where memory is."""
    sample = SimpleNamespace(element=("quadrilateral", 2), num_comp=3, form="all", shape="distorted", points="many")
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, make_settings(sample))
    task = make_task("matrix", term, problem, Arithmetic("double"))
    work, limits = make_work(term, "matrix", task.pointwise), limits_of(runtime, "device")
    (schedule,) = (schedule for schedule in SCHEDULES if schedule.name == "matrix")
    wish = Wish(parameters=(("rows", 5), ("columns", 2), ("cells", max(cells, 1))))
    words = work.num_comp ** (2 if cells else 1) * (1 + work.dim) ** 2
    limits = replace(limits, items=items, local_bytes=8 * (words + 1) * max(cells, 1))
    plan = next(iter(schedule.plans(work, limits, wish)))
    assert (plan.points, plan.group_cells, plan.steps()[0].parts) == (1, max(cells, 1), parts)
    check_plan(runtime, task, plan, rng)


def test_determinants_of_flat_triangles_are_exact(rng, runtime):
    """Rows of an inverse are nearly parallel there: of their numbers, rounded, the determinant is a small difference."""
    sample = SimpleNamespace(element=("triangle", 1), num_comp=2, form="stiffness", shape="flat", points="one")
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, make_settings(sample))
    task = make_task("residual", term, problem, Arithmetic("single", "stored"))
    work = make_work(term, "residual", task.pointwise)
    plan, *_ = schedule_named("transposed").plans(work, limits_of(runtime, "device"), Wish("single", "stored", "evector"))
    assert plan.framed
    check_plan(runtime, task, plan, rng)


def test_every_schedule_is_in_the_table():
    assert {schedule.name for schedule in SCHEDULES} == set(MUST)
    for schedule in SCHEDULES:
        assert set(schedule.parameters) == set(MUST[schedule.name].parameters)
