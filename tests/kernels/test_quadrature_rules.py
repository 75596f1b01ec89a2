"""Forms whose measures name a quadrature rule: lumped mass matrices, and kernels against their numpy twin."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_mesh, random_mixed
from ufl import ds, dx, grad, inner

import femgpu
from femgpu.errors import FormError
from femgpu.forms import lower_form
from femgpu.operators import make_terms, twin
from femgpu.options import Settings

COUNTS = {"interval": (5,), "triangle": (3, 2), "quadrilateral": (3, 2)}  # of other cells there are (2, 2, 1), all affine
LUMPED = [
    *((cell, 1, "vertex") for cell in ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism")),
    *((cell, degree, "GLL") for cell in ("interval", "quadrilateral", "hexahedron") for degree in (1, 2, 3, 4)),
    ("triangle", 1, "GLL"), ("prism", 1, "GLL"),
]  # fmt: skip


def random_plex(cell, rng, counts=None):
    return random_mesh(cell, counts or COUNTS.get(cell, (2, 2, 1)), int(rng.integers(2**31)), comm=PETSc.COMM_SELF)


def state(problem, rng):
    """A random state of a problem without conditions, set, and a random direction."""
    x, w = problem.u.vec.duplicate(), problem.u.vec.duplicate()
    for vec in (x, w):
        vec.setArray(rng.uniform(-1, 1, vec.getLocalSize()))
    return x, w


def summed(form, target, vectors):
    """Residual or action of all terms in numpy."""
    constants = np.concatenate([np.zeros(0), *(np.ravel(constant.value) for constant in form.constants)])
    total = np.zeros(form.space.num_local)
    for term in make_terms(form, Settings()):
        if (pointwise := term.pointwise(target)) is not None:
            total += twin.scatter(term, twin.element_vectors(term, pointwise, vectors, constants))
    return total


@pytest.mark.parametrize(("cell", "degree", "scheme"), LUMPED)
def test_mass_matrices_are_diagonal(cell, degree, scheme, rng):
    """On cells and on the boundary, and they weigh constants as the full matrix does."""
    V = femgpu.FunctionSpace(random_plex(cell, rng), "Lagrange", degree)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    for measure in (dx, ds):
        lumped, full = (lower_form(u * v * kind, u) for kind in (measure(scheme=scheme), measure(degree=4 * degree + 3)))
        assert [entry.scheme for entry in (*lumped.integrals, *full.integrals)] == [scheme, "default"]
        sums = []
        for form in (lumped, full):
            diagonal = np.zeros(V.num_local)
            for term in make_terms(form, Settings()):
                matrices = twin.element_matrices(term, term.integral.jacobian, {}, np.zeros(0))
                entries = np.einsum("eii->ei", matrices)
                if form is lumped:
                    others = matrices - entries[:, :, None] * np.eye(matrices.shape[1])
                    assert np.abs(others).max() < 1e-14 * np.abs(entries).max()
                diagonal += twin.scatter(term, matrices.sum(axis=2))
            sums.append(diagonal.sum())
        assert sums[0] == pytest.approx(sums[1], rel=1e-13)


@pytest.mark.parametrize("degree", (2, 3, 5))
def test_boundary_masses_of_triangles_are_diagonal(degree, rng):
    """PETSc's nodes on the edges of simplices are Gauss-Lobatto points."""
    V = femgpu.FunctionSpace(random_plex("triangle", rng), "Lagrange", degree)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    for term in make_terms(lower_form(u * v * ds(scheme="GLL"), u), Settings()):
        matrices = twin.element_matrices(term, term.integral.jacobian, {}, np.zeros(0))
        diagonal = np.einsum("eii->ei", matrices)
        assert np.abs(matrices - diagonal[:, :, None] * np.eye(matrices.shape[1])).max() < 1e-14 * diagonal.max()
        assert (np.count_nonzero(diagonal > 1e-12 * diagonal.max(), axis=1) == degree + 1).all()


@pytest.mark.parametrize(("cell", "degree", "scheme"), [("hexahedron", 2, "GLL"), ("tetrahedron", 1, "vertex")])
def test_assembled_mass_is_diagonal(cell, degree, scheme, set_options, rng):
    set_options("lump_", femgpu_jacobian="assembled")
    V = femgpu.FunctionSpace(random_plex(cell, rng), "Lagrange", degree, shape=(2,))
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    problem = femgpu.NonlinearProblem(inner(u, v) * dx(scheme=scheme) - v[0] * dx, u, options_prefix="lump_")
    problem.linearise(problem.u.vec)
    rows, columns, values = problem.jacobian.getValuesCSR()
    numbers = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
    assert np.abs(values[columns != numbers]).max() < 1e-14 * np.abs(values).max()
    assert values[columns == numbers].min() > 0


@pytest.mark.parametrize(("cell", "degree", "more"), [("hexahedron", 2, {}), ("quadrilateral", 3, {"quadrature_degree": 4})])
def test_kernels_with_gll_equal_the_twin(cell, degree, more, rng):
    """Cells and facets; other rules in the same form stay integrals of their own."""
    metadata = {"quadrature_rule": "GLL"} | more
    dm = random_plex(cell, rng, (2, 2, 2) if cell == "hexahedron" else (3, 2))
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, c = femgpu.Function(V), ufl.TestFunction(V), femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1), name="c")
    c.vec.setArray(rng.uniform(0.5, 1.5, c.vec.getLocalSize()))
    F = (1 + c * u**2) * inner(grad(u), grad(v)) * dx(metadata=metadata) + u**3 * v * dx
    F += c * u * v * dx(metadata={"quadrature_rule": "vertex"}) + u**2 * v * ds(metadata=metadata) - v * ds
    form = lower_form(F, u)
    given = metadata.get("quadrature_degree", 2 * degree - 1)
    schemes = [(entry.type, entry.scheme, entry.degree) for entry in form.integrals if entry.scheme != "default"]
    assert sorted(schemes) == [("cell", "GLL", given), ("cell", "vertex", 1), ("exterior_facet", "GLL", given)]
    assert len(form.integrals) == 5
    names = {term.quadrature.name for term in make_terms(form, Settings())}
    assert {f"gll{-(-(given + 3) // 2)}", "vertex"} < names and len(names) == 4
    problem = femgpu.NonlinearProblem(F, u)
    x, w = state(problem, rng)
    got = x.duplicate()
    vectors = {"u": x.array_r, "w": w.array_r, "a0": c.local_array()}
    problem.residual(x, got)
    expected = summed(problem.form, "residual", vectors)
    np.testing.assert_allclose(got.array_r, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    problem.linearise(x)
    problem.jacobian.mult(w, got)
    expected = summed(problem.form, "action", vectors)
    np.testing.assert_allclose(got.array_r, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_functionals_by_named_rules(rng):
    """The nodes' values weighted, for the degree of the Functions; without Functions what the integrand asks for."""
    V = femgpu.FunctionSpace(random_plex("quadrilateral", rng), "Lagrange", 3)
    u, x = femgpu.Function(V), femgpu.coordinates(V.dm)
    u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    weights = femgpu.Function(V)
    problem = femgpu.NonlinearProblem((weights - 1) * ufl.TestFunction(V) * dx(scheme="GLL"), weights)
    lumped = weights.vec.duplicate()
    problem.residual(weights.vec, lumped)
    assert femgpu.assemble(u**4 * dx(scheme="GLL")) == pytest.approx(-lumped.array_r @ u.vec.array_r**4, rel=1e-13)
    assert femgpu.assemble(x[0] ** 3 * x[1] * dx(scheme="GLL")) == pytest.approx(1 / 8, rel=1e-13)
    assert femgpu.assemble(x[0] ** 2 * dx(scheme="vertex", degree=1)) > 1 / 3 + 1e-3


def test_rules_refused_on_a_mesh(rng):
    """Where the cells have no such rule, by the cell's name and before anything is computed."""
    for dm, cell, degree in (
        (random_plex("triangle", rng), "triangle", 3),
        (random_mixed("triangle+quadrilateral", (3, 2), 1, comm=PETSc.COMM_SELF), "triangle", 3),
    ):
        V = femgpu.FunctionSpace(dm, "Lagrange", 2)
        u, v = femgpu.Function(V), ufl.TestFunction(V)
        with pytest.raises(FormError, match=f'quadrature_rule "GLL" of degree {degree} on a {cell}'):
            femgpu.NonlinearProblem(u * v * dx(scheme="GLL"), u)
        # Its edges have the rule.
        terms = make_terms(lower_form(u * v * ds(scheme="GLL"), u), Settings())
        assert {term.quadrature.name for term in terms} == {"gll3"}
