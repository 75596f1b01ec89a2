"""`-snes_test_jacobian` for every driver: its Jacobian is the derivative of its residual, matrix-free and assembled."""

import ctypes
import itertools
import re

import pytest
from driver_modules import PROBLEMS

import femgpu

LINE = re.compile(r"\|\|J - Jfd\|\|_F/\|\|J\|\|_F = (\S+), \|\|J - Jfd\|\|_F = (\S+)")
MESHES = {"triangle": ((2, 3), 2), "quadrilateral": ((3, 2), 1), "tetrahedron": ((1, 2, 2), 1), "hexahedron": ((2, 2, 1), 2)}


# Both Jacobians of every driver, and on every cell.
KINDS = itertools.cycle(["matfree", "assembled", "assembled", "matfree", "assembled", "matfree", "matfree", "assembled"])
CASES = [(*pair, kind) for pair, kind in zip(itertools.product(PROBLEMS, MESHES), KINDS, strict=False)]


@pytest.mark.parametrize(("name", "cell", "jacobian"), CASES)
def test_jacobian_is_the_derivative(rng, set_options, capfd, name, cell, jacobian):
    counts, degree = MESHES[cell]
    set_options(snes_test_jacobian=True, snes_max_it=1, femgpu_jacobian=jacobian, pc_type="jacobi", snes_convergence_test="skip")
    case = PROBLEMS[name](femgpu.mesh.box(counts, cell=cell), degree)
    u = case.problem.u
    if not isinstance(u.space, femgpu.MixedSpace):
        # A state whose gradient vanishes nowhere and inverts no cell of a deformed body.
        u.interpolate(lambda x: 0.05 * x if u.space.value_shape else 0.3 * x.sum(axis=0))
    u.vec.setArray(u.vec.array_r + rng.uniform(-0.01, 0.01, u.vec.getLocalSize()))
    capfd.readouterr()
    case.problem.solve()
    ctypes.CDLL(None).fflush(None)
    printed = capfd.readouterr().out
    found = [float(ratio) for ratio, _ in LINE.findall(printed)]
    assert found and all(ratio < 1e-6 for ratio in found), printed[-2000:]
