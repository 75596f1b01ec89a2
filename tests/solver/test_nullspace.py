"""Rigid-body modes, and null spaces given to a problem's matrices."""

import warnings

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_mesh
from ufl import dx, grad, inner, sym, tr

import femgpu
from femgpu.errors import FormError

CELLS = {"interval": (5,), "triangle": (4, 3), "quadrilateral": (3, 4), "tetrahedron": (2, 2, 3), "hexahedron": (2, 3, 2)}
NUM_MODES = {1: 1, 2: 3, 3: 6}


def elasticity(space, bcs=(), force=0.0):
    dim = space.mesh.dim
    u, v = femgpu.Function(space, "u"), ufl.TestFunction(space)
    stress = 2 * sym(grad(u)) + tr(grad(u)) * ufl.Identity(dim)
    load = femgpu.Constant(space.dm, [0.0] * (dim - 1) + [force])
    return femgpu.NonlinearProblem(inner(stress, grad(v)) * dx - inner(load, v) * dx, u, bcs=bcs)


def stretched(cell, rng):
    """A mesh far from the origin with sides of different lengths."""
    dm = random_mesh(cell, CELLS[cell], seed=int(rng.integers(2**31)))
    local = dm.getCoordinatesLocal()
    dim = dm.getDimension()
    local.setArray((local.getArray().reshape(-1, dim) * (1 + np.arange(dim)) + 100).ravel())
    dm.setCoordinatesLocal(local)
    return dm


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_modes_are_orthonormal_and_free_of_energy(rng, cell, degree):
    dm = stretched(cell, rng)
    space = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),))
    modes = femgpu.rigid_body_modes(space).getVecs()
    assert len(modes) == NUM_MODES[dm.getDimension()]
    products = np.array([[one.dot(other) for other in modes] for one in modes])
    np.testing.assert_allclose(products, np.eye(len(modes)), atol=1e-13)
    problem = elasticity(space)
    problem.linearise(problem.u.vec)
    image, scale = problem.u.vec.duplicate(), problem.jacobian.getDiagonal().norm(PETSc.NormType.INFINITY)
    for mode in modes:
        problem.jacobian.mult(mode, image)
        assert image.norm() < 1e-11 * scale


@pytest.mark.parallel(3)
def test_modes_in_parallel():
    space = femgpu.FunctionSpace(femgpu.mesh.box((3, 2, 2), cell="tetrahedron"), "Lagrange", 2, shape=(3,))
    modes = femgpu.rigid_body_modes(space).getVecs()
    products = np.array([[one.dot(other) for other in modes] for one in modes])
    np.testing.assert_allclose(products, np.eye(6), atol=1e-13)
    problem = elasticity(space)
    problem.linearise(problem.u.vec)
    image = problem.u.vec.duplicate()
    for mode in modes:
        problem.jacobian.mult(mode, image)
        assert image.norm() < 1e-11


def test_modes_need_a_displacement():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    with pytest.raises(FormError, match="has 1 components; rigid-body modes need a displacement, with 2 in 2D"):
        femgpu.rigid_body_modes(femgpu.FunctionSpace(dm, "Lagrange", 1))


@pytest.mark.parametrize("jacobian", ["matfree", "assembled"])
def test_near_nullspace_reaches_the_preconditioner(set_options, jacobian):
    set_options(ksp_type="cg", pc_type="gamg", ksp_rtol=1e-8, snes_type="ksponly", femgpu_jacobian=jacobian)
    dm = femgpu.mesh.box((48, 4), cell="quadrilateral", upper=(12.0, 1.0))
    space = femgpu.FunctionSpace(dm, "Lagrange", 1, shape=(2,))
    iterations = []
    for given in (False, True):
        problem = elasticity(space, bcs=[femgpu.DirichletBC(space, 0.0, 4)], force=-1e-3)
        if given:
            problem.set_near_nullspace(femgpu.rigid_body_modes(space))
        problem.solve()
        assert all(bool(mat.getNearNullSpace().handle) == given for mat in problem.snes.getKSP().getOperators())
        iterations.append(problem.snes.getKSP().getIterationNumber())
    assert iterations[1] < 0.7 * iterations[0]


@pytest.mark.parametrize("jacobian", ["matfree", "assembled"])
def test_free_body(set_options, jacobian):
    """Nothing holds the body and the forces do not balance: what they do to the rigid modes is dropped."""
    set_options(ksp_type="cg", pc_type="jacobi", ksp_rtol=1e-12, snes_type="ksponly", femgpu_jacobian=jacobian)
    space = femgpu.FunctionSpace(femgpu.mesh.box((4, 3), cell="triangle"), "Lagrange", 2, shape=(2,))
    problem, modes = elasticity(space, force=1.0), femgpu.rigid_body_modes(space)
    problem.set_nullspace(modes)
    problem.solve()
    assert all(abs(problem.u.vec.dot(mode)) < 1e-10 for mode in modes.getVecs())
    residual = problem.u.vec.duplicate()
    problem.residual(problem.u.vec, residual)
    modes.remove(residual)
    assert residual.norm() < 1e-10


def test_nullspace_of_a_transpose():
    """Pure Neumann transport: constants are in the null space, but not in the transpose's, which is given apart."""
    space = femgpu.FunctionSpace(femgpu.mesh.box((4, 3), cell="triangle"), "Lagrange", 1)
    u, v = femgpu.Function(space), ufl.TestFunction(space)
    F = inner(grad(u), grad(v)) * dx + u.dx(0) * v * dx
    problem = femgpu.NonlinearProblem(F, u)
    constants = PETSc.NullSpace().create(constant=True, comm=space.comm)
    problem.set_nullspace(constants)
    assert problem.jacobian.getNullSpace().handle == constants.handle
    assert not problem.jacobian.getTransposeNullSpace().handle
    problem.set_nullspace(constants, transpose=constants)
    assert problem.jacobian.getTransposeNullSpace().handle == constants.handle


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("kind", ["constants", "vectors"])
def test_a_null_space_that_is_none(kind):
    """Said once, for the modes that are none."""
    dm = femgpu.mesh.box((6, 6))
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    w, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    modes = femgpu.constant_modes(V)
    if kind == "vectors":
        mode = modes.getVecs()[0].duplicate() if modes.getVecs() else femgpu.Function(V).vec.duplicate()
        mode.set(1.0)
        mode.normalize()
        modes = PETSc.NullSpace().create(vectors=[mode], comm=dm.comm)
    problem = femgpu.LinearProblem((inner(grad(w), grad(v)) + w * v) * dx, v * dx)
    problem.set_nullspace(modes)
    with pytest.warns(UserWarning, match="the null space that the Jacobian was given is none: of mode 0 it leaves") as found:
        problem.solve()
        problem.solve()
    assert len(found) == 1
    right = femgpu.LinearProblem(inner(grad(w), grad(v)) * dx, femgpu.Constant(dm, 0.0) * v * dx)
    right.set_nullspace(femgpu.constant_modes(V))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right.solve()


def test_a_scaled_jacobian_is_evaluated_anew():
    dm = femgpu.mesh.box((4, 4))
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    w, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    problem = femgpu.LinearProblem((inner(grad(w), grad(v)) + w * v) * dx, v * dx)
    problem.jacobian.scale(2.0)
    assert abs(problem.solve().vec.array_r - 1).max() < 1e-8
