"""`-snes_test_jacobian`: the Jacobian is the derivative of the residual, Dirichlet rows included, matrix-free and assembled."""

import ctypes
import re

import numpy as np
import pytest
import ufl
from random_meshes import random_mesh
from ufl import ds, dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, coordinates

LINE = re.compile(r"\|\|J - Jfd\|\|_F/\|\|J\|\|_F = (\S+), \|\|J - Jfd\|\|_F = (\S+)")


def energy(u, v, x):
    """Symmetric: the derivative of an energy."""
    return ((1 + inner(grad(u), grad(u))) * inner(grad(u), grad(v)) + inner(u, u) * inner(u, v)) * dx(degree=6)


def transport(u, v, x):
    """Not symmetric: the coefficient depends on u, and there is a flow."""
    flow = ufl.as_vector([1.0 + x[1], *[ufl.sin(x[0])] * (len(x) - 1)])
    diffusion = (1 + inner(u, u)) * (1 + x[0]) * inner(grad(u), grad(v))
    return (diffusion + inner(ufl.dot(grad(u), flow), v) - ufl.exp(-inner(u, u)) * inner(u, v)) * dx(degree=6)


CASES = [
    ("tetrahedron", (2, 2, 1), 2, 1),
    ("quadrilateral", (3, 2), 2, 2),
    ("triangle", (3, 2), 3, 1),
    ("hexahedron", (2, 1, 2), 1, 3),
]


@pytest.mark.parametrize("jacobian", ["matfree", "assembled"])
@pytest.mark.parametrize("form", [energy, transport])
@pytest.mark.parametrize(("cell", "counts", "degree", "num_comp"), CASES)
def test_jacobian_is_the_derivative(rng, set_options, capfd, cell, counts, degree, num_comp, form, jacobian):
    dm = random_mesh(cell, counts, seed=int(rng.integers(2**31)))
    V = FunctionSpace(dm, "Lagrange", degree, shape=() if num_comp == 1 else (num_comp,))
    u = Function(V)
    u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    bcs = [DirichletBC(V, lambda x: np.tile(1 + x[0], (num_comp, 1)), left(dm))]
    check(form(u, ufl.TestFunction(V), coordinates(dm)), u, bcs, jacobian, set_options, capfd)


def stabilised_flow(w, tests, x, n, h):
    """Velocity and pressure with SUPG, which has second derivatives, and nonlinear conditions on the boundary."""
    (u, p), (v, q) = ufl.split(w), tests
    strong = ufl.dot(grad(u), u) - (1 + p**2) * ufl.div(grad(u)) + grad(p)
    cell = (1 + p**2) * inner(grad(u), grad(v)) + inner(ufl.dot(grad(u), u), v) - p * ufl.div(v) + (ufl.div(u) + p**3) * q
    supg = h / ufl.sqrt(1 + inner(u, u)) * inner(strong, ufl.dot(grad(v), u) + grad(q))
    wall = inner(u, n) * inner(u, v) + ufl.exp(-(p**2)) * inner(ufl.dot(grad(u), n), v) + x[0] * p**2 * q
    return (cell + supg) * dx(degree=5) + wall * ds(degree=4)


@pytest.mark.parametrize("jacobian", ["matfree", "assembled"])
def test_jacobian_of_a_mixed_form_with_facets_is_the_derivative(rng, set_options, capfd, jacobian):
    dm = random_mesh("quadrilateral", (2, 2), seed=int(rng.integers(2**31)))
    W = MixedSpace({"velocity": FunctionSpace(dm, "Lagrange", 2, shape=2), "pressure": FunctionSpace(dm, "Lagrange", 1)})
    w = Function(W)
    w.vec.setArray(rng.uniform(-1, 1, w.vec.getLocalSize()))
    region = left(dm)
    bcs = [
        DirichletBC(W.sub("velocity"), lambda x: 1 + x[0], region, component=1),
        DirichletBC(W.sub("pressure"), 0.5, region),
    ]
    domain = W.ufl_domain()
    F = stabilised_flow(w, ufl.TestFunctions(W), coordinates(dm), ufl.FacetNormal(domain), ufl.CellDiameter(domain))
    check(F, w, bcs, jacobian, set_options, capfd)


def check(F, u, bcs, jacobian, set_options, capfd):
    """Lets PETSc compare the Jacobian with differences of the residual."""
    set_options("test_", snes_test_jacobian=True, snes_max_it=1, femgpu_jacobian=jacobian, pc_type="none")
    # PETSc compares before the first step, which may lead anywhere.
    set_options("test_", ksp_type="preonly", snes_linesearch_type="basic", snes_convergence_test="skip")
    problem = NonlinearProblem(F, u, bcs=bcs, options_prefix="test_")
    assert problem.assembled == (jacobian == "assembled")
    num_rows = len(problem.operator.rows.owned)
    assert 0 < num_rows < u.space.num_dofs
    capfd.readouterr()
    problem.solve()
    ctypes.CDLL(None).fflush(None)
    printed = capfd.readouterr().out
    found = [(float(ratio), float(size)) for ratio, size in LINE.findall(printed)]
    print(f"FEMGPU: {jacobian}, {num_rows} rows of {u.space.num_dofs},", found)
    assert found and all(ratio < 1e-6 for ratio, _ in found), printed[-2000:]


def left(dm):
    """Marks the facets at x = 0 in a label of its own; a region for DirichletBC."""
    dm.createLabel("left")
    label = dm.getLabel("left")
    start, end = dm.getHeightStratum(1)
    for facet in range(start, end):
        if dm.getSupportSize(facet) == 1 and dm.computeCellGeometryFVM(facet)[1][0] < 1e-9:
            label.setValue(facet, 1)
    return ("left", 1)
