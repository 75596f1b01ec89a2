"""What the drivers do besides converging: parallel runs, special cases, bad input."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import CHILD_ENVIRONMENT
from driver_modules import FOLDER, PROBLEMS, advection_diffusion, bratu, common, dg_advection, elasticity, hyperelasticity, stokes
from petsc4py import PETSc

import femgpu
from femgpu.errors import OptionError, SolverError


def test_ranks_and_krylov_methods_agree(run_ranks):
    runs = [(1, "petsc", "femgpu.CG"), (3, "femgpu.GMRES")]
    found = [run_ranks(num_ranks, Path(__file__).with_name("solve_all.py"), *methods) for num_ranks, *methods in runs]
    results = [result for each in found for result in each.values()]
    assert [len(result) for result in results] == [len(PROBLEMS), len(PROBLEMS) - 3, len(PROBLEMS)]
    for other in results[1:]:
        for name, (*numbers, steps) in other.items():
            assert results[0][name][:-1] == pytest.approx(numbers, rel=1e-8), name
            assert results[0][name][-1] == steps, name


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


def test_a_cantilever_bends_as_a_beam(set_options):
    """Shear traction q at the end of a slender strip in plane strain: 4 q L^3 / (E' h^2), plus the shear's share."""
    set_options(pc_type="lu")
    length, mu, lam, q = 10.0, 1.0, 1.5, -1e-4
    dm = femgpu.mesh.box((20, 2), cell="quadrilateral", upper=(length, 1.0))
    problem = elasticity.load(dm, 2, (mu, lam), 4, 2, [0.0, 0.0], [0.0, q])
    problem.solve()
    modulus = 4 * mu * (lam + mu) / (lam + 2 * mu)
    tip = problem.u.evaluate([[length, 0.5]])[0, 1]
    assert tip == pytest.approx(4 * q * length**3 / modulus + 1.2 * q * length / mu, rel=0.01)


def test_supg_removes_oscillations(set_options):
    """The exact solution of the sloping layer lies between 0 and 1."""
    set_options(pc_type="lu")
    dm = femgpu.mesh.box((12, 12), cell="triangle")
    largest = []
    for supg in (False, True):
        problem, exact = advection_diffusion.discretise(dm, 1, 1e-4 * np.eye(2), [1.0, 0.5], 0.0, "layer", supg)
        assert exact is None
        problem.solve()
        largest.append(problem.u.vec.max()[1])
    assert largest[0] > 2 and largest[1] < 1.3


@pytest.mark.parametrize("text", ["1,2,3", "one", "-1", "1,3,0,1"])
def test_diffusion_that_is_none(text):
    with pytest.raises(OptionError, match="-diffusion"):
        advection_diffusion.tensor(text, 2)


def test_cavity(set_options):
    """The flow does not depend on the viscosity, pressures are proportional to it; what flows right under the lid flows back."""
    set_options(ksp_rtol=1e-12)
    stokes.set_solver(PETSc.Options())
    dm = femgpu.mesh.box((8, 8), cell="quadrilateral")
    flows = []
    for viscosity in (1.0, 3.0):
        problem, exact = stokes.discretise(dm, 2, viscosity, "cavity")
        assert exact is None
        problem.solve()
        flows.append([problem.u.sub(name).collapse().vec.array for name in ("velocity", "pressure")])
    np.testing.assert_allclose(flows[1][0], flows[0][0], atol=1e-9)
    np.testing.assert_allclose(flows[1][1], 3 * flows[0][1], atol=1e-7)
    assert abs(flows[0][1].sum()) < 1e-8
    # Nodes of the middle line: Simpson's rule is exact for what a column of cells holds.
    heights = np.linspace(0, 1, 17)
    across = problem.u.sub("velocity").collapse().evaluate(np.stack([np.full(17, 0.5), heights], axis=1))[:, 0]
    flux = ((across[:-2:2] + 4 * across[1:-1:2] + across[2::2]) / 48).sum()
    assert abs(flux) < 1e-3 and abs(across[-1] - 1) < 1e-14 and across.min() < -0.15


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


@pytest.mark.parametrize("name", ["series", "checkpoint", "restart"])
def test_explicit_steps_refuse_files(set_options, name):
    set_options(stepping="explicit", dm_plex_box_faces="2,2", **{name: "flow.pvd"})
    with pytest.raises(OptionError, match=f"-{name}: -stepping explicit writes and reads none"):
        dg_advection.main()


def test_a_solver_that_diverges_ends_the_program():
    command = [sys.executable, str(FOLDER / "bratu.py"), "-solution", "classic", "-lambda", "20", "-dm_plex_box_faces", "4,4"]
    done = subprocess.run(command, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("bratu.py: SolverError: SNES diverged") and "Traceback" not in done.stderr
