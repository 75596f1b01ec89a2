"""drivers/poisson.py as its users call it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "drivers" / "poisson.py"


def run(options, num_ranks=1, cwd=ROOT):
    launch = ["mpiexec", "-n", str(num_ranks)] if num_ranks > 1 else []
    command = [*launch, sys.executable, str(DRIVER), *options.split()]
    return subprocess.run(command, cwd=cwd, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=300)


def output(options, num_ranks=1, cwd=ROOT):
    done = run(options, num_ranks, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def number(text, what):
    return float(re.search(rf"{what}: ([-+.\de]+)", text).group(1))


BOX = {
    "triangle": "-dm_plex_dim 2 -dm_plex_box_faces 6,6",
    "quadrilateral": "-dm_plex_dim 2 -dm_plex_simplex 0 -dm_plex_box_faces 6,6",
    "tetrahedron": "-dm_plex_dim 3 -dm_plex_box_faces 3,3,3",
    "hexahedron": "-dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 3,3,3",
}


CASES = [(cell, "nonlinear") for cell in BOX] + [("triangle", "none"), ("quadrilateral", "analytic"), ("tetrahedron", "field")]


@pytest.mark.parametrize("cell, coefficient", CASES)
def test_quadratic_solution_is_found_exactly(cell, coefficient):
    """The quadratic solution is in the space of degree 2, and the coefficient field in that of degree 1."""
    text = output(
        f"{BOX[cell]} -variable_coefficient {coefficient} -petscspace_degree 2 -mat_petscspace_degree 1 -pc_type lu "
        "-ksp_type preonly -snes_rtol 1e-12 -snes_atol 1e-12 -snes_max_it 60"
    )
    assert number(text, "L2 error") < 1e-9


def test_piecewise_constant_field_and_trigonometric_solution():
    """Two refinements, the second through -dm_refine: the error falls with the mesh, at the rate of the constant coefficient."""
    options = "-dm_plex_dim 2 -dm_plex_box_faces 8,8 -variable_coefficient field -exact trigonometric -ksp_rtol 1e-10"
    coarse, fine = (number(output(f"{options} -dm_refine {levels}"), "L2 error") for levels in (0, 1))
    assert 0 < fine < 0.6 * coarse


def test_petsc_ex12_initial_residual():
    """PETSc's CPU elements print 3.775538408962e+02 for ex12 -variable_coefficient nonlinear, Q1 on 8x8 quadrilaterals."""
    text = output(
        "-run_type test -dm_plex_dim 2 -dm_plex_simplex 0 -dm_plex_box_faces 8,8 -variable_coefficient nonlinear "
        "-petscfe_default_quadrature_order 1"
    )
    assert number(text, "Initial residual") == pytest.approx(3.775538408962e02, rel=1e-10)


def test_command_line_of_the_talk():
    """Paper 004's own line, with the box in place of the refinement limit."""
    line = (
        "-petscspace_order 1 -run_type perf -variable_coefficient field -show_solution false -petscfe_type opencl "
        "-petscfe_num_blocks 4 -petscfe_num_batches 16"
    )
    text = output(f"{line} -dm_plex_box_faces 40,40 -options_left")
    assert "4 blocks x 16 batches" in text and "GF/s" in text
    assert "unused" not in text.replace("no unused", "")
    refused = run(f"{line} -refinement_limit 0.00001")
    assert refused.returncode != 0
    assert "-dm_refine" in refused.stderr and "-dm_plex_box_faces" in refused.stderr


def test_files_and_view_on_two_ranks(tmp_path):
    text = output(
        f"-dm_plex_filename {ROOT / 'meshes' / 'bracket.msh'} -petscspace_degree 1 -variable_coefficient analytic "
        "-exact trigonometric -ksp_type cg -pc_type gamg -snes_monitor -femgpu_view -output poisson.vtu",
        num_ranks=2,
        cwd=tmp_path,
    )
    assert "SNES Function norm" in text and "on 2 ranks" in text and "action: cell" in text
    assert number(text, "L2 error") < 1e-3
    assert (tmp_path / "poisson.vtu").stat().st_size > 1e5


@pytest.mark.parametrize(
    "options, message",
    [
        ("-variable_coefficient wild", "none, analytic, field, nonlinear"),
        ("-femgpu_schedul cell", "did you mean -femgpu_schedule"),
        ("-dm_plex_filename nowhere.msh", "nowhere.msh"),
        ("-petscfe_type cuda", "opencl"),
    ],
)
def test_bad_input(options, message):
    done = run(options)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
