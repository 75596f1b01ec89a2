"""Which actions take coefficients in orthonormal polynomials for values at points, how many, and that they stay what they are."""

from dataclasses import replace

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_cells
from ufl import div, dot, dS, dx, grad, inner, jump, sym

import femgpu
from femgpu import options
from femgpu.element import default_rule, orthonormal
from femgpu.forms import bilinear_form
from femgpu.operators import FormOperator, twin
from femgpu.runtime import for_comm


def mass(V, u, v):
    return inner(u, v) * dx


def diffusion(V, u, v):
    return inner(grad(u), grad(v)) * dx


def by_cell(V, u, v):
    """With a coefficient for each cell, and a number."""
    kappa = femgpu.Function(femgpu.FunctionSpace(V.dm, "DG", 0))
    kappa.vec.setArray(np.random.default_rng(1).uniform(1, 2, kappa.vec.getLocalSize()))
    return kappa * inner(grad(u), grad(v)) * dx + femgpu.Constant(V.dm, 3.0) * inner(u, v) * dx


def elasticity(V, u, v):
    return inner(sym(grad(u)), grad(v)) * dx + div(u) * div(v) * dx


def transport(V, u, v):
    """Of the gradient, whose degree is less by one, and of values."""
    return dot(femgpu.Constant(V.dm, (1.0, -2.0, 0.5)[: V.mesh.dim]), grad(u)) * v * dx


def stokes(V, u, v):
    (u, p), (v, q) = ufl.split(u), ufl.split(v)
    return (inner(grad(u), grad(v)) - p * div(v) - q * div(u)) * dx


def second(V, u, v):
    """A Laplacian beside a field of a degree that is lower than its own."""
    (u, p), (v, _) = ufl.split(u), ufl.split(v)
    return (p + div(grad(u))) * v * dx


def varying(V, u, v):
    return ufl.SpatialCoordinate(V.ufl_domain())[0] * u * v * dx


def inexact(V, u, v):
    return u * v * dx(degree=2 * V.degree - 1)


def vertices(V, u, v):
    return u * v * dx(metadata={"quadrature_rule": "vertex"})


def jumps(V, u, v):
    return inner(jump(u), jump(v)) * dS


# Form, cell, element, points of the rule and polynomials; None: points, however many.
CASES = [
    (mass, "tetrahedron", ("Lagrange", 2), (14, 10)),
    (mass, "tetrahedron", ("Lagrange", 8), (304, 165)),
    (mass, "tetrahedron", ("DG", 3), (24, 20)),
    (mass, "triangle", ("Lagrange", 4), (16, 15)),
    (mass, "triangle", ("P+B", 2), (12, 10)),
    (diffusion, "tetrahedron", ("Lagrange", 3), (14, 10)),
    (diffusion, "tetrahedron", ("P+B", 2), (24, 20)),
    (diffusion, "triangle", ("Lagrange", 5), (16, 15)),
    (by_cell, "tetrahedron", ("Lagrange", 2), (14, 10)),
    (elasticity, "tetrahedron", ("Lagrange", 3, 3), (14, 10)),
    (transport, "tetrahedron", ("Lagrange", 3), (15, 10)),
    (transport, "triangle", ("Lagrange", 2), (6, 3)),
    (stokes, "tetrahedron", ("Lagrange", 3, 3), (14, 10)),
    (mass, "tetrahedron", ("Lagrange", 1), None),
    (diffusion, "tetrahedron", ("Lagrange", 2), (4, 4)),
    (varying, "tetrahedron", ("Lagrange", 2), None),
    (inexact, "tetrahedron", ("Lagrange", 3), None),
    (vertices, "tetrahedron", ("Lagrange", 1), None),
    (jumps, "tetrahedron", ("DG", 2), None),
    (second, "triangle", ("Lagrange", 5), None),
    (mass, "hexahedron", ("Lagrange", 2), None),
]


def action(form, direction, **settings):
    """The action on a direction, and the terms' works."""
    operator = FormOperator(form, replace(options.read(), **settings), for_comm("", PETSc.COMM_SELF.tompi4py()))
    operator.update()
    operator.runtime.write(operator.w, direction)
    operator.action()
    found = operator.runtime.read(operator.out, np.empty(operator.num_local))
    return found, [application.plan.work for application in operator.prepare("action")], operator.terms


@pytest.mark.parametrize(("make", "cell", "element", "numbers"), CASES)
def test_actions(make, cell, element, numbers, rng):
    """The same as by points, in either geometry; the twin's."""
    V = femgpu.FunctionSpace(random_cells(cell, 5, rng, "affine"), *element)
    if make in (stokes, second):
        other = femgpu.FunctionSpace(V.dm, "Lagrange", element[1] - (1 if make is stokes else 3))
        V = femgpu.MixedSpace({"u": V, "p": other})
    form = bilinear_form(make(V, ufl.TrialFunction(V), ufl.TestFunction(V)))
    direction = rng.uniform(-1, 1, V.num_local)
    for geometry in ("stored", "recomputed"):
        found, works, terms = action(form, direction, geometry=geometry)
        plain, by_points, _ = action(form, direction, geometry=geometry, modes="no")
        assert all(work.modes < 0 for work in by_points)
        if numbers is None:
            assert all(work.modes < 0 for work in works)
        else:
            (work,), (other,) = works, by_points
            assert (other.num_qpts, work.num_qpts) == numbers and work.modes >= 0
        vectors = {"w": direction} | {f"a{i}": function.local_array() for i, function in enumerate(form.coefficients)}
        wanted = np.zeros(V.num_local)
        for term in (term for term in terms if term.use != "matrices"):
            wanted += twin.scatter(term, twin.element_vectors(term, term.integral.action, vectors, form.constant_values()))
        for result in (found, plain):
            assert np.abs(result - wanted).max() <= 1e-13 * np.abs(wanted).max()


def test_cells_that_are_bent_take_points(rng):
    dm = random_cells("tetrahedron", 5, rng, "affine")
    dm.createCoordinateSpace(2, False, True)
    x = dm.getCoordinatesLocal()
    dm.setCoordinatesLocal(PETSc.Vec().createWithArray(x.array + 0.01 * rng.uniform(-1, 1, x.getLocalSize()), comm=PETSc.COMM_SELF))
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    form = bilinear_form(mass(V, ufl.TrialFunction(V), ufl.TestFunction(V)))
    _, works, terms = action(form, rng.uniform(-1, 1, V.num_local))
    assert works and all(work.modes < 0 and not work.affine for work in works) and not any(term.affine for term in terms)


def test_gradients_of_constants_are_zero():
    """Of degree 0, whose gradients are in no polynomials."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle"), "DG", 0)
    form = femgpu.PointwiseForm(
        V, degree=3, f1="for (int d = 0; d < dim; ++d) f1[d] = u_x[d];", g3="for (int d = 0; d < dim; ++d) g3[d * dim + d] = 1;"
    )
    problem = femgpu.NonlinearProblem(form, femgpu.Function(V))
    x, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
    x.set(1.0)
    problem.jacobian.mult(x, y)
    assert y.norm() == 0


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_polynomials_are_orthonormal(cell):
    for degree in range(9):
        rule = default_rule(cell, 2 * degree)
        values = orthonormal(cell, degree, rule.points)
        assert np.abs(values.T @ (rule.weights[:, None] * values) - np.eye(values.shape[1])).max() < 1e-13
