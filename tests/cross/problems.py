"""The forms that femgpu and an independent oracle both evaluate, and their derivatives by hand.

An oracle hands the integrands arrays over cells and points: x (dim, cells, points), values u and w (num_comp, cells,
points), gradients gu and gw (num_comp, dim, cells, points), and the polynomial coefficient k (cells, points). All terms
have one sign, so that nothing cancels.
"""

import numpy as np
import ufl
from polynomials import Polynomial
from random_meshes import random_cells
from ufl import dx, grad, inner

from femgpu import Constant, Function, FunctionSpace, NonlinearProblem, coordinates

MU = 0.7


class Poisson:
    """-div(k grad u) + exp(x0) = 0."""

    vector = False

    @staticmethod
    def form(u, v, k, x):
        return inner(k * grad(u), grad(v)) + ufl.exp(x[0]) * v

    @staticmethod
    def residual(x, k, u, gu, w, gw):
        return k * _dot(gu[0], gw[0]) + np.exp(x[0]) * w[0]

    @staticmethod
    def action(x, k, u, gu, w, gw):
        return k * _dot(gw[0], gw[0])


class Diffusion:
    """-div((1 + u^2) grad u) + k = 0."""

    vector = False

    @staticmethod
    def form(u, v, k, x):
        return inner((1 + u**2) * grad(u), grad(v)) + k * v

    @staticmethod
    def residual(x, k, u, gu, w, gw):
        return (1 + u[0] ** 2) * _dot(gu[0], gw[0]) + k * w[0]

    @staticmethod
    def action(x, k, u, gu, w, gw):
        return (1 + u[0] ** 2) * _dot(gw[0], gw[0]) + 2 * u[0] * w[0] * _dot(gu[0], gw[0])


class Elasticity:
    """-div(k tr(e) I + 2 mu e) + (sin(x0), 1, ...) = 0, e the symmetric gradient of u."""

    vector = True

    @staticmethod
    def form(u, v, k, x):
        dim = len(u)
        mu = Constant(u.space.dm, MU)
        stress = k * ufl.tr(grad(u)) * ufl.Identity(dim) + 2 * mu * ufl.sym(grad(u))
        load = ufl.as_vector([ufl.sin(x[0]), *[1.0] * (dim - 1)])
        return inner(stress, grad(v)) + inner(load, v)

    @staticmethod
    def residual(x, k, u, gu, w, gw):
        load = np.stack([np.sin(x[0]), *[np.ones_like(x[0])] * (len(u) - 1)])
        return _energy(k, gu, gw) + _dot(load, w)

    @staticmethod
    def action(x, k, u, gu, w, gw):
        return _energy(k, gw, gw)


PROBLEMS = (Poisson, Diffusion, Elasticity)


def _dot(a, b):
    return (a * b).sum(axis=0)


def _energy(k, ga, gb):
    """k div a div b + 2 mu e(a) : e(b)."""
    symmetric = 0.5 * (ga + ga.swapaxes(0, 1))
    return k * np.trace(ga) * np.trace(gb) + 2 * MU * np.einsum("ij...,ij...->...", symmetric, gb)


class Setting:
    """A problem on a random mesh with random polynomials u, w and k inside the space, and femgpu's numbers for it.

    Attributes:
        vertices: (num_cells, num_vertices, dim) in PETSc's order.
        u, w, k: the polynomials.
        points, weights: femgpu's rule on PETSc's reference cell.
        numbers: r(u).w, and w.J(u)w by the action and by the assembled matrix.
    """

    def __init__(self, problem, cell, degree, num_cells, rng, set_options):
        dm = random_cells(cell, num_cells, rng)
        dim = dm.getDimension()
        self.num_comp = dim if problem.vector else 1
        V = FunctionSpace(dm, "Lagrange", degree, shape=(dim,) if problem.vector else ())
        u, w, k = Function(V), Function(V), Function(FunctionSpace(dm, "Lagrange", degree))
        self.u, self.w = (Polynomial(dim, degree, rng, self.num_comp) for _ in range(2))
        self.k = Polynomial(dim, degree, rng)
        for function, polynomial in ((u, self.u), (w, self.w), (k, self.k)):
            function.interpolate(polynomial)
        set_options("cross_", femgpu_pmat="assembled")
        F = problem.form(u, ufl.TestFunction(V), k, coordinates(dm)) * dx(degree=2 * degree)
        femgpu_problem = NonlinearProblem(F, u, options_prefix="cross_")
        mesh = V.mesh
        assert mesh.num_cells == num_cells and mesh.coord_element.degree == 1
        assert mesh.reference.is_simplex or not mesh.affine.any()
        self.vertices = mesh.coords[mesh.coord_dofs]
        (rule,) = set(femgpu_problem.quadratures)
        self.points, self.weights = rule.points, rule.weights
        self.numbers = _numbers(femgpu_problem, u.vec, w.vec)

    def difference(self, expected):
        """Largest relative difference to (r(u).w, w.J(u)w)."""
        residual, action = expected
        pairs = zip(self.numbers, (residual, action, action), strict=True)
        return max(abs(got - value) / abs(value) for got, value in pairs)


def _numbers(problem, u, w):
    out = u.duplicate()
    out.set(np.nan)
    problem.residual(u, out)
    numbers = [out.dot(w)]
    problem.linearise(u)
    for matrix in (problem.jacobian, problem.snes.getJacobian()[1]):
        out.set(np.nan)
        matrix.mult(w, out)
        numbers.append(out.dot(w))
    assert problem.jacobian.getType() == "python" and problem.snes.getJacobian()[1].getType() == "seqaij"
    return numbers
