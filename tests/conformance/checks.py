"""Plans of a sample on data of its own, held against the numpy twin: what the conformance tests check, and mutants break."""

from dataclasses import replace

import numpy as np
from conformance.bounds import Arithmetic
from conformance.plan_count import tried
from conformance.samples import is_prime, make_problem, make_settings
from conformance.table import MUST, limits_of
from conformance.trial import Trial, make_task, stored_tasks

from femgpu.element import tensor_factors
from femgpu.kernels import SCHEDULES, Wish, schedule_named
from femgpu.kernels.node_lists import SLICE
from femgpu.kernels.schedules import CellLaneSumsPlan, CellSumsPlan
from femgpu.operators import make_terms
from femgpu.operators.work import make_work

TOTAL_FLOPS = 2e7


def check_sample(runtime, sample, rng, among=SCHEDULES, drawn=1):
    """All schedules on one term of the sample's form, by the default plan and some others."""
    if sample.kind == "functional":
        sample.form = "functional"
    if sample.kind == "stored pulled" and rng.random() < 0.5:
        # There is more to store once per cell.
        sample.shape = "affine"
    problem = make_problem(sample, rng)
    terms = [term for term in make_terms(problem.form, make_settings(sample)) if is_asked(sample, term)]
    inside = [term for term in terms if term.facets is None]
    terms = inside if inside and rng.random() < 0.6 else terms
    term = terms[rng.integers(len(terms))]
    print(sample, term.block.cell, "facets" if term.facets is not None else "cells", term.num_cells)
    for lines in (False, True) if tensor_factors(term.quadrature, ()) and term.facets is None else (False,):
        # What a kernel may round depends on its tabulations.
        schedules = [schedule for schedule in among if MUST[schedule.name].lines == lines]
        for task in make_tasks(runtime, schedules, sample, term, problem, rng) if schedules else ():
            served = [check_schedule(runtime, schedule, task, sample, rng, drawn) for schedule in schedules]
            assert any(served) or lines


def check_sums(runtime, sample, rng):
    """Plans of schedule cell that add up a work-group's results, of any size."""
    problem, cell, limits = make_problem(sample, rng), schedule_named("cell"), limits_of(runtime, sample.limits)
    terms = [term for term in make_terms(problem.form, make_settings(sample)) if term.facets is None and is_asked(sample, term)]
    term, found = terms[rng.integers(len(terms))], []
    for task in make_tasks(runtime, [cell], sample, term, problem, rng):
        work = make_work(term, task.target, task.pointwise, task.prescribed is not None, rounded=task.rounded, shift=task.shift)
        if work.sums and not cell.refuses(work, limits):
            sums = int(rng.integers(1, rng.choice([12, 150])))
            # Whole slices where they are not added.
            asked = [
                ("turns", int(rng.integers(1, 4))),
                ("sums", sums if sample.scatter == "atomic" else -(-sums // SLICE) * SLICE),
            ]
            if sample.places == "lanes":
                asked = [("lanes", int(rng.choice([2, 4, 8]))), ("sums", SLICE * int(rng.integers(1, 5)))]
            elif sample.places == "once":
                asked.append(("turns", 1))
            elif sample.places != "slices":
                # As many slots as most groups need, or fewer; items keep nodes where they have equally many.
                most = 8 // sum(row.num_comp for row in work.rows)
                asked.append(("slots", SLICE * int(rng.integers(1, max(most, 1) + 1))))
                asked += [("sums", 1 << int(rng.integers(1, 6) if sample.scatter == "atomic" else 5))] * (sample.places == "kept")
                # Groups as large as the mesh, with more nodes.
                asked += [("sums", 64), ("slots", SLICE)] * (sample.places == "short")
                if sample.scatter == "evector":
                    # A sum for each slot has a place in the E-vector.
                    named = dict(asked)
                    entries = named["turns"] * named["sums"] * min(row.num_basis for row in work.rows)
                    asked.append(("slots", min(named["slots"], entries // SLICE * SLICE)))
            wish = make_wish(sample, dict(asked).items())
            plan, *others = cell.plans(work, limits, wish)
            kind, least = CellSumsPlan, {"group_size": SLICE} | {key: n for key, n in asked if key in ("turns", "slots")}
            if sample.places == "lanes":
                kind, least = CellLaneSumsPlan, {"cells": SLICE}
            if not isinstance(plan, kind) and not kind.wished(work, limits, wish, **least).fits(limits):
                continue
            assert isinstance(plan, kind) and not others
            check_plan(runtime, task, plan, rng)
            tried(plan, sample, f"{task.target} {sample.kind}")
            found.append(plan)
    return found


def check_modes(runtime, sample, rng):
    """Plans of all schedules of an action on coefficients in orthonormal polynomials."""
    if sample.limits == "unrolled":
        # Of vectors of degree 5 a CPU's compiler would take two minutes.
        cell, degree = sample.element
        sample.element = cell, min(degree, 4) if sample.num_comp == 1 else 2
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, make_settings(sample))
    task = make_task(sample.kind, term, problem, Arithmetic(sample.precision, sample.geometry), modes=True)
    assert sum([check_schedule(runtime, schedule, task, sample, rng, 1) for schedule in SCHEDULES]) >= 3


def is_asked(sample, term):
    """Whether a term has what the sample is about; there is no Jacobian where the form does not depend on the unknown."""
    return sample.kind in ("residual", "functional") or term.integral.action is not None


def make_tasks(runtime, schedules, sample, term, problem, rng):
    """What the sample is about, for some schedules; of what stores something two tasks, one after the other."""
    rounded = sample.kind.startswith("stored") and bool(rng.random() < 0.4)
    arithmetic = Arithmetic(sample.precision, sample.geometry, MUST[schedules[0].name].lines, rounded)
    prescribed = None
    if sample.masked and problem.form.space is not None:
        prescribed = (rng.random(problem.form.space.num_local) < 0.3).astype(np.uint8)
    if not sample.kind.startswith("stored"):
        source = "evector" if prescribed is None and sample.scatter == "evector" else "lvector"
        source = source if sample.source == "evector" else "lvector"
        yield make_task(sample.kind, term, problem, arithmetic, prescribed, source, sample.shift)
        return
    found = stored_tasks(sample.kind == "stored pulled", term, problem, arithmetic, rng.choice([0.0, 1.0, 4.0]), prescribed)
    if found is None:
        yield make_task("action", term, problem, arithmetic, prescribed)
        return
    storing, action = found
    yield storing
    work, limits = make_work(term, "state", storing.pointwise, rounded=rounded), limits_of(runtime, sample.limits)
    schedule = next(schedule for schedule in schedules if not schedule.refuses(work, limits))
    plan = next(iter(schedule.plans(work, limits, make_wish(sample))))
    trial = Trial(runtime, storing, plan, range(term.num_cells))
    trial.launch()
    yield replace(action, stored=trial.results())


def make_wish(sample, parameters=()):
    return Wish(sample.precision, sample.geometry, sample.scatter, tuple(parameters))


def check_schedule(runtime, schedule, task, sample, rng, drawn):
    """One schedule's default plan, and some of the others; returns whether it serves the task."""
    limits = limits_of(runtime, sample.limits)
    more = {"rounded": task.rounded, "shift": task.shift, "modes": task.modes}
    work = make_work(task.term, task.target, task.pointwise, task.prescribed is not None, task.source, **more)
    refusal = schedule.refuses(work, limits)
    if refusal:
        assert not MUST[schedule.name].must(work, sample.element[1]), refusal
        return False
    default, *offered = schedule.plans(work, limits, make_wish(sample))
    others = [one_of(schedule, work, limits, offered, sample, rng) for _ in range(drawn)]
    for plan in dict.fromkeys([default, *others]):
        check_plan(runtime, task, plan, rng, brief=drawn > 1)
        tried(plan, sample, f"{task.target} {sample.kind}")
    return True


def one_of(schedule, work, limits, offered, sample, rng):
    """A plan that the schedule offers, or one that is asked for: parameters reach more than the schedule's own few plans."""
    asked = MUST[schedule.name].drawn(rng)
    if sample.scatter != "atomic" or sample.precision == "mixed":
        # Groups that add up cannot then, and say so.
        asked = [(name, value) for name, value in asked if name not in ("sums", "turns", "slots")]
    others = [*offered, next(iter(schedule.plans(work, limits, make_wish(sample, asked))))]
    if rng.random() < 0.5:
        others = others[-1:]
    return others[rng.integers(len(others))]


def check_plan(runtime, task, plan, rng, brief=False):
    """A plan on all numbers of cells that matter (`brief`: on one of them), and in two ranges."""
    group = max(-(-step.group_cells // step.parts) for step in plan.steps())
    most = max(3, int(TOTAL_FLOPS / max(plan.flops, 1)))
    prime = next(n for n in range(group + 2, 4 * group + 8) if is_prime(n))
    counts = [count for count in {0, 1, group - 1, group, group + 1, 2 * group, prime, plan.chunk_cells + 1} if count <= most]
    for count in () if brief else counts:
        trial = Trial(runtime, task, plan, rng.integers(task.term.num_cells, size=count))
        launches = trial.launch()
        assert launches == len(plan.steps()) * -(-count // (plan.chunk_cells or max(count, 1)))
        trial.check()
    # All of them, or some in order, whose numbers may stand in for offsets.
    entries = rng.integers(task.term.num_cells, size=max(counts))
    if rng.random() < 0.5:
        entries = np.arange(min(max(counts), task.term.num_cells))
    trial = Trial(runtime, task, plan, entries)
    middle = int(rng.integers(len(entries) + 1))
    trial.launch(0, middle)
    trial.check(0, middle)
    trial.launch(middle)
    trial.check()
