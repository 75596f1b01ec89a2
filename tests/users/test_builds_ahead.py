"""Kernels of a problem that are built before they are needed: those that a solve launches, on all ranks, each once on a node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ufl
from build_support import SOURCE, WORLD, Builds
from conftest import CHILD_ENVIRONMENT
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import BuildError
from femgpu.runtime import program, programs


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
    # A matrix has a program of its own besides, and others make arrays over cells.
    assert {name.partition("-")[0] for name in builds.names} - {"vectors", "merge_lists", "pack_words", "list_nodes"} == targets
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
        assert all("triangle" in name or name in ("prolong", "list_nodes") for name in of_form) and len(builds.names) == len(
            own
        ) + len(of_form)
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
    monkeypatch.setattr(program, "_compile", lambda *args: compiled.append(args[3]) or plain(*args))
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
