"""Weak forms twice: in UFL for femgpu, and as numpy integrands r(u; v) for the oracles.

Integrands get a place (x, n, h and volume, see `comparison.Place`) and dictionaries of `comparison.Values` by field: values
(*shape, cells, points), gradients (*shape, dim, cells, points) and second derivatives (*shape, dim, dim, cells, points). They are
analytic in u: oracles differentiate them by a complex step. Where signs are free, terms have one sign, so that nothing cancels.
Some keep state at the points for the Jacobian (`qdata`).
"""

import numpy as np
import ufl
from comparison import Shape
from ufl import div, dot, grad, inner

MU = 0.7
BETA = 0.4
PRESSURE = 0.3
KAPPA = 0.3


class Robin:
    """-div((a + u^2) grad u) + exp(x0) = 0 with a Robin condition whose coefficients have another degree than u."""

    @staticmethod
    def unknowns(dim, degree):
        return {"u": Shape(degree)}

    @staticmethod
    def coefficients(dim, degree):
        return {"alpha": Shape(1 + degree % 2), "flow": Shape(1, (dim,))}

    @staticmethod
    def form(g, u, v, k):
        u, v, alpha, flow = u["u"], v["u"], k["alpha"], k["flow"]
        condition = (alpha * (u + ufl.exp(g.x[0])) + g.constant(BETA) * u**3 + inner(flow, g.n) * u) * v
        cell = inner((alpha + u**2) * grad(u), grad(v)) + ufl.exp(g.x[0]) * v
        return cell * g.dx + (condition + dot(grad(u), g.n) * dot(grad(v), g.n)) * g.ds(2)

    @staticmethod
    def cell(p, u, v, k):
        u, v = u["u"], v["u"]
        return (k["alpha"].value + u.value**2) * _dot(u.grad, v.grad) + np.exp(p.x[0]) * v.value

    @staticmethod
    def facet(p, u, v, k):
        u, v, alpha, flow = u["u"], v["u"], k["alpha"].value, k["flow"].value
        condition = alpha * (u.value + np.exp(p.x[0])) + BETA * u.value**3 + _dot(flow, p.n) * u.value
        return p.on(2) * (condition * v.value + _dot(u.grad, p.n) * _dot(v.grad, p.n))


class Elasticity:
    """-div(k tr(e) I + 2 mu e) + (sin(x0), 1, ...) = 0, e the symmetric gradient of u."""

    @staticmethod
    def unknowns(dim, degree):
        return {"u": Shape(degree, (dim,))}

    @staticmethod
    def coefficients(dim, degree):
        return {"k": Shape(degree)}

    @staticmethod
    def form(g, u, v, k):
        u, v, dim = u["u"], v["u"], len(u["u"])
        stress = k["k"] * div(u) * ufl.Identity(dim) + 2 * g.constant(MU) * ufl.sym(grad(u))
        load = ufl.as_vector([ufl.sin(g.x[0]), *[1.0] * (dim - 1)])
        return (inner(stress, grad(v)) + inner(load, v)) * g.dx

    @staticmethod
    def cell(p, u, v, k):
        u, v = u["u"], v["u"]
        load = np.stack([np.sin(p.x[0]), *[np.ones_like(p.x[0])] * (len(p.x) - 1)])
        energy = k["k"].value * np.trace(u.grad) * np.trace(v.grad) + 2 * MU * _contract(_symmetric(u.grad), v.grad)
        return energy + _dot(load, v.value)

    facet = None


class Stokes:
    """Viscous flow with body force, friction on the whole boundary and a flow through one side; the pressure counts tension."""

    @staticmethod
    def unknowns(dim, degree):
        return {"velocity": Shape(degree, (dim,)), "pressure": Shape(degree - 1)}

    @staticmethod
    def coefficients(dim, degree):
        return {"viscosity": Shape(1)}

    @staticmethod
    def form(g, u, v, k):
        stress = 2 * k["viscosity"] * ufl.sym(grad(u["velocity"])) + u["pressure"] * ufl.Identity(len(g.x))
        cell = inner(stress, grad(v["velocity"])) + div(u["velocity"]) * v["pressure"] + g.x[0] ** 2 * v["velocity"][0]
        friction = inner(u["velocity"], g.n) * inner(v["velocity"], g.n)
        outlet = u["pressure"] * inner(g.n, v["velocity"]) + ufl.exp(g.x[1]) * v["pressure"]
        return cell * g.dx + friction * g.ds + outlet * g.ds(2)

    @staticmethod
    def cell(p, u, v, k):
        shear = 2 * k["viscosity"].value * _contract(_symmetric(u["velocity"].grad), v["velocity"].grad)
        pressure = u["pressure"].value * np.trace(v["velocity"].grad) + np.trace(u["velocity"].grad) * v["pressure"].value
        return shear + pressure + p.x[0] ** 2 * v["velocity"].value[0]

    @staticmethod
    def facet(p, u, v, k):
        through = _dot(v["velocity"].value, p.n)
        outlet = u["pressure"].value * through + np.exp(p.x[1]) * v["pressure"].value
        return _dot(u["velocity"].value, p.n) * through + p.on(2) * outlet


class NeoHookean:
    """Compressible: P = mu (F - F^-T) + k ln(det F) F^-T, with a load and a pressure that follows the deformed surface."""

    size = 0.05
    qdata = "store"

    @staticmethod
    def unknowns(dim, degree):
        return {"u": Shape(degree, (dim,))}

    @staticmethod
    def coefficients(dim, degree):
        return {"k": Shape(1)}

    @staticmethod
    def form(g, u, v, k):
        u, v, mu, dim = u["u"], v["u"], g.constant(MU), len(u["u"])
        F = ufl.Identity(dim) + grad(u)
        J, inverse = ufl.det(F), ufl.inv(F).T
        stress = mu * (F - inverse) + k["k"] * ufl.ln(J) * inverse
        load = ufl.as_vector([ufl.sin(g.x[0]), *[1.0] * (dim - 1)])
        return (inner(stress, grad(v)) + inner(load, v)) * g.dx + PRESSURE * inner(J * inverse * g.n, v) * g.ds(2)

    @staticmethod
    def cell(p, u, v, k):
        F, inverse, J = _deformation(u["u"].grad)
        stress = MU * (F - inverse) + k["k"].value * np.log(J) * inverse
        load = np.stack([np.sin(p.x[0]), *[np.ones_like(p.x[0])] * (len(p.x) - 1)])
        return _contract(stress, v["u"].grad) + _dot(load, v["u"].value)

    @staticmethod
    def facet(p, u, v, k):
        _, inverse, J = _deformation(u["u"].grad)
        return p.on(2) * PRESSURE * J * np.einsum("ij...,j...,i...->...", inverse, p.n, v["u"].value)


class Transport:
    """Advection, diffusion and reaction by one full matrix A between (v, grad v) and (u, grad u), stabilised by least squares.

    With A = [[c, b], [e, D]] the strong residual is c u + b . grad u - div(e u + D grad u) + exp(x0); it has second derivatives
    of u and first derivatives of A; what it is tested with has second derivatives of v.
    """

    qdata = "store"

    @staticmethod
    def unknowns(dim, degree):
        return {"u": Shape(degree)}

    @staticmethod
    def coefficients(dim, degree):
        return {"A": Shape(2 if degree == 1 else 1, (dim + 1, dim + 1))}

    @staticmethod
    def form(g, u, v, k):
        u, v, A, dim = u["u"], v["u"], k["A"], len(g.x)
        up, vp = (ufl.as_vector([each, *[each.dx(i) for i in range(dim)]]) for each in (u, v))
        flow = ufl.as_vector([A[0, 1 + i] for i in range(dim)])
        flux = ufl.as_vector([dot(A[1 + i, :], up) for i in range(dim)])
        strong = dot(A[0, :], up) - div(flux) + ufl.exp(g.x[0])
        tau = g.h / (2 * ufl.sqrt(dot(flow, flow)))
        return (dot(vp, A * up) + ufl.exp(g.x[0]) * v + tau * strong * (dot(flow, grad(v)) - A[0, 0] * div(grad(v)))) * g.dx

    @staticmethod
    def cell(p, u, v, k):
        u, v, A, dA = u["u"], v["u"], k["A"].value, k["A"].grad
        up, vp = (np.concatenate([each.value[None], each.grad]) for each in (u, v))
        du = np.concatenate([u.grad[None], u.hess])
        divergence = np.einsum("iji...,j...->...", dA[1:], up) + np.einsum("ij...,ji...->...", A[1:], du)
        strong = _dot(A[0], up) - divergence + np.exp(p.x[0])
        flow = A[0, 1:]
        tau = p.h / (2 * np.sqrt(_dot(flow, flow)))
        weak = np.einsum("i...,ij...,j...->...", vp, A, up) + np.exp(p.x[0]) * v.value
        return weak + tau * strong * (_dot(flow, v.grad) - A[0, 0] * np.trace(v.hess))

    facet = None


class Helmholtz:
    """-div grad u - (kappa c)^2 u + exp(x0) = 0 with an impedance condition on the whole boundary."""

    @staticmethod
    def unknowns(dim, degree):
        return {"u": Shape(degree)}

    @staticmethod
    def coefficients(dim, degree):
        return {"c": Shape(2)}

    @staticmethod
    def form(g, u, v, k):
        u, v, wave = u["u"], v["u"], g.constant(KAPPA) * k["c"]
        return (inner(grad(u), grad(v)) - wave**2 * u * v + ufl.exp(g.x[0]) * v) * g.dx + wave * u * v * g.ds

    @staticmethod
    def cell(p, u, v, k):
        u, v, wave = u["u"], v["u"], KAPPA * k["c"].value
        return _dot(u.grad, v.grad) - wave**2 * u.value * v.value + np.exp(p.x[0]) * v.value

    @staticmethod
    def facet(p, u, v, k):
        return KAPPA * k["c"].value * u["u"].value * v["u"].value


class Species:
    """Reactions between a scalar, a vector and a species without diffusion that lives in each cell (DG)."""

    qdata = "store"

    @staticmethod
    def unknowns(dim, degree):
        return {"a": Shape(degree), "b": Shape(degree % 2 + 1, (2,)), "c": Shape(degree - 1, (), False)}

    @staticmethod
    def coefficients(dim, degree):
        return {"rate": Shape(0, (), False)}

    @staticmethod
    def form(g, u, v, k):
        (a, b, c), (va, vb, vc), rate = u.values(), v.values(), k["rate"]
        reaction = a**2 * b[0] * va + a * inner(b, vb) + (rate * a * c + g.volume * b[1] ** 2 + g.x[0] ** 2) * vc
        cell = reaction + inner((1 + c**2) * grad(a), grad(va)) + rate * inner(grad(b), grad(vb))
        return cell * g.dx + (b[1] ** 2 * va + a * inner(b, vb) + a * c * vc) * g.ds((1, 3))

    @staticmethod
    def cell(p, u, v, k):
        (a, b, c), (va, vb, vc), rate = u.values(), v.values(), k["rate"].value
        first = a.value**2 * b.value[0] * va.value + (1 + c.value**2) * _dot(a.grad, va.grad)
        second = a.value * _dot(b.value, vb.value) + rate * _contract(b.grad, vb.grad)
        return first + second + (rate * a.value * c.value + p.volume * b.value[1] ** 2 + p.x[0] ** 2) * vc.value

    @staticmethod
    def facet(p, u, v, k):
        (a, b, c), (va, vb, vc) = u.values(), v.values()
        wall = b.value[1] ** 2 * va.value + a.value * _dot(b.value, vb.value) + a.value * c.value * vc.value
        return p.on(1, 3) * wall


def _dot(a, b):
    return np.einsum("i...,i...->...", a, b)


def _contract(a, b):
    return np.einsum("ij...,ij...->...", a, b)


def _symmetric(a):
    return 0.5 * (a + a.swapaxes(0, 1))


def _deformation(gradient):
    """F, F^-T and det F."""
    F = np.eye(len(gradient))[..., None, None] + gradient
    matrices = np.moveaxis(F, (0, 1), (-2, -1))
    return F, np.moveaxis(np.linalg.inv(matrices), (-2, -1), (1, 0)), np.linalg.det(matrices)
