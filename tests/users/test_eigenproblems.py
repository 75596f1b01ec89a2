"""Matrices for eigenproblems: what stands in the rows of prescribed dofs."""

import numpy as np
import pytest
import scipy.linalg
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError


def problems(dm, degree):
    """Stiffness and mass on functions that vanish on the boundary."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space), ufl.TestFunction(space)
    bc = femgpu.DirichletBC(space, 0.0)
    return [femgpu.NonlinearProblem(form * dx, u, bc) for form in (inner(grad(u), grad(v)), u * v)]


def dense(mat):
    return mat.convert("dense").getDenseArray().copy()


def test_eigenvalues_of_the_interval():
    stiffness, mass = problems(femgpu.mesh.box((24,), cell="interval"), 3)
    K = dense(stiffness.assemble_jacobian(diagonal=1.0))
    M = dense(mass.assemble_jacobian(diagonal=0.0))
    # K is positive definite: 1 / lambda is 0 for the two prescribed dofs.
    found = scipy.linalg.eigh(M, K, eigvals_only=True)
    np.testing.assert_array_equal(abs(found[:2]) < 1e-14, True)
    np.testing.assert_allclose(1 / found[:-4:-1], (np.pi * np.arange(1, 4)) ** 2, rtol=1e-6)
    assert np.all(found[2:] > 1e-6)


@pytest.mark.parallel([1, 2])
def test_the_diagonal_is_that_of_prescribed_rows_only():
    stiffness, _ = problems(femgpu.mesh.box((3, 2), cell="quadrilateral"), 1)
    usual, own = stiffness.assemble_jacobian(), stiffness.assemble_jacobian(stiffness.u.vec, diagonal=-7.0)
    stiffness.linearise(stiffness.u.vec)
    expected = stiffness.jacobian.getDiagonal().array
    rows = own.getDiagonal().array == -7.0
    np.testing.assert_allclose(usual.getDiagonal().array, expected, rtol=1e-13)
    np.testing.assert_allclose(own.getDiagonal().array[~rows], expected[~rows], rtol=1e-13)
    comm = PETSc.COMM_WORLD.tompi4py()
    assert comm.allreduce(int(rows.sum())) == 10
    scales, others = (np.concatenate(comm.allgather(expected[entries])) for entries in (rows, ~rows))
    np.testing.assert_allclose(scales, others.mean(), rtol=1e-13)
    # The first matrix stayed as it was.
    np.testing.assert_array_equal(usual.getDiagonal().array[rows], expected[rows])


def test_what_is_refused():
    stiffness, _ = problems(femgpu.mesh.box((2,), cell="interval"), 1)
    for diagonal in ("1", np.nan, 1j):
        with pytest.raises(DataError, match="expected a finite number"):
            stiffness.assemble_jacobian(diagonal=diagonal)
    space = femgpu.FunctionSpace(femgpu.mesh.box((2,), cell="interval"), "Lagrange", 1)
    body = femgpu.PointwiseForm(space, f0="f0[0] = u[0];")
    with pytest.raises(FormError, match="knows no Jacobian"):
        femgpu.NonlinearProblem(body, femgpu.Function(space)).assemble_jacobian()
