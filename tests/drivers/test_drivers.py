"""What the drivers do besides converging: parallel runs, special cases, bad input."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import CHILD_ENVIRONMENT
from driver_modules import FOLDER, PROBLEMS, bratu, common, elasticity, hyperelasticity
from petsc4py import PETSc

import femgpu
from femgpu.errors import OptionError, SolverError


def test_ranks_agree(run_ranks):
    results = [run_ranks(num_ranks, Path(__file__).with_name("solve_all.py")) for num_ranks in (1, 2, 3)]
    assert len(results[0]) == 2 * len(PROBLEMS)
    for name, (error, norm, steps) in results[0].items():
        for other in results[1:]:
            assert other[name][:2] == pytest.approx([error, norm], rel=1e-8), name
            assert other[name][2] == steps, name


def test_bratu_on_an_interval(set_options):
    set_options(pc_type="lu", snes_rtol=1e-12)
    dm = femgpu.mesh.box((20,), cell="interval", upper=(2.0,))
    problem, exact = bratu.discretise(dm, 4, 0.8, "classic")
    problem.solve()
    assert femgpu.error_norm(problem.u, exact) < 1e-8


@pytest.mark.parametrize(("dim", "largest"), [(1, 3.51), (2, 6.80)])
def test_bratu_has_a_largest_lambda(set_options, dim, largest):
    set_options(pc_type="lu")
    dm = femgpu.mesh.box((32,) * dim, cell="interval" if dim == 1 else "quadrilateral")
    problem, exact = bratu.discretise(dm, 2, largest, "classic")
    problem.solve()
    assert (exact is not None) == (dim == 1)
    problem, exact = bratu.discretise(dm, 2, 1.02 * largest, "classic")
    assert exact is None
    with pytest.raises(SolverError):
        problem.solve()


@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
@pytest.mark.parametrize(("solution", "degree"), [("elas_quad", 2), ("elas_uniform_strain", 1)])
def test_elasticity_is_exact_where_the_solution_is_in_the_space(set_options, cell, solution, degree):
    set_options(pc_type="lu")
    dm = femgpu.mesh.box((3, 2) if cell == "triangle" else (2, 2, 2), cell=cell)
    problem, exact = elasticity.discretise(dm, degree, (0.7, 1.3), solution)
    problem.solve()
    assert femgpu.error_norm(problem.u, exact) < 1e-12


@pytest.mark.parametrize("load", ["forces", "displacement"])
def test_load_steps_end_at_the_same_displacement(set_options, load):
    set_options(pc_type="lu", snes_rtol=1e-12)
    dm = femgpu.mesh.box((8, 2), cell="quadrilateral", upper=(4.0, 1.0))
    ends = []
    for steps in (2, 5):
        if load == "forces":
            problem, t = hyperelasticity.push(dm, 2, (1.0, 2.0), 4, 2, [0.0, -0.005], [0.01, -0.01])
        else:
            problem, t = hyperelasticity.pull(dm, 2, (1.0, 2.0), 4, 2, [1.0, -1.0])
        factors = hyperelasticity.load_factors(load, steps)
        hyperelasticity.solve(problem, t, factors)
        assert t.value == factors[-1] == 1.0
        ends.append(problem.u.vec.array.copy())
    assert np.abs(ends[0]).max() > 0.3
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "text", "message"),
    [
        (lambda o: common.number(o, "p", 3.0), "three", "-p three: expected a number"),
        (lambda o: common.number(o, "p", 2, minimum=1), "0", "-p 0: expected an integer of at least 1"),
        (lambda o: common.number(o, "p", 2), "1.5", "-p 1.5: expected an integer"),
        (lambda o: common.number(o, "p", 2.0), "nan", "-p nan: expected a number"),
        (lambda o: common.numbers(o, "p", [0.0, -1.0]), "1,2,3", "-p 1,2,3: expected 2 numbers separated by commas"),
        (lambda o: common.choice(o, "p", ("one", "two"), "one"), "three", "-p 'three': expected one of one, two"),
    ],
)
def test_options_of_drivers(set_options, call, text, message):
    assert call(PETSc.Options())
    set_options(p=text)
    with pytest.raises(OptionError, match=message):
        call(PETSc.Options())


def test_a_solver_that_diverges_ends_the_program():
    command = [sys.executable, str(FOLDER / "bratu.py"), "-solution", "classic", "-lambda", "20", "-dm_plex_box_faces", "4,4"]
    done = subprocess.run(command, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("bratu.py: SolverError: SNES diverged") and "Traceback" not in done.stderr
