"""Plans of several steps, and workspaces that hold some of the cells only."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import ufl
from conformance.bounds import Arithmetic
from conformance.guarded import Guarded
from conformance.samples import make_problem
from conformance.trial import Trial, make_task
from mako.lookup import TemplateLookup
from petsc4py import PETSc
from ufl import dx, grad, inner

from femgpu import Function, FunctionSpace, NonlinearProblem, mesh
from femgpu.kernels import Array, Plan, Step, pack_tables, templates
from femgpu.kernels.schedules import CellPlan
from femgpu.kernels.source import FOLDER
from femgpu.operators import application, make_terms
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import for_comm


@dataclass(frozen=True)
class TwoSteps(Plan):
    """Points in one launch, rows in another one."""

    schedule: ClassVar[str] = "two steps"

    def steps(self):
        """The work array passes from one to the other."""
        given, work = self.arguments(), self.work
        words = work.num_qpts * work.num_comp * (1 + work.dim)
        before, after = (Array("d_work", "real", ("work", 0), words, self.layout, written=written) for written in (True, False))
        inputs = tuple(array for array in given if array.role[0] != "out")
        return (
            Step("fluxes", "test_fluxes", (*inputs, before), items=32, group_cells=32),
            Step("rows", "test_rows", (after, *given), items=16, group_cells=16, parts=work.num_rows),
        )

    @property
    def shape(self):
        """Nothing to tell."""
        return "two steps"


@pytest.fixture(autouse=True)
def shells(monkeypatch):
    """The shells of the tests beside femgpu's own."""
    folders = [str(FOLDER), str(Path(__file__).parent / "cl")]
    lookup = TemplateLookup(directories=folders, strict_undefined=True)
    monkeypatch.setattr(templates, "_lookup", lambda: lookup)


@pytest.mark.parametrize("block, scatter", [(1, "evector"), (32, "evector"), (1, "atomic"), (32, "atomic")])
def test_steps_pass_a_work_array_on(rng, block, scatter):
    sample = SimpleNamespace(element=("quadrilateral", 2), num_comp=1, form="fields", shape="distorted", points="many")
    problem = make_problem(sample, rng)
    term = next(term for term in make_terms(problem.form, Settings()) if term.facets is None)
    task = make_task("residual", term, problem, Arithmetic("double"))
    runtime = Guarded(for_comm("", PETSc.COMM_SELF.tompi4py()))
    work = make_work(term, "residual", task.pointwise)
    for chunk in (0, 1, 7, 32, 33, 100):
        plan = TwoSteps(work, scatter=scatter, block=block, chunk_cells=chunk)
        # One cell at a time: two launches each.
        for count in (0, 1, chunk, 2 * chunk, 71) if chunk != 1 else (0, 3):
            trial = Trial(runtime, task, plan, rng.integers(term.num_cells, size=count))
            assert trial.launch() == 2 * -(-count // (chunk or max(count, 1)))
            trial.check()
        trial = Trial(runtime, task, plan, rng.integers(term.num_cells, size=19))
        assert trial.launch(5, 9) == 2 * -(-9 // (chunk or 9))
        trial.check(5, 14)


@pytest.mark.parametrize("scatter", ["gather", "atomic"])
def test_nodes_in_the_order_of_the_lattice(rng, monkeypatch, set_options, scatter):
    """What nodes carry stands at their places of the tensor product, into kernels and out of them, with tables that follow."""
    set_options(femgpu_scatter=scatter)
    V = FunctionSpace(mesh.box((3, 2), cell="quadrilateral", comm=PETSc.COMM_SELF), "Lagrange", 3, shape=(2,))
    state, direction = rng.standard_normal((2, V.num_local))

    def results():
        u, v = Function(V), ufl.TestFunction(V)
        problem = NonlinearProblem((1 + inner(u, u)) * inner(grad(u), grad(v)) * dx, u)
        x, w, f, y = (u.vec.duplicate() for _ in range(4))
        x.setArray(state)
        w.setArray(direction)
        problem.residual(x, f)
        problem.linearise(x)
        problem.jacobian.mult(w, y)
        return np.concatenate([f.array, y.array])

    def pack_on_lattice(plan, weights, normals, tabulations, side):
        # The space's element and that of the coordinates.
        for number, element in ((0, V.element), (1, V.mesh.coord_element)):
            if number in tabulations:
                tabulations[number] = [table[:, :, element.product[1]] for table in tabulations[number]]
        return pack_tables(plan, weights, normals, tabulations, side)

    expected, plain = results(), CellPlan.layout.fget
    monkeypatch.setattr(CellPlan, "layout", property(lambda plan: replace(plain(plan), lattice=True)))
    monkeypatch.setattr(application, "pack_tables", pack_on_lattice)
    found = results()
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def poisson(rng):
    """A residual, and its work."""
    sample = SimpleNamespace(element=("triangle", 1), num_comp=1, form="simple", shape="affine", points="many")
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, Settings())
    task = make_task("residual", term, problem, Arithmetic("double"))
    return task, make_work(term, "residual", task.pointwise)


def test_steps_write_to_another_buffer(rng):
    """Every step, in every chunk, that has the argument at all."""
    task, work = poisson(rng)
    runtime = Guarded(for_comm("", PETSc.COMM_SELF.tompi4py()))
    trial = Trial(runtime, task, TwoSteps(work, scatter="atomic", chunk_cells=7), rng.integers(task.term.num_cells, size=19))
    size = task.term.form.space.num_local
    out, other = (runtime.upload(np.zeros(size)) for _ in range(2))
    application = trial.application()
    for target in (out, other, out):
        for launch in application.bind({("out",): target}):
            launch()
    found = [runtime.read(buffer, np.empty(size)) for buffer in (out, other)]
    np.testing.assert_allclose(found[0], 2 * found[1], rtol=1e-12, atol=1e-12)
    assert np.abs(found[1]).max() > 0
    assert runtime.num_launches == 3 * 2 * 3
    trial.check(0, 0)


def test_a_workspace_is_as_large_as_a_chunk(rng):
    """Or as the cells where these are fewer."""
    task, work = poisson(rng)
    taken = []
    for chunk, count in ((0, 64), (8, 64), (100, 64)):
        runtime = Guarded(for_comm("", PETSc.COMM_SELF.tompi4py()))
        trial = Trial(runtime, task, TwoSteps(work, chunk_cells=chunk), np.zeros(count, np.int32))
        trial.launch()
        taken.append(runtime.given_bytes)
    words = work.num_qpts * (1 + work.dim)
    assert taken[0] - taken[1] == 8 * words * (64 - 8)
    assert taken[2] == taken[0]
