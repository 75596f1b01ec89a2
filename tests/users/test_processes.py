"""One rank that leaves ends the others; programs that embed Python, processes that were forked too late, and what they import."""

import subprocess
import sys
import textwrap

import pytest
from conftest import CHILD_ENVIRONMENT

from femgpu import runtime
from femgpu.errors import DeviceError
from femgpu.solver.form_binding import load

# The others wait in a reduction; `solve` has the exception come from inside PETSc.
_LEAVING = """
import os, signal, sys
{begin}
import femgpu
from mpi4py import MPI

def solve(happen):
    import ufl
    V = femgpu.FunctionSpace(femgpu.mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    problem = femgpu.NonlinearProblem(u * v * ufl.dx - v * ufl.dx, u)
    problem.snes.setMonitor(lambda *_: happen())
    problem.solve()

def happen():
    if MPI.COMM_WORLD.rank == 1:
        {statement}

{use}
MPI.COMM_WORLD.allreduce(1)
print("came to the end", flush=True)
"""
_ERROR = "raise ValueError('only on rank 1')"
_SAID = "ValueError: only on rank 1"
# Statement of rank 1, how it is reached, exit code of all, and what is said.
_WAYS = {
    "exception": (_ERROR, "happen()", 1, _SAID),
    "monitor": (f"import gc; gc.set_threshold(1); {_ERROR}", "solve(happen)", 1, _SAID),
    "exit": ("sys.exit(3)", "happen()", 3, "rank 1 leaves with status 3 and ends all ranks"),
    "message": ("sys.exit('no input')", "happen()", 1, "no input"),
    "raised exit, profiled": ("raise SystemExit(4)", "happen()", 4, "rank 1 leaves with status 4"),
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT)", "happen()", 130, "KeyboardInterrupt"),
    "Python 3.11, profiled": ("raise SystemExit(5)", "happen()", 5, "rank 1 leaves with status 5"),
    "after PETSc, in Python 3.11": ("exit(6)", "solve(lambda: None); happen()", 6, "rank 1 leaves with status 6"),
    "end before the first call": (
        "raise SystemExit(0)",
        "import petsc4py; petsc4py.init(sys.argv); happen(); femgpu.mesh.box((1, 1))",
        1,
        "rank 1 has come to the end of its program while others make",
    ),
}


def start(num_ranks, folder, name, code, *runner, **environment):
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(textwrap.dedent(code))
    ranks = ["mpiexec", "-n", str(num_ranks)] if num_ranks > 1 else []
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*ranks, sys.executable, *runner, path], env=CHILD_ENVIRONMENT | environment, stdout=pipe, stderr=pipe, text=True
    )


def finish(run):
    try:
        return run.communicate(timeout=60)
    finally:
        run.terminate()


def test_a_rank_that_leaves_ends_all(tmp_path):
    runs = {}
    for name, (statement, use, *_) in _WAYS.items():
        begin = "version, sys.version_info = sys.version_info, (3, 11, 0)" if "Python 3.11" in name else ""
        use = f"sys.version_info = version\n{use}" if begin else use
        runner = ("-m", "cProfile") if "profiled" in name else ()
        runs[name] = start(2, tmp_path, name, _LEAVING.format(begin=begin, statement=statement, use=use), *runner)
    for name, run in runs.items():
        out, error = finish(run)
        code, said = _WAYS[name][2:]
        assert run.returncode == code and "came to the end" not in out and said in error, (name, run.returncode, out, error)


_OPTIONS = """
import sys
{begin}
import femgpu
{use}
import petsc4py
petsc4py.init([sys.argv[0], "-misspelt", "1", *sys.argv[1:]])
from petsc4py import PETSc

def refused():
    try:
        femgpu.mesh.box((0, 0))
    except femgpu.errors.FemgpuError as error:
        print("refused:", error, file=sys.stderr, flush=True)
        sys.exit(1)

{statement}
"""


@pytest.mark.parametrize("version", ["", "Python 3.11"])
def test_an_error_is_the_last_that_is_said(tmp_path, version):
    """PETSc lists unread options below none; it does where nothing was said to be wrong, and where it is asked to."""
    begin = "version, sys.version_info = sys.version_info, (3, 11, 0)" if version else ""
    runs = []
    for number, (statement, lists) in enumerate(
        [
            ("raise ValueError('wrong')", False),
            ("femgpu.mesh.box((0, 0))", False),
            ("refused()", False),
            ("sys.exit('wrong')", False),
            ("sys.exit(3)", True),
            ("pass", True),
            ("PETSc.Options()['options_left'] = True; refused()", True),
        ]
    ):
        code = _OPTIONS.format(begin=begin, use="sys.version_info = version" if version else "", statement=statement)
        runs.append((statement, lists, start(1, tmp_path, f"options {number}", code)))
    for statement, lists, run in runs:
        out, error = finish(run)
        assert ("-misspelt" in out + error) == lists, (statement, out, error)
        assert run.returncode == (3 if "(3)" in statement else int(statement != "pass"))


_CALLS = """
import faulthandler, sys
import numpy as np
import ufl
from mpi4py import MPI
from ufl import dx
import femgpu
from femgpu import mesh

femgpu.errors._SECONDS_TO_LOOK = 0.02
dm = mesh.box((3, 3), cell="triangle")
V, unused = femgpu.FunctionSpace(dm, "Lagrange", 1), femgpu.FunctionSpace(dm, "Lagrange", 2)
W = femgpu.MixedSpace({{"a": V, "b": V}})
u, given, mixed, v, w = femgpu.Function(V), femgpu.Function(V), femgpu.Function(W), ufl.TestFunction(V), ufl.TrialFunction(V)
away = femgpu.Function(femgpu.FunctionSpace(mesh.box((2, 2), cell="triangle"), "Lagrange", 1))
x, f = u.vec.duplicate(), u.vec.duplicate()
F, rate = u * v * dx - v * dx, femgpu.time_derivative(u)
steady, timed = femgpu.NonlinearProblem(F, u), femgpu.TimeProblem(F + rate * v * dx, u)
linear = femgpu.LinearProblem(w * v * dx == v * dx)
modes = femgpu.constant_modes(V)
femgpu.write("{folder}/mesh.h5", u)
if MPI.COMM_WORLD.rank:
    sys.exit()
calls = '''
mesh.box((2, 2))
mesh.create()
mesh.read("{folder}/mesh.h5")
mesh.refine(dm)
mesh.mark(dm, "left", lambda x: x[0] < 0.1, 1)
mesh.Mesh.of(dm).view()
femgpu.FunctionSpace(dm, "Lagrange", 2)
femgpu.MixedSpace({{"a": V, "b": V}})
femgpu.Function(V)
femgpu.DirichletBC(V, 0.0)
femgpu.DirichletBC(V, 0.0, 1)
femgpu.time_derivative(given)
u.interpolate(lambda x: x[0])
u.interpolate(1.0)
u.interpolate(given**2)
u.interpolate(away)
u.assign(1.0)
u.copy()
u.evaluate((0.5, 0.5))
u(0.5, 0.5)
mixed.sub("a").interpolate(1.0)
mixed.sub("a").collapse()
femgpu.norm(u)
femgpu.norm(u, "l2")
femgpu.norm(u, "Linf")
femgpu.error_norm(u, lambda x: x[0])
femgpu.assemble(u * dx)
femgpu.assemble(v * dx)
femgpu.assemble(w * v * dx)
femgpu.assemble(w * v * dx == v * dx)
femgpu.project(u**2, V)
femgpu.write("{folder}/u.vtu", u)
femgpu.write("{folder}/u.h5", u)
femgpu.constant_modes(V)
femgpu.NonlinearProblem(F, u)
femgpu.LinearProblem(w * v * dx == v * dx)
femgpu.TimeProblem(F + rate * v * dx, u)
steady.solve()
linear.solve()
timed.solve(1.0, 0.5)
steady.residual(x, f)
steady.linearise(x)
steady.jacobian
steady.assemble_jacobian()
steady.set_nullspace(modes)
steady.report()
timed.residual(x, f)
timed.linearise(x)
unused.numbering
timed.output("{folder}/u.pvd")
timed.checkpoint("{folder}/timed.h5")
'''
for call in calls.strip().splitlines():
    faulthandler.dump_traceback_later(20, exit=True)
    said = "nothing"
    try:
        eval(call)
    except femgpu.errors.FemgpuError as error:
        said = str(error)
    if "rank 1 has come to the end of its program" not in said:
        print(call, said, flush=True)
print("done", flush=True)
MPI.COMM_WORLD.Abort(7)
"""


def test_all_calls_learn_of_a_rank_at_its_end(tmp_path):
    out, error = finish(run := start(2, tmp_path, "calls", _CALLS.format(folder=tmp_path)))
    assert (run.returncode, out) == (7, "done\n"), error


def test_ranks_that_leave_together_or_not_at_all_are_let_alone(tmp_path):
    caught = "try: sys.exit(3)\n        except SystemExit: pass"
    code = _LEAVING.format(begin="", statement=caught, use="happen()") + "sys.exit(MPI.COMM_WORLD.size - 2)"
    together = _LEAVING.format(begin="", statement="pass", use="print('done', flush=True)\nMPI.COMM_WORLD.barrier()\nsys.exit(6)")
    runs = start(2, tmp_path, "caught", code), start(2, tmp_path, "together", together)
    (out, error), (other_out, other_error) = (finish(run) for run in runs)
    assert runs[0].returncode == 0 and out.count("came to the end") == 2, error
    assert runs[1].returncode == 6 and "ends all ranks" not in other_error and other_out.count("done") == 2


def test_a_rank_at_its_end_lets_others_compute_and_says_so(tmp_path):
    begin = "import femgpu.leaving, time; femgpu.leaving._SECONDS_TO_THE_END = 0.5"
    late = _LEAVING.format(begin=begin, statement="sys.exit()", use="happen(); time.sleep(2); print('late'); sys.exit()")
    out, error = finish(run := start(3, tmp_path, "late", late))
    assert run.returncode == 0 and out.count("late") == 2 and not out.replace("late", "").strip()
    assert error.count("rank 1 has come to its end and waits for rank 0, 2") == 1


def test_programs_that_embed_python_keep_its_hooks():
    code = "import sys; sys.orig_argv = []; hook = sys.excepthook; import femgpu; assert sys.excepthook is hook"
    assert subprocess.run([sys.executable, "-c", code], env=CHILD_ENVIRONMENT).returncode == 0


_FORKED = """
import multiprocessing, os, sys
import femgpu, ufl

def solve(problem=None):
    if problem is None:
        V = femgpu.FunctionSpace(femgpu.mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
        u, v = femgpu.Function(V), ufl.TestFunction(V)
        problem = femgpu.NonlinearProblem(u * v * ufl.dx - v * ufl.dx, u)
    problem.solve()
    return problem

def forked(*arguments):
    child = os.fork()
    if not child:
        try:
            solve(*arguments)
            print("solved", flush=True)
        except femgpu.errors.DeviceError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)

forked()
problem = solve()
forked()
forked(problem)
"""


def test_a_child_forked_too_late_is_told_so(tmp_path):
    run = start(1, tmp_path, "forked", _FORKED, PYTHONWARNINGS="ignore")
    out, error = finish(run)
    first, *late = out.splitlines()
    assert first == "solved" and len(late) == 2, error
    assert all(line.startswith("this process was forked from one that had started PETSc, MPI or OpenCL") for line in late)


# What a small problem need not wait for.
_HEAVY = "scipy", "femgpu.io", "femgpu.bench", "pyvista", "matplotlib"
_SMALL = f"""
import sys
import femgpu, ufl

V = femgpu.FunctionSpace(femgpu.mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
u, v = femgpu.Function(V), ufl.TestFunction(V)
options = {{"ksp_type": "python", "ksp_python_type": "femgpu.CG", "pc_type": "python", "pc_python_type": "femgpu.PMG"}}
femgpu.NonlinearProblem((1 + u**2) * u * v * ufl.dx - v * ufl.dx, u, petsc_options=options).solve()
print(*(set({_HEAVY}) & sys.modules.keys()))
"""


def test_a_small_problem_imports_nothing_heavy(tmp_path):
    out, error = finish(start(1, tmp_path, "small", _SMALL))
    assert (out.split(), error) == ([], "")


_FORM = """
from __future__ import annotations
from dataclasses import dataclass
from beside_the_form import number

@dataclass
class Answer:
    value: int

def form(space):
    from late_beside_the_form import other
    return Answer(number + other)
"""


def test_a_form_file_may_import_its_neighbours(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "form.py").write_text(_FORM)
    (tmp_path / "beside_the_form.py").write_text("number = 3")
    (tmp_path / "late_beside_the_form.py").write_text("other = 4")
    assert load(f"{tmp_path}/form.py:form")(None).value == 7


@pytest.mark.parametrize(
    "selector, what", [("²", "no device has this"), ("٣", "no device has this"), ("9" * 5000, "no such index")]
)
def test_odd_digits_are_no_index_of_a_device(selector, what):
    with pytest.raises(DeviceError, match=f"-femgpu_device .*{what}.*devices are"):
        runtime.select(selector, 0)
