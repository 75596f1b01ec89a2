"""Element matrices whose points are summed beforehand, against those that sum them in the kernel and against the action."""

from dataclasses import replace

import numpy as np
import pytest
import ufl
from random_meshes import random_mesh
from ufl import div, dot, dx, grad, inner

from femgpu import Constant, Function, FunctionSpace, MixedSpace, mesh, options
from femgpu.forms import bilinear_form
from femgpu.operators.device import choose_runtime
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian

PLAIN = "matrix:points=64"


def affine_mesh(cell):
    """Simplices of any shape, or bricks."""
    if cell in ("triangle", "tetrahedron"):
        return random_mesh(cell, (2,) * (2 if cell == "triangle" else 3), seed=5)
    return mesh.box((2,) * (2 if cell == "quadrilateral" else 3), cell=cell)


def mixed_form(dm, degree):
    """Two fields with all four kinds of blocks, constants and a coefficient that is constant in each cell."""
    W = MixedSpace({"u": FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),)), "p": FunctionSpace(dm, "Lagrange", 1)})
    kappa = Function(FunctionSpace(dm, "DG", 0))
    rng = np.random.default_rng()
    kappa.vec.setArray(rng.uniform(1, 2, kappa.vec.getLocalSize()))
    wind = Constant(dm, tuple(rng.uniform(-1, 1, dm.getDimension())))
    (u, p), (v, q) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    a = kappa * inner(grad(u), grad(v)) + inner(dot(grad(u), wind), v) + 2 * inner(u, dot(grad(v), wind)) - p * div(v) + q * div(u)
    return (a + 0.5 * p * q + kappa**2 * dot(grad(p), wind) * q) * dx


def matrix(a, schedule, precision="double"):
    """The matrix of a form, its largest difference from the action, and whether its points were summed beforehand."""
    form, settings = bilinear_form(a), replace(options.read(), precision=precision)
    settings = replace(settings, schedule=schedule) if schedule else settings
    zero = form.space.dm.createGlobalVec()
    operator = GlobalOperator(form, (), settings, choose_runtime(settings, [zero], form.space.mesh.mpi), scale=1.0)
    operator.linearise(zero)
    made = AssembledJacobian(operator, zero)
    made.fill()
    x, y, z = (zero.duplicate() for _ in range(3))
    x.setRandom()
    operator.action(x, y)
    made.mat.mult(x, z)
    plans = [application.plan for application in operator.local.prepare(operator.local.assembly_target)]
    entries = made.mat.convert("dense").getDenseArray().copy()
    return entries, np.abs(y.array - z.array).max() / np.abs(y.array).max(), {plan.work.products for plan in plans}


@pytest.mark.parametrize(
    "cell, degree, precision",
    [("triangle", 3, "double"), ("quadrilateral", 2, "single"), ("tetrahedron", 3, "mixed"), ("hexahedron", 2, "double")],
)
def test_equal_to_rounding(cell, degree, precision):
    a = mixed_form(affine_mesh(cell), degree)
    tolerance = 1e-12 if precision == "double" else 2e-5
    summed, error, by_tables = matrix(a, "", precision)
    plain, plain_error, by_points = matrix(a, PLAIN, precision)
    assert (by_tables, by_points) == ({True}, {False})
    assert error < tolerance and plain_error < tolerance
    np.testing.assert_allclose(summed, plain, rtol=0, atol=tolerance * np.abs(plain).max())


def test_where_points_differ_each_is_summed_in_the_kernel():
    """Coefficients and cells that are not the same at all points; few points."""
    dm = affine_mesh("quadrilateral")
    V = FunctionSpace(dm, "Lagrange", 2)
    u, v, x = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.SpatialCoordinate(V.ufl_domain())
    field = Function(FunctionSpace(dm, "Lagrange", 1))
    field.interpolate(lambda x: 1 + x[0])
    bent = FunctionSpace(random_mesh("quadrilateral", (2, 2), seed=3), "Lagrange", 2)
    P1 = FunctionSpace(affine_mesh("triangle"), "Lagrange", 1)
    forms = [u * v * dx + x[0] * u * v * dx, field * inner(grad(u), grad(v)) * dx, u * v * ufl.ds]
    forms.append(inner(grad(ufl.TrialFunction(bent)), grad(ufl.TestFunction(bent))) * dx)
    forms.append(inner(grad(ufl.TrialFunction(P1)), grad(ufl.TestFunction(P1))) * dx)
    for a in forms:
        _, error, by_tables = matrix(a, "")
        assert error < 1e-12 and by_tables == {False}
    assert matrix(inner(grad(u), grad(v)) * dx, "")[2] == {True}
