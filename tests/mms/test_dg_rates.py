"""Discontinuous Galerkin methods: rates of the symmetric interior penalty method, and what upwind fluxes conserve."""

import math

import numpy as np
import pytest
import ufl
from driver_modules import dg_poisson
from petsc4py import PETSc
from ufl import dot, dS, dx, grad, jump

import femgpu
from femgpu import Function, FunctionSpace, NonlinearProblem
from femgpu.operators import is_symmetric

# Cells per direction of two meshes, by cell, degree and the driver's solution.
MESHES = {("triangle", 1, "smooth"): (8, 16), ("triangle", 3, "smooth"): (4, 8), ("quadrilateral", 2, "interface"): (4, 8)}


@pytest.mark.parametrize(("cell", "degree", "solution"), MESHES)
def test_interior_penalty(set_options, cell, degree, solution):
    set_options(ksp_type="preonly", pc_type="lu", femgpu_jacobian="assembled")
    errors, counts = [], MESHES[cell, degree, solution]
    for count in counts:
        problem, exact = dg_poisson.discretise(femgpu.mesh.box((count, count), cell, comm=PETSc.COMM_SELF), degree, solution)
        problem.solve()
        errors.append(femgpu.error_norm(problem.u, exact))
    assert is_symmetric(problem.operator.local.form)
    assert math.log(errors[0] / errors[1]) / math.log(counts[1] / counts[0]) > degree + 0.85


def test_upwind_fluxes_conserve(rng):
    """What leaves a cell enters its neighbour: all rows of a vortex within the box sum to nothing, and a constant stays."""
    dm = femgpu.mesh.box((5, 4), "triangle", comm=PETSc.COMM_SELF)
    V = FunctionSpace(dm, "DG", 2)
    u, v, n = Function(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    x, y = femgpu.coordinates(dm)
    flow = ufl.as_vector([ufl.sin(ufl.pi * x) * ufl.cos(ufl.pi * y), -ufl.cos(ufl.pi * x) * ufl.sin(ufl.pi * y)])
    outflow = ufl.max_value(dot(flow, n), 0)
    degree = 12
    F = -u * dot(flow, grad(v)) * dx(degree=degree) + jump(v) * (outflow("+") * u("+") - outflow("-") * u("-")) * dS(degree=degree)
    problem = NonlinearProblem(F, u)
    u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    residual = u.vec.duplicate()
    problem.residual(u.vec, residual)
    assert abs(residual.sum()) < 1e-13 * np.abs(residual.array).sum()
    u.vec.set(1.0)
    problem.residual(u.vec, residual)
    assert abs(residual.array).max() < 1e-9
