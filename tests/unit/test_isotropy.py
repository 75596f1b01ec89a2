"""Which actions treat all directions of space alike."""

import numpy as np
import pytest
import ufl
from random_meshes import random_cells
from ufl import dx, grad, inner

from femgpu import Constant, Function, FunctionSpace, coordinates
from femgpu.forms import lower_form

ISOTROPIC = {
    "Laplacian": lambda u, v, a, b, c: inner(grad(u), grad(v)) * dx,
    "conductivity": lambda u, v, a, b, c: (1 + a**2) * c * inner(grad(u), grad(v)) * dx,
    "with a mass": lambda u, v, a, b, c: -a * inner(grad(u), grad(v)) * dx - ufl.exp(-inner(u, u)) * inner(u, v) * dx,
    "cross diffusion": lambda u, v, a, b, c: inner(grad(u) + a * grad(u[1] * ufl.as_vector([1, 2])), grad(v)) * dx,
}
OTHER = {
    "mass": lambda u, v, a, b, c: inner(u, v) * dx,
    "tensor": lambda u, v, a, b, c: inner(ufl.dot(grad(u), ufl.diag(b)), grad(v)) * dx,
    "one direction": lambda u, v, a, b, c: inner(u.dx(0), v.dx(0)) * dx,
    "mixed derivative": lambda u, v, a, b, c: (inner(grad(u), grad(v)) + inner(u.dx(0), v.dx(1))) * dx,
    "elasticity": lambda u, v, a, b, c: inner(ufl.sym(grad(u)), grad(v)) * dx,
    "divergence": lambda u, v, a, b, c: (inner(grad(u), grad(v)) + ufl.div(u) * ufl.div(v)) * dx,
    "convection": lambda u, v, a, b, c: (inner(grad(u), grad(v)) + inner(ufl.dot(grad(u), b), v)) * dx,
    "conservative convection": lambda u, v, a, b, c: inner(grad(u) + ufl.outer(u, b), grad(v)) * dx,
    "equal in all directions, no gradient": lambda u, v, a, b, c: inner(u[0] * ufl.as_tensor([[c] * 2] * 2), grad(v)) * dx,
    "p-Laplacian": lambda u, v, a, b, c: inner(grad(u), grad(u)) * inner(grad(u), grad(v)) * dx,
    "conductivity by another's gradient": lambda u, v, a, b, c: a.dx(0) * inner(grad(u), grad(v)) * dx,
    "conductivity by the state": lambda u, v, a, b, c: (1 + inner(u, u)) * inner(grad(u), grad(v)) * dx,
    "second derivatives": lambda u, v, a, b, c: (inner(grad(u), grad(v)) + inner(grad(grad(u)), grad(grad(v)))) * dx,
}


@pytest.mark.parametrize("name", [*ISOTROPIC, *OTHER])
def test_isotropic_actions(name, rng):
    dm = random_cells("quadrilateral", 2, rng, "distorted")
    V, A = FunctionSpace(dm, "Lagrange", 2, shape=(2,)), FunctionSpace(dm, "Lagrange", 1)
    u, a = Function(V), Function(A)
    form = lower_form((ISOTROPIC | OTHER)[name](u, ufl.TestFunction(V), a, coordinates(dm), Constant(dm, 2.0)), u)
    (integral,) = form.integrals
    assert integral.action.isotropic == (name in ISOTROPIC)
    assert not (integral.residual.isotropic or integral.jacobian.isotropic)


@pytest.mark.parametrize("name", ISOTROPIC)
def test_isotropic_fluxes_turn_with_the_gradients(name, rng):
    dm = random_cells("quadrilateral", 2, rng, "distorted")
    V, A = FunctionSpace(dm, "Lagrange", 2, shape=(2,)), FunctionSpace(dm, "Lagrange", 1)
    u, a = Function(V), Function(A)
    form = lower_form(ISOTROPIC[name](u, ufl.TestFunction(V), a, coordinates(dm), Constant(dm, 2.0)), u)
    data = {array: rng.uniform(-1, 1, (5, 2)) for array in "uw"} | {"a": rng.uniform(-1, 1, (5, 1)), "constants": rng.random(1)}
    gradients, turn = rng.uniform(-1, 1, (5, 2, 2)), np.linalg.qr(rng.normal(size=(2, 2)))[0]
    evaluate = form.integrals[0].action.evaluate
    given, turned = (evaluate(data | {"w_x": w_x}) for w_x in (gradients, gradients @ turn))
    np.testing.assert_allclose(turned["f1"], given["f1"] @ turn, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(turned.get("f0", 0), given.get("f0", 0))
