"""Discontinuous Galerkin methods: rates of the symmetric interior penalty method, and what upwind fluxes conserve."""

import math

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import avg, dot, dS, ds, dx, grad, inner, jump

import femgpu
from femgpu import Function, FunctionSpace, LinearProblem, NonlinearProblem

# Cells per direction of two meshes.
MESHES = {("triangle", 1): (8, 16), ("triangle", 2): (6, 12), ("triangle", 3): (4, 8), ("quadrilateral", 2): (6, 12)}
# Of the penalty, times the degree squared.
PENALTY = 10.0


def interior_penalty(u, v, exact, f):
    """SIPG for -div(grad u) = f with u given on the boundary (Arnold, SIAM J. Numer. Anal. 19, 1982)."""
    domain = v.ufl_function_space().ufl_domain()
    n, h, degree = ufl.FacetNormal(domain), ufl.CellDiameter(domain), v.ufl_element().embedded_superdegree
    penalty = PENALTY * degree**2
    a = inner(grad(u), grad(v)) * dx + penalty / avg(h) * jump(u) * jump(v) * dS
    a -= (dot(avg(grad(u)), jump(v, n)) + dot(avg(grad(v)), jump(u, n))) * dS
    a += (penalty / h * u * v - dot(grad(u), n) * v - dot(grad(v), n) * u) * ds
    return a, f * v * dx + (penalty / h * v - dot(grad(v), n)) * exact * ds


def error(cell, degree, count):
    dm = femgpu.mesh.box((count, count), cell, comm=PETSc.COMM_SELF)
    V = FunctionSpace(dm, "DG", degree)
    x = femgpu.coordinates(dm)
    exact = ufl.sin(2 * x[0] + 1) * ufl.cos(1.5 * x[1])
    a, L = interior_penalty(ufl.TrialFunction(V), ufl.TestFunction(V), exact, -ufl.div(grad(exact)))
    u = Function(V)
    options = {"ksp_type": "preonly", "pc_type": "lu", "femgpu_jacobian": "assembled"}
    LinearProblem(a == L, u=u, petsc_options=options).solve()
    return math.sqrt(femgpu.assemble((u - exact) ** 2 * dx(degree=2 * degree + 2)))


@pytest.mark.parametrize(("cell", "degree"), MESHES)
def test_interior_penalty(cell, degree):
    coarse, fine = MESHES[cell, degree]
    rate = math.log(error(cell, degree, coarse) / error(cell, degree, fine)) / math.log(fine / coarse)
    assert rate > degree + 0.85


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
