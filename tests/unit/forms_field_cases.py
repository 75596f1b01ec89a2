"""Weak forms on several fields, on facets and with second derivatives, with their pointwise functions by hand in numpy.

On facets and cells together the sum of all integrals is compared, at points that have a normal.
"""

from __future__ import annotations

import numpy as np
import ufl
from forms_support import Constant, Function, Mixed, Space, make_mesh, part
from ufl import (
    FacetNormal,
    Identity,
    SpatialCoordinate,
    TestFunction,
    TestFunctions,
    as_tensor,
    conditional,
    derivative,
    div,
    dot,
    ds,
    dx,
    grad,
    indices,
    inner,
    split,
    sym,
    tr,
)


def _eye(dim):
    return np.eye(dim)


def stokes(dim=2, parts=False):
    W = Mixed(make_mesh(dim), velocity=("P", 2, (dim,)), pressure=("P", 1, ()))
    w, nu = Function(W), Constant(W.ufl_domain())
    u, p = (part(w, "velocity"), part(w, "pressure")) if parts else split(w)
    v, q = TestFunctions(W)
    F = inner(nu * grad(u) - p * Identity(dim), grad(v)) * dx - div(u) * q * dx + inner(dot(grad(u), u), v) * dx

    def expected(d, form):
        G, u, p = d["u_x"][:, :dim], d["u"][:, :dim], d["u"][:, dim]
        f1 = d["constants"][0] * G - p[:, None, None] * _eye(dim)
        f0 = np.einsum("pcd,pd->pc", G, u)
        zero = np.zeros_like(f1[:, :1])
        return {"f0": np.c_[f0, -np.trace(G, axis1=1, axis2=2)], "f1": np.concatenate([f1, zero], axis=1)}

    return F, w, expected


def energy_of_fields(parts):
    """Two species whose energy is given; the derivative is taken with respect to the mixed Function."""
    W = Mixed(make_mesh(2), a=("P", 2, ()), b=("DG", 1, ()))
    w = Function(W)
    a, b = (part(w, "a"), part(w, "b")) if parts else split(w)
    F = derivative((a**2 * b**3 + inner(grad(a), grad(b))) * dx + a * b * ds, w, TestFunction(W))

    def expected(d, form):
        a, b = d["u"].T
        f0 = np.stack([2 * a * b**3 + b, 3 * a**2 * b**2 + a], axis=1)
        return {"f0": f0, "f1": d["u_x"][:, ::-1]}

    return F, w, expected


def hellinger_reissner(dim=2):
    """A tensor-valued field with a vector-valued and a scalar one; a coefficient in such a space too."""
    fields = {"stress": ("DG", 1, (dim, dim)), "displacement": ("P", 2, (dim,)), "damage": ("P", 1, ())}
    W = Mixed(make_mesh(dim), **fields)
    w, old = Function(W), Function(W)
    (s, u, d), (s0, _, d0) = split(w), split(old)
    t, v, e = TestFunctions(W)
    F = inner(s - (1 - d) ** 2 * sym(grad(u)), t) * dx + inner(s, grad(v)) * dx + (d - d0) * e * dx
    F += inner(s0, s) * inner(grad(part(old, "damage")), grad(e)) * dx

    def expected(data, form):
        n, size = len(data["x"]), dim * dim
        s, d, G = data["u"][:, :size].reshape(n, dim, dim), data["u"][:, -1], data["u_x"][:, size : size + dim]
        strain = (G + G.transpose(0, 2, 1)) / 2
        f0 = np.zeros_like(data["u"])
        f0[:, :size] = (s - ((1 - d) ** 2)[:, None, None] * strain).reshape(n, size)
        f0[:, -1] = d - data["a"][:, -1]
        f1 = np.zeros_like(data["u_x"])
        f1[:, size : size + dim] = s
        f1[:, -1] = (data["a"][:, :size] * data["u"][:, :size]).sum(1)[:, None] * data["a_x"][:, -1]
        return {"f0": f0, "f1": f1}

    return F, w, expected


def supg(dim=2):
    V = Space(make_mesh(dim), 2)
    u, v, b, f, tau = Function(V), TestFunction(V), Function(Space(V.ufl_domain(), 1, (dim,))), Function(V), Function(V)
    eps = Constant(V.ufl_domain())
    strong = -eps * div(grad(u)) + dot(b, grad(u)) + u**3 - div(grad(f))
    F = eps * inner(grad(u), grad(v)) * dx + (dot(b, grad(u)) + u**3 - div(grad(f))) * v * dx + tau * strong * dot(b, grad(v)) * dx

    def expected(d, form):
        i, j, k = (form.coefficient_offsets[form.coefficients.index(c)] for c in (b, f, tau))
        velocity, laplace_f = d["a"][:, i : i + dim], np.trace(d["a_xx"][:, j], axis1=1, axis2=2)
        f0 = (velocity * d["u_x"][:, 0]).sum(1) + d["u"][:, 0] ** 3 - laplace_f
        strong = f0 - d["constants"][0] * np.trace(d["u_xx"][:, 0], axis1=1, axis2=2)
        f1 = d["constants"][0] * d["u_x"][:, 0] + (d["a"][:, k] * strong)[:, None] * velocity
        return {"f0": f0[:, None], "f1": f1[:, None]}

    return F, u, expected


def second_derivatives(dim=3):
    """Nonlinear in all second derivatives of a vector, mixed ones in either order."""
    V = Space(make_mesh(dim), 3, (dim,))
    u, v = Function(V), TestFunction(V)
    H = grad(grad(u))
    i, j, k = indices(3)
    F = H[i, j, k] * H[i, k, j] * v[0] * dx + H[0, 1, 2] * u[1].dx(2).dx(0) * v[1] * dx
    F += inner(as_tensor(H[i, j, j], (i,)), dot(grad(v), u)) * dx
    F += (u[2] * div(grad(v[0])) + H[0, 1, 1] * v[2].dx(2).dx(0) + u[0] * v[2].dx(0).dx(2)) * dx

    def expected(d, form):
        H, u = d["u_xx"], d["u"]
        f2 = np.zeros_like(H)
        f2[:, 0] = u[:, 2, None, None] * np.eye(dim)
        f2[:, 2, 0, 2] = H[:, 0, 1, 1] + u[:, 0]  # half of the symmetric matrix has both
        f0 = np.zeros_like(u)
        f0[:, 0] = (H**2).sum((1, 2, 3))
        f0[:, 1] = H[:, 0, 1, 2] * H[:, 1, 0, 2]
        return {"f0": f0, "f1": np.trace(H, axis1=2, axis2=3)[:, :, None] * u[:, None, :], "f2": f2}

    return F, u, expected


def robin(dim=2):
    """Robin, Neumann with a tensor and nonlinear terms on several ids and everywhere, beside a cell term."""
    V = Space(make_mesh(dim), 2)
    mesh = V.ufl_domain()
    u, v, kappa, g = Function(V), TestFunction(V), Function(Space(mesh, 1)), Function(Space(mesh, 3, (dim, dim)))
    h, n, x = Constant(mesh), FacetNormal(mesh), SpatialCoordinate(mesh)
    F = kappa * inner(grad(u), grad(v)) * dx + h * (u - x[0]) * v * ds + u**4 * v * ds(3)
    F += dot(dot(g, n), n) * u * v * ds((1, 3)) - kappa * dot(grad(u), n) * v * ds(2) - u * dot(grad(v), n) * ds(2)

    def expected(d, form):
        i, j = (form.coefficient_offsets[form.coefficients.index(c)] for c in (kappa, g))
        u, n = d["u"][:, 0], d["n"]
        k, tensor = d["a"][:, i], d["a"][:, j : j + dim * dim].reshape(-1, dim, dim)
        f0 = d["constants"][0] * (u - d["x"][:, 0]) + u**4 - k * (d["u_x"][:, 0] * n).sum(1)
        f0 = f0 + 2 * np.einsum("pij,pi,pj->p", tensor, n, n) * u  # ids 1 and 3
        return {"f0": f0[:, None], "f1": k[:, None, None] * d["u_x"] - (u[:, None] * n)[:, None]}

    return F, u, expected


def contact(dim=3):
    """A follower load and a penalty on facets: conditionals, min, max, abs, sign and powers of traces."""
    V = Space(make_mesh(dim), 2, (dim,))
    u, v, n = Function(V), TestFunction(V), FacetNormal(V.ufl_domain())
    gap = dot(u, n)
    pressure = ufl.max_value(gap, 0.1) ** 1.5 + ufl.min_value(gap, u[0]) + abs(gap) ** 3 + ufl.sign(gap) * u[1] ** -0.5
    F = inner(grad(u), grad(v)) * dx + pressure * dot(n, v) * ds + conditional(ufl.ge(gap, 0.2), gap**2, 0.0) * v[0] * ds(1)

    def expected(d, form):
        u, n = d["u"], d["n"]
        gap = (u * n).sum(1)
        p = np.maximum(gap, 0.1) ** 1.5 + np.minimum(gap, u[:, 0]) + abs(gap) ** 3 + np.sign(gap) * u[:, 1] ** -0.5
        f0 = p[:, None] * n
        f0[:, 0] += np.where(gap >= 0.2, gap**2, 0)
        return {"f0": f0, "f1": d["u_x"]}

    return F, u, expected


def tensors(dim=2):
    """A Constant of rank four and a tensor-valued Function with its divergence."""
    V = Space(make_mesh(dim), 2, (dim,))
    mesh = V.ufl_domain()
    u, v, C, T = Function(V), TestFunction(V), Constant(mesh, (dim,) * 4), Function(Space(mesh, 1, (dim, dim)))
    i, j, k, m = indices(4)
    stress = as_tensor(C[i, j, k, m] * sym(grad(u))[k, m], (i, j)) + dot(T, T.T)
    F = inner(stress, grad(v)) * dx + dot(div(T), v) * dx + tr(T) * dot(u, v) * ds

    def expected(d, form):
        C, T, Tx = d["constants"].reshape((dim,) * 4), d["a"].reshape(-1, dim, dim), d["a_x"].reshape(-1, dim, dim, dim)
        strain = (d["u_x"] + d["u_x"].transpose(0, 2, 1)) / 2
        f1 = np.einsum("ijkm,pkm->pij", C, strain) + T @ T.transpose(0, 2, 1)
        return {"f0": np.einsum("pijj->pi", Tx) + np.trace(T, axis1=1, axis2=2)[:, None] * d["u"], "f1": f1}

    return F, u, expected


def deep(levels=30):
    """Nested functions of the state in a mixed space, on facets."""
    W = Mixed(make_mesh(2), a=("P", 1, ()), b=("P", 1, ()))
    w = Function(W)
    a, b = split(w)
    e = a
    for k in range(levels):
        e = ufl.sin(e) + b / (k + 2)
    F = e * TestFunctions(W)[1] * ds + inner(grad(e), grad(TestFunctions(W)[0])) * dx(degree=2)

    def expected(d, form):
        (a, b), (a_x, b_x) = d["u"].T, d["u_x"].transpose(1, 0, 2)
        e, e_x = a, a_x
        for k in range(levels):
            e, e_x = np.sin(e) + b / (k + 2), np.cos(e)[:, None] * e_x + b_x / (k + 2)
        return {"f0": np.stack([0 * e, e], axis=1), "f1": np.stack([e_x, 0 * e_x], axis=1)}

    return F, w, expected


FIELD_CASES = {
    "Stokes 2D": stokes,
    "Stokes 3D": lambda: stokes(3),
    "Stokes by parts": lambda: stokes(2, parts=True),
    "energy of two species": lambda: energy_of_fields(False),
    "energy by parts": lambda: energy_of_fields(True),
    "tensor, vector and scalar field": hellinger_reissner,
    "SUPG 2D": supg,
    "SUPG 3D": lambda: supg(3),
    "second derivatives": second_derivatives,
    "Robin": robin,
    "Robin 3D": lambda: robin(3),
    "Robin 1D": lambda: robin(1),
    "contact": contact,
    "tensors": tensors,
    "deep": deep,
}
