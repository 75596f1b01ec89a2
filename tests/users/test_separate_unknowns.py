"""Several unknowns in spaces of their own: the numbers are those of a MixedSpace of these spaces."""

import numpy as np
import pytest
import ufl
from ufl import dot, ds, dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError, SolverError

NEWTON = {"ksp_type": "gmres", "ksp_gmres_restart": 100, "ksp_rtol": 1e-8, "pc_type": "jacobi", "snes_rtol": 1e-11}


def spaces(degree=1):
    """Both of them on triangles: vectors of some degree, numbers of degree 1."""
    dm = femgpu.mesh.box((3, 2), "triangle")
    return femgpu.FunctionSpace(dm, "Lagrange", degree, shape=2), femgpu.FunctionSpace(dm, "Lagrange", 1)


def species(u, p, v, q):
    """A vector and a number that diffuse and react."""
    x = ufl.SpatialCoordinate(ufl.domain.extract_unique_domain(v))
    F = inner(grad(u), grad(v)) * dx + (1 + p**2) * dot(u, v) * dx - x[0] * v[1] * dx
    return F + dot(grad(p), grad(q)) * dx + p * q * dx - (1 + dot(u, u)) * q * dx


def conditions(V, Q):
    """One for each space, one of them of one component."""
    return [
        femgpu.DirichletBC(V, lambda x: 1 + x[1], lambda x: x[0] < 1e-9, component=1),
        femgpu.DirichletBC(Q, 2.0, lambda x: x[0] > 1 - 1e-9),
    ]


@pytest.mark.parallel([1, 3])
def test_nonlinear_problem():
    V, Q = spaces()
    u, p = femgpu.Function(V, "u"), femgpu.Function(Q, "p")
    W = femgpu.MixedSpace({"part_0": V, "part_1": Q})
    w = femgpu.Function(W)
    p.interpolate(lambda x: 1 - x[0])
    w.sub(1).interpolate(p)
    tests = ufl.TestFunctions(ufl.MixedFunctionSpace(V, Q))
    F = species(u, p, *tests)
    problem = femgpu.NonlinearProblem(F == 0, (u, p), conditions(V, Q), petsc_options=NEWTON)
    mixed = femgpu.NonlinearProblem(
        species(*w.split(), *ufl.TestFunctions(W)), w, conditions(W.sub(0), W.sub(1)), petsc_options=NEWTON
    )
    results = [w.vec.duplicate() for _ in range(2)]
    for matrix, result in zip((problem.jacobian, mixed.jacobian), results, strict=True):
        matrix.mult(w.vec, result)
    np.testing.assert_array_equal(results[0].array_r, results[1].array_r)
    assert results[0].norm() > 0
    found = problem.solve()
    mixed.solve()
    assert found == (u, p) and problem.unknowns.given == (u, p)
    for part, field in zip((u, p), w.split(), strict=True):
        np.testing.assert_allclose(part.vec.array_r, field.collapse().vec.array_r, rtol=1e-9, atol=1e-10)
    # The next solve begins with what the Functions hold then.
    p.interpolate(lambda x: 5 + x[0])
    problem.insert_boundary_values(problem.unknowns.read().vec)
    expected = femgpu.Function(Q)
    expected.interpolate(lambda x: np.where(x[0] > 1 - 1e-9, 2, 5 + x[0]))
    np.testing.assert_allclose(problem.u.sub(1).collapse().vec.array_r, expected.vec.array_r, rtol=1e-15)


def test_linear_problems_and_matrices():
    """Stokes' equations, with unknowns of the user's and new ones; A and b the same as in a MixedSpace, bit for bit."""
    V, Q = spaces(2)
    W = femgpu.MixedSpace({"part_0": V, "part_1": Q})

    def stokes(u, p, v, q):
        return (inner(grad(u), grad(v)) - p * ufl.div(v) - q * ufl.div(u)) * dx

    def load(v, q):
        return v[0] * dx + 0.1 * q * ds

    M = ufl.MixedFunctionSpace(V, Q)
    tests, trials = ufl.TestFunctions(M), ufl.TrialFunctions(M)
    a, L = stokes(*trials, *tests), load(*tests)
    bcs = [femgpu.DirichletBC(V, lambda x: [x[1] * (1 - x[1]), 0 * x[0]], lambda x: x[0] < 1e-9)]
    at_fields = [femgpu.DirichletBC(W.sub(0), bcs[0].value, bcs[0].region)]
    A, b = femgpu.assemble(a == L, bcs)
    B, c = femgpu.assemble(stokes(*ufl.TrialFunctions(W), *ufl.TestFunctions(W)) == load(*ufl.TestFunctions(W)), at_fields)
    np.testing.assert_array_equal(b.array_r, c.array_r)
    B.axpy(-1.0, A)
    assert B.norm() == 0 < A.norm()
    np.testing.assert_array_equal(femgpu.assemble(L).array_r, femgpu.assemble(load(*ufl.TestFunctions(W))).array_r)
    options = {"ksp_type": "gmres", "ksp_gmres_restart": 300, "ksp_max_it": 900, "ksp_rtol": 1e-12, "pc_type": "none"}
    u, p = femgpu.Function(V), femgpu.Function(Q)
    given = femgpu.LinearProblem(a == L, None, bcs, (u, p), petsc_options=options).solve()
    new = femgpu.LinearProblem(a, L, bcs, petsc_options=options).solve()
    assert given == (u, p) and [part.space for part in new] == [V, Q]
    x = b.duplicate()
    for one, other in zip((u, p), new, strict=True):
        np.testing.assert_array_equal(one.vec.array_r, other.vec.array_r)
    joined = femgpu.Function(W)
    for field, part in zip(joined.split(), (u, p), strict=True):
        field.assign(part)
    A.mult(joined.vec, x)
    x.axpy(-1.0, b)
    assert x.norm() < 1e-9 * b.norm()


def test_a_failed_solve_leaves_its_last_iterate():
    V, Q = spaces()
    u, p = femgpu.Function(V), femgpu.Function(Q)
    F = species(u, p, *ufl.TestFunctions(ufl.MixedFunctionSpace(V, Q)))
    problem = femgpu.NonlinearProblem(F, [u, p], conditions(V, Q), petsc_options={"snes_max_it": 1} | NEWTON)
    with pytest.raises(SolverError, match="DIVERGED_MAX_IT"):
        problem.solve()
    assert np.abs(u.vec.array_r).max() > 0.1 and np.isclose(p.vec.array_r, 2.0).sum() >= 3
    before = problem.u.vec.copy()

    def stop(snes, number, norm):
        raise KeyError("stop")

    problem.snes.setMonitor(stop)
    p.interpolate(lambda x: 7 + 0 * x[0])
    with pytest.raises(KeyError, match="stop"):
        problem.solve()
    assert np.isclose(p.vec.array_r, 7.0).any() and not np.allclose(problem.u.vec.array_r, before.array_r)


def test_one_space_twice():
    """Two unknowns may have one space; a condition on it does not say whose it is."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((4, 3), "triangle"), "Lagrange", 1)
    u, p = femgpu.Function(V, "u"), femgpu.Function(V, "p")
    v, q = ufl.TestFunctions(ufl.MixedFunctionSpace(V, V))
    x = femgpu.coordinates(V.dm)
    F = (u - p - x[0]) * v * dx + (p - x[1]) * q * dx
    femgpu.NonlinearProblem(F, (u, p), petsc_options=NEWTON).solve()
    for function, expected in ((u, lambda x: x[0] + x[1]), (p, lambda x: x[1])):
        exact = femgpu.Function(V)
        exact.interpolate(expected)
        np.testing.assert_allclose(function.vec.array_r, exact.vec.array_r, atol=1e-9)
    with pytest.raises(DataError, match=r"the space of 2 of the unknowns \(u, p\); expected that of one"):
        femgpu.NonlinearProblem(F, (u, p), femgpu.DirichletBC(V, 0.0))


def test_derivatives_and_own_jacobians():
    """`ufl.derivative` of an energy has its test function in a space of UFL's; J may have trial functions of the parts."""
    V, Q = spaces()
    u, p = femgpu.Function(V), femgpu.Function(Q)
    M = ufl.MixedFunctionSpace(V, Q)
    energy = (inner(grad(u), grad(u)) + p * dot(u, u) + dot(grad(p), grad(p)) + p**2 / 2) * dx
    parts = ufl.derivative(energy, (u, p), ufl.TestFunctions(M))
    J = ufl.derivative(parts, (u, p), ufl.TrialFunctions(M))
    u.interpolate(lambda x: [1 + x[0] * x[1], x[1] ** 2])
    p.interpolate(lambda x: 1 - x[0])
    matrices = [
        femgpu.NonlinearProblem(F, (u, p), J=given, petsc_options={"pc_type": "none"}).assemble_jacobian()
        for F, given in ((parts, None), (parts, J), (ufl.derivative(energy, (u, p)), None))
    ]
    for matrix in matrices[1:]:
        matrix.axpy(-1.0, matrices[0])
        assert matrix.norm() < 1e-13 * matrices[0].norm()


def test_refusals():
    V, Q = spaces()
    u, p = femgpu.Function(V, "u"), femgpu.Function(Q, "p")
    v, q = ufl.TestFunctions(ufl.MixedFunctionSpace(V, Q))
    F = dot(u, v) * dx + p * q * dx
    for wrong, unknowns, said in (
        (F, (p, u), r"part 0 of a MixedFunctionSpace, belongs to 0 of the unknowns \(p, u\); expected"),
        (F, (u,), r"belongs to 0 of the unknowns \(u\)"),
        (F, u, r"part 0 of a MixedFunctionSpace; expected an unknown Function for each part, NonlinearProblem\(F, \(u, p\), bcs\)"),
    ):
        with pytest.raises(FormError, match=said):
            femgpu.NonlinearProblem(wrong, unknowns)
    for unknowns, said in (((u, u), "one of them comes twice"), ((u, 3), "the unknown is 3; expected")):
        with pytest.raises(DataError, match=said):
            femgpu.NonlinearProblem(F, unknowns)
    with pytest.raises(DataError, match=r"the space of 0 of the unknowns \(u, p\)"):
        femgpu.NonlinearProblem(F, (u, p), femgpu.DirichletBC(spaces()[1], 0.0))
    with pytest.raises(FormError, match=r"arguments of the parts \[1\] of a MixedFunctionSpace; expected those of all parts"):
        femgpu.assemble(q * dx)
    with pytest.raises(DataError, match="several unknowns are the fields of one femgpu.Function w of a MixedSpace"):
        femgpu.TimeProblem(F, (u, p))
