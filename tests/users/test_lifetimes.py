"""What a program drops is freed on any number of ranks; what it destroyed and uses again is refused."""

import gc
import weakref
from collections import OrderedDict
from pathlib import Path

import pytest
import ufl
from mpi4py import MPI
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu import runtime
from femgpu.errors import DataError
from femgpu.mesh import garbage
from femgpu.runtime import programs as module

ASSEMBLED = {"pc_type": "python", "pc_python_type": "femgpu.AssembledPC"}
MULTIGRID = {"pc_type": "python", "pc_python_type": "femgpu.PMG"}


def resident_megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def make_function(degree=1):
    return femgpu.Function(femgpu.FunctionSpace(femgpu.mesh.box((3, 3), cell="triangle"), "Lagrange", degree))


def solve_anew(degree=1, **options):
    """A problem that nobody has any more when it was solved, as a weak reference."""
    u = make_function(degree)
    v = ufl.TestFunction(u.space)
    F = inner(grad(u), grad(v)) * dx - v * dx
    problem = femgpu.NonlinearProblem(F, u, femgpu.DirichletBC(u.space, 0.0), petsc_options=options)
    problem.solve()
    return weakref.ref(problem)


@pytest.fixture
def few_objects():
    """Looking for garbage takes no longer than in a small program, whatever other tests left."""
    gc.collect()
    gc.freeze()


@pytest.mark.parallel([1, 2])
def test_memory_of_a_loop_of_python_solvers_is_flat(few_objects):
    sizes = []
    for number in range(30):
        name, degree, pc = (("CG", 1, {"pc_type": "jacobi"}), ("GMRES", 1, ASSEMBLED), ("MINRES", 2, MULTIGRID))[number % 3]
        solve_anew(degree, ksp_type="python", ksp_python_type=f"femgpu.{name}", **pc)
        if number % 10 == 9:
            sizes.append(resident_megabytes())
    assert sizes[-1] - sizes[0] < 3


@pytest.mark.parallel([1, 2, 3])
def test_memory_of_a_loop_of_meshes_and_problems_is_flat(few_objects):
    sizes, programs = [], []
    for number in range(200):
        # Most of the time on several ranks goes to waiting for each other.
        if number % MPI.COMM_WORLD.size == 0:
            solve_anew()
        else:
            make_function()
        if number % 20 == 19:
            sizes.append(resident_megabytes())
            programs.append(runtime.current().programs.num_programs)
    # A mesh that stays takes 0.4 MB.
    assert sizes[-1] - sizes[1] < 2, sizes
    assert programs[-1] == programs[0]


@pytest.mark.parallel([1, 2])
def test_a_problem_frees_those_before_it_and_the_first_searches_for_none(few_objects, monkeypatch):
    monkeypatch.setattr(garbage, "_problems", weakref.WeakValueDictionary())
    searches, collect = [], gc.collect
    monkeypatch.setattr(gc, "collect", lambda: searches.append(collect()))
    gc.disable()
    try:
        first = solve_anew()
        assert not searches and first() is not None
        second = solve_anew()
        assert len(searches) == 1 and first() is None and second() is not None
    finally:
        gc.enable()


def test_problems_need_no_hash():
    class Problem:
        def __eq__(self, other):
            return True

    first, second = Problem(), Problem()
    for problem in (first, second):
        garbage.let_go(problem, PETSc.COMM_SELF)
    assert {id(first), id(second)} <= set(garbage._problems.keys())


def test_programs_that_nothing_uses_go(monkeypatch):
    chosen = runtime.current()
    monkeypatch.setattr(module, "PROGRAMS", 2)
    monkeypatch.setattr(chosen.programs, "_last", OrderedDict())

    def source(number):
        return f"__kernel void put(__global float *x) {{ x[get_global_id(0)] = {number}; }}"

    used = runtime.Kernel(chosen, source(0), "put", [chosen.empty(64)], 1, 1)
    built = chosen.programs.num_programs
    programs = [weakref.ref(chosen.build(source(number), "put")) for number in range(5)]
    gc.collect()
    assert chosen.programs.num_programs == built + 4
    # That of a kernel, and the last two.
    assert [program() is not None for program in programs] == [True, False, False, True, True]
    chosen.build(source(3), "put")
    chosen.build(source(5), "put")
    assert chosen.programs.num_programs == built + 5
    assert [program() is not None for program in programs] == [True, False, False, True, False]
    used()


@pytest.mark.parallel([1, 2])
def test_destroyed_meshes_are_refused():
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u = femgpu.Function(V)
    dm.destroy()
    for use in (lambda: femgpu.FunctionSpace(dm, "Lagrange", 1), lambda: femgpu.Constant(dm, 1.0), lambda: femgpu.mesh.refine(dm)):
        with pytest.raises(DataError, match="the DM of the mesh was destroyed, or never created"):
            use()
    with pytest.raises(DataError, match="or never created"):
        femgpu.coordinates(PETSc.DMPlex())
    # A space has a DM of its own.
    u.interpolate(1.0)
    V.dm.destroy()
    for use in (lambda: femgpu.Function(V), lambda: u.evaluate([[0.5, 0.5]])):
        with pytest.raises(DataError, match=r"the DM of P1\(triangle\) was destroyed"):
            use()


@pytest.mark.parallel([1, 2])
def test_destroyed_vectors_are_refused(folder):
    u = make_function()
    other = femgpu.Function(u.space)
    u.vec.destroy()
    uses = (
        lambda: u.interpolate(1.0),
        lambda: other.interpolate(u),
        lambda: u.evaluate([[0.5, 0.5]]),
        lambda: femgpu.assemble(u * dx),
        lambda: femgpu.write(folder / "u.vtu", u),
        lambda: femgpu.NonlinearProblem(u * ufl.TestFunction(u.space) * dx, u),
    )
    for use in uses:
        with pytest.raises(DataError, match="the vector of u was destroyed"):
            use()
    gone = other.vec.duplicate()
    gone.destroy()
    with pytest.raises(DataError, match="the vector given to u.vec was destroyed"):
        other.vec = gone
