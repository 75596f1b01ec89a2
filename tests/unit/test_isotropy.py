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
    "neighbouring derivatives": lambda u, v, a, b, c: (u[0].dx(1) * v[0].dx(0) + u[1].dx(0) * v[0].dx(1)) * dx,
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


def lowered(F, cell, rng):
    """A form of two components on a mesh of random cells."""
    dm = random_cells(cell, 2, rng, "distorted")
    V, A = FunctionSpace(dm, "Lagrange", 2, shape=(2,)), FunctionSpace(dm, "Lagrange", 1)
    u, a = Function(V), Function(A)
    return lower_form(F(u, ufl.TestFunction(V), a, coordinates(dm), Constant(dm, 2.0)), u)


@pytest.mark.parametrize("name", [*ISOTROPIC, *OTHER])
def test_isotropic_actions(name, rng):
    (integral,) = lowered((ISOTROPIC | OTHER)[name], "quadrilateral", rng).integrals
    assert integral.action.isotropic == (name in ISOTROPIC)
    assert not (integral.residual.isotropic or integral.jacobian.isotropic)


def test_derivatives_of_three_directions_one_after_the_other(rng):
    """Of two components: they follow each other in w_x as those of one component do."""

    def shifted(u, v, a, b, c):
        return (u[0].dx(1) * v[0].dx(0) + u[0].dx(2) * v[0].dx(1) + u[1].dx(0) * v[0].dx(2)) * dx

    for F, isotropic in ((shifted, False), (ISOTROPIC["with a mass"], True), (ISOTROPIC["cross diffusion"], True)):
        assert lowered(F, "hexahedron", rng).integrals[0].action.isotropic == isotropic
    form = lowered(lambda *given: shifted(*given) + ISOTROPIC["Laplacian"](*given), "hexahedron", rng)
    assert not form.integrals[0].action.isotropic


def test_sums_that_share_all_their_terms(rng):
    """Nodes are looked at once, not once for each way to them."""

    def doubled(u, v, a, b, c):
        g = grad(u)
        for _ in range(30):
            g = g + c * g
        return inner(g, grad(v)) * dx

    assert lowered(doubled, "quadrilateral", rng).integrals[0].action.isotropic


@pytest.mark.parametrize("name", ISOTROPIC)
def test_isotropic_fluxes_turn_with_the_gradients(name, rng):
    form = lowered(ISOTROPIC[name], "quadrilateral", rng)
    data = {array: rng.uniform(-1, 1, (5, 2)) for array in "uw"} | {"a": rng.uniform(-1, 1, (5, 1)), "constants": rng.random(1)}
    gradients, turn = rng.uniform(-1, 1, (5, 2, 2)), np.linalg.qr(rng.normal(size=(2, 2)))[0]
    evaluate = form.integrals[0].action.evaluate
    given, turned = (evaluate(data | {"w_x": w_x}) for w_x in (gradients, gradients @ turn))
    np.testing.assert_allclose(turned["f1"], given["f1"] @ turn, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(turned.get("f0", 0), given.get("f0", 0))
