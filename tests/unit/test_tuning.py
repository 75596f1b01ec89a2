"""The device's ceilings, and plans that are chosen by model or measurement: what is measured, stored, read again and refused."""

import csv
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import ufl
from conftest import CHILD_ENVIRONMENT
from plan_works import diffusion, residual
from ufl import dx, grad, inner

from femgpu import Constant, Function, FunctionSpace, NonlinearProblem, caches, mesh, runtime, tune
from femgpu.bench import roofline
from femgpu.cli import main
from femgpu.errors import DataError
from femgpu.kernels import SCHEDULES, Wish, schedule_named
from femgpu.model import Ceiling, Limits, measured
from femgpu.model import ceiling as ceiling_of
from femgpu.operators import trials, tuning
from femgpu.operators.planner import Planner
from femgpu.operators.twin import element_vectors
from femgpu.runtime import Kernel, rates
from femgpu.runtime.device import Device
from femgpu.tune import Offer, Winner, choose


@pytest.fixture
def cache(folder, monkeypatch):
    """An empty cache, the same for all ranks."""
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def measurements(monkeypatch):
    """Kernels whose times are measured."""
    found, plain = [], Kernel.least_seconds
    monkeypatch.setattr(Kernel, "least_seconds", lambda kernel, *given: found.append(kernel.label) or plain(kernel, *given))
    return found


@pytest.fixture(autouse=True)
def few_checked(monkeypatch):
    """Plans are compared on a part of the small meshes here, as on that of large ones."""
    monkeypatch.setattr(trials, "_CHECKED", 7)


def poisson(set_options, counts=(3, 4), **options):
    """The operator of a diffusion whose coefficient depends on the state, with values on the boundary."""
    set_options("t_", **{"femgpu_tune": "measure", "femgpu_tune_best": 3} | options)
    V = FunctionSpace(mesh.box(counts, cell="triangle"), "Lagrange", 2)
    u, v, factor = Function(V), ufl.TestFunction(V), Constant(V.dm, 0.5)
    return NonlinearProblem((factor + u**2) * inner(grad(u), grad(v)) * dx, u, options_prefix="t_").operator.local


def check_action(local, rng):
    """The action agrees with the numpy twin at random data."""
    u, w = (rng.uniform(-1, 1, local.num_local) for _ in range(2))
    assert local.update()  # whoever tuned has not taken the news away
    local.runtime.write(local.base, u)
    local.runtime.write(local.w, w)
    local.base_changed()
    local.action()
    wanted = np.zeros(local.num_local)
    for term in local.terms:
        rows = element_vectors(term, term.integral.action, {"u": u, "w": w}, local.form.constant_values())
        np.add.at(wanted, term.dofs().ravel(), rows.ravel())
    got = local.runtime.read(local.out, np.empty(local.num_local))
    assert np.abs(got - wanted).max() <= 1e-12 * np.abs(wanted).max() > 0


# Ceilings


def test_roofline_is_measured_once_and_stored(cache, monkeypatch, capsys, tmp_path):
    device = runtime.current().device
    typical = device.limits.ceiling
    monkeypatch.setattr(rates, "SECONDS", 0.0)
    monkeypatch.setattr(roofline, "_MOST", (1 << 18, 1 << 18))
    monkeypatch.setattr(roofline, "_HOST", 1 << 18)
    monkeypatch.setattr(roofline, "_REPETITIONS", 2)
    monkeypatch.setattr(roofline, "_ROUNDS", 4)
    assert main(["roofline", "--out", str(tmp_path)]) == 0
    assert "copy" in capsys.readouterr().out
    (table,) = tmp_path.glob("roofline-*.csv")
    assert table.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    with open(table) as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["commit", "on", "what", "bytes", "value", "unit"]
    assert [int(row["bytes"]) for row in rows if row["what"] == "copy"] == [1 << 14, 1 << 16, 1 << 18]
    values = {row["what"]: float(row["value"]) for row in rows}
    assert {row["unit"] for row in rows} == {"B/s", "flop/s", "1/s", "s"}
    assert all(0 < value < math.inf for value in values.values())
    # What anything that runs this reaches, and nothing does.
    for what, least, most in (
        ("copy", 1e8, 1e14),
        ("local memory", 1e8, 1e15),
        ("multiply-adds, double", 1e8, 1e15),
        ("multiply-adds, single", 1e8, 1e15),
        ("atomic adds, double, spread out", 1e6, 1e13),
        ("atomic adds, double, to 1024 addresses", 1e6, 1e13),
        ("launch", 1e-8, 1e-2),
        ("launch, waited for", 1e-8, 1e-2),
        ("to the device, pinned", 1e7, 1e13),
        ("from the device, pinned", 1e7, 1e13),
    ):
        assert least < values[what] < most, what
    found = device.limits.ceiling
    assert (found.double, found.single) == (values["multiply-adds, double"], values["multiply-adds, single"]) and found != typical
    matrix = {rows: values.get(f"matrix instructions of {rows} rows, double", 0) for rows in (8, 16)}
    best = max(matrix, key=matrix.__getitem__)
    assert found.copy == values["copy"] and found.mma == best * (matrix[best] > values["multiply-adds, double"])
    # Read again, and not where the file is damaged.
    monkeypatch.setattr(roofline, "measure", lambda chosen: pytest.fail("measured twice"))
    # A device's long name goes on in the next line.
    assert main(["roofline"]) == 0 and "measured earlier" in " ".join(capsys.readouterr().out.split())
    (stored,) = cache.glob("ceilings-*.json")
    stored.write_text(stored.read_text().replace("flop/s", "flip/s", 1))
    monkeypatch.setattr(roofline, "measure", lambda chosen: (_ for _ in ()).throw(DataError("measured anew")))
    with pytest.warns(UserWarning, match="ceilings-.* is damaged, and counts as absent"):
        assert main(["roofline"]) == 1
    assert "measured anew" in capsys.readouterr().err
    monkeypatch.setenv("FEMGPU_CACHE_DIR", "0")
    assert device.limits.ceiling == typical


def test_only_sound_ceilings_count():
    sound = {"double": 2.0, "single": 4.0, "copy": 1.0, "mma": 16}
    assert measured("a", sound) == Ceiling("a", 2.0, 4.0, 1.0, 16)
    for wrong in (None, {}, sound | {"copy": math.nan}, sound | {"double": -1.0}, sound | {"single": "4"}):
        assert measured("a", wrong) is None


# Offers


@pytest.mark.parametrize("unroll", [0, 2048])
def test_offers_are_legal_and_told_apart(unroll):
    """All plans of all schedules that serve, the default one first; names tell them apart, and do not know the geometry."""
    limits = Limits(unroll=unroll, block=32 if unroll else 1, group=128, local_bytes=1 << 17, mma=16 if unroll else 0)
    work = residual(10, 1, 14, cell="tetrahedron", dim=3)
    default = next(iter(schedule_named("cell").plans(work, limits, Wish())))
    offers = list(choose.offered(default, work, limits, Wish()))
    assert offers[0] == Offer(default) and len({offer.name for offer in offers}) == len(offers) >= 15
    assert {offer.plan.schedule for offer in offers} == {"cell", "tiled", "transposed"}
    assert all(offer.plan.local_bytes <= limits.local_bytes for offer in offers)
    assert offers[0].name == Offer(replace(default, geometry="recomputed")).name != Offer(default, split="s").name
    assert {offer.plan.schedule for offer in choose.offered(default, work, limits, Wish(), "cell")} == {"cell"}
    volunteers = {schedule.name for schedule in SCHEDULES if schedule.volunteers(work, limits)}
    assert {offer.plan.schedule for offer in choose.offered(default, work, limits, Wish(), every=False)} <= volunteers


def test_the_model_ranks_schedules_and_schedules_their_plans():
    plans = [SimpleNamespace(seconds=lambda ceiling, s=seconds: s) for seconds in (2.0, 1.0, 1.0, 1.02)]
    offers = [Offer(plan, place) for plan, place in zip(plans, (0, 1, 0, 0), strict=True)]
    assert tune.ranked(offers, None) == [offers[2], offers[3], offers[1], offers[0]]


def measured_plans():
    """Plans of diffusion and mass on affine tetrahedra whose times on an H200 were measured, by form and degree."""
    limits = Limits(1024, 200 << 10, atomics="ptx", native_atomics=True, mma=8, unroll=2048, block=32, group=128)
    found = {}
    with open(Path(__file__).parents[2] / "docs" / "benchmarks" / "tiled-nvidia-h200-plans.csv") as stream:
        for row in csv.DictReader(stream):
            if row["form"] in ("diffusion", "mass"):
                degree, is_mass = int(row["degree"]), row["form"] == "mass"
                work = replace(diffusion(degree, int(row["points"])), reference=True, num_cell_state=1 if is_mass else 6)
                if is_mass:
                    of_values = {"value": True, "gradient": False}
                    fields, rows = ((replace(entry, **of_values),) for (entry,) in (work.fields, work.rows))
                    work = replace(work, fields=fields, rows=rows, writes=frozenset({"f0"}))
                name, _, given = row["plan"].partition(":")
                parameters = tuple(
                    (key, int(value)) for key, _, value in (pair.partition("=") for pair in given.split(",") if pair)
                )
                plan = next(iter(schedule_named(name).plans(work, limits, Wish("double", "stored", "atomic", parameters))))
                if name == "cell":
                    # More than a few points were not unrolled then.
                    plan = replace(plan, unroll=plan.point_size)
                cells = 6 * float(row["dofs"]) / degree**3
                found.setdefault((row["form"], degree), []).append((plan, cells, 1e-6 * float(row["us"])))
    return found


def test_models_tell_what_an_h200_takes():
    """Times of plans by matrix instructions, about; the model's first plan is nearly the fastest, which is among its first nine."""
    ceiling, cases = ceiling_of("NVIDIA H200", True), measured_plans()
    assert len(cases) == 13 and sum(map(len, cases.values())) > 130
    for case, plans in cases.items():
        predicted = [cells * plan.seconds(ceiling) for plan, cells, _ in plans]
        for seconds, (plan, _, taken) in zip(predicted, plans, strict=True):
            assert not getattr(plan, "mma", False) or 0.6 < seconds / taken < 1.25, (case, str(plan), seconds, taken)
        times = [plans[number][2] for number in np.argsort(predicted)]
        assert times[0] <= 1.2 * min(times) and min(times) in times[:9], case


def test_wrong_and_impossible_plans_are_not_taken():
    plan = next(iter(schedule_named("cell").plans(residual(), Limits(), Wish())))
    offers = [Offer(replace(plan, group_size=size)) for size in (1, 2, 3, 4, 5)]
    errors = {1: 0.0, 2: 1e-6, 3: math.nan, 4: 1e-12, 5: 0.0}

    def trial(offer):
        size = offer.plan.group_size
        if size == 1:
            raise DataError("too large")
        return errors[size], lambda: 1.0 / size

    with pytest.warns(UserWarning, match="computes something else than the plain kernel") as warned:
        assert list(tune.fastest(offers, trial).items()) == [(offers[4], 0.2), (offers[3], 0.25)]
    assert len(warned) == 2


# Tuning


def test_tuned_plan_is_right_and_found_again(cache, set_options, measurements, rng):
    local = poisson(set_options)
    (application,) = local.prepare("action")
    assert len(measurements) == 3 and application.note.startswith("tuned: the fastest of 3 plans")
    check_action(local, rng)
    del measurements[:]
    again = poisson(set_options)
    (other,) = again.prepare("action")
    assert not measurements and other.note.startswith("tuned before") and str(other.plan) == str(application.plan)
    check_action(again, rng)
    # Winners of small meshes do not count for large ones; another function is another work.
    poisson(set_options, (9, 12)).prepare("action")
    assert len(measurements) == 3
    del measurements[:]
    (residual_,) = again.prepare("residual")
    assert measurements and residual_.note.startswith("tuned: ")
    kind = local.runtime.device.kind
    (name,) = (name for name, record in tune.winners(kind).items() if record["words"].startswith("action"))
    assert len(tune.winners(kind)) == len(list(cache.glob("winner-*"))) == 2
    # Damaged files are measured anew, winners that are no longer offered, too.
    (cache / name).write_text((cache / name).read_text()[:-20])
    del measurements[:]
    with pytest.warns(UserWarning, match="winner-.* is damaged, and counts as absent"):
        poisson(set_options).prepare("action")
    assert measurements
    caches.store_record(name, tune.winners(kind)[name] | {"name": "nonsense"})
    del measurements[:]
    poisson(set_options).prepare("action")
    assert measurements


@pytest.mark.parametrize(
    "schedule, bounds, best",
    [("sumfact:pencils=2", [0, 64, 80, 96, 112, 128, 168, 224], 112), ("sumfact:pencils=2,registers=96", [96], 96)],
)
def test_bounds_on_registers_are_tried_of_the_fastest_plan(cache, set_options, monkeypatch, schedule, bounds, best):
    """Where compilers can be held to any, and nobody asks for one."""
    plain, seconds, tried = Device.limits.fget, trials.Application.least_seconds, []

    def timed(application, calls):
        tried.append(application.plan)
        return seconds(application, calls) - (getattr(application.plan, "registers", 0) == 112)

    monkeypatch.setattr(Device, "limits", property(lambda device: replace(plain(device), registers=65536, unroll=1)))
    monkeypatch.setattr(trials.Application, "least_seconds", timed)
    set_options("t_", femgpu_tune="measure", femgpu_tune_best=1, femgpu_schedule=schedule)

    def plan():
        u = Function(FunctionSpace(mesh.box((2, 2, 2), cell="hexahedron"), "Lagrange", 2))
        form = inner(grad(u), grad(ufl.TestFunction(u.space))) * dx
        (application,) = NonlinearProblem(form, u, options_prefix="t_").operator.local.prepare("residual")
        return application.plan

    found = plan()
    assert [other.registers for other in tried] == bounds and found.registers == best
    del tried[:]
    assert plan() == found and not tried


@pytest.mark.parametrize("options", [{"femgpu_tune": "model"}, {"femgpu_deterministic": True}])
def test_model_measures_nothing(cache, set_options, measurements, rng, options):
    local = poisson(set_options, **options)
    (application,) = local.prepare("action")
    assert not measurements and "by the model" in application.note and not list(cache.glob("winner-*"))
    check_action(local, rng)


def test_default_tunes_nothing(cache, set_options):
    local = poisson(set_options, femgpu_tune="off")
    (application,) = local.prepare("residual")
    assert not application.note and not list(cache.glob("winner-*"))


@pytest.mark.parametrize("scatter", ["atomic", "gather"])
def test_wrong_kernels_are_never_taken(cache, set_options, monkeypatch, rng, scatter):
    """One schedule's kernels compute something else, and are the fastest."""
    program, seconds = Planner.program, trials.Application.least_seconds

    def wrong(planner, term, plan, pointwise):
        body = pointwise.body + "\n  f1[0] *= (real)1.0001;" * (plan.schedule == "transposed")
        return program(planner, term, plan, replace(pointwise, body=body))

    def faster(application, calls):
        return 0.0 if application.plan.schedule == "transposed" else seconds(application, calls)

    monkeypatch.setattr(Planner, "program", wrong)
    monkeypatch.setattr(trials.Application, "least_seconds", faster)
    # The wrong schedule first.
    monkeypatch.setattr(tuning, "ranked", lambda offers, ceiling: sorted(offers, key=lambda o: o.plan.schedule != "transposed"))
    local = poisson(set_options, femgpu_scatter=scatter, femgpu_tune_best=2)
    with pytest.warns(UserWarning, match="computes something else than the plain kernel .*transposed"):
        (application,) = local.prepare("residual")
    assert application.plan.schedule != "transposed"


@pytest.mark.parallel([2])
def test_ranks_take_one_plan(cache, set_options, measurements, monkeypatch):
    """The first rank measures, all do as it says, unless one of them lacks that plan."""
    local = poisson(set_options)
    (application,) = local.prepare("action")
    found = local.mpi.allgather((Offer(application.plan).name, application.note, len(measurements)))
    assert found[0][:2] == found[1][:2] and (found[0][2], found[1][2]) == (3, 0)
    assert len(list(cache.glob("winner-*"))) == 1
    seconds, plain = trials.Application.least_seconds, tuning.offered
    default = local._planner.plans("residual")[0][2].plan
    monkeypatch.setattr(trials.Application, "least_seconds", lambda a, calls: seconds(a, calls) + (a.plan == default))
    if local.mpi.rank == 1:
        monkeypatch.setattr(tuning, "offered", lambda *given: list(plain(*given))[:1])
    (application,) = local.prepare("residual")
    assert application.plan == default and not application.note
    (stored,) = (record for record in tune.winners(local.runtime.device.kind).values() if record["words"].startswith("residual"))
    assert stored["name"] != Offer(default).name


# Files


def test_winners_go_to_files_and_back(cache, tmp_path, capsys, monkeypatch):
    kind, path = runtime.current().device.kind, tmp_path / "winners.json"
    assert main(["tune", "--export", str(path)]) == 1 and "nothing is stored for" in capsys.readouterr().err
    winner = Winner("name", "a plan", 1e-6, 100)
    tune.store(kind, "a work", winner)
    tune.store(kind | {"driver": "another"}, "a work", winner)
    assert main(["tune", "--export", str(path)]) == 0 and "1 plans written" in capsys.readouterr().out
    for file in cache.glob("winner-*"):
        file.unlink()
    assert tune.load(kind, "a work") is None
    assert main(["tune", "--import", str(path)]) == 0 and "1 plans taken" in capsys.readouterr().out
    assert tune.load(kind, "a work") == winner and tune.load(kind, "another work") is None
    text = path.read_text()
    record = caches.unsealed(text)
    elsewhere = {"../" + name: entry for name, entry in record["winners"].items()}
    for wrong, said in (
        (text.replace("a plan", "b plan"), "units, driver " + kind["driver"] + "), and damaged or changed since; expected one"),
        (text.replace(kind["device"], "another"), "measured on another"),
        (text.replace(kind["device"], "another"), f"and damaged or changed since; this is {kind['device']}"),
        (caches.sealed(record | {"format": "femgpu-winners-0"}), "in the format femgpu-winners-0 for femgpu-winners-1"),
        (text[:40], "damaged, or no such file"),
        ("[]", "damaged, or no such file"),
        (caches.sealed(record | {"winners": elsewhere}), "damaged or changed since"),
        (caches.sealed(record | {"kind": kind | {"device": "another"}}), "measured on another"),
        (caches.sealed(record | {"kind": kind | {"units": "99"}}), ", 99 units, driver"),
    ):
        path.write_text(wrong)
        assert main(["tune", "--import", str(path)]) == 1
        assert said in capsys.readouterr().err
    assert main(["tune", "--import", str(tmp_path / "none")]) == 1 and "cannot be read" in capsys.readouterr().err
    assert main(["tune"]) == 1 and "nothing to do" in capsys.readouterr().err
    assert main(["tune", "a.py", "--export", str(path)]) == 1 and "--export behind the script a.py" in capsys.readouterr().err
    assert main(["tune", str(tmp_path / "none.py")]) == 1 and "no such file" in capsys.readouterr().err
    assert len(list(cache.iterdir())) == 1
    path.write_text(text)
    monkeypatch.setenv("FEMGPU_CACHE_DIR", "0")
    assert main(["tune", "--import", str(path)]) == 1 and "turns the cache off" in capsys.readouterr().err
    tune.store(kind, "a work", winner)
    assert tune.load(kind, "a work") is None


_SCRIPT = """
import sys
import ufl
import femgpu

V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle"), "Lagrange", 1)
u, v = femgpu.Function(V), ufl.TestFunction(V)
problem = femgpu.NonlinearProblem((u * v - v) * ufl.dx, u)
problem.solve()
assert abs(u.vec.max()[1] - 1) < 1e-8 and sys.argv[1:] == ["-femgpu_tune_best", "2", "-femgpu_view"]
sys.exit(0)
"""


def test_a_script_is_tuned(cache, tmp_path):
    script, path = tmp_path / "script.py", tmp_path / "winners.json"
    script.write_text(_SCRIPT)
    command = [sys.executable, "-m", "femgpu", "tune", "--export", path, script, "-femgpu_tune_best", "2", "-femgpu_view"]
    environment = {**CHILD_ENVIRONMENT, "FEMGPU_CACHE_DIR": str(cache)}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "tuned: the fastest of 2 plans" in done.stdout and "plans are kept for" in done.stdout
    assert json.loads(path.read_text())["record"]["kind"] == runtime.current().device.kind
