"""Vectors and matrices of forms: scikit-fem's, those of residuals, and with boundary conditions."""

import numpy as np
import pytest
import skfem
import ufl
from petsc4py import PETSc
from scipy.sparse import csr_matrix
from skfem.helpers import dot
from skfem.helpers import grad as slope
from ufl import div, ds, dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError
from femgpu.mesh import Mesh

FORMS = {
    "matrix": lambda u, v, x, dm: (
        (x[0] * inner(grad(u), grad(v)) + u.dx(0) * v + femgpu.Constant(dm, 2.0) * u * v) * dx + x[1] * u * v * ds
    ),
    "vector": lambda v, x: (x[0] * v + v.dx(1)) * dx + x[1] * v * ds,
}


@skfem.BilinearForm
def volume_matrix(u, v, w):
    return w.x[0] * dot(slope(u), slope(v)) + slope(u)[0] * v + 2.0 * u * v


@skfem.BilinearForm
def surface_matrix(u, v, w):
    return w.x[1] * u * v


@skfem.LinearForm
def volume_vector(v, w):
    return w.x[0] * v + slope(v)[1]


@skfem.LinearForm
def surface_vector(v, w):
    return w.x[1] * v


def dense(mat):
    indptr, indices, values = mat.getValuesCSR()
    return csr_matrix((values, indices, indptr)).toarray()


def test_matrix_and_vector_are_those_of_scikit_fem(rng):
    dm = femgpu.mesh.box((3, 2), cell="triangle", upper=(2, 1))
    mesh = Mesh.of(dm)
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v, x = ufl.TrialFunction(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    A, b = femgpu.assemble(FORMS["matrix"](u, v, x, dm)), femgpu.assemble(FORMS["vector"](v, x))
    there = skfem.MeshTri(mesh.coords.T.copy(), mesh.block.coord_dofs.T.copy())
    cells = skfem.CellBasis(there, skfem.ElementTriP2(), intorder=6)
    facets = skfem.FacetBasis(there, skfem.ElementTriP2(), intorder=6)
    matrix = volume_matrix.assemble(cells) + surface_matrix.assemble(facets)
    vector = volume_vector.assemble(cells) + surface_vector.assemble(facets)
    positions, points = V.nodes()
    distance = np.abs(points[:, None] - cells.doflocs.T).sum(axis=2)
    order = distance.argmin(axis=1)
    assert distance.min(axis=1).max() < 1e-12
    np.testing.assert_array_equal(positions, np.arange(V.num_dofs))
    np.testing.assert_allclose(dense(A), matrix.toarray()[np.ix_(order, order)], atol=1e-13)
    np.testing.assert_allclose(b.array, vector[order], atol=1e-13)


@pytest.mark.parallel([1, 2])
def test_matrix_times_vector_is_the_residual(rng):
    """Of a form on a mixed space, with a coefficient, a component of whose unknown is prescribed."""
    dm = femgpu.mesh.box((3, 3), cell="quadrilateral")
    velocity, pressure = femgpu.FunctionSpace(dm, "Lagrange", 2, 2), femgpu.FunctionSpace(dm, "Lagrange", 1)
    W = femgpu.MixedSpace({"velocity": velocity, "pressure": pressure})
    kappa = femgpu.Function(pressure, "kappa")
    kappa.interpolate(lambda x: 1 + x[0])
    (v, q), w = ufl.TestFunctions(W), femgpu.Function(W)
    x = femgpu.coordinates(dm)

    def bilinear(u, p):
        return (kappa * inner(grad(u), grad(v)) - p * div(v) - q * div(u)) * dx

    linear = x[0] * v[1] * dx + v[0] * ds(2)
    bc = femgpu.DirichletBC(W.sub(0), x[1] ** 2, 4, component=0)
    A, b = femgpu.assemble(bilinear(*ufl.TrialFunctions(W)) == linear, bc, diagonal=3.0)
    problem = femgpu.NonlinearProblem(bilinear(*ufl.split(w)) - linear, w, [bc])
    w.vec.setArray(rng.standard_normal(w.vec.getLocalSize()))
    rows = problem.operator.rows
    residual, product = w.vec.duplicate(), w.vec.duplicate()
    problem.residual(w.vec, residual)
    A.mult(w.vec, product)
    product.axpy(-1.0, b)
    # Boundary rows: the diagonal here, the mean of the form's diagonal in a problem.
    np.testing.assert_allclose(product.array[rows.owned], 3.0 * (w.vec.array[rows.owned] - rows.owned_values), atol=1e-12)
    free = np.ones(len(product.array), bool)
    free[rows.owned] = False
    assert np.abs(product.array - residual.array)[free].max(initial=0.0) < 1e-12
    assert A.isSymmetric(1e-12)
    # A form alone is the same without what the boundary values add.
    plain = femgpu.assemble(linear, femgpu.DirichletBC(W.sub("velocity"), 0.0, 4, component=0))
    assert np.all(plain.array[rows.owned] == 0.0)
    assert femgpu.assemble(linear).sum() == pytest.approx(0.5 + 1.0, rel=1e-13)
    zero = femgpu.assemble(bilinear(*ufl.TrialFunctions(W)), [bc], diagonal=0.0)
    zero.getDiagonal(product)
    assert np.all(product.array[rows.owned] == 0.0)


def test_smallest_eigenvalue_of_the_laplacian():
    """K x = lambda M x with boundary conditions in both: the diagonals keep prescribed dofs out of the way."""
    dm = femgpu.mesh.box((12,), cell="interval")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    bc = femgpu.DirichletBC(V, 0.0)
    K, M = femgpu.assemble(inner(grad(u), grad(v)) * dx, bc), femgpu.assemble(u * v * dx, bc, diagonal=0.0)
    values = np.linalg.eigvals(np.linalg.solve(dense(K), dense(M)))
    assert 1 / values.real.max() == pytest.approx(np.pi**2, rel=1e-5)


def test_what_is_refused():
    dm = femgpu.mesh.box((2,), cell="interval")
    V, Q = femgpu.FunctionSpace(dm, "Lagrange", 1), femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v, q, w = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.TestFunction(Q), femgpu.Function(V)
    with pytest.raises(DataError, match=r"boundary values that are not zero.*A, b = femgpu.assemble\(a == L, bcs\)"):
        femgpu.assemble(v * dx, femgpu.DirichletBC(V, 1.0))
    with pytest.raises(DataError, match="boundary conditions for a form without arguments"):
        femgpu.assemble(w * dx, femgpu.DirichletBC(V, 1.0))
    with pytest.raises(DataError, match="a boundary condition is on another space"):
        femgpu.assemble(v * dx, femgpu.DirichletBC(Q, 0.0))
    with pytest.raises(FormError, match=r"v_1 lives in P1\(interval\); expected P2\(interval\) for test and trial function"):
        femgpu.assemble(u * q * dx)
    with pytest.raises(FormError, match="the functional is of type int"):
        femgpu.assemble(3)
    for form in (u * v * dx + v * dx, u * v * dx + v * dx(degree=1)):
        with pytest.raises(FormError, match="not linear, .* without test or trial function"):
            femgpu.assemble(form)
    with pytest.raises(FormError, match="not linear, .*expected the test function in each"):
        femgpu.NonlinearProblem(w * v * dx + w * dx(degree=1), w)
    with pytest.raises(FormError, match="the bilinear form is zero"):
        femgpu.assemble(u * v * dx - u * v * dx)
    with pytest.raises(FormError, match=r"is a ufl.Coefficient, which has no values"):
        femgpu.assemble(ufl.Coefficient(V) * v * dx)
    assert isinstance(femgpu.assemble(u * v * dx), PETSc.Mat)


def test_no_conditions_and_no_numbers():
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle"), "Lagrange", 1)
    u, v, one = ufl.TrialFunction(V), ufl.TestFunction(V), femgpu.Constant(V.dm, 1.0)
    assert femgpu.assemble(one * dx, []) == pytest.approx(1.0)
    for wrong in ("x", float("nan"), None):
        with pytest.raises(DataError, match="diagonal .*: expected a finite number"):
            femgpu.assemble(u * v * dx, femgpu.DirichletBC(V, 0.0), diagonal=wrong)


@pytest.mark.parallel([1, 2])
def test_derivatives_with_respect_to_several_functions():
    """UFL puts them into one space: the fields of a MixedSpace, in their order."""
    dm = femgpu.mesh.box((3, 2), "triangle")
    V, Q = femgpu.FunctionSpace(dm, "Lagrange", 2, shape=2), femgpu.FunctionSpace(dm, "DG", 1)
    u, p, w = femgpu.Function(V), femgpu.Function(Q), femgpu.Function(femgpu.MixedSpace({"u": V, "p": Q}))
    u.interpolate(lambda x: [1 + x[0] * x[1], x[1] ** 2])
    p.interpolate(lambda x: 2 - x[0])
    for field, part in zip(w.split(), (u, p), strict=True):
        field.interpolate(part)

    def energy(u, p):
        return (inner(grad(u), grad(u)) + p * inner(u, u) + p**2 / 2) * dx

    found, expected = (ufl.derivative(energy(*parts), of) for parts, of in (((u, p), (u, p)), (ufl.split(w), w)))
    vectors = [femgpu.assemble(form) for form in (found, expected)]
    np.testing.assert_array_equal(*(vector.array_r for vector in vectors))
    matrices = [femgpu.assemble(ufl.derivative(form, of)) for form, of in ((found, (u, p)), (expected, w))]
    matrices[0].axpy(-1.0, matrices[1])
    assert matrices[0].norm() == 0 < matrices[1].norm()
    step = femgpu.LinearProblem(ufl.derivative(found, (u, p)) == -found, petsc_options={"pc_type": "none"}).solve()
    assert [field.ufl_shape for field in step.split()] == [(2,), ()]
