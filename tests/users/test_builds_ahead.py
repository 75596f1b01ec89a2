"""Kernels that are built side by side, before they are needed: the same programs, the same errors, each once on a node."""

import ctypes
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ufl
from conftest import CHILD_ENVIRONMENT
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu import runtime
from femgpu.errors import BuildError, DeviceError
from femgpu.runtime import Device, Runtime, compiler, process, program, programs

WORLD = PETSc.COMM_WORLD.tompi4py()
SOURCE = "__kernel void put(__global double *x) { x[get_global_id(0)] = %d; }"
WRONG = "__kernel void put(__global double *x) { x[0] = nothing_like_that; }"


class Builds:
    """What `program.build` was asked for: names, and in which threads."""

    def __init__(self, monkeypatch, seconds=0.0):
        self.names, self.threads, self._plain, self._seconds = [], [], program.build, seconds
        monkeypatch.setattr(program, "build", self)

    def __call__(self, context, device, source, name, *others):
        self.names.append(name)
        self.threads.append(threading.current_thread())
        time.sleep(self._seconds)
        return self._plain(context, device, source, name, *others)


@pytest.fixture
def threaded(monkeypatch, tmp_path):
    """Makes a runtime as on a GPU, whose driver keeps no programs."""
    monkeypatch.setattr(Device, "caches_programs", False)
    monkeypatch.setenv("FEMGPU_CACHE_DIR", WORLD.bcast(str(tmp_path)))

    def make():
        made = Runtime(runtime.current().device, runtime.current().context)
        made.programs.threads = 4
        return made

    return make


@pytest.fixture
def threaded_process(threaded, monkeypatch):
    """Makes such a runtime that of the process."""
    made = threaded()
    monkeypatch.setattr(process, "_current", made)
    return made


def nobody_builds():
    return not any(thread.name.startswith("femgpu-build") for thread in threading.enumerate())


def value(made, program_):
    """What a program of `SOURCE` puts."""
    x = made.upload(np.zeros(1))
    kernel = runtime.Kernel(made, program_, "put", [x], 1, 1)
    kernel()
    return made.read(x, np.empty(1))[0]


def test_programs_are_built_in_threads_and_each_once(threaded, monkeypatch):
    builds, made = Builds(monkeypatch), threaded()
    sources = [(SOURCE % number, f"put{number}") for number in range(4)]
    made.build_ahead(sources)
    made.build_ahead(sources[::-1])
    assert [value(made, source) for source, _ in sources] == list(range(4))
    assert sorted(builds.names) == [name for _, name in sources]
    assert (made.programs.num_programs, made.programs.num_compiled) == (4, 4)
    made.build_ahead(sources)
    assert len(builds.names) == 4 and not made.programs._ahead
    again = threaded()
    again.build_ahead(sources)
    assert [value(again, source) for source, _ in sources] == list(range(4))
    assert (again.programs.num_programs, again.programs.num_compiled) == (4, 0)


def test_a_kernel_waits_for_its_program_where_it_is_launched(threaded):
    """Not where it is made, and arguments may change until then; a program that is refused is told of there."""
    made = threaded()
    made.build_ahead([(SOURCE % 3, "put"), (WRONG, "wrong")])
    x, y = (made.upload(np.zeros(1)) for _ in range(2))
    kernel, wrong = runtime.Kernel(made, SOURCE % 3, "put", [x], 1, 1), runtime.Kernel(made, WRONG, "put", [x], 1, 1)
    kernel.set(0, y)
    assert made.programs.num_programs == 0 and kernel.global_size == 1
    kernel()
    kernel.bound({0: x})()
    assert [made.read(buffer, np.empty(1))[0] for buffer in (x, y)] == [3, 3] and kernel.launches == 2
    for launch in (wrong, wrong.build, lambda: wrong.bound({0: y})):
        with pytest.raises(BuildError, match="refuses kernel"):
            launch()


def test_a_kernel_watches_itself_or_not_as_when_it_was_made(threaded):
    """Another problem, with `-femgpu_debug` or without, may come before its first launch."""
    made = threaded()
    for debug in (False, True):
        made.debug(debug)
        x = made.upload(np.zeros(1))
        kernel = runtime.Kernel(made, SOURCE % 3, "put", [x], 1, 1)
        made.debug(not debug)
        kernel()
        assert made.read(x, np.empty(1))[0] == 3


def test_threads_end_when_nothing_is_left(threaded, monkeypatch):
    builds, made = Builds(monkeypatch), threaded()
    made.build_ahead([(SOURCE % 1, "put")])
    made.build(SOURCE % 1, "put")
    end = time.monotonic() + 10
    while not nobody_builds() and time.monotonic() < end:
        time.sleep(0.01)
    assert nobody_builds() and builds.threads[0] is not threading.main_thread()


def test_what_no_thread_has_begun_with_is_built_by_who_needs_it(threaded, monkeypatch):
    builds, made = Builds(monkeypatch, seconds=0.2), threaded()
    made.programs.threads = 1
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(3)])
    made.build(SOURCE % 2, "put2")
    assert builds.threads[builds.names.index("put2")] is threading.main_thread()
    assert value(made, SOURCE % 0) == 0 and value(made, SOURCE % 1) == 1 and sorted(builds.names) == ["put0", "put1", "put2"]


def test_pocl_builds_what_is_asked_for_and_nothing_else(monkeypatch):
    builds, made = Builds(monkeypatch), Runtime(runtime.current().device, runtime.current().context)
    if not made.device.caches_programs:
        pytest.skip("the device is not PoCL's")
    made.build_ahead([(SOURCE % 1, "put")])
    assert not builds.names and nobody_builds()


def test_an_error_waits_for_who_asks(threaded):
    made, wrong, said = threaded(), WRONG, []
    for ahead in (False, True):
        if ahead:
            made.build_ahead([(wrong, "wrong"), (SOURCE % 1, "put")])
            assert value(made, SOURCE % 1) == 1
        with pytest.raises(BuildError, match="(?s)refuses kernel wrong; its source is in .*nothing_like_that") as failure:
            made.build(wrong, "wrong")
        said.append(str(failure.value))
        assert re.search(r"line 1: error: use of undeclared .*: __kernel void put\(", said[-1])
    assert said[0] == said[1]


def test_an_interrupt_leaves_the_rest(threaded, monkeypatch):
    builds, made = Builds(monkeypatch, seconds=0.3), threaded()
    made.programs.threads, made.programs.processes = 1, 0
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(4)])
    while not builds.names:
        time.sleep(0.001)
    future, _ = next(iter(made.programs._ahead.values()))
    monkeypatch.setattr(future, "result", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        made.build(SOURCE % 0, "put0")
    assert not made.programs._ahead
    assert value(made, SOURCE % 3) == 3 and set(builds.names) == {"put0", "put"}


def test_programs_that_nobody_asks_for_go(threaded, monkeypatch):
    monkeypatch.setattr(programs, "PROGRAMS", 2)
    made = threaded()
    made.build_ahead([(SOURCE % number, "put") for number in range(5)])
    for future, _ in list(made.programs._ahead.values()):
        future.result()
    made.build_ahead([(SOURCE % 5, "put")])
    assert len(made.programs._ahead) <= 3


def test_a_forked_child_does_not_wait(threaded, monkeypatch):
    made = threaded()
    made.build_ahead([(SOURCE % 1, "put")])
    monkeypatch.setattr("femgpu.forks._forked", True)
    with pytest.raises(DeviceError, match="forked"):
        made.build(SOURCE % 1, "put")


@pytest.fixture
def helped(threaded, monkeypatch):
    """Such a runtime with two processes that compile, and a list of what is compiled in this one all the same."""
    made, here, plain = threaded(), [], program._compile_here
    monkeypatch.setattr(program, "_compile_here", lambda *args: here.append(args[2]) or plain(*args))
    compilers = made.programs._compilers
    assert compilers.start(2)
    end = time.monotonic() + 60
    while not all(child.ready for child in compilers._children) and time.monotonic() < end:
        time.sleep(0.01)
    assert [child.ready for child in compilers._children] == [True, True]
    return made, here, list(compilers._children)


def test_other_processes_compile(helped, tmp_path):
    made, here, children = helped
    made.programs.dump_folder = str(tmp_path / "dump")
    sources = [(SOURCE % number, f"put{number}") for number in range(6)]
    made.build_ahead(sources)
    while any(not future.done() for future, _ in made.programs._ahead.values()):
        time.sleep(0.01)
    # Threads of the tests before may still compile.
    assert not {name for _, name in sources} & set(here)
    assert [value(made, source) for source, _ in sources] == list(range(6))
    assert made.programs.num_compiled == 6 and len(list(tmp_path.glob("dump/*.log"))) == 6
    # Both wait for more; without this process they end by themselves.
    assert all(child.process.poll() is None for child in children)
    children[0]._socket.shutdown(socket.SHUT_WR)
    assert children[0].process.wait(10) in (0, -signal.SIGKILL)
    assert made.programs._compilers.start(0) and made.programs._compilers._children == children[1:]


def test_processes_compile_what_they_have_while_this_one_holds_pythons_lock(helped):
    made, here, _ = helped
    made.programs.processes = 2
    made.build_ahead([(SOURCE % number, f"held{number}") for number in range(5)])
    # As PETSc holds it.
    ctypes.PyDLL(None).sleep(4)
    asked = [answer for _, answer in made.programs._ahead.values()]
    time.sleep(0.2)
    assert all(answer.done() for answer in asked) and not here
    assert [value(made, SOURCE % number) for number in range(5)] == list(range(5))


def test_what_no_process_has_begun_with_is_compiled_by_who_needs_it(threaded, monkeypatch, tmp_path):
    (tmp_path / "asleep.py").write_text("import time; time.sleep(100)")
    made, here, plain = threaded(), [], program._compile_here
    monkeypatch.setattr(program, "_compile_here", lambda *args: here.append(args[2]) or plain(*args))
    monkeypatch.setattr(compiler, "__file__", str(tmp_path / "asleep.py"))
    made.programs.processes = 1
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(5)])
    assert value(made, SOURCE % 2) == 2 and here == ["put2"]
    # Nor does anybody wait for ever when the process goes, or the runtime.
    made.programs._compilers._children[0].process.kill()
    assert value(made, SOURCE % 4) == 4 and not made.programs._compilers.start(0)


def test_what_another_process_cannot_compile_is_compiled_here(helped):
    made, here, children = helped
    made.build_ahead([(WRONG, "wrong")])
    with pytest.raises(BuildError, match="(?s)refuses kernel wrong; .*nothing_like_that"):
        made.build(WRONG, "wrong")
    assert here.count("wrong") == 1
    for child in children:
        child.process.kill()
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(3)])
    assert [value(made, SOURCE % number) for number in range(3)] == [0, 1, 2]
    assert not made.programs._compilers.start(0)


def test_processes_are_started_for_many_programs_and_go_with_the_runtime(threaded):
    made = threaded()
    made.programs.processes = 2
    made.build_ahead([(SOURCE % 0, "put")])
    children = made.programs._compilers._children
    assert not children
    made.build_ahead([(SOURCE % number, "put") for number in range(1, 8)])
    found = list(children)
    assert len(found) == 2 and [value(made, SOURCE % number) for number in range(8)] == list(range(8))
    again = threaded()
    again.programs.processes = 2
    again.build_ahead([(SOURCE % number, "put") for number in range(8)])
    assert not again.programs._compilers._children
    while not nobody_builds():
        time.sleep(0.01)
    del made, children
    gc.collect()
    for child in found:
        child.process.wait(10)


def test_processes_that_are_released_compile_what_they_have_and_end(helped):
    made, here, children = helped
    compilers = made.programs._compilers
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(9)])
    made.programs.release()
    # Nor do they stay in the table of processes.
    end = time.monotonic() + 30
    while any(Path(f"/proc/{child.process.pid}").exists() for child in children) and time.monotonic() < end:
        time.sleep(0.01)
    assert all(child.process.returncode in (0, -signal.SIGKILL) for child in children)
    while not nobody_builds():
        time.sleep(0.01)
    assert not here and [value(made, SOURCE % number) for number in range(9)] == list(range(9))
    # Others are started where many programs are wanted again, and none of those that have gone is asked.
    made.programs.processes = 1
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(9, 13)])
    (child,) = compilers._children
    assert child not in children and [value(made, SOURCE % number) for number in range(9, 13)] == list(range(9, 13))


def test_a_program_that_embeds_python_is_not_started_again(threaded, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/local/bin/solver")
    assert not threaded().programs._compilers.start(2)


def p_laplace(degree=1, prefix="", **options):
    dm = femgpu.mesh.box((3, 2), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = (1 + inner(grad(u), grad(u))) * inner(grad(u), grad(v)) * dx - v * dx
    return femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0)], options_prefix=prefix, petsc_options=options)


_NEEDED = {
    "none": ({"residual", "diagonal", "action"}, {"pc_type": "none"}),
    "jacobi": ({"residual", "diagonal", "action"}, {"pc_type": "jacobi"}),
    "lu": ({"residual", "diagonal", "action", "matrix"}, {"pc_type": "lu"}),
    "assembled": ({"residual", "diagonal", "matrix"}, {"pc_type": "lu", "femgpu_jacobian": "assembled"}),
    "inside": (
        {"residual", "diagonal", "action", "matrix"},
        {"pc_type": "python", "pc_python_type": "femgpu.AssembledPC", "assembled_pc_type": "lu"},
    ),
}


@pytest.mark.parametrize("kind", _NEEDED)
def test_what_a_solve_needs_is_built_and_nothing_else(threaded_process, monkeypatch, kind):
    monkeypatch.setenv("FEMGPU_CACHE_DIR", "0")
    targets, options = _NEEDED[kind]
    builds = Builds(monkeypatch)
    problem = p_laplace(**options, femgpu_qdata="recompute")
    problem.build()
    # A matrix has a program of its own besides, and one makes arrays over cells.
    assert {name.partition("-")[0] for name in builds.names} - {"vectors", "merge_lists", "pack_words"} == targets
    count = len(set(builds.names) | ({"merge_lists"} if "matrix" in targets else set()))
    problem.solve()
    assert len(builds.names) == count
    assert set(problem.operator.local.applications) - {"state"} == targets


OWN = {"ksp_type": "python", "ksp_python_type": "femgpu.%s", "pc_type": "python", "pc_python_type": "femgpu.PMG"}


@pytest.mark.parametrize("method", ["CG", "GMRES", "Chebyshev"])
def test_solvers_build_theirs_ahead_too(threaded_process, monkeypatch, method):
    """What a Krylov method, multigrid and its levels launch is there after `build`: a solve builds nothing."""
    builds = Builds(monkeypatch)
    options = {name: value.replace("%s", method) for name, value in OWN.items()}
    problem = p_laplace(2, **options, femgpu_qdata="recompute")
    problem.build()
    assert {"krylov", "multigrid", "basis_vectors", "multiply_sparse"} <= set(builds.names)
    assert problem.snes.getKSP().getPC().getPythonContext().inner is not None
    names = list(builds.names)
    problem.solve()
    assert builds.names == names


def test_all_that_multigrid_launches_is_begun_before_it_is_wanted(threaded_process, monkeypatch):
    """And nothing else is: in single precision, too, the level of degree 1 is a matrix."""
    begun, wanted, start, get = {}, {}, programs.Programs.start, programs.Programs.get
    monkeypatch.setattr(programs.Programs, "start", lambda self, them: start(self, [begun.setdefault(*it) and it for it in them]))
    monkeypatch.setattr(programs.Programs, "get", lambda self, *it: wanted.setdefault(*it) and get(self, *it))
    options = {name: value.replace("%s", "CG") for name, value in OWN.items()}
    options |= {"pc_femgpu_pmg_precision": "single", "femgpu_scatter": "atomic"}
    u = femgpu.Function(femgpu.FunctionSpace(femgpu.mesh.box((3, 2), cell="triangle"), "Lagrange", 2))
    F = inner(grad(u), grad(v := ufl.TestFunction(u.space))) * dx - v * dx
    femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(u.space, 0.0)], petsc_options=options).solve()
    assert {wanted[source] for source in wanted.keys() - begun.keys()} == set()
    assert {begun[source] for source in begun.keys() - wanted.keys()} == set()


def test_start_builds_what_solvers_of_the_options_launch(threaded_process, monkeypatch):
    """Before there is a mesh; a problem adds the programs of its form, and builds none again."""
    builds, database = Builds(monkeypatch), PETSc.Options()
    options = {f"early_{name}": value.replace("%s", "CG") for name, value in OWN.items()}
    for name, value in options.items():
        database.setValue(name, value)
    try:
        femgpu.start("early_")
        for future, _ in list(threaded_process.programs._ahead.values()):
            future.result()
        own = {"vectors", "krylov", "multigrid", "basis_vectors", "multiply_sparse", "merge_lists", "claim", "pack_words"}
        assert sorted(builds.names) == sorted(own)
        problem = p_laplace(2, prefix="early_", femgpu_qdata="recompute")
        problem.build()
        of_form = [name for name in builds.names if name not in own]
        assert all("triangle" in name or name == "prolong" for name in of_form) and len(builds.names) == len(own) + len(of_form)
    finally:
        for name in options:
            database.delValue(name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ksp_type": "cg", "pc_type": "gamg"}, {"vectors"}),
        (
            {"ksp_type": "python", "ksp_python_type": "femgpu.CG", "pc_type": "jacobi"},
            {"vectors", "krylov", "merged_cg", "preconditioners"},
        ),
        ({"ksp_type": "python", "ksp_python_type": "femgpu.MINRES", "pc_type": "no such"}, {"vectors"}),
        ({"ksp_type": "python", "ksp_python_type": "users.module", "pc_type": "none"}, {"vectors"}),
        ({"dm_vec_type": "viennacl"}, set()),
    ],
)
def test_start_leaves_other_options_alone(threaded_process, monkeypatch, given, expected):
    builds, database = Builds(monkeypatch), PETSc.Options()
    for name, value in given.items():
        database.setValue(name, value)
    try:
        femgpu.start()
        for future, _ in list(threaded_process.programs._ahead.values()):
            future.result()
    finally:
        for name in given:
            database.delValue(name)
    assert set(builds.names) == expected


@pytest.mark.parallel([2])
def test_ranks_build_each_kernel_once(threaded_process, monkeypatch):
    """One rank compiles a kernel, the other finds it in the cache; each begins with another one."""
    compiled = []
    plain = program._compile
    monkeypatch.setattr(program, "_compile", lambda *args: compiled.append(args[2]) or plain(*args))
    problem = p_laplace(pc_type="jacobi")
    problem.solve()
    counts = threaded_process.programs.num_programs, threaded_process.programs.num_compiled
    every = [name for names in WORLD.allgather(compiled) for name in names]
    assert len(every) == len(set(every)) == WORLD.allreduce(counts[1]) == counts[0]
    assert threaded_process.programs.place == (WORLD.rank, 2)
    folder = Path(os.environ["FEMGPU_CACHE_DIR"])
    WORLD.barrier()
    assert sorted(path.suffix for path in folder.iterdir()) == [".bin"] * counts[0]


@pytest.mark.parallel([1, 2])
def test_an_error_ahead_is_that_of_all_ranks_at_its_first_use(threaded_process):
    """C text that no compiler takes, in what only the Jacobian uses: the residual can still be evaluated."""
    dm = femgpu.mesh.box((3, 2), cell="triangle")
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1))
    form = femgpu.PointwiseForm(u.space, f1="f1[0] = u_x[0]; f1[1] = u_x[1];", g3="g3[0] = 1; g3[3] = nothing_like_that;")
    problem = femgpu.NonlinearProblem(form, u, petsc_options={"pc_type": "jacobi"})
    residual = u.vec.duplicate()
    problem.residual(u.vec, residual)
    assert residual.norm() == 0
    for _ in range(2):
        with pytest.raises(BuildError, match="nothing_like_that"):
            problem.solve()


@pytest.mark.timeout(60)
@pytest.mark.parallel([2])
@pytest.mark.parametrize(("lacking", "pc"), [("prolong", "python"), ("krylov", "jacobi")])
def test_what_one_rank_cannot_build_is_told_on_all(threaded_process, monkeypatch, lacking, pc):
    """Of what is launched first inside of a cycle of multigrid, or of an iteration; the next solve builds it."""
    plain, fails = program.build, [WORLD.rank == 1]

    def build(context, device, source, name, *others):
        if name == lacking and fails[0]:
            raise BuildError("no memory is left for the compiler")
        return plain(context, device, source, name, *others)

    monkeypatch.setattr(program, "build", build)
    options = {name: value.replace("%s", "CG") for name, value in OWN.items() if pc == "python" or name[:2] == "ks"}
    problem = p_laplace(2, **options | {"pc_type": pc, "femgpu_qdata": "recompute"})
    with pytest.raises(BuildError, match="no memory is left"):
        problem.solve()
    fails[0] = False
    problem.solve()
    assert problem.snes.getConvergedReason() > 0


@pytest.mark.parametrize("how", ["end", "error"])
def test_a_process_that_ends_while_others_build(tmp_path, how):
    """It waits for what is under way, and leaves neither locks nor half files."""
    code = f"""
import femgpu
from femgpu import runtime
from femgpu.runtime import Device, Runtime
Device.caches_programs = False
made = Runtime(runtime.current().device, runtime.current().context)
made.programs.threads = 2
made.build_ahead([({SOURCE!r} % number, "put") for number in range(4)])
{"" if how == "end" else "raise ValueError('the end')"}
"""
    environment = CHILD_ENVIRONMENT | {"FEMGPU_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == (how == "error") and done.stderr.count("Error") == (how == "error"), done.stderr
    assert {path.suffix for path in tmp_path.iterdir()} == {".bin"}
