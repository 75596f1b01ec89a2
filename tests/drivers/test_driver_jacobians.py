"""Every driver's Jacobian is the derivative of its residual (`-snes_test_jacobian`), the same matrix-free and assembled."""

import ctypes
import itertools
import re

import numpy as np
import pytest
from driver_modules import PROBLEMS

import femgpu

LINE = re.compile(r"\|\|J - Jfd\|\|_F/\|\|J\|\|_F = (\S+), \|\|J - Jfd\|\|_F = (\S+)")
MESHES = {"triangle": ((2, 3), 2), "quadrilateral": ((3, 2), 1), "tetrahedron": ((2, 2, 3), 1), "hexahedron": ((2, 2, 1), 2)}


# Both Jacobians of every driver, and on every cell.
KINDS = itertools.cycle(["matfree", "assembled", "assembled", "matfree", "assembled", "matfree", "matfree", "assembled"])
CASES = [(*pair, kind) for pair, kind in zip(itertools.product(PROBLEMS, MESHES), KINDS, strict=False)]


def problem_of(name, cell, rng):
    """A driver's problem, at some state."""
    counts, degree = MESHES[cell]
    problem = PROBLEMS[name](femgpu.mesh.box(counts, cell=cell), degree).problem
    u = problem.u
    if not isinstance(u.space, femgpu.MixedSpace):
        # A state whose gradient vanishes nowhere and inverts no cell of a deformed body.
        u.interpolate(lambda x: 0.05 * x if u.space.value_shape else 0.3 * x.sum(axis=0))
    u.vec.setArray(u.vec.array_r + rng.uniform(-0.01, 0.01, u.vec.getLocalSize()))
    return problem


@pytest.mark.parametrize(("name", "cell", "jacobian"), CASES)
def test_jacobian_is_the_derivative(rng, set_options, capfd, name, cell, jacobian):
    set_options(snes_test_jacobian=True, snes_max_it=1, femgpu_jacobian=jacobian, pc_type="jacobi", snes_convergence_test="skip")
    problem = problem_of(name, cell, rng)
    capfd.readouterr()
    problem.solve()
    ctypes.CDLL(None).fflush(None)
    printed = capfd.readouterr().out
    found = [float(ratio) for ratio, _ in LINE.findall(printed)]
    assert found and all(ratio < 1e-6 for ratio in found), printed[-2000:]


@pytest.mark.parametrize(("name", "cell"), list(zip(PROBLEMS, itertools.cycle(["tetrahedron", "quadrilateral"]), strict=False)))
def test_assembled_and_matrix_free_jacobians_are_one(rng, name, cell):
    problem = problem_of(name, cell, rng)
    problem.linearise(problem.u.vec)
    rows, given = problem.operator.rows.owned, problem.u.vec.duplicate()
    given.setArray(rng.standard_normal(given.getLocalSize()))
    found, wanted = given.duplicate(), given.duplicate()
    problem.jacobian.mult(given, found)
    problem.assemble_jacobian().mult(given, wanted)
    assert len(rows) < len(given.array)
    np.testing.assert_allclose(found.array, wanted.array, rtol=0, atol=1e-12 * np.abs(np.delete(wanted.array, rows)).max())
