"""Tensors that are symmetric by themselves: matrices are those of full tensors, restricted; values have all of their entries."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_mesh
from scipy.sparse import csr_matrix
from ufl import dot, dS, dx, grad, inner, jump, sym

import femgpu
from femgpu.errors import DataError, FormError
from femgpu.forms import PointwiseForm, lower_form
from femgpu.operators import couples_displacements

# Which entries a component stands for, as basix has them.
PAIRS = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
X = np.array([[0.3, 0.45], [0.71, 0.12], [0.52, 0.93]])


def spaces(dm, family="Lagrange", degree=1, n=2):
    """Symmetric tensors, and full ones."""
    return [femgpu.FunctionSpace(dm, family, degree, shape=(n, n), symmetry=symmetry) for symmetry in (True, False)]


def tensor(x):
    """(2, 2, num_points) quadratic and symmetric."""
    return np.array([[1 + x[0], x[0] * x[1]], [x[0] * x[1], x[1] ** 2 - 3]])


def polynomials(dm):
    """The values of `tensor` as an expression."""
    x = femgpu.coordinates(dm)
    return ufl.as_matrix([[1 + x[0], x[0] * x[1]], [x[0] * x[1], x[1] ** 2 - 3]])


def embedding(symmetric, full):
    """(full dofs, symmetric dofs) writes each component to its entries, field by field."""
    R = np.zeros((full.num_local, symmetric.num_local))
    for few, many in zip(symmetric.fields, full.fields, strict=True):
        for entry in range(many.num_comp):
            pair = divmod(entry, many.shape[0]) if len(many.shape) == 2 else ()
            component = PAIRS.index((max(pair), min(pair))) if pair else entry
            R[many.offsets[0] + entry, few.offsets[0] + component] = 1.0
    assert np.all(R.sum(axis=1) == 1) and np.all(R.sum(axis=0) > 0)
    return R


def dense(mat):
    indptr, indices, values = mat.getValuesCSR()
    return csr_matrix((values, indices, indptr), mat.getLocalSize()).toarray()


def check_matrix(make, symmetric, full, tolerance=1e-13):
    A, B = (dense(femgpu.assemble(make(space))) for space in (symmetric, full))
    R = embedding(symmetric, full)
    np.testing.assert_allclose(A, R.T @ B @ R, atol=tolerance * np.abs(B).max(), rtol=0)
    assert np.abs(A).max() > 1e-3


@pytest.mark.parametrize(("cell", "counts"), [("triangle", (3, 2)), ("tetrahedron", (1, 2, 1))])
def test_the_demo_form(cell, counts):
    """FFCx's Symmetry."""

    def demo(V):
        return inner(grad(ufl.TrialFunction(V)), grad(ufl.TestFunction(V))) * dx

    dm = random_mesh(cell, counts, 1)
    V, full = spaces(dm, "P", 1, len(counts))
    assert V.num_dofs * 2 * len(counts) == full.num_dofs * (len(counts) + 1) and V.value_shape == full.value_shape
    assert V != full and V == spaces(dm, "P", 1, len(counts))[0] and "symmetric" in str(V)
    check_matrix(demo, V, full)


def test_facets_between_cells():
    dm = random_mesh("triangle", (2, 2), 2)
    V, full = spaces(dm, "DG", 1)
    n, k = ufl.FacetNormal(V.ufl_domain()), {}
    for space in (V, full):
        k[space] = femgpu.Function(space)
        k[space].interpolate(tensor)

    def make(space):
        S, T = ufl.TrialFunction(space), ufl.TestFunction(space)
        return (
            inner(jump(S), jump(T)) + inner(dot(S("-"), n("+")), T("+")[1, :]) + k[space]("-")[1, 0] * S[0, 1]("+") * T[1, 1]("-")
        ) * dS

    check_matrix(make, V, full)


def mixed(V):
    """The tensors between two other fields."""
    dm = V.dm
    u, p = femgpu.FunctionSpace(dm, "Lagrange", 2, 2), femgpu.FunctionSpace(dm, "Lagrange", 1)
    return femgpu.MixedSpace({"u": u, "stress": V, "p": p})


def elastic(w, tests, material, k):
    """Hellinger and Reissner's, with a reaction that is not linear."""
    (u, S, p), (v, T, q) = w, tests
    F = inner(S + k * dot(S, S), T) - inner(sym(grad(u)), T) - inner(S, grad(v)) + p * S[0, 1] * q
    return (F + inner(dot(material, S), T) + p * q + material[1, 0] * S[1, 1] * v[0]) * dx


def test_mixed_and_nonlinear(rng):
    dm = random_mesh("triangle", (2, 2), 3)
    V, full = spaces(dm)
    W, U = mixed(V), mixed(full)
    R = embedding(W, U)
    w, many = femgpu.Function(W), femgpu.Function(U)
    material, k = femgpu.Function(V), femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1))
    material.interpolate(lambda x: tensor(1 - x))
    k.interpolate(lambda x: 2 + x[1])
    F = elastic(ufl.split(w), ufl.TestFunctions(W), material, k)
    state, x = rng.uniform(-1, 1, (2, W.num_dofs))

    def at(values):
        w.vec.setArray(values)
        return femgpu.assemble(F).array.copy()

    found = at(state)
    many.vec.setArray(R @ state)
    there = elastic(many.split(), ufl.TestFunctions(U), material, k)
    np.testing.assert_allclose(found, R.T @ femgpu.assemble(there).array, atol=1e-13)
    A, B = dense(femgpu.assemble(ufl.derivative(F, w))), dense(femgpu.assemble(ufl.derivative(there, many)))
    np.testing.assert_allclose(A, R.T @ B @ R, atol=1e-13)
    # The form is quadratic.
    np.testing.assert_allclose((at(state + x) - at(state - x)) / 2, A @ x, atol=1e-12)
    w.vec.setArray(state)
    problem = femgpu.NonlinearProblem(elastic(w.split(), ufl.TestFunctions(W), material, k), w)
    direction, product = w.vec.duplicate(), w.vec.duplicate()
    direction.setArray(x)
    problem.jacobian.mult(direction, product)
    np.testing.assert_allclose(product.array, A @ x, atol=1e-12)
    # The values of the whole are those of its fields.
    parts = [np.ravel(part.evaluate(X[0])) for part in w.split()]
    np.testing.assert_allclose(w.evaluate(X[0]), np.concatenate(parts))
    copy = w.sub("stress").collapse()
    assert copy.space == V and copy.space is not V
    np.testing.assert_array_equal(copy.evaluate(X), w.sub("stress").evaluate(X))


def test_parts_in_spaces_of_their_own():
    """Of a MixedFunctionSpace, and of the derivative with respect to several Functions."""
    dm = random_mesh("triangle", (2, 2), 4)
    V, Q = spaces(dm)[0], femgpu.FunctionSpace(dm, "Lagrange", 1)
    W = femgpu.MixedSpace({"part_0": V, "part_1": Q})
    S, p, w = femgpu.Function(V), femgpu.Function(Q), femgpu.Function(W)
    S.interpolate(tensor)
    p.interpolate(lambda x: 1 + x[0])
    for part, source in zip(w.split(), (S, p), strict=True):
        part.assign(source)

    def energy(S, p):
        return (p * inner(S, S) / 2 + S[0, 1] ** 2 * p**2) * dx

    expected = femgpu.assemble(ufl.derivative(energy(*ufl.split(w)), w)).array
    np.testing.assert_allclose(femgpu.assemble(ufl.derivative(energy(S, p), (S, p))).array, expected, rtol=1e-13)
    T, q = ufl.TestFunctions(ufl.MixedFunctionSpace(V, Q))
    F = (p * inner(S, T) + inner(S, S) / 2 * q + 2 * S[1, 0] * T[0, 1] * p**2 + 2 * S[0, 1] ** 2 * p * q) * dx
    problem = femgpu.NonlinearProblem(F, (S, p))
    result = problem.u.vec.duplicate()
    problem.residual(problem.unknowns.read().vec, result)
    np.testing.assert_allclose(result.array, expected, rtol=1e-12)


def test_values():
    dm = femgpu.mesh.box((2, 3), "triangle")
    V, full = spaces(dm, degree=2)
    expected = np.moveaxis(tensor(X.T), -1, 0)
    u, other = femgpu.Function(V), femgpu.Function(full)
    other.interpolate(tensor)
    vector = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2, 2))
    vector.interpolate(lambda x: (x[0] * x[1], x[0] ** 2))
    far = femgpu.Function(spaces(random_mesh("triangle", (3, 3), 2), degree=2)[0])
    far.interpolate(tensor)
    for source in (
        tensor,
        lambda x: tensor(x).reshape(4, -1),
        lambda x: ((1 + x[0], x[0] * x[1]), (x[0] * x[1], x[1] ** 2 - 3)),
        polynomials(dm),
        other,
        far,
    ):
        u.vec.set(9.0)
        u.interpolate(source)
        np.testing.assert_allclose(u.evaluate(X), expected, atol=1e-13)
        np.testing.assert_allclose(u.vec.array.reshape(-1, 3)[:, 1], other.vec.array.reshape(-1, 4)[:, 1], atol=1e-13)
    assert (2 * u[0, 1])(tuple(X[0])) == pytest.approx(2 * expected[0, 0, 1])
    other.interpolate(u)
    np.testing.assert_allclose(other.evaluate(X), expected, atol=1e-13)
    assert femgpu.error_norm(u, tensor) < 1e-13 and femgpu.error_norm(u, other) < 1e-13
    u.interpolate([[1, 2], [2, 5]])
    np.testing.assert_allclose(u.vec.array.reshape(-1, 3), [[1, 2, 5]] * (V.num_dofs // 3))
    found = femgpu.project(sym(grad(vector)), spaces(dm, "DG", 1)[0])
    np.testing.assert_allclose(found.evaluate(X), [[[b, 1.5 * a], [1.5 * a, 0]] for a, b in X], atol=1e-11)
    for wrong in (lambda x: ((x[0], x[1]), (0, 0)), grad(vector), [[1, 2], [2 + 1e-8, 3]]):
        with pytest.raises(DataError, match=r"values of u are not symmetric: entries \(.*expected symmetric tensors, ufl.sym"):
            u.interpolate(wrong)
    with pytest.raises(DataError, match=r"have shape \(3, .*expected \(4, "):
        u.interpolate(lambda x: np.ones((3, len(x[0]))))
    with pytest.raises(DataError, match="interpolate"):
        u.assign(other)


def test_three_dimensions():
    dm = femgpu.mesh.box((1, 1, 1), "tetrahedron")
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1, (3, 3), symmetry=True))
    value = np.array([[1, 2, 4], [2, 3, 5], [4, 5, 6.0]])
    u.interpolate(lambda x: value[:, :, None] * (1 + x[0]))
    np.testing.assert_allclose(u.evaluate((0.5, 0.25, 0.125)), 1.5 * value)
    np.testing.assert_allclose(u.vec.array.reshape(-1, 6)[0] / u.vec.array[0], [1, 2, 3, 4, 5, 6])
    for space in spaces(femgpu.mesh.box((2, 1, 1), "hexahedron"), n=3):
        far = femgpu.Function(space)
        far.interpolate(u)
        np.testing.assert_allclose(far.evaluate((0.5, 0.25, 0.125)), 1.5 * value)
        u.interpolate(0.0)
        u.interpolate(far)
        np.testing.assert_allclose(u.evaluate((0.5, 0.25, 0.125)), 1.5 * value)


def test_conditions():
    dm = femgpu.mesh.box((2, 2), "triangle")
    V, full = spaces(dm, degree=2)
    W = mixed(V)
    u, other = femgpu.Function(V), femgpu.Function(full)
    other.interpolate(tensor)
    u.interpolate(tensor)
    expression = polynomials(dm)
    for space in (V, W.sub("stress")):
        local = np.full(space.num_local, np.nan)
        for node, values in zip(space.nodes()[0], np.moveaxis(tensor(space.nodes()[1].T), -1, 0), strict=True):
            local[node : node + 3] = values[0, 0], values[0, 1], values[1, 1]
        for value in (tensor, expression, other):
            bc = femgpu.DirichletBC(space, value)
            assert len(bc.local_rows) == 3 * 16
            np.testing.assert_allclose(bc.values(), local[bc.local_rows], atol=1e-14)
        for component, (i, j) in enumerate(np.ndindex(2, 2)):
            for value in (lambda x, i=i, j=j: tensor(x)[i, j], expression[i, j]):
                bc = femgpu.DirichletBC(space, value, 1, component=component)
                assert len(bc.local_rows) == 5
                np.testing.assert_allclose(bc.values(), local[bc.local_rows], atol=1e-14)
        with pytest.raises(DataError, match="component 4 of a space with 4 components"):
            femgpu.DirichletBC(space, 0.0, component=4)
        with pytest.raises(DataError, match="boundary values are not symmetric"):
            femgpu.DirichletBC(space, [[1, 2], [3, 4]])
    np.testing.assert_allclose(femgpu.DirichletBC(V, u).values(), femgpu.DirichletBC(V, tensor).values())


def test_modes_and_displacements():
    """Three components on a mesh of three dimensions are no displacement."""
    dm = femgpu.mesh.box((1, 1, 1), "tetrahedron")
    V = spaces(dm)[0]
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    assert not couples_displacements(lower_form((u[0, 0].dx(0) * v[0, 1].dx(1) + inner(grad(u), grad(v))) * dx, u))
    with pytest.raises(FormError, match="rigid-body modes need a displacement"):
        femgpu.rigid_body_modes(V)
    modes = [np.reshape(mode.array, (8, 3)) for mode in femgpu.constant_modes(V).getVecs()]
    for mode, unit in zip(modes, np.eye(3), strict=True):
        np.testing.assert_allclose(mode, np.tile(unit, (8, 1)) / np.sqrt(8))


def test_files(tmp_path):
    pyvista = pytest.importorskip("pyvista")
    dm = femgpu.mesh.box((2, 2), "triangle")
    for V in spaces(dm, degree=2)[0], spaces(dm, "DG", 0)[0]:
        u = femgpu.Function(V, "stress")
        u.interpolate(tensor)
        femgpu.write(tmp_path / "u.vtu", u)
        grid = pyvista.read(tmp_path / "u.vtu")
        points = grid.points if V.degree else grid.cell_centers().points
        values = np.asarray((grid.point_data if V.degree else grid.cell_data)["stress"]).reshape(-1, 3, 3)
        np.testing.assert_allclose(
            values[:, :2, :2], np.moveaxis(tensor(points.T), -1, 0) if V.degree else u.evaluate(points[:, :2])
        )
        assert not values[:, 2].any() and not values[:, :, 2].any()
        full = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0, (2, 2)), "full")
        femgpu.write(tmp_path / "u.h5", u, full)
        _, found = femgpu.io.read_h5(tmp_path / "u.h5")
        again = found["stress"]
        assert again.space.ufl_element() == V.ufl_element() and found["full"].space.ufl_element() == full.space.ufl_element()
        np.testing.assert_array_equal(again.evaluate(X), u.evaluate(X))


def test_pointwise_functions_count_stored_components():
    V = spaces(femgpu.mesh.box((2, 2), "triangle"))[0]
    u, w = femgpu.Function(V), femgpu.Function(mixed(V))
    w.sub("stress").interpolate([[1, 2], [2, 5]])
    w.sub("p").interpolate(7.0)
    unit = "for (int c = 0; c < 3; ++c) g0[c*3 + c] = 1.0;"
    form = PointwiseForm(V, f0="f0[0] = u[0]; f0[1] = a[aOff[2]] + a[aOff[1] + 1]; f0[2] = a[aOff[1] + 2];", g0=unit, aux=[w])
    result = u.vec.duplicate()
    femgpu.NonlinearProblem(form, u).residual(u.vec, result)
    np.testing.assert_allclose(result.array.reshape(-1, 3).sum(axis=0), [0, 9, 5], rtol=1e-13)
    with pytest.raises(FormError, match=r"f0\[3\]; expected an index below 3"):
        PointwiseForm(V, f0="f0[3] = 1;").lower()


def test_refusals():
    dm = femgpu.mesh.box((2, 2), "triangle")
    for shape in ((), 2, (2, 3), (2, 2, 2)):
        with pytest.raises(FormError, match=r"value shape .* with symmetry=True: expected a square one, \(3, 3\) for example"):
            femgpu.FunctionSpace(dm, "Lagrange", 1, shape, symmetry=True)
    with pytest.raises(FormError, match="symmetry={}: expected True for symmetric tensors"):
        femgpu.FunctionSpace(dm, "Lagrange", 1, (2, 2), symmetry={})
    with pytest.raises(FormError, match="symmetry=True without a family; expected"):
        femgpu.FunctionSpace(dm, symmetry=True)
    V, full = spaces(dm)
    with pytest.raises(FormError, match="the test function lives in .* expected the same"):
        lower_form(inner(femgpu.Function(V), ufl.TestFunction(full)) * dx, femgpu.Function(V))


def test_multigrid():
    dm = random_mesh("triangle", (4, 3), 5)
    V, exact = spaces(dm, degree=2)[0], polynomials(dm)
    u, v, shear = femgpu.Function(V), ufl.TestFunction(V), ufl.as_matrix([[2.0, 0.5], [0.5, 1.0]])
    F = (inner(grad(u - exact), grad(v)) + inner(dot(shear, u - exact), v)) * dx
    bcs = [femgpu.DirichletBC(V, exact, lambda x: x[0] < 1e-9), femgpu.DirichletBC(V, exact[0, 1], component=2)]
    options = {"ksp_type": "cg", "pc_type": "python", "pc_python_type": "femgpu.PMG", "ksp_rtol": 1e-13}
    problem = femgpu.NonlinearProblem(F, u, bcs, petsc_options=options)
    problem.solve()
    assert femgpu.error_norm(u, exact) < 1e-10
    assert problem.snes.getLinearSolveIterations() < 25


def numbers(comm):
    """Of a function with prescribed entries, of jumps between cells, and of a function on another mesh, on some ranks."""
    dm = random_mesh("triangle", (4, 3), 5, comm=comm)
    V, D = spaces(dm, degree=2)[0], spaces(dm, "DG", 1)[0]
    u, S, far = femgpu.Function(V), femgpu.Function(D), femgpu.Function(spaces(random_mesh("triangle", (3, 2), 6, comm=comm))[0])
    u.interpolate(polynomials(dm))
    S.interpolate(dot(u, u) + sym(grad(ufl.as_vector([u[0, 1], u[1, 1]]))))
    far.interpolate(u)
    jumps = femgpu.assemble(inner(jump(S), jump(ufl.TestFunction(D))) * dS)
    bcs = [femgpu.DirichletBC(V, u, lambda x: x[0] < 1e-9), femgpu.DirichletBC(V, polynomials(dm)[0, 1], component=2)]
    load = femgpu.assemble(inner(dot(u, u), ufl.TestFunction(V)) * dx)
    local, held = np.zeros(V.num_local), femgpu.Function(V)
    for bc in bcs:
        local[bc.local_rows] = bc.values()
    held.set_local(local)
    return [u.evaluate(X), S.evaluate(X), jumps.norm(), load.norm(), far.vec.norm(), held.vec.norm()], u


@pytest.mark.parallel([3])
def test_on_ranks(folder):
    mpi = PETSc.COMM_WORLD.tompi4py()
    alone = mpi.bcast(numbers(PETSc.COMM_SELF)[0] if mpi.rank == 0 else None)
    together, u = numbers(PETSc.COMM_WORLD)
    for one, many in zip(alone, together, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(alone[0], np.moveaxis(tensor(X.T), -1, 0), atol=1e-12)
    femgpu.write(folder / "u.h5", u)
    again = femgpu.io.read_h5(folder / "u.h5")[1]["u"]
    np.testing.assert_allclose(again.evaluate(X), u.evaluate(X), rtol=1e-14)


@pytest.mark.parallel([1, 3])
def test_rounding_is_no_asymmetry():
    """Where a rank's tensors, or all of them, are zero but for rounding; a rank's asymmetry ends all ranks."""
    dm = random_mesh("triangle", (4, 3), 5, comm=PETSc.COMM_WORLD)
    S, x = femgpu.Function(spaces(dm, "DG", 1)[0]), femgpu.coordinates(dm)
    M = (3 + x[0]) * ufl.as_matrix([[2, 0.3], [0.7, 1.1]])
    noise = dot(M, ufl.inv(M)) - ufl.Identity(2)
    for scale in (1.0, 1e9, 0.0):
        left = ufl.conditional(ufl.lt(x[0], 0.2), 1.0, 0.0)
        S.interpolate(scale * (left * ufl.Identity(2) + (1 - left) * noise) + (noise if scale == 0 else 0 * noise))
        assert np.isfinite(S.vec.norm())
    for wrong in (left * M, lambda x: (x[0] < 0.2) * np.reshape([0, 1, 2, 0], (4, 1))):
        with pytest.raises(DataError, match="are not symmetric"):
            S.interpolate(wrong)
