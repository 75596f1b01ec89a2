"""Saddle points by fields on the device: the blocks, what stands for the Schur complement, and solves."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import det, div, ds, dx, grad, inner, inv, sym

import femgpu
from femgpu.errors import DataError, FormError
from femgpu.forms import field_block, schur_form
from femgpu.solver.field_block import FieldBlock, places

OPTIONS = {"ksp_type": "python", "ksp_python_type": "femgpu.GMRES", "pc_type": "python", "pc_python_type": "femgpu.FieldSplit"}


def taylor_hood(counts=(4, 3), cell="triangle", degree=2, rng=None):
    """Displacement and pressure, in this order, on cells that are bent where random numbers are given."""
    dm = femgpu.mesh.box(counts, cell=cell)
    if rng is not None:
        coords = dm.getCoordinatesLocal()
        x = coords.array.reshape(-1, len(counts))
        coords.setArray((x + 0.05 * np.sin(7 * x[:, ::-1] + x)).ravel())
        dm.setCoordinatesLocal(coords)
    pair = femgpu.FunctionSpace(dm, "Lagrange", degree, len(counts)), femgpu.FunctionSpace(dm, "Lagrange", degree - 1)
    return femgpu.MixedSpace(dict(zip(("u", "p"), pair, strict=True)))


def solid(W):
    """A neo-Hookean solid with its pressure, on springs at its boundary: all blocks depend on the state."""
    w = femgpu.Function(W, "w")
    (u, p), (v, q) = ufl.split(w), ufl.split(ufl.TestFunction(W))
    F = ufl.Identity(W.mesh.dim) + grad(u)
    form = inner(F - inv(F).T + p * det(F) * inv(F).T, grad(v)) * dx(degree=4) + (1 + u[0] ** 2) * inner(u, v) * ds
    return w, form + (det(F) - 1 - p / 100) * q * dx(degree=4) - 0.1 * v[0] * dx


def test_blocks_are_those_of_the_whole_jacobian(rng):
    W = taylor_hood(rng=rng)
    w, F = solid(W)
    problem = femgpu.NonlinearProblem(F, w, femgpu.DirichletBC(W.sub("u"), (0.1, 0.0), 4), petsc_options=OPTIONS)
    w.sub("u").interpolate(lambda x: 0.1 * np.stack([np.sin(3 * x[0] + x[1]), x[0] * x[1]]))
    w.sub("p").interpolate(lambda x: np.cos(2 * x[0]))
    whole = problem.assemble_jacobian()
    _, sets, _ = W.dm.createFieldDecomposition()
    for name, rows in zip(("u", "p"), sets, strict=True):
        part = W.sub(name)
        space = part.collapse()
        block = FieldBlock(problem.operator, field_block(problem.form, part.place, space), part, space, ("action", "diagonal"))
        expected = whole.createSubMatrix(rows, rows)
        x, y = (space.dm.createGlobalVec() for _ in range(2))
        x.array = rng.standard_normal(x.getLocalSize())
        y.set(np.nan)
        block.operator.action(x, y)
        size = expected.norm()
        np.testing.assert_allclose(y.array, (expected * x).array, atol=1e-13 * size)
        y.set(np.nan)
        block.operator.diagonal(y)
        np.testing.assert_allclose(y.array, expected.getDiagonal().array, atol=1e-13 * size)


def test_what_stands_for_the_schur_complement(rng):
    """The mass over nu, point by point: with symmetric gradients nu is 3/2 mu in two dimensions."""
    W = taylor_hood(rng=rng)
    mu = femgpu.Function(femgpu.FunctionSpace(W.dm, "DG", 0))
    mu.vec.array = 10 ** rng.uniform(-3, 3, mu.vec.getLocalSize())
    w = femgpu.Function(W)
    (u, p), (v, q) = ufl.split(w), ufl.split(ufl.TestFunction(W))
    # Terms stand in two integrals, whose entries belong together.
    F = 2 * mu * inner(sym(grad(u)), sym(grad(v))) * dx + (2 * p * div(v) - 3 * q * div(u) - 0.1 * p * q) * dx(degree=3)
    problem = femgpu.NonlinearProblem(F, w, petsc_options=OPTIONS)
    part = W.sub("p")
    space = part.collapse()
    form = schur_form(problem.form, W.sub("u").place, part.place, space)
    problem.linearise(w.vec)
    block = FieldBlock(problem.operator, form, part, space, ("diagonal",))
    found = space.dm.createGlobalVec()
    block.operator.diagonal(found)
    p, q = ufl.TrialFunction(space), ufl.TestFunction(space)
    expected = femgpu.assemble((-0.1 + 6 / (1.5 * mu)) * p * q * dx).getDiagonal()
    np.testing.assert_allclose(found.array, expected.array, rtol=1e-12)


@pytest.mark.parallel([1, 3])
def test_mixed_elasticity_up_to_incompressibility():
    """Iterations grow neither with Poisson's ratio nor much with the mesh; blocks follow coefficients."""
    for count, softness in ((6, 0.3), (12, 0.0)):
        W = taylor_hood((count, count))
        w, c, mu = femgpu.Function(W), femgpu.Constant(W.dm, softness), femgpu.Function(femgpu.FunctionSpace(W.dm, "DG", 0))
        (u, p), (v, q) = ufl.split(w), ufl.split(ufl.TestFunction(W))
        F = (2 * mu * inner(sym(grad(u)), sym(grad(v))) - p * div(v) - q * div(u) - c * p * q - v[1]) * dx
        bcs = femgpu.DirichletBC(W.sub("u"), (0.0, 0.0), lambda x: x[0] < 1e-9)
        problem = femgpu.NonlinearProblem(F, w, bcs, petsc_options={"ksp_rtol": 1e-9, "snes_type": "ksponly"})
        for name, rows in zip(*W.dm.createFieldDecomposition()[:2], strict=True):
            owned = places(W.sub(name), W.sub(name).collapse())[1]
            np.testing.assert_array_equal(owned + W.numbering.first, rows.indices)
        assert problem._pair.chosen.startswith("femgpu.GMRES with femgpu.FieldSplit: a saddle point, u and p")
        for jump in (1.0, 1e3):
            mu.interpolate(lambda x, jump=jump: np.where(x[0] < 0.5, 1.0, jump))
            w.vec.set(0.0)
            start, residual = w.vec.duplicate(), w.vec.duplicate()
            problem.residual(w.vec, start)
            problem.solve()
            problem.residual(w.vec, residual)
            assert problem.snes.getLinearSolveIterations() <= 45
            assert residual.norm() <= 1e-6 * start.norm()


def mini_flow(count, comm):
    """A manufactured flow that leaves through one side: the errors of velocity and pressure, and the problem."""
    dm = femgpu.mesh.box((count, count), cell="triangle", comm=comm)
    W = femgpu.MixedSpace({"u": femgpu.FunctionSpace(dm, "P+B", 1, 2), "p": femgpu.FunctionSpace(dm, "Lagrange", 1)})
    x, n = femgpu.coordinates(dm), ufl.FacetNormal(W.ufl_domain())
    velocity, pressure = ufl.as_vector([2 * ufl.cos(x[0] + 2 * x[1]), -ufl.cos(x[0] + 2 * x[1])]), ufl.sin(3 * x[0]) * x[1]
    w = femgpu.Function(W)
    (u, p), (v, q) = ufl.split(w), ufl.TestFunctions(W)
    F = (inner(grad(u), grad(v)) - p * div(v) - q * div(u) + inner(div(grad(velocity)) - grad(pressure), v)) * dx
    F -= inner(ufl.dot(grad(velocity), n) - pressure * n, v) * ds(2)
    bcs = femgpu.DirichletBC(W.sub("u"), velocity, (1, 3, 4))
    problem = femgpu.NonlinearProblem(F, w, bcs, petsc_options={"ksp_rtol": 1e-12, "snes_type": "ksponly"})
    problem.solve()
    return [femgpu.error_norm(w.sub("u"), velocity, "H1"), femgpu.error_norm(w.sub("p"), pressure)], problem


@pytest.mark.parallel([3])
def test_rates_of_the_mini_element():
    """Velocities converge in H1 at rate 1, pressures at no less, and the number of ranks is nothing to them."""
    found, problem = mini_flow(4, PETSc.COMM_WORLD)
    assert problem._pair.chosen.startswith("femgpu.GMRES with femgpu.FieldSplit: a saddle point, u and p")
    if PETSc.COMM_WORLD.rank == 0:
        (coarse, one), (fine, other) = (mini_flow(count, PETSc.COMM_SELF) for count in (4, 8))
        np.testing.assert_allclose(found, coarse, rtol=1e-8)
        assert max(each.snes.getLinearSolveIterations() for each in (problem, one, other)) <= 65
        rates = np.log2(np.array(coarse) / fine)
        assert 0.9 < rates[0] < 1.2 and 0.9 < rates[1] < 2.1, rates


def test_a_solid_by_newton_s_method():
    """The blocks follow the state, in the cycle's own precision, too; the inner PC is another where an option says so."""
    counts = []
    for more in ({}, {"fieldsplit_u_pc_femgpu_pmg_precision": "single"}, {"fieldsplit_u_pc_type": "lu"}):
        W = taylor_hood((6, 6))
        w, F = solid(W)
        bcs = femgpu.DirichletBC(W.sub("u"), (0.0, 0.0), lambda x: x[0] < 1e-9)
        problem = femgpu.NonlinearProblem(F, w, bcs, petsc_options=OPTIONS | {"ksp_rtol": 1e-8, "snes_rtol": 1e-10} | more)
        problem.solve()
        counts.append(problem.snes.getLinearSolveIterations() / problem.snes.getIterationNumber())
    assert max(counts) <= min(counts) + 2 and counts[0] <= 40, counts


def test_refusals():
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2)), "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F, bc = inner(grad(u), grad(v)) * dx - v * dx, femgpu.DirichletBC(V, 0.0)
    with pytest.raises(FormError, match="femgpu.FieldSplit on .*: it is for two fields"):
        femgpu.NonlinearProblem(F, u, bc, petsc_options=OPTIONS).solve()
    with pytest.raises(DataError, match="needs the matrix-free Jacobian"):
        femgpu.NonlinearProblem(F, u, bc, petsc_options=OPTIONS | {"femgpu_jacobian": "assembled"}).solve()
