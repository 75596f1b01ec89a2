"""Problems that are dropped give their device memory back, on any number of ranks."""

import pytest
import ufl
from ufl import dx, grad, inner

import femgpu
from femgpu.runtime import current


@pytest.mark.parallel([1, 3])
def test_dropped_problems_are_freed():
    dm = femgpu.mesh.box((8, 8), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    sizes = []
    for _ in range(6):
        u, v = femgpu.Function(V), ufl.TestFunction(V)
        F = inner(grad(u), grad(v)) * dx - v * dx
        femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0)]).solve()
        sizes.append(current().allocated_bytes)
    assert max(sizes[2:]) <= 3 * sizes[0]
