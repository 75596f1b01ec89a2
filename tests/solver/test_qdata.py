"""What the Jacobian action keeps at the points: the choice, its memory, its agreement over ranks, and when it is stale."""

from collections import OrderedDict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import ufl
from ufl import dx, grad, inner

from femgpu import Constant, DirichletBC, Function, FunctionSpace, NonlinearProblem, mesh
from femgpu.forms import lower_form
from femgpu.operators import form_operator, make_terms, planner, splits, ways
from femgpu.options import Settings
from femgpu.runtime import for_comm


def p_laplace(factor=1.0):
    dm = mesh.box((1, 2), cell="triangle")
    V = FunctionSpace(dm, "Lagrange", 2)
    u, v = Function(V), ufl.TestFunction(V)
    return factor * (0.1 + inner(grad(u), grad(u))) ** 1.25 * inner(grad(u), grad(v)) * dx(degree=4), u


def elastic_body():
    """St. Venant-Kirchhoff's, of degree 2."""
    V = FunctionSpace(mesh.box((1, 1, 1), cell="tetrahedron"), "Lagrange", 2, shape=(3,))
    F = ufl.Identity(3) + grad(u := Function(V))
    E = ufl.variable((F.T * F - ufl.Identity(3)) / 2)
    stresses = ufl.diff(0.6 * ufl.tr(E) ** 2 + 0.8 * ufl.tr(E * E), E)
    return inner(F * stresses, grad(ufl.TestFunction(V))) * dx, u


def candidates(settings, gpu=True, room=1 << 40, form=p_laplace):
    F, u = form()
    runtime = for_comm("", u.space.mesh.mpi)
    stand_in = SimpleNamespace(device=replace(runtime.device, is_gpu=gpu), available_bytes=room)
    (term,) = make_terms(lower_form(F, u), settings)
    mpi = u.space.mesh.mpi
    every = ways.alternatives(term, term.integral.action, settings, stand_in.device.limits, mpi)
    found = ways.candidates(term, every, settings, stand_in, mpi)
    return [entry.split.num_scalars for entry in found]


def test_ways_to_be_measured():
    """A GPU compares storing with recomputing; a CPU, and whoever wants equal runs, takes the model's word."""
    found = candidates(Settings())
    assert 0 in found and max(found) > 0
    assert len(candidates(Settings(), gpu=False)) == len(candidates(Settings(deterministic=True))) == 1
    assert candidates(Settings(qdata="recompute")) == [0]
    assert candidates(Settings(qdata="store"))[0] > 0


@pytest.mark.parametrize(
    ("qdata", "wanted"),
    [
        ("auto", [(0, False, True), (15, False, False), (12, False, False), (9, False, True), (15, True, True)]),
        ("store", [(9, False, True), (15, False, True), (15, True, True)]),
        ("recompute", [(0, False, True)]),
    ],
)
def test_what_is_worth_measuring(qdata, wanted):
    """The state's gradient, with stresses or without, and pulled back: numbers per point, whether pulled back, whether measured."""
    F, u = elastic_body()
    (term,) = make_terms(lower_form(F, u), Settings())
    found = splits.splits(term, term.integral.action, qdata)
    assert [(split.num_scalars, split.action.reference, mark) for split, mark in found.items()] == wanted


def test_ways_that_store_have_room():
    """Those that have none are left out while one has it; where none has, all are there, and the error says so."""
    settings, points = Settings(qdata="store"), 32 * 14  # a block of cells
    assert candidates(settings, form=elastic_body) == candidates(settings, form=elastic_body, room=0) == [9, 15, 15]
    for numbers, wanted in ((15 * points, [9, 15]), (15 * points - 1, [9])):
        assert candidates(settings, form=elastic_body, room=3 * 8 * numbers) == wanted


def test_an_action_is_cut_once(monkeypatch):
    """Another precision and an equal form find the same splits; another mesh, element or number of points does not."""
    found, plain = [], splits.split_states
    monkeypatch.setattr(splits, "_known", OrderedDict())
    monkeypatch.setattr(splits, "split_states", lambda *args, **more: found.append(plain(*args, **more)) or found[-1])

    def cut(cell="triangle", degree=2, points=4, factor=1.0, of=2.0, qdata="auto"):
        V = FunctionSpace(mesh.box((1, 2), cell=cell), "Lagrange", degree)
        u, v = Function(V), ufl.TestFunction(V)
        F = factor * (0.1 + inner(grad(u), grad(u))) ** of * inner(grad(u), grad(v)) * dx(degree=points)
        (term,) = make_terms(lower_form(F, u), Settings())
        return splits.splits(term, term.integral.action, qdata)

    first, calls = cut(), len(found)
    assert calls == 2 and all(again is known for again, known in zip(cut(), first, strict=True)) and len(found) == calls
    ways_apart = dict(cell="quadrilateral"), dict(degree=3), dict(points=6), dict(factor=2.0), dict(of=3.0), dict(qdata="store")
    for apart in ways_apart:
        cut(**apart)
        assert len(found) > calls, apart
        calls = len(found)
    assert len(splits._known) <= splits._KEPT


def test_auto_stores_nothing_where_there_is_no_room():
    assert candidates(Settings(), room=0) == candidates(Settings(), gpu=False, room=0) == [0]


def test_arrays_of_ways_that_lost_are_dropped(monkeypatch):
    """Ways of an action are compared with everything that they read; of the loser's arrays over cells nothing stays."""
    F, u = p_laplace()
    problem = NonlinearProblem(F, u)
    local = problem.operator.local
    plain = ways.alternatives

    def compared(term, action, settings, limits, mpi, masked=False):
        winner, *_ = plain(term, action, replace(settings, qdata="recompute", geometry="recomputed"), limits, mpi, masked)
        loser, *_ = plain(term, action, replace(settings, qdata="store", geometry="stored"), limits, mpi, masked)
        return [winner, loser]

    monkeypatch.setattr(planner, "alternatives", compared)
    monkeypatch.setattr(planner, "candidates", lambda term, found, *_: [entry for entry, _ in found])
    monkeypatch.setattr(form_operator, "fastest", lambda found, mpi: found[0])
    made = []
    plain_upload = problem.runtime.upload
    monkeypatch.setattr(problem.runtime, "upload", lambda array: made.append(plain_upload(array)) or made[-1])
    (application,) = local.prepare("action")
    arguments = {id(argument) for kernel in application.kernels for argument in kernel.arguments}
    kept = set(map(id, local.arrays._kept.values()))
    assert {id(buffer) for buffer in made} - arguments  # the loser had arrays of its own
    assert not ({id(buffer) for buffer in made} - arguments) & kept


@pytest.mark.parallel([4])
@pytest.mark.parametrize("gpu", [False, True])
def test_ranks_have_the_same_ways(gpu):
    """Also those with few cells or none, whose plans differ; one rank without room decides for all."""
    mpi = FunctionSpace(mesh.box((1, 2), cell="triangle"), "Lagrange", 1).mesh.mpi
    for room in (1 << 40, 0 if mpi.rank == 0 else 1 << 40):
        found = mpi.allgather(candidates(Settings(), gpu, room))
        assert all(entry == found[0] for entry in found)
    assert found[0] == [0]


def test_what_is_kept_in_single_precision_is_rounded_and_nothing_else(set_options, rng):
    """Half of the bytes, products seven digits; the residual is what it was, and so is what Newton converges to."""
    F, u = p_laplace()
    F -= F.arguments()[0] * dx
    direction, products, residuals, solutions, sizes = u.vec.duplicate(), [], [], [], []
    direction.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    state = rng.uniform(-1, 1, u.vec.getLocalSize())
    bcs = [DirichletBC(u.space, 0.0)]
    for qdata in ("store", "single"):
        set_options("q_", femgpu_qdata=qdata, snes_rtol=1e-13, ksp_rtol=1e-8, pc_type="none", ksp_type="cg")
        problem, out = NonlinearProblem(F, u, bcs, options_prefix="q_"), u.vec.duplicate()
        u.vec.setArray(state)
        problem.linearise(u.vec)
        problem.jacobian.mult(direction, out)
        products.append(out.array_r.copy())
        problem.residual(u.vec, out)
        residuals.append(out.array_r.copy())
        (storing,) = problem.operator.local.applications["state"]
        sizes.append(ways.state_bytes(storing.term, storing.plan)["state",])
        assert ("in single precision" in problem.report()) == (qdata == "single")
        u.vec.set(0)
        problem.solve()
        solutions.append(u.vec.array_r.copy())
    off = np.abs(products[1] - products[0]).max() / np.abs(products[0]).max()
    assert 1e-11 < off < 1e-6 and sizes[0] == 2 * sizes[1]
    assert (residuals[1] == residuals[0]).all()
    assert np.abs(solutions[1] - solutions[0]).max() < 1e-9 * np.abs(solutions[0]).max()


@pytest.mark.parametrize("qdata", ["store", "recompute"])
def test_stored_state_follows_state_and_constants(set_options, rng, qdata):
    set_options("q_", femgpu_qdata=qdata)
    F, u = p_laplace()
    load = Constant(u.space.dm, 1.0)
    problem = NonlinearProblem(load * F, u, options_prefix="q_")
    assert bool(problem.operator.local.applications.get("state")) is False
    direction, out, quotient = (u.vec.duplicate() for _ in range(3))
    for value in (1.0, 3.0):
        load.value = value
        u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
        direction.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
        problem.linearise(u.vec)
        problem.jacobian.mult(direction, out)
        step = 1e-6
        quotient.set(0)
        for sign in (1, -1):
            problem.residual(u.vec + sign * step * direction, moved := u.vec.duplicate())
            quotient.axpy(sign / (2 * step), moved)
        assert (out - quotient).norm() < 1e-7 * out.norm()
    assert bool(problem.operator.local.applications["state"]) == (qdata == "store")
    assert np.isfinite(out.array_r).all()
