"""ViennaCL vectors: they stay on the device, and femgpu's kernels work on them in PETSc's own context."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("viennacl_run.py")
MESH = "-dm_plex_simplex 0 -dm_plex_box_faces 6,5 -ksp_rtol 1e-10 "
ON_DEVICE = 2  # PETSC_OFFLOAD_GPU: the only valid copy is on the device; a read on the host would make it BOTH


@cache
def run(options, num_ranks=1):
    command = ["mpiexec", "-n", str(num_ranks), sys.executable, str(SCRIPT), *MESH.split(), *options.split()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def solve(options, num_ranks=1):
    done = run(options, num_ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_equal(reached, expected):
    assert reached["newton"] == expected["newton"]
    assert reached["norm"] == pytest.approx(expected["norm"], rel=1e-9)
    assert reached["integral"] == pytest.approx(expected["integral"], rel=1e-9)


@pytest.mark.parametrize(
    "vectors, solver, num_ranks",
    [
        ("-dm_vec_type viennacl", "-ksp_type cg -pc_type jacobi", 1),
        ("-dm_vec_type viennacl", "-ksp_type cg -pc_type jacobi", 2),
        ("-set_vec_type viennacl", "-ksp_type gmres -pc_type none", 1),
    ],
)
def test_no_copy_inside_a_krylov_iteration(vectors, solver, num_ranks):
    reached = solve(f"{vectors} {solver}", num_ranks)
    assert reached["vec_type"] == ("mpiviennacl" if num_ranks > 1 else "seqviennacl")
    iterations = reached["iterations"]
    assert len(iterations) > 50
    for (_, *before, _), (number, *after, mask) in zip(iterations, iterations[1:], strict=False):
        # Iteration 0 ends the set-up of a linear solve: PCJacobi builds its diagonal on the host there.
        if number > 0:
            assert after == before, f"iteration {number} copies"
            # GMRES forms its solution at the end only.
            assert mask == ON_DEVICE or "gmres" in solver
    # The counter does count.
    assert iterations[0][1] > 0 and iterations[0][2] > 0
    check_equal(reached, solve("-ksp_type cg -pc_type jacobi"))


def test_host_vectors_are_copied_in_every_iteration():
    """The control of the test above."""
    iterations = solve("-ksp_type cg -pc_type jacobi")["iterations"]
    assert iterations[10][3] - iterations[9][3] >= 2


def test_the_form_decides_the_solver_there_too():
    """10 609 dofs, enough for femgpu's own methods."""
    options = "-dm_plex_box_faces 51,51 -petscspace_degree 2 -dm_vec_type viennacl -femgpu_view"
    driver = SCRIPT.parents[2] / "drivers" / "poisson.py"
    command = ["mpiexec", "-n", "1", sys.executable, str(driver), *options.split()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "linear solver: femgpu.CG with femgpu.PMG" in done.stdout and "on the host: nothing but scalars" in done.stdout


def test_assembled_preconditioners():
    expected = solve("-ksp_type cg -pc_type jacobi")
    device = "-dm_vec_type viennacl -ksp_type gmres"
    check_equal(solve(f"{device} -pc_type ilu"), expected)
    wrapped = f"{device} -pc_type python -pc_python_type femgpu.AssembledPC -assembled_pc_type bjacobi"
    check_equal(solve(wrapped, 2), expected)


def test_assembled_matrix_on_several_ranks_is_refused():
    done = run("-dm_vec_type viennacl -pc_type bjacobi", 2)
    assert done.returncode != 0
    assert "on several ranks do not go with an assembled matrix" in done.stderr


def test_second_context_is_refused():
    done = run("-set_vec_type viennacl -host_problem_first -pc_type jacobi")
    assert done.returncode != 0
    assert "live in another OpenCL context" in done.stderr
