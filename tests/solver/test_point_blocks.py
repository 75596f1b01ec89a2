"""Point-block Jacobi of matrix-free Jacobians: inverse blocks against those of the assembled matrix, and who takes them."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_mesh, random_mixed
from ufl import avg, dS, ds, dx, grad, inner, jump

from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem
from femgpu.errors import SolverError


def broken_fields(comm):
    """Two discontinuous fields, coupled in the cell and across facets: a block has all dofs of a cell."""
    dm = random_mesh("triangle", (3, 3), 2, comm=comm)
    M = MixedSpace({"u": FunctionSpace(dm, "DG", 2, shape=2), "p": FunctionSpace(dm, "DG", 1)})
    w = Function(M)
    (u, p), (v, q), n = ufl.split(w), ufl.TestFunctions(M), ufl.FacetNormal(M.ufl_domain())
    F = inner(u + u * p, v) * dx(degree=4) + (p - ufl.div(u)) * q * dx(degree=2) + 0.1 * u[0] * v[1] * ds(degree=4)
    F += inner(avg(grad(u)), ufl.outer(v("-"), n("-"))) * dS(degree=3) + 3 * inner(jump(u), jump(v)) * dS(degree=4)
    return NonlinearProblem(F + jump(u, n) * q("+") * dS(degree=3), w), 15


def displacement(comm):
    """Blocks of nodes, some of whose components are prescribed, with facets between cells."""
    V = FunctionSpace(random_mesh("hexahedron", (2, 2, 1), 3, comm=comm), "Lagrange", 2, shape=3)
    u, v = Function(V), ufl.TestFunction(V)
    F = inner(ufl.sym(grad(u)) + ufl.div(u) * ufl.Identity(3), grad(v)) * dx(degree=3) + u[0] * v[1] * dx(degree=3)
    F += inner(jump(grad(u)), jump(grad(v))) * dS(degree=3)
    bcs = [DirichletBC(V, 0.0, lambda x: x[0] < 1e-9, component=1), DirichletBC(V, np.zeros(3), lambda x: x[0] > 1 - 1e-9)]
    return NonlinearProblem(F, u, bcs), 3


def several_cell_types(comm):
    """Cells of 6 and of 9 dofs: blocks are as long as divides both, where a rank has both."""
    u = Function(FunctionSpace(random_mixed("triangle+quadrilateral", (4, 3), 4, comm=comm), "DG", 2))
    v = ufl.TestFunction(u.space)
    return NonlinearProblem((u + u.dx(0)) * v * dx(degree=4) + jump(u) * v("+") * dS(degree=4), u), u.vec.getBlockSize()


def zeros_on_the_diagonal(comm):
    """Blocks of a permutation and more: rows have to be exchanged."""
    u = Function(FunctionSpace(random_mesh("triangle", (2, 2), comm=comm), "DG", 0, shape=4))
    v = ufl.TestFunction(u.space)
    F = (u[3] + u[2]) * v[0] + (2 + u[0]) * u[0] * v[1] + (u[1] + u[0]) * v[2] + (u[2] - 3 * u[3]) * v[3]
    return NonlinearProblem(F * dx(degree=0), u), 4


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("make", [broken_fields, displacement, several_cell_types, zeros_on_the_diagonal])
def test_blocks_of_the_assembled_matrix(set_options, rng, make):
    """At a state, in chunks of few cells."""
    set_options(femgpu_assembly_memory=1)
    problem, size = make(PETSc.COMM_WORLD)
    state = problem.u.vec
    assert state.getBlockSize() == size
    state.setArray(rng.uniform(0, 1, state.getLocalSize()))
    matrix = problem.assemble_jacobian()
    first, last = matrix.getOwnershipRange()
    entries = matrix.getValues(range(first, last), range(first, last)).reshape(-1, size, last - first)
    for factor in (1.0, 2.0):  # which TS sets
        problem.operator.factor = factor
        inverses = problem.operator.invert_blocks(size).read().reshape(-1, size, size).swapaxes(1, 2)
        assert len(inverses) == (last - first) // size
        for number, (inverse, rows) in enumerate(zip(inverses, entries, strict=True)):
            block = factor * rows[:, number * size : (number + 1) * size]
            np.testing.assert_allclose(inverse @ block, np.eye(size), atol=1e-13 * np.linalg.cond(block))


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("cell, degree", [("hexahedron", 2), ("triangle", 3), ("prism", 1)])
def test_what_stands_beside_the_diagonal(cell, degree, rng):
    """In blocks of nodes, some of whose components are prescribed, with terms on facets and between cells."""
    counts = (3, 2) if cell == "triangle" else (2, 2, 1)
    V = FunctionSpace(random_mesh(cell, counts, 3, comm=PETSc.COMM_WORLD), "Lagrange", degree, shape=3)
    u, v, size = Function(V), ufl.TestFunction(V), 3
    F = inner((1 + inner(u, u)) * grad(u), grad(v)) * dx(degree=3) + u[0].dx(1) * v[2] * dx(degree=3)
    F += u[0] * u[1] * v[2] * ds(degree=3)
    if cell != "prism":
        F += inner(avg(grad(u)), ufl.outer(v("-"), ufl.FacetNormal(V.ufl_domain())("+"))) * u[1]("-") * dS(degree=3)
    problem = NonlinearProblem(F, u, [DirichletBC(V, 0.0, lambda x: x[0] < 1e-9, component=1)])
    u.vec.setArray(rng.uniform(0, 1, u.vec.getLocalSize()))
    matrix, device = problem.assemble_jacobian(), problem.operator.device
    first, last = matrix.getOwnershipRange()
    entries = matrix.getValues(range(first, last), range(first, last))
    rows = np.arange(last - first)
    assert device.transfer.block_size == size
    for shift in range(size):
        buffer = device.runtime.upload(np.full(len(rows), np.nan))
        device.diagonal(buffer, shift)
        found = device.runtime.read(buffer, np.empty(len(rows)))
        wanted = entries[rows, rows - rows % size + (rows + shift) % size]
        assert np.abs(wanted).max() > 0
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * np.abs(entries).max())


def test_blocks_without_an_inverse():
    """In a problem's solve, in a Krylov method on the device, and in a KSP of the user's own."""
    said = r"the diagonal block of rows \d to \d of the Jacobian has no inverse; take another preconditioner"
    u = Function(FunctionSpace(random_mesh("triangle", (1, 1), comm=PETSc.COMM_SELF), "DG", 1))
    F = (u**2 - 1) * ufl.TestFunction(u.space) * dx
    for method in ("gmres", "femgpu.GMRES"):
        given = {"ksp_type": "python", "ksp_python_type": method} if "." in method else {"ksp_type": method}
        problem = NonlinearProblem(F, u, petsc_options={"pc_type": "pbjacobi", **given})
        with pytest.raises(SolverError, match=said):
            problem.solve()
    ksp = PETSc.KSP().create(PETSc.COMM_SELF)
    ksp.setOperators(problem.jacobian)
    ksp.getPC().setType("pbjacobi")
    with pytest.raises(PETSc.Error, match=said):
        ksp.setUp()
    u.vec.set(2.0)
    problem.linearise(u.vec)
    ksp.setOperators(problem.jacobian)
    b, x = u.vec.duplicate(), u.vec.duplicate()
    b.set(1.0)
    ksp.solve(b, x)
    assert ksp.getIterationNumber() == 1 and ksp.getConvergedReason() > 0
