"""The C program in drivers/embed: built with its Makefile, run with the options of its head, on 1 and 2 ranks."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "drivers" / "embed"
SQUARE = "-dm_plex_simplex 0 -dm_plex_box_faces 8,8 -petscspace_degree 2"
CUBE = "-dm_plex_simplex 0 -dm_plex_dim 3 -dm_plex_box_faces 4,4,4 -petscspace_degree 2"
PART = f"-dm_plex_filename {ROOT}/meshes/bracket.msh -petscspace_degree 1"
OWN = "-ksp_type python -ksp_python_type femgpu."
ASSEMBLED = "-pc_type python -pc_python_type femgpu.AssembledPC -assembled_pc_type gamg"

pytestmark = [
    pytest.mark.skipif(shutil.which("mpicc") is None or shutil.which("make") is None, reason="no mpicc or make"),
    pytest.mark.skipif(
        not Path(sysconfig.get_paths()["include"], "Python.h").exists(), reason="Python's headers are not installed"
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    command = ["make", f"PYTHON={sys.executable}", f"BUILD={folder}"]
    done = subprocess.run(command, cwd=FOLDER, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return folder / "poisson"


def run(program, options, num_ranks=1, **variables):
    """Exit code and output of a run."""
    command = ["mpiexec", "-n", str(num_ranks), str(program), *options.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def solved(program, options, num_ranks=1, **variables):
    """Newton steps and L2 error of a run that must succeed."""
    code, text = run(program, options, num_ranks, **variables)
    assert code == 0, text
    found = re.search(r"(\d+) Newton steps.*\nL2 error (\S+)", text)
    assert found, text
    return int(found[1]), float(found[2])


@pytest.mark.parametrize(
    "options, expected",
    [
        (f"{SQUARE} -pc_type jacobi", 1.1e-5),
        (f"{SQUARE} -pc_type jacobi {OWN}CG", 1.1e-5),
        (f"{SQUARE} -pc_type python -pc_python_type femgpu.PMG", 1.1e-5),
        (f"{CUBE} {ASSEMBLED}", 1.2e-4),
        (f"{CUBE} {ASSEMBLED} {OWN}GMRES", 1.2e-4),
        (f"{PART} -pc_type jacobi", 4.3e-8),
    ],
    ids=["square-jacobi", "square-own-cg", "square-multigrid", "cube-assembled", "cube-own-gmres", "part-jacobi"],
)
def test_newton_solves_the_linear_problem_in_one_step(program, options, expected):
    # The residual is PETSc's own, so this holds for PETSc's Jacobian only; the program itself checks the count.
    errors = []
    for num_ranks in (1, 2):
        steps, error = solved(program, f"{options} -femgpu_form poisson_form.py:linear", num_ranks)
        assert steps == 1
        errors.append(error)
    assert errors[0] < 1.05 * expected
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)


def test_the_state_reaches_the_jacobian(program):
    options = f"{SQUARE} -nonlinear -femgpu_form poisson_form.py:nonlinear -pc_type jacobi -snes_monitor"
    code, text = run(program, options, 2)
    assert code == 0, text
    norms = [float(entry) for entry in re.findall(r"SNES Function norm (\S+)", text)]
    # Quadratic convergence: the last steps double the digits.
    assert len(norms) == 6 and norms[4] < 1e-2 * norms[3] and norms[5] < 1e-4 * norms[4]


def test_device_vectors(program):
    options = f"{SQUARE} -femgpu_form poisson_form.py:linear -pc_type jacobi"
    assert solved(program, f"{options} -dm_vec_type viennacl")[1] == pytest.approx(solved(program, options)[1], rel=1e-6)


def test_petsc_starts_python(program):
    petsc = pytest.importorskip("petsc")
    options = f"-python {sys.executable} {SQUARE} -femgpu_form poisson_form.py:linear {ASSEMBLED}"
    assert solved(program, options, PETSC_DIR=petsc.get_petsc_dir())[0] == 1


def test_assembled_pc_alone(program):
    """A program with PETSc's own matrix-free Jacobian: only the preconditioner is femgpu's."""
    options = f"{SQUARE} -nonlinear -snes_mf -femgpu_form poisson_form.py:linear -ksp_monitor {ASSEMBLED} -assembled_pc_type lu"
    code, text = run(program, options)
    assert code == 0, text
    # The same where differences cost a linear problem a step more.
    assert solved(program, f"{SQUARE} -snes_mf_operator -femgpu_form poisson_form.py:linear {ASSEMBLED}")[0] <= 2


def test_a_view_does_not_end_the_program(program):
    """PETSc's log begins before an event is open that it would not know."""
    assert solved(program, f"{SQUARE} -femgpu_form poisson_form.py:linear -pc_type jacobi -femgpu_view")[0] == 1


@pytest.mark.parametrize(
    "options, message",
    [
        (f"{SQUARE} -femgpu_form poisson_form.py:nothing", "poisson_form.py has no function nothing; it has linear, nonlinear"),
        (f"{SQUARE} -femgpu_form poisson_form.py:linear -ksp_max_it 2 -pc_type jacobi", "DIVERGED_LINEAR_SOLVE"),
        # The Jacobian of another problem: Newton needs more than one step.
        (f"{SQUARE} -femgpu_form poisson_form.py:nonlinear -pc_type jacobi", "is not that of the residual"),
    ],
    ids=["no-such-form", "diverged", "wrong-jacobian"],
)
def test_failures_end_the_program(program, options, message):
    code, text = run(program, options)
    assert code != 0
    assert message in text
