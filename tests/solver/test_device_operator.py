"""What an operator costs the host: launches, copies and fills of an action; and what an action keeps instead of geometry."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import ds, dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, mesh
from femgpu.errors import DataError
from femgpu.operators import ways
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays


def poisson(cell="hexahedron", degree=1, faces=(8, 8, 8), distort=0.0, rng=None, shape=(), robin=False, prescribed=True):
    """A problem with Dirichlet rows on one side, or none."""
    dm = mesh.box(faces, cell=cell, comm=PETSc.COMM_SELF)
    if distort:
        coordinates = dm.getCoordinatesLocal()
        coordinates.setArray(coordinates.array_r + rng.uniform(-distort, distort, coordinates.getLocalSize()))
        dm.setCoordinatesLocal(coordinates)
    V = FunctionSpace(dm, "Lagrange", degree, shape=shape)
    u, v = Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx
    if robin:
        F += inner(u, v) * ds
    bcs = [DirichletBC(V, 0.0 if not shape else (0.0,) * shape[0], 1)] if prescribed else []
    return NonlinearProblem(F, u, bcs=bcs)


def counted(runtime, function):
    """Launches, copies and fills of a call."""
    before = (runtime.num_launches, runtime.num_copies, runtime.num_fills)
    function()
    after = (runtime.num_launches, runtime.num_copies, runtime.num_fills)
    return SimpleNamespace(**{name: b - a for name, a, b in zip(("launches", "copies", "fills"), before, after, strict=True)})


@pytest.mark.parametrize("robin, prescribed, target", [(0, 1, "action"), (1, 1, "action"), (1, 0, "action"), (1, 1, "transposed")])
@pytest.mark.parametrize("scatter, launches", [("atomic", 2), ("gather", 3)])
def test_launches_of_an_action(set_options, scatter, launches, robin, prescribed, target):
    """Prepare and kernel, and the sum where there are E-vectors; facets are one kernel more. Nothing is copied or filled.

    Sums over E-vectors prepare their result themselves where no entry is prescribed.
    """
    set_options(femgpu_scatter=scatter)
    problem = poisson(robin=robin, prescribed=prescribed)
    device, runtime = problem.operator.device, problem.runtime
    size = 8 * problem.u.vec.getLocalSize()
    x, y, z = (runtime.empty(size) for _ in range(3))
    runtime.zero(x, size)
    device.set_base(x)
    device.action(x, y, target)  # builds
    device.action(x, z, target)
    for given, out in ((x, y), (x, z), (z, y)):
        cost = counted(runtime, lambda given=given, out=out: device.action(given, out, target))
        own = scatter == "gather" and not prescribed
        assert (cost.launches, cost.copies, cost.fills) == (launches + robin - own, 0, 0)


@pytest.mark.parametrize("prescribed", [0, 1])
def test_results_take_the_place_of_anything(set_options, rng, prescribed):
    """Sums over E-vectors are stored where no entry is prescribed."""
    found, values = [], None
    for scatter in ("gather", "atomic"):
        set_options(femgpu_scatter=scatter)
        problem = poisson(robin=1, prescribed=prescribed)
        device, runtime = problem.operator.device, problem.runtime
        size = problem.u.vec.getLocalSize()
        values = rng.standard_normal(size) if values is None else values
        x, y = runtime.upload(values), runtime.upload(np.full(size, np.nan))
        device.set_base(x)
        device.action(x, y)
        found.append(runtime.read(y, np.empty(size)))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-13 * np.abs(found[1]).max())


def test_an_action_in_place_is_refused():
    problem = poisson()
    x = problem.runtime.upload(np.ones(problem.u.vec.getLocalSize()))
    with pytest.raises(DataError, match="expected two buffers"):
        problem.operator.device.action(x, x)


def test_an_action_between_host_vectors_adds_two_copies(set_options):
    set_options(femgpu_scatter="atomic")
    problem = poisson()
    x, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
    x.set(1.0)
    problem.linearise(x)
    problem.jacobian.mult(x, y)
    cost = counted(problem.runtime, lambda: problem.jacobian.mult(x, y))
    assert (cost.launches, cost.copies, cost.fills) == (2, 2, 0)


@pytest.mark.parametrize("atomic", ["cells", "facets", "neither"])
@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("prescribed", [False, True])
def test_terms_that_scatter_differently_add_up(set_options, monkeypatch, atomic, precision, prescribed):
    """The sum over E-vectors adds to what atomic adds have left there: any mixture gives the same action, buffers dirty before."""

    def make_wish(term, work, *given):
        wish = plain(term, work, *given)
        chosen = work.target == "action" and (work.facet == (atomic == "cells") or atomic == "neither")
        return replace(wish, scatter="evector") if chosen else wish

    plain, results = ways.make_wish, []
    set_options(femgpu_scatter="atomic", femgpu_precision=precision)
    for wish in (plain, make_wish):
        monkeypatch.setattr(ways, "make_wish", wish)
        problem = poisson("triangle", 2, (5, 4), robin=True, prescribed=prescribed)
        x, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
        x.setArray(np.random.default_rng(5).uniform(-1, 1, x.getLocalSize()))
        problem.linearise(x)
        for _ in range(2):
            y.set(np.nan)
            problem.jacobian.mult(x, y)
        results.append(y.array_r.copy())
    scatters = [application.plan.scatter for application in problem.operator.local.prepare("action")]
    assert scatters == [{"cells": "atomic"}.get(atomic, "evector"), {"facets": "atomic"}.get(atomic, "evector")]
    assert np.abs(results[1] - results[0]).max() < (1e-6 if precision == "mixed" else 1e-13)


@pytest.mark.parametrize("schedule", ["cell", "transposed:blocks=1,batches=2"])
@pytest.mark.parametrize("block", [1, 8])
def test_ranges_and_chunks_of_cells_add_up(set_options, schedule, block):
    """Parts of the cells, in launches of their own and each in chunks, none of which ends where a block does."""
    set_options(femgpu_scatter="atomic", femgpu_schedule=schedule, femgpu_geometry="stored", femgpu_qdata="recompute")
    problem = poisson(faces=(3, 5, 3))
    local, runtime = problem.operator.local, problem.runtime
    (application,) = local.prepare("action")
    term, pointwise, size = application.term, application.term.integral.action, local.vector_bytes
    local.runtime.write(local.w, np.random.default_rng(3).uniform(-1, 1, local.num_local))
    local.action()
    expected = runtime.read(local.out, np.empty(local.num_local))
    plan = replace(application.plan, chunk_cells=7, block=1 if schedule != "cell" else block)
    buffers = local.inputs.at_base() | {("vector", "w"): local.w, ("out",): local.out}
    arrays = CellArrays(runtime, problem.operator.rows.mask())
    parts = [Application(term, plan, pointwise, buffers, arrays, first, count) for first, count in ((0, 13), (13, 1), (14, None))]
    assert [len(part.kernels) for part in parts] == [2, 1, 5] and sum(part.count for part in parts) == term.num_cells == 45
    runtime.zero(local.out, size)
    for part in parts:
        part()
    found = runtime.read(local.out, np.empty(local.num_local))
    assert 0 < np.abs(expected).max() and np.abs(found - expected).max() <= 1e-14 * np.abs(expected).max() * 8


@pytest.mark.parametrize("schedule", ["cell", "cell:sums=32,turns=2"])
def test_what_stands_in_order_is_not_stored_and_known_as_long_as_it_is_used(set_options, schedule):
    """Neither offsets of a coefficient with one value per cell nor, where nodes are vertices, their list."""
    set_options(femgpu_scatter="atomic", femgpu_schedule=schedule, femgpu_geometry="recomputed")
    dm = mesh.box((6, 5), cell="triangle", comm=PETSc.COMM_SELF)
    u, nu = Function(FunctionSpace(dm, "Lagrange", 1)), Function(FunctionSpace(dm, "DG", 0), name="nu")
    nu.vec.setArray(np.random.default_rng(4).uniform(1, 2, nu.vec.getLocalSize()))
    problem = NonlinearProblem(nu * inner(grad(u), grad(ufl.TestFunction(u.space))) * dx, u)
    (application,) = problem.operator.local.prepare("residual")
    arrays = problem.operator.local.arrays
    nothing = {key[2] if "cell_offsets" in key else key[0] for key, found in arrays._kept.items() if found is None}
    assert nothing == {"cell_offsets", *["vertices"] * ("sums" in schedule)}
    arguments = [argument for kernel in application.kernels for argument in kernel.arguments]
    arrays.keep(arguments)
    assert {key[0] for key, found in arrays._kept.items() if found is None} == nothing - {"cell_offsets"}
    arrays.keep([])
    assert None not in arrays._kept.values()


@pytest.mark.parametrize("slots", [64, 32])
def test_rows_make_way_for_slices_where_a_group_has_more_nodes(set_options, slots):
    """42 vertices of 60 triangles."""
    results = []
    for schedule in ("cell", f"cell:sums=64,slots={slots}"):
        set_options(femgpu_scatter="atomic", femgpu_schedule=schedule, femgpu_geometry="recomputed")
        u = Function(FunctionSpace(mesh.box((6, 5), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1))
        u.vec.setArray(np.random.default_rng(4).uniform(-1, 1, u.vec.getLocalSize()))
        problem = NonlinearProblem((1 + u**2) * inner(grad(u), grad(ufl.TestFunction(u.space))) * dx, u)
        results.append(u.vec.duplicate())
        problem.residual(u.vec, results[-1])
    (application,) = problem.operator.local.prepare("residual")
    assert application.plan.slots == (slots if slots == 64 else 0)
    assert ("in rows of 64" in str(application.plan)) == (slots == 64)
    assert application.note == ("" if slots == 64 else "in place of a plan in rows: some work-group needs more slots")
    expected, found = (result.array_r for result in results)
    assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()


@pytest.mark.parallel(2)
@pytest.mark.parametrize("comm", [PETSc.COMM_WORLD, PETSc.COMM_SELF])
def test_a_mesh_is_whole_on_one_rank(comm):
    u = Function(FunctionSpace(mesh.box((6, 5), cell="triangle", comm=comm), "Lagrange", 1))
    local = NonlinearProblem(inner(grad(u), grad(ufl.TestFunction(u.space))) * dx, u).operator.local
    (application,) = local.prepare("residual")
    wish = ways.make_wish(application.term, application.plan.work, local.settings, local.runtime.device.limits)
    assert wish.whole == (comm.getSize() == 1)


@pytest.mark.parametrize("affine", [False, True])
def test_poisson_keeps_the_geometry_in_six_numbers(set_options, rng, affine):
    """At each point, or in each cell where the map is affine; nothing else of the geometry is read."""
    actions = {}
    for qdata in ("store", "recompute"):
        set_options(femgpu_qdata=qdata)
        problem = poisson(degree=2, faces=(3, 2, 3), distort=0 if affine else 0.03, rng=np.random.default_rng(7))
        x, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
        x.setArray(np.random.default_rng(8).uniform(-1, 1, x.getLocalSize()))
        problem.linearise(x)
        problem.jacobian.mult(x, y)
        (application,) = problem.operator.local.prepare("action")
        plan, roles = application.plan, {role[0] for role in application.roles}
        stored = (plan.work.num_state, plan.work.num_cell_state)
        if qdata == "store":
            assert stored == ((0, 6) if affine else (6, 0))
            assert not plan.work.maps and not plan.needs_coords and not roles & {"geometry", "coords", "coord_offsets"}
        else:
            assert stored == (0, 0) and plan.work.maps
        actions[qdata] = y.array_r.copy()
    assert np.abs(actions["store"] - actions["recompute"]).max() <= 1e-13 * np.abs(actions["recompute"]).max()


@pytest.mark.parametrize("scatter", ["atomic", "gather"])
@pytest.mark.parametrize("mixed", [False, True])
def test_prescribed_single_components(set_options, rng, scatter, mixed):
    """Rows of prescribed components are s times the direction, their columns are dropped; the others see neither."""
    set_options(femgpu_scatter=scatter)
    dm = mesh.box((3, 4), cell="triangle", comm=PETSc.COMM_SELF)
    V = FunctionSpace(dm, "Lagrange", 2, shape=(2,))
    space = MixedSpace({"v": V, "p": FunctionSpace(dm, "Lagrange", 1)}) if mixed else V
    target = space.sub("v") if mixed else space
    w = Function(space)
    u, v = (ufl.split(w)[0], ufl.TestFunctions(space)[0]) if mixed else (w, ufl.TestFunction(space))
    F = inner(grad(u), grad(v)) * dx + inner(u[0], v[1]) * dx
    if mixed:
        p, q = ufl.split(w)[1], ufl.TestFunctions(space)[1]
        F += p * q * dx + ufl.div(u) * q * dx
    problem = NonlinearProblem(F, w, bcs=[DirichletBC(target, 0.0, 1, component=0), DirichletBC(target, 0.0, 3, component=1)])
    size, rows = w.vec.getLocalSize(), problem.operator.rows.owned
    assert 0 < len(rows) < size // 4
    problem.linearise(w.vec)
    plain = NonlinearProblem(F, w)
    plain.linearise(w.vec)
    x, y, z = (w.vec.duplicate() for _ in range(3))
    x.setArray(rng.uniform(-1, 1, size))
    problem.jacobian.mult(x, y)
    inner_part = x.duplicate()
    values = x.array_r.copy()
    values[rows] = 0
    inner_part.setArray(values)
    plain.jacobian.mult(inner_part, z)
    expected = z.array_r.copy()
    expected[rows] = problem.operator.transfer.scale * x.array_r[rows]
    assert np.abs(y.array_r - expected).max() <= 1e-13 * np.abs(expected).max()
