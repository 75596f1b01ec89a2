"""Integrals over facets between two cells against an assembly that knows neither facets, nor how cells lie at each other.

It finds facets by the vertices that two cells share, places the points of a rule on the first cell's facet, and looks for each of
them in the second cell by Newton's method. Normals come from tangents.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, random_cells, random_mixed
from ufl import avg, dot, dS, grad, inner, jump

import femgpu
from femgpu import Constant, Function, FunctionSpace, NonlinearProblem
from femgpu.element import basix_rule, facet_rules
from femgpu.element.reference import FACET_NAMES
from femgpu.forms.ufl.walk import Walk
from femgpu.mesh import Mesh, interior
from femgpu.spaces.cell_quantities import CELL_QUANTITIES

DATA = Path(__file__).parents[1] / "data"
# That the rules integrate exactly.
DEGREE = 4
CURVED = ("disk_2", "ball_2")
# Of the cells: affine ones, others, or both; only simplices are affine in any case.
SHAPES = {"quadrilateral": "both"}
# Where entries are added to the matrix as they are computed, too.
ATOMIC = ("triangle",)


class Side:
    """A cell at some points of a facet.

    Attributes:
        x: (point, dim) the points.
        points: the same on the reference cell.
        inverse: (point, dim, dim) dX_k / dx_d.
    """

    def __init__(self, block, index, points):
        self.block, self.index, self.points = block, index, points
        self.x = block.physical_points(points, np.array([index]))[0]
        self.inverse = np.linalg.inv(block.jacobians(points, np.array([index]))[0])

    def basis(self, field):
        """Values (point, basis), gradients (point, basis, dim) and positions (basis,) of a field's functions."""
        values, gradients = field.elements[self.block.index].tabulate(self.points)
        return values, np.einsum("qbk,qkd->qbd", gradients, self.inverse), field.offsets[self.block.index][self.index]


def find(block, index, x):
    """The points of the reference cell that lie at x."""
    points = np.tile(block.reference.vertices.mean(axis=0), (len(x), 1))
    for _ in range(30):
        there = Side(block, index, points)
        step = np.einsum("qkd,qd->qk", there.inverse, x - there.x)
        points = points + step
        if abs(step).max() < 1e-15:
            break
    assert abs(Side(block, index, points).x - x).max() < 1e-13
    return points


def rule(num_vertices):
    """Points on the facet as weights of its vertices (point, vertex), derivatives of these (point, vertex, direction), and weights.

    Where maps bend, integrands are no polynomials: the rule has to be femgpu's own.
    """
    if num_vertices == 1:
        return np.ones((1, 1)), np.zeros((1, 1, 0)), np.ones(1)
    given = basix_rule(FACET_NAMES[num_vertices], DEGREE)
    (s, *more), one, half = (given.points.T + 1) / 2, np.ones(given.num_qpts), 0.5 ** given.points.shape[1]
    if num_vertices == 2:
        return np.stack([1 - s, s], axis=1), np.tile([[-1.0], [1.0]], (len(s), 1, 1)), given.weights * half
    (t,) = more
    if num_vertices == 3:
        slopes = np.tile([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]], (len(s), 1, 1))
        return np.stack([1 - s - t, s, t], axis=1), slopes, given.weights * half
    slopes = np.array([[t - 1, s - 1], [one - t, -s], [t, s], [-t, one - s]]).transpose(2, 0, 1)
    return np.stack([(1 - s) * (1 - t), s * (1 - t), s * t, (1 - s) * t], axis=1), slopes, given.weights * half


def facets(mesh):
    """Both sides of each facet between two cells, the weights of its points, and the first cell's outward normals there."""
    cells = {}
    for block in mesh.blocks:
        nodes = block.physical_points(block.reference.vertices)
        for index, number in enumerate(block.ids):
            for loop in block.reference.loops:
                key = frozenset(tuple(np.round(nodes[index, vertex], 10)) for vertex in loop)
                cells.setdefault(key, []).append((int(number), block, index, loop))
    for found in cells.values():
        if len(found) == 2:
            (_, block, index, loop), (_, other, behind, _) = sorted(found, key=lambda entry: entry[0])
            shapes, slopes, weights = rule(len(loop))
            first = Side(block, index, shapes @ block.reference.vertices[list(loop)])
            tangents = np.einsum("qvt,vk,qdk->qdt", slopes, block.reference.vertices[list(loop)], np.linalg.inv(first.inverse))
            middle = block.physical_points(block.reference.vertices.mean(axis=0)[None], np.array([index]))[0]
            if mesh.dim == 1:
                normals = np.ones((1, 1))
            elif mesh.dim == 2:
                normals = tangents[:, ::-1, 0] * [1, -1]
            else:
                normals = np.cross(tangents[:, :, 0], tangents[:, :, 1])
            lengths = np.linalg.norm(normals, axis=1)
            outward = np.sign(np.einsum("qd,qd->q", normals, first.x - middle))
            yield (
                first,
                Side(other, behind, find(other, behind, first.x)),
                weights * lengths,
                normals * (outward / lengths)[:, None],
            )


def interpolated(function, side):
    """Values (point, comp) of a Function."""
    values, _, offsets = side.basis(function.space.field)
    return values @ function.local_array()[offsets[:, None] + np.arange(function.space.num_comp)]


def volumes(mesh):
    """Of each cell, by block and index."""
    return [CELL_QUANTITIES["CellVolume"](block) for block in mesh.blocks]


def weak_form(V, k, flow):
    """A bilinear form in which both sides differ, all derivatives and inputs occur, and nothing is symmetric."""
    u, v, domain = ufl.TrialFunction(V), ufl.TestFunction(V), V.ufl_domain()
    n, h, x = ufl.FacetNormal(domain), ufl.CellVolume(domain), femgpu.coordinates(V.dm)
    number = Constant(V.dm, 1.3)
    slope = dot(grad(u), flow)
    a = number * avg(k) * inner(jump(u), jump(v)) + k("-") * h("+") * inner(u("+"), v("-")) * (2 + x[0])
    a += dot(flow, n("-")) * inner(slope("+"), v("-")) + k("+") * inner(u("-"), dot(grad(v), flow)("+"))
    return a + h("-") * inner(slope("-"), dot(grad(v), flow)("+")) + dot(n("+"), flow) * inner(avg(u), v("+"))


def oracle(V, k, flow):
    """(num_local, num_local) the matrix of `weak_form`."""
    size, field = V.num_local, V.field
    matrix, volume = np.zeros((size, size)), volumes(V.mesh)
    for first, second, weights, normals in facets(V.mesh):
        (kp, km), (hp, hm) = (
            (of(first), of(second)) for of in (lambda s: interpolated(k, s)[:, 0], lambda s: volume[s.block.index][s.index])
        )
        f, x = interpolated(flow, first), first.x[:, 0]
        through = np.einsum("qd,qd->q", f, normals)
        (up, gp, ip), (um, gm, im) = first.basis(field), second.basis(field)
        sp, sm = (np.einsum("qbd,qd->qb", slopes, f) for slopes in (gp, gm))

        def term(factor, test, trial, weights=weights):
            return np.einsum("q,qi,qj->ij", weights * factor, test, trial)

        mean = 1.3 * (kp + km) / 2
        blocks = {
            ("+", "+"): term(mean, up, up) + term(0.5 * through, up, up),
            ("+", "-"): term(-mean, up, um) + term(kp, sp, um) + term(hm, sp, sm) + term(0.5 * through, up, um),
            ("-", "+"): term(-mean, um, up) + term(km * hp * (2 + x), um, up) + term(-through, um, sp),
            ("-", "-"): term(mean, um, um),
        }
        for (test, trial), block in blocks.items():
            rows, columns = (ip if side == "+" else im for side in (test, trial))
            for component in range(V.num_comp):
                np.add.at(matrix, (rows[:, None] + component, columns[None] + component), block)
    return matrix


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
    u, w, vector = Function(V), random_function(V, rng), Function(V).vec
    u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    F, scale = ufl.replace(form, {ufl.TrialFunction(V): u}), abs(expected).sum(axis=1).max()
    for scatter in scatters:
        problem = NonlinearProblem(F, u, petsc_options={"femgpu_scatter": scatter, "femgpu_jacobian": "assembled"})
        matrix = assembled(problem, u)
        assert abs(matrix.getValues(range(V.num_local), range(V.num_local)) - expected).max() < 1e-12 * scale
    problem = NonlinearProblem(F, u)
    problem.residual(u.vec, vector)
    assert abs(vector.array - expected @ u.vec.array).max() < 1e-12 * scale
    matrix = assembled(problem, u)
    for multiply, exact in ((matrix.mult, expected), (matrix.multTranspose, expected.T)):
        multiply(w.vec, vector)
        assert abs(vector.array - exact @ w.vec.array).max() < 1e-12 * scale
    matrix.getDiagonal(vector)
    assert abs(vector.array - expected.diagonal()).max() < 1e-12 * scale


def assembled(problem, u):
    """The Jacobian at u."""
    problem.snes.setUp()
    jacobian, preconditioner, _ = problem.snes.getJacobian()
    problem.snes.computeJacobian(u.vec, jacobian, preconditioner)
    return jacobian


@pytest.mark.parametrize("name", (*ALL_CELLS, "triangle+quadrilateral", "disk_2", PARTLY_BENT))
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
    parts = [
        weights * interpolated(k, second)[:, 0] * -np.einsum("qd,qd->q", interpolated(flow, first), normals)
        for first, second, weights, normals in facets(k.space.mesh)
    ]
    assert abs(value - np.sum(np.concatenate(parts))) < 1e-12 * abs(np.concatenate(parts)).sum()
