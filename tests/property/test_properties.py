"""What holds for every mesh, element and state: properties tried on random examples."""

import numpy as np
import pytest
import ufl
from conftest import SEED
from hypothesis import given, settings
from hypothesis import strategies as st
from petsc4py import PETSc
from random_meshes import CELLS, random_cells
from ufl import dx, grad, inner

import femgpu
from femgpu.element import reference_cell

EXAMPLES = settings(max_examples=8)
numbers = st.integers(0, 2**32 - 1)
# One random degree for each type of cells in a run, all degrees among them: examples share kernels, whose builds take the time.
DEGREES = np.random.default_rng(SEED).permutation([1, 2, 3, 1])
elements = st.sampled_from([*zip(CELLS, (*map(int, DEGREES), 2), strict=True)])
schedules = st.sampled_from(["cell", "transposed"])
NUM_CELLS = {"interval": 17, "triangle": 23, "quadrilateral": 13, "tetrahedron": 29, "hexahedron": 5}


def mesh(element, rng):
    return random_cells(element[0], NUM_CELLS[element[0]], rng)


def random_function(V, rng):
    u = femgpu.Function(V)
    u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    return u


def problem(F, u, schedule="cell"):
    PETSc.Options().setValue("property_femgpu_schedule", schedule)
    PETSc.Options().setValue("property_pc_type", "none")
    return femgpu.NonlinearProblem(F, u, options_prefix="property_")


def residual(problem, x):
    out = x.duplicate()
    out.set(np.nan)
    problem.residual(x, out)
    return out.getArray().copy()


def action(problem, state, direction):
    out = state.duplicate()
    out.set(np.nan)
    problem.linearise(state)
    problem.jacobian.mult(direction, out)
    return out.getArray().copy()


def nonlinear(u, v, x):
    """An isotropic symmetric form for any number of components."""
    k = 1 + inner(grad(u), grad(u))
    return (k * inner(grad(u), grad(v)) + (1 + inner(u, u)) * inner(u, v)) * dx(degree=5)


@EXAMPLES
@given(numbers, elements, schedules, st.sampled_from([1, 2, 3]))
def test_constants_are_in_the_nullspace_of_diffusion(seed, element, schedule, num_comp):
    rng = np.random.default_rng(seed)
    dm = mesh(element, rng)
    V = femgpu.FunctionSpace(dm, "Lagrange", element[1], shape=() if num_comp == 1 else (num_comp,))
    u, v, x = random_function(V, rng), ufl.TestFunction(V), femgpu.coordinates(dm)
    p = problem(inner((2 + x[0]) * grad(u), grad(v)) * dx(degree=4), u, schedule)
    constant = femgpu.Function(V)
    constant.interpolate(rng.uniform(1, 2, num_comp) if num_comp > 1 else 1.7)
    scale = np.abs(action(p, u.vec, u.vec)).max()
    assert np.abs(action(p, u.vec, constant.vec)).max() <= 1e-13 * scale
    # The rows sum to zero, too: what flows out of one dof flows into another.
    rows = residual(p, u.vec).reshape(-1, num_comp).sum(axis=0)
    assert np.abs(rows).max() <= 1e-12 * scale


@EXAMPLES
@given(numbers, elements, schedules, st.sampled_from([1, 2]))
def test_symmetric_forms_have_a_self_adjoint_action(seed, element, schedule, num_comp):
    rng = np.random.default_rng(seed)
    dm = mesh(element, rng)
    V = femgpu.FunctionSpace(dm, "Lagrange", element[1], shape=() if num_comp == 1 else (num_comp,))
    u, v, w = (random_function(V, rng) for _ in range(3))
    p = problem(nonlinear(u, ufl.TestFunction(V), femgpu.coordinates(dm)), u, schedule)
    jv, jw = action(p, u.vec, v.vec), action(p, u.vec, w.vec)
    assert abs(w.vec.array_r @ jv - v.vec.array_r @ jw) <= 1e-13 * np.linalg.norm(jv) * w.vec.norm()


@EXAMPLES
@given(numbers, elements, schedules)
def test_mass_action_on_one_sums_to_the_volume(seed, element, schedule):
    rng = np.random.default_rng(seed)
    dm = mesh(element, rng)
    V = femgpu.FunctionSpace(dm, "Lagrange", element[1])
    u, one = random_function(V, rng), femgpu.Function(V)
    one.interpolate(1.0)
    p = problem(u * ufl.TestFunction(V) * dx(degree=element[1] + 3), u, schedule)
    volume = polytope_volume(V.mesh)
    assert abs(action(p, u.vec, one.vec).sum() - volume) <= 1e-13 * volume
    assert abs(femgpu.assemble(1.0 * one * dx(degree=6)) - volume) <= 1e-13 * volume


def polytope_volume(mesh):
    """The volume from the vertices: by the divergence theorem over facets, cell by cell; twisted facets are integrated exactly."""
    vertices = mesh.coords[mesh.block.coord_dofs]
    if mesh.dim == 1:
        return float(np.abs(np.diff(vertices[..., 0])).sum())
    if mesh.dim == 2:
        x, y = vertices[..., 0], vertices[..., 1]
        return float(np.abs((x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1) / 2).sum())
    if mesh.reference.is_simplex:
        return float(np.abs(np.linalg.det(vertices[:, 1:] - vertices[:, :1])).sum() / 6)
    # Trilinear map: three Gauss points per direction are exact for det J, which is of degree two in each variable.
    one, weight = np.polynomial.legendre.leggauss(3)
    corners = reference_cell("hexahedron").vertices
    total = 0.0
    for i, j, k in np.ndindex(3, 3, 3):
        factors = 1 + corners * np.array([one[i], one[j], one[k]])
        others = np.stack([np.prod(np.delete(factors, d, axis=1), axis=1) * corners[:, d] / 8 for d in range(3)])
        total += weight[i] * weight[j] * weight[k] * np.linalg.det(np.einsum("kv,evd->edk", others, vertices)).sum()
    return float(total)


@EXAMPLES
@given(numbers, elements)
def test_numbering_of_cells_and_vertices_does_not_matter(seed, element):
    """Two meshes of the same cells, numbered otherwise and with other cell frames, have the same functional and residual norm."""
    values = []
    for numbering in (1, 2):
        rng, order = np.random.default_rng(seed), np.random.default_rng([seed, numbering])
        dm = random_cells(element[0], NUM_CELLS[element[0]], rng, numbering=order)
        values.append(functional_and_norm(dm, element[1], lambda x: np.sin(x.sum(axis=0)) + x[0] ** 2))
    assert_close(*values)


@EXAMPLES
@given(numbers, elements.filter(lambda element: element[0] != "interval"), st.booleans())
def test_rotation_of_the_mesh_does_not_matter(seed, element, vector):
    """An isotropic form on a rotated mesh; vector fields are rotated with it."""
    rng = np.random.default_rng(seed)
    dim = reference_cell(element[0]).dim
    q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    q *= np.sign(np.diag(r))
    q[:, 0] *= np.sign(np.linalg.det(q))

    def field(x):
        return np.stack([np.sin(x.sum(axis=0) + c) for c in range(dim)]) if vector else np.sin(x.sum(axis=0))

    values = []
    for turn in (np.eye(dim), q):
        dm = mesh(element, np.random.default_rng([seed, 1]))
        local = dm.getCoordinatesLocal()
        local.setArray((local.getArray().reshape(-1, dim) @ turn.T).ravel())
        dm.setCoordinatesLocal(local)

        def turned(x, turn=turn):
            return turn @ field(turn.T @ x) if vector else field(turn.T @ x)

        values.append(functional_and_norm(dm, element[1], turned, (dim,) if vector else ()))
    assert_close(*values)


def functional_and_norm(dm, degree, field, shape=()):
    """Values that depend on mesh and field only: two functionals, the norm of the residual, and that of an action."""
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=shape)
    u = femgpu.Function(V)
    u.interpolate(field)
    p = problem(nonlinear(u, ufl.TestFunction(V), femgpu.coordinates(dm)), u)
    value = femgpu.assemble((1 + inner(u, u)) ** 2 * dx(degree=5))
    energy = femgpu.assemble(inner(grad(u), grad(u)) ** 2 * dx(degree=5))
    return np.array([value, energy, np.linalg.norm(residual(p, u.vec)), np.linalg.norm(action(p, u.vec, u.vec))])


def assert_close(first, second):
    assert (np.abs(first - second) <= 1e-12 * np.abs(first)).all(), (first, second)


@pytest.mark.parametrize("schedule", ["cell", "transposed"])
@settings(max_examples=4)
@given(numbers, elements)
def test_deterministic_residuals_are_equal_bit_for_bit(schedule, seed, element):
    """Twice with one operator, and with a new one; poisoned in between."""
    rng = np.random.default_rng(seed)
    V = femgpu.FunctionSpace(mesh(element, rng), "Lagrange", element[1])
    u = random_function(V, rng)
    PETSc.Options().setValue("property_femgpu_deterministic", None)
    F = nonlinear(u, ufl.TestFunction(V), femgpu.coordinates(V.dm))
    first, second = problem(F, u, schedule), problem(F, u, schedule)
    expected = residual(first, u.vec)
    assert np.isfinite(expected).all()
    for other in (first, second):
        assert residual(other, u.vec).tobytes() == expected.tobytes()
        assert action(other, u.vec, u.vec).tobytes() == action(first, u.vec, u.vec).tobytes()
