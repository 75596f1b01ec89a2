"""Weak forms with their pointwise functions written by hand in numpy."""

from __future__ import annotations

import math

import numpy as np
import ufl
from forms_support import Constant, Function, Space, make_mesh
from ufl import (
    Identity,
    SpatialCoordinate,
    TestFunction,
    conditional,
    derivative,
    det,
    diff,
    div,
    dot,
    dx,
    exp,
    grad,
    inner,
    ln,
    sym,
    tr,
    variable,
)

_erf = np.vectorize(math.erf, otypes=[float])


def _scalar(dim=2, degree=2):
    V = Space(make_mesh(dim), degree)
    return V, Function(V), TestFunction(V)


def _vector(dim, degree=2):
    V = Space(make_mesh(dim), degree, (dim,))
    return V, Function(V), TestFunction(V)


def variable_poisson(dim=2):
    V, u, v = _scalar(dim)
    kappa, f = Function(V), Function(Space(V.ufl_domain(), 1))
    F = kappa * inner(grad(u), grad(v)) * dx - f * v * dx

    def expected(d, form):
        i, j = (form.coefficients.index(c) for c in (kappa, f))
        return {"f0": -d["a"][:, j : j + 1], "f1": d["a"][:, i, None, None] * d["u_x"]}

    return F, u, expected


def nonlinear_diffusion(dim=3):
    _, u, v = _scalar(dim)
    F = (1 + u**2) * inner(grad(u), grad(v)) * dx
    return F, u, lambda d, form: {"f0": 0, "f1": (1 + d["u"] ** 2)[:, :, None] * d["u_x"]}


def p_laplace(dim=2, p=3.5):
    V, u, v = _scalar(dim)
    eps = Constant(V.ufl_domain())
    F = (eps**2 + inner(grad(u), grad(u))) ** ((p - 2) / 2) * inner(grad(u), grad(v)) * dx

    def expected(d, form):
        size = d["constants"][0] ** 2 + (d["u_x"] ** 2).sum((1, 2))
        return {"f0": 0, "f1": (size ** ((p - 2) / 2))[:, None, None] * d["u_x"]}

    return F, u, expected


def elasticity(dim):
    V, u, v = _vector(dim)
    mu, lam = Constant(V.ufl_domain()), Constant(V.ufl_domain())
    eps = sym(grad(u))
    F = inner(2 * mu * eps + lam * tr(eps) * Identity(dim), sym(grad(v))) * dx

    def expected(d, form):
        m, lm = (d["constants"][form.constants.index(c)] for c in (mu, lam))
        G = d["u_x"]
        trace = np.trace(G, axis1=1, axis2=2)[:, None, None]
        return {"f0": 0, "f1": m * (G + G.transpose(0, 2, 1)) + lm * trace * np.eye(dim)}

    return F, u, expected


def neo_hookean(dim):
    V, u, v = _vector(dim)
    mu, lam = Constant(V.ufl_domain()), Constant(V.ufl_domain())
    G = variable(Identity(dim) + grad(u))
    J = det(G)
    psi = mu / 2 * (tr(G.T * G) - dim) - mu * ln(J) + lam / 2 * ln(J) ** 2
    F = inner(diff(psi, G), grad(v)) * dx

    def expected(d, form):
        m, lm = (d["constants"][form.constants.index(c)] for c in (mu, lam))
        G = np.eye(dim) + d["u_x"]
        inverse_t = np.linalg.inv(G).transpose(0, 2, 1)
        log = np.log(np.linalg.det(G))[:, None, None]
        return {"f0": 0, "f1": m * (G - inverse_t) + lm * log * inverse_t}

    return F, u, expected


def energy(dim=2):
    _, u, v = _scalar(dim)
    F = derivative((inner(grad(u), grad(u)) / 2 + u**4 / 4 - u**2 / 2) * dx, u, v)
    return F, u, lambda d, form: {"f0": d["u"] ** 3 - d["u"], "f1": d["u_x"]}


def bratu(dim=2):
    V, u, v = _scalar(dim)
    lam = Constant(V.ufl_domain())
    F = inner(grad(u), grad(v)) * dx - lam * exp(u) * v * dx
    return F, u, lambda d, form: {"f0": -d["constants"][0] * np.exp(d["u"]), "f1": d["u_x"]}


def conditionals(dim=2):
    V, u, v = _scalar(dim)
    x = SpatialCoordinate(V.ufl_domain())
    c = conditional(ufl.And(ufl.gt(u, 0.4), ufl.Not(ufl.le(x[0], 0.3))), u**2, 3 * u)
    c += conditional(ufl.Or(ufl.lt(u, 0.3), ufl.ge(x[1], 0.7)), ufl.max_value(u, 0.5), ufl.min_value(u, x[0]))
    c += abs(u - 0.5) + ufl.sign(u - 0.45) * u + conditional(ufl.eq(u, u), 1.0, 0.0) + conditional(ufl.ne(u, u), u, -u)
    F = c * v * dx + conditional(ufl.gt(u, 0.5), 2.0, 1.0) * inner(grad(u), grad(v)) * dx

    def expected(d, form):
        u, x = d["u"][:, 0], d["x"]
        f0 = np.where((u > 0.4) & ~(x[:, 0] <= 0.3), u**2, 3 * u)
        f0 = f0 + np.where((u < 0.3) | (x[:, 1] >= 0.7), np.maximum(u, 0.5), np.minimum(u, x[:, 0]))
        f0 = f0 + abs(u - 0.5) + np.sign(u - 0.45) * u + 1 - u
        return {"f0": f0[:, None], "f1": np.where(u > 0.5, 2.0, 1.0)[:, None, None] * d["u_x"]}

    return F, u, expected


MATH = {
    "sqrt": np.sqrt, "exp": np.exp, "ln": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": _erf,
}  # fmt: skip


def math_functions(dim=2):
    _, u, v = _scalar(dim)
    f = Function(u.ufl_function_space())
    terms = sum((k + 1) * getattr(ufl, name)(u) for k, name in enumerate(MATH))
    F = (terms + ufl.atan2(u, f) + u**f + u**-2 + u**2.75 + u**-0.25 + u**1.3 + 2.0**u) * v * dx

    def expected(d, form):
        u, a = d["u"], d["a"]
        f0 = sum((k + 1) * function(u) for k, function in enumerate(MATH.values()))
        return {"f0": f0 + np.arctan2(u, a) + u**a + u**-2 + u**2.75 + u**-0.25 + u**1.3 + 2.0**u, "f1": 0}

    return F, u, expected


def tensor_valued(dim=2):
    V = Space(make_mesh(dim), 1, (dim, 3))
    u, v, b = Function(V), TestFunction(V), Constant(V.ufl_domain(), (dim, 3))
    F = inner(inner(u, u) * u - b, v) * dx + inner(grad(u), grad(v)) * dx

    def expected(d, form):
        return {"f0": (d["u"] ** 2).sum(1, keepdims=True) * d["u"] - d["constants"], "f1": d["u_x"]}

    return F, u, expected


def coefficient_gradients(dim=3):
    V, u, v = _scalar(dim)
    velocity, f = Function(Space(V.ufl_domain(), 2, (dim,))), Function(V)
    F = (dot(velocity, grad(u)) + div(velocity) * u + dot(grad(f), grad(f))) * v * dx + u * inner(grad(f), grad(v)) * dx

    def expected(d, form):
        first = form.coefficient_offsets
        i, j = (first[form.coefficients.index(c)] for c in (velocity, f))
        divergence = np.trace(d["a_x"][:, i : i + dim], axis1=1, axis2=2)
        f0 = np.einsum("pd,pd->p", d["a"][:, i : i + dim], d["u_x"][:, 0]) + divergence * d["u"][:, 0]
        f0 = f0 + (d["a_x"][:, j] ** 2).sum(1)
        return {"f0": f0[:, None], "f1": d["u"][:, :, None] * d["a_x"][:, j : j + 1]}

    return F, u, expected


def coordinates(dim=2):
    V, u, v = _scalar(dim)
    x = SpatialCoordinate(V.ufl_domain())
    F = dot(x, x) * inner(grad(u), grad(v)) * dx - ufl.sin(x[0]) * x[dim - 1] * v * dx

    def expected(d, form):
        x = d["x"]
        return {"f0": -(np.sin(x[:, 0]) * x[:, -1])[:, None], "f1": (x**2).sum(1)[:, None, None] * d["u_x"]}

    return F, u, expected


def advection(dim=2):
    V, u, v = _vector(dim)
    b = Constant(V.ufl_domain(), (dim,))
    F = inner(dot(grad(u), u), v) * dx + div(u) * div(v) * dx - inner(ufl.outer(b, b), grad(v)) * dx

    def expected(d, form):
        divergence = np.trace(d["u_x"], axis1=1, axis2=2)[:, None, None]
        b = d["constants"]
        return {"f0": np.einsum("pcd,pd->pc", d["u_x"], d["u"]), "f1": divergence * np.eye(dim) - np.outer(b, b)}

    return F, u, expected


def curl_curl(dim=3):
    _, u, v = _vector(dim)
    F = inner(ufl.curl(u), ufl.curl(v)) * dx + inner(ufl.cross(u, ufl.curl(u)), v) * dx

    def expected(d, form):
        G = d["u_x"]
        f1 = G - G.transpose(0, 2, 1)
        curl = np.stack([f1[:, 2, 1], f1[:, 0, 2], f1[:, 1, 0]], axis=1)
        return {"f0": np.cross(d["u"], curl), "f1": f1}

    return F, u, expected


CASES = {
    "variable Poisson 1D": lambda: variable_poisson(1),
    "variable Poisson 2D": lambda: variable_poisson(2),
    "nonlinear diffusion": nonlinear_diffusion,
    "p-Laplace 3.5": lambda: p_laplace(2, 3.5),
    "p-Laplace 1.7": lambda: p_laplace(3, 1.7),
    "elasticity 2D": lambda: elasticity(2),
    "elasticity 3D": lambda: elasticity(3),
    "neo-Hookean 2D": lambda: neo_hookean(2),
    "neo-Hookean 3D": lambda: neo_hookean(3),
    "energy": energy,
    "Bratu": bratu,
    "conditionals": conditionals,
    "math functions": math_functions,
    "tensor-valued": tensor_valued,
    "coefficient gradients": coefficient_gradients,
    "coordinates": coordinates,
    "advection": advection,
    "curl-curl": curl_curl,
}
