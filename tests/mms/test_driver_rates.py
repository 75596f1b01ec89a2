"""The manufactured solutions of the drivers converge at the expected rates, and Newton converges quadratically."""

import itertools
import math

import numpy as np
import pytest
from driver_modules import NONLINEAR, PROBLEMS

import femgpu

DIM = {"triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}
# Cells per direction of two meshes: the smallest on which the rate has settled. By dimension and degree, with exceptions.
MESHES = {(2, 1): (8, 16), (2, 2): (8, 16), (3, 1): (4, 8), (3, 2): (3, 6)}
OTHERS = {
    ("poisson", "tetrahedron", 1): (5, 10),
    ("advection_diffusion", "tetrahedron", 1): (6, 12),
    ("advection_diffusion", "hexahedron", 2): (4, 8),
    ("stokes", "quadrilateral", 2): (6, 12),
    ("stokes", "hexahedron", 1): (3, 6),
    ("stokes", "tetrahedron", 2): (2, 4),
}
# Waves want higher degrees.
WAVES = {("triangle", 5): (3, 6), ("quadrilateral", 1): (8, 16), ("tetrahedron", 2): (4, 8), ("hexahedron", 3): (3, 6)}
# Stokes has its own preconditioner, Helmholtz is indefinite, the other is not symmetric.
SOLVERS = {"stokes": "fieldsplit", "helmholtz": "lu", "advection_diffusion": "ilu"}

# Every problem has both degrees in both dimensions, on simplices and on other cells; every cell has them, too.
DEGREES = dict(zip(DIM, ((2, 1), (1, 2), (1, 2), (2, 1)), strict=True))
TURNS = [
    (name, cell, DEGREES[cell][i % 2]) for (i, name), cell in itertools.product(enumerate(PROBLEMS), DIM) if name != "helmholtz"
]
CASES = [("helmholtz", cell, degree, counts) for (cell, degree), counts in WAVES.items()] + [
    (name, cell, degree, OTHERS.get((name, cell, degree), MESHES[DIM[cell], degree])) for name, cell, degree in TURNS
]


@pytest.mark.parametrize(("name", "cell", "degree", "counts"), CASES)
def test_rate_and_newton(set_options, name, cell, degree, counts):
    dim = DIM[cell]
    solver = "lu" if dim == 2 else "gamg"
    set_options(pc_type=SOLVERS.get(name, solver), fieldsplit_velocity_pc_type=solver, ksp_gmres_restart=200)
    set_options(ksp_rtol=1e-10, snes_rtol=1e-12, snes_atol=1e-13, snes_stol=0)
    set_options(femgpu_jacobian="matfree" if dim == 2 else "assembled")
    errors = []
    for count in counts:
        case = PROBLEMS[name](femgpu.mesh.box((count,) * dim, cell=cell), degree)
        case.problem.snes.setConvergenceHistory(reset=True)
        case.solve()
        errors.append(case.errors())
    norms = case.problem.snes.getConvergenceHistory()[0]
    rates = np.log(np.divide(*errors)) / math.log(counts[1] / counts[0])
    print(name, cell, degree, errors, rates, norms)
    assert np.abs(rates - case.orders).max() <= 0.15
    if name in NONLINEAR:
        assert newton_order(norms) >= 1.7


def newton_order(norms):
    """Order of convergence seen in the last three residual norms above rounding: of r_{k+1} = C r_k^q, the q."""
    above = norms[norms > 1e-12 * norms[0]]
    steps = np.diff(np.log(above))
    assert len(steps) >= 2
    return steps[-1] / steps[-2]
