"""Integrals over facets between two cells against `facet_oracle`, on one rank and several."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import ufl
from facet_oracle import DEGREE, all_values, facets, gathered, interpolated, oracle, weak_form
from mpi4py import MPI
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, random_cells, random_mesh, random_mixed
from ufl import dot, dS

import femgpu
from femgpu import Function, FunctionSpace, NonlinearProblem
from femgpu.element import facet_rules, reference_cell
from femgpu.forms.ufl.walk import Walk
from femgpu.mesh import Mesh, interior

DATA = Path(__file__).parents[1] / "data"
CURVED = ("disk_2", "ball_2")
# Of the cells: affine ones, others, or both; only simplices are affine in any case.
SHAPES = {"quadrilateral": "both"}
# Where entries are added to the matrix as they are computed, too.
ATOMIC = ("triangle",)


def make_mesh(name, rng):
    if name == PARTLY_BENT:
        dm = femgpu.mesh.box((3, 2), cell="quadrilateral", comm=PETSc.COMM_SELF)
        coordinates = dm.getCoordinatesLocal()
        coordinates[0] = -0.3  # a corner
        coordinates.assemble()
        dm.setCoordinatesLocal(coordinates)
        return dm
    if name in CURVED:
        return femgpu.mesh.read(DATA / f"{name}.msh", comm=PETSc.COMM_SELF)
    if name in MIXED:
        return random_mixed(name, (3, 3) if name.startswith("triangle") else (2, 2, 1), 5, 0.1, PETSc.COMM_SELF)
    return random_cells(name, 9, rng, SHAPES.get(name, "distorted"))


def spread_mesh(name):
    if name in CURVED:
        return femgpu.mesh.read(DATA / f"{name}.msh")
    if name in MIXED:
        return random_mixed(name, (3, 3) if name.startswith("triangle") else (2, 2, 1), 5, 0.1)
    return random_mesh(name, {1: (9,), 2: (3, 2), 3: (2, 1, 1)}[reference_cell(name).dim], 3)


def random_function(space, rng):
    function = Function(space)
    function.vec.setArray(rng.uniform(0.5, 1.5, function.vec.getLocalSize()))
    return function


# One cell is not affine, and facets lie between such and others.
PARTLY_BENT = "partly bent"

# Family and degree of the space, and its value shape.
SPACES = {
    "interval": ("DG", 2, ()),
    "triangle": ("DG", 2, ()),
    "tetrahedron": ("Lagrange", 1, ()),
    "quadrilateral": ("Lagrange", 2, (2,)),
}


def compare(form, V, expected, scatters, rng):
    """Both ways to assemble the matrix, its products, those of its transpose, the residual and the diagonal."""
    u, w, vector = random_function(V, rng), random_function(V, rng), Function(V).vec
    F, scale, mine = (
        ufl.replace(form, {ufl.TrialFunction(V): u}),
        abs(expected).sum(axis=1).max(),
        slice(*vector.getOwnershipRange()),
    )
    for scatter in scatters:
        problem = NonlinearProblem(F, u, petsc_options={"femgpu_scatter": scatter, "femgpu_jacobian": "assembled"})
        matrix = assembled(problem, u)
        rows = matrix.getValues(range(mine.start, mine.stop), range(V.num_dofs))
        assert abs(rows - expected[mine]).max(initial=0) < 1e-12 * scale
    problem = NonlinearProblem(F, u)
    problem.residual(u.vec, vector)
    assert abs(vector.array - (expected @ all_values(u))[mine]).max(initial=0) < 1e-12 * scale
    matrix = assembled(problem, u)
    for multiply, exact in ((matrix.mult, expected), (matrix.multTranspose, expected.T)):
        multiply(w.vec, vector)
        assert abs(vector.array - (exact @ all_values(w))[mine]).max(initial=0) < 1e-12 * scale
    matrix.getDiagonal(vector)
    assert abs(vector.array - expected.diagonal()[mine]).max(initial=0) < 1e-12 * scale


def assembled(problem, u):
    """The Jacobian at u."""
    problem.snes.setUp()
    jacobian, preconditioner, _ = problem.snes.getJacobian()
    problem.snes.computeJacobian(u.vec, jacobian, preconditioner)
    return jacobian


@pytest.mark.parametrize("name", (*ALL_CELLS, "triangle+quadrilateral", "hexahedron+prism", "disk_2", "ball_2", PARTLY_BENT))
def test_all_operators_against_the_oracle(name):
    rng = np.random.default_rng(len(name))
    dm, (family, degree, shape) = make_mesh(name, rng), SPACES.get(name, ("DG", 1, ()))
    V = FunctionSpace(dm, family, degree, shape)
    k, flow = (
        random_function(FunctionSpace(dm, "DG", 1), rng),
        random_function(FunctionSpace(dm, "Lagrange", 1, (V.mesh.dim,)), rng),
    )
    expected = oracle(V, k, flow)
    compare(weak_form(V, k, flow) * dS(degree=DEGREE), V, expected, ("gather", "atomic") if name in ATOMIC else ("gather",), rng)


@pytest.mark.parallel([3])
@pytest.mark.parametrize("name", ("triangle", "triangle+quadrilateral"))
def test_all_operators_on_ranks(name):
    """Cells are numbered at random: ranks have many facets in common, and no rank is like another."""
    rng = np.random.default_rng(MPI.COMM_WORLD.rank)
    dm, (family, degree, shape) = spread_mesh(name), SPACES.get(name, ("DG", 1, ()))
    V = FunctionSpace(dm, family, degree, shape)
    k, flow = (random_function(FunctionSpace(dm, *space), rng) for space in (("DG", 1), ("Lagrange", 1, (V.mesh.dim,))))
    expected = oracle(V, k, flow)
    compare(weak_form(V, k, flow) * dS(degree=DEGREE), V, expected, ("gather", "atomic") if name in ATOMIC else ("gather",), rng)


@pytest.mark.parametrize("name", (*ALL_CELLS, *MIXED, *CURVED))
def test_both_cells_see_the_same_points(name):
    """On all meshes, and in all ways in which cells can lie at each other that occur."""
    mesh, found = Mesh.of(make_mesh(name, np.random.default_rng(2))), 0
    facets, (numbers, indices) = mesh.interior, mesh.locate(mesh.interior.cells)
    for pair in product(mesh.blocks, repeat=2):
        here = np.flatnonzero((numbers == [block.index for block in pair]).all(axis=1))
        for rules in product(*(facet_rules(block.cell, 3, turned=True) for block in pair)):
            if rules[0].kind == rules[1].kind:
                mine = here[rules[0].places(facets.local_facets[here, 0]) >= 0]
                places = [rule.places(facets.local_facets[mine, i], facets.turns[mine, i]) for i, rule in enumerate(rules)]
                for facet, *at in zip(mine, *places, strict=True):
                    x, y = (
                        block.physical_points(rule.points[place], indices[[facet], i])
                        for i, (block, rule, place) in enumerate(zip(pair, rules, at, strict=True))
                    )
                    np.testing.assert_allclose(x, y, atol=1e-14)
                    found += 1
    assert found == len(facets.points)


def as_alone(setattr):
    """The second cell sees the facet as if it were the first one."""
    turns = interior.relative_turns
    setattr(interior, "relative_turns", lambda num_vertices: np.full_like(turns(num_vertices), len(turns(num_vertices)) // 2))


def normal_of_the_first_cell(setattr):
    """Both cells have one outward normal."""
    setattr(
        Walk, "in_second", lambda walk, e, *rest, given=Walk.in_second: type(e).__name__ != "FacetNormal" and given(walk, e, *rest)
    )


def coefficients_of_the_first_cell(setattr):
    """Coefficients are the same in both cells."""
    setattr(Walk, "in_second", lambda walk, e, *rest, given=Walk.in_second: hasattr(e, "number") and given(walk, e, *rest))


@pytest.mark.parametrize("plant", [as_alone, normal_of_the_first_cell, coefficients_of_the_first_cell])
def test_faults_are_seen(monkeypatch, plant):
    rng = np.random.default_rng(0)
    dm = make_mesh("triangle", rng)
    V = FunctionSpace(dm, "DG", 1)
    k, flow = random_function(FunctionSpace(dm, "DG", 1), rng), random_function(FunctionSpace(dm, "Lagrange", 1, (2,)), rng)
    expected, (u, vector) = oracle(V, k, flow), (random_function(V, rng), Function(V).vec)
    plant(monkeypatch.setattr)
    problem = NonlinearProblem(ufl.replace(weak_form(V, k, flow), {ufl.TrialFunction(V): u}) * dS(degree=DEGREE), u)
    problem.residual(u.vec, vector)
    assert abs(vector.array - expected @ u.vec.array).max() > 1e-3 * abs(expected).max()


@pytest.mark.parametrize("name", ["triangle", "prism"])
def test_functionals_against_the_oracle(name):
    rng = np.random.default_rng(1)
    dm = make_mesh(name, rng)
    k, flow = (
        random_function(FunctionSpace(dm, family, 1, shape), rng) for family, shape in (("DG", ()), ("Lagrange", dm.getDimension()))
    )
    n = ufl.FacetNormal(k.space.ufl_domain())
    value = femgpu.assemble(k("-") * dot(flow, n("-")) * dS(degree=DEGREE))
    K, W = gathered(k.space), gathered(flow.space)
    parts = [
        weights
        * interpolated(K, k.vec.array, second)[:, 0]
        * -np.einsum("qd,qd->q", interpolated(W, flow.vec.array, first), normals)
        for first, second, weights, normals in facets(K.mesh)
    ]
    assert abs(value - np.sum(np.concatenate(parts))) < 1e-12 * abs(np.concatenate(parts)).sum()


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("cell", ["triangle", "prism"])
def test_values_alone(cell, rng):
    """Kernels for the nodes on facets, of one cell or of two, compute what the element matrices of all nodes come to."""
    dm = random_mesh(cell, (3, 2, 2)[: reference_cell(cell).dim], 7)
    V = FunctionSpace(dm, "DG", 2, shape=2)
    u, v, k = Function(V), ufl.TestFunction(V), Function(FunctionSpace(dm, "Lagrange", 1))
    k.interpolate(lambda x: 1 + x[0])
    upwind = ufl.max_value(ufl.FacetNormal(V.ufl_domain())[0], 0)
    F = dot(u, v) * ufl.dx + k * dot(ufl.jump(u * u[0] * upwind), v("+") - 2 * v("-")) * dS(degree=6)
    F += k * u[0] * dot(u, v) * upwind * ufl.ds(degree=6)
    problem = NonlinearProblem(F, u, petsc_options={"pc_type": "none"})
    uses = {(term.use, len(term.sides)) for term in problem.operator.local.terms if term.facets is not None}
    assert uses == set(product(("traces", "matrices"), (1, 2)))
    u.vec.setArray(rng.uniform(0, 1, u.vec.getLocalSize()))
    matrix, w = problem.assemble_jacobian(), u.vec.duplicate()
    w.setArray(rng.uniform(0, 1, w.getLocalSize()))
    products = [w.duplicate() for _ in range(3)]
    problem.jacobian.mult(w, products[0])
    matrix.mult(w, products[1])
    np.testing.assert_allclose(products[0].array_r, products[1].array_r, rtol=1e-12, atol=1e-14)
    problem.jacobian.getDiagonal(products[0])
    np.testing.assert_allclose(products[0].array_r, matrix.getDiagonal().array_r, rtol=1e-12, atol=1e-14)
    # F is quadratic: its derivative at u times u is twice what is quadratic in it, and once the rest
    problem.residual(u.vec, products[0])
    matrix.mult(u.vec, products[1])
    mass = NonlinearProblem(dot(u, v) * ufl.dx, u, petsc_options={"pc_type": "none"})
    mass.residual(u.vec, products[2])
    np.testing.assert_allclose(2 * products[0].array_r, products[1].array_r + products[2].array_r, rtol=1e-11, atol=1e-13)
