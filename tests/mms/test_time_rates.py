"""The drivers in time: rates in space, Newton's order, Jacobians.

A step of Crank-Nicolson so short that its error does not show, from the interpolated exact solution.
"""

import itertools
import math
import re

import numpy as np
import pytest
from driver_modules import heat, reaction_diffusion

import femgpu

DIM = {"triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}
# Cells per direction of two meshes: the smallest on which the rate has settled.
MESHES = {(2, 1): (8, 16), (2, 2): (6, 12), (3, 1): (4, 8), (3, 2): (2, 4)}
FINER = {("heat", "tetrahedron", 1): (6, 12), ("reaction_diffusion", "tetrahedron", 2): (3, 6)}


def heat_case(dm, degree):
    problem, exact = heat.discretise(dm, degree, "nonlinear")
    return problem, lambda: [femgpu.error_norm(problem.u, exact)]


def species_case(dm, degree):
    problem, exact = reaction_diffusion.discretise(dm, degree)
    return problem, lambda: [reaction_diffusion.error(problem.u, exact, i) for i in range(2)]


CASES = {"heat": heat_case, "reaction_diffusion": species_case}


# Every driver has both degrees in both dimensions, on simplices and on other cells; every cell has them, too.
DEGREES = dict(zip(DIM, ((2, 1), (1, 2), (1, 2), (2, 1)), strict=True))
TURNS = [(name, cell, DEGREES[cell][i]) for (i, name), cell in itertools.product(enumerate(CASES), DIM)]


@pytest.mark.parametrize(("name", "cell", "degree"), TURNS)
def test_rate_in_space(set_options, name, cell, degree):
    dim = DIM[cell]
    counts = FINER.get((name, cell, degree), MESHES[dim, degree])
    set_options(ts_type="cn", pc_type="lu" if dim == 2 else "ilu", ksp_rtol=1e-9, snes_rtol=1e-8)
    set_options(femgpu_jacobian="assembled")
    errors = []
    for count in counts:
        problem, error = CASES[name](femgpu.mesh.box((count,) * dim, cell=cell), degree)
        problem.solve(0.01, 0.01)
        errors.append(error())
    rates = np.log(np.divide(*errors)) / math.log(counts[1] / counts[0])
    print(name, cell, degree, errors, rates)
    assert np.abs(rates - (degree + 1)).max() <= 0.15


@pytest.mark.parametrize("name", CASES)
def test_newton_converges_quadratically(set_options, name):
    """In one long step."""
    set_options(ts_type="beuler", pc_type="lu", snes_rtol=1e-14, snes_stol=0, snes_atol=1e-13)
    problem, _ = CASES[name](femgpu.mesh.box((6, 6), cell="quadrilateral"), 2)
    problem.snes.setConvergenceHistory(reset=True)
    problem.solve(1.0, 1.0)
    norms = problem.snes.getConvergenceHistory()[0]
    steps = np.diff(np.log(norms[norms > 1e-12 * norms[0]]))
    print(norms)
    assert steps[-1] / steps[-2] >= 1.7


@pytest.mark.parametrize(("name", "cell"), list(itertools.product(CASES, ("triangle", "hexahedron"))))
def test_petsc_agrees_on_the_jacobian(set_options, capfd, name, cell):
    set_options(snes_test_jacobian=True, ts_type="beuler", pc_type="jacobi", snes_max_it=2, snes_convergence_test="skip")
    problem, _ = CASES[name](femgpu.mesh.box((2,) * DIM[cell], cell=cell), 1)
    problem.solve(0.1, 0.1)
    ratios = [float(number) for number in re.findall(r"Jfd\|\|_F/\|\|J\|\|_F = ([-+.\de]+)", capfd.readouterr().out)]
    assert len(ratios) >= 2 and max(ratios) < 1e-6


@pytest.mark.parametrize("model", reaction_diffusion.MODELS)
def test_models_stay_where_nothing_disturbs_them(set_options, model):
    """The state without pattern is steady; the disturbed one begins to move."""
    set_options(pc_type="lu")
    dm = femgpu.mesh.box((8, 8), cell="quadrilateral")
    problem, exact = reaction_diffusion.discretise(dm, 1, model, "pattern")
    assert exact is None
    steady = reaction_diffusion.STEADY[model](*reaction_diffusion.MODELS[model][1])
    start = problem.u.vec.array.copy()
    problem.solve(0.4, 0.2)
    assert np.abs(problem.u.vec.array - start).max() > 1e-3
    for name, level in zip(reaction_diffusion.NAMES, steady, strict=True):
        problem.u.sub(name).interpolate(level)
    problem.t.value = 0.0
    problem.solve(0.4, 0.2)
    for name, level in zip(reaction_diffusion.NAMES, steady, strict=True):
        assert reaction_diffusion.extremes(problem.u, name) == pytest.approx((level, level), abs=1e-10)
