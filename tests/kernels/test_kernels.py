"""Kernels against their numpy twin: random plans, elements, forms and meshes, so chosen that every value of every axis occurs.

Every sample builds both schedules, one for the residual and the other for the action, and the diagonal or the matrices. Buffers
that a kernel must not read, and all that it must write, hold NaN before it runs. Every entry of every result must be as near to the
twin's as rounding explains (`conformance.bounds`).
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import ufl
from conformance.bounds import Arithmetic, Bounds, diagonal, local_vector
from petsc4py import PETSc
from random_meshes import CELLS, MIXED, random_cells, random_mixed
from ufl import ds, dx, grad, inner

from femgpu import Constant, Function, FunctionSpace, MixedSpace, coordinates
from femgpu.element import reference_cell
from femgpu.forms import lower_form
from femgpu.operators import FormOperator
from femgpu.options import Settings
from femgpu.runtime import for_comm

NUM_SAMPLES = 24
# Test functions times points times cells: what keeps a sample's twin under a second.
WORK = 4_000_000
FORMS = ("all", "mass", "stiffness", "gradients", "boundary", "fields", "second")

AXES = {
    "element": [*itertools.product((*CELLS, "prism"), range(1, 5)), *itertools.product(MIXED, range(1, 3))],
    "num_comp": [1, 2, 3],
    "num_blocks": range(1, 9),
    "num_batches": range(1, 33),
    "precision": ["double", "single", "mixed"],
    "scatter": ["gather", "atomic"],
    "geometry": ["stored", "recomputed"],
    "shape": ["affine", "distorted", "both"],
    "form": FORMS,
    "group_size": [1, 7, 64, 96],
    "points": ["one", "few", "many", "petsc"],
    "residual": ["cell", "transposed"],
    "matrices": ["diagonal", "matrix"],
}  # fmt: skip


def samples(rng):
    """Each axis runs through its values in random order, as often as there are samples."""
    columns = {}
    for name, values in AXES.items():
        values = list(values)
        rounds = -(-NUM_SAMPLES // len(values))
        order = np.concatenate([rng.permutation(len(values)) for _ in range(rounds)])[:NUM_SAMPLES]
        columns[name] = [values[i] for i in rng.permutation(order)]
    return [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def quadrature_degree(sample):
    degree = sample.element[1]
    return {"one": 0, "few": degree, "many": 2 * degree + 1, "petsc": degree}[sample.points]


def num_cells(sample, rng):
    """A prime number of cells, so that nothing divides it, as large as the twin's work allows or a part of that."""
    cell, degree = sample.element
    dim, simplex = reference_cell(cell).dim, reference_cell(cell).is_simplex
    basis = math.comb(degree + dim, dim) if simplex else (degree + 1) ** dim
    points = (quadrature_degree(sample) // 2 + 1) ** dim
    work = points * (basis * sample.num_comp) ** 2 * dim * (4 if sample.form in ("second", "fields") else 1)
    limit = min(max(WORK // work, 4), 2500)
    if sample.geometry == "recomputed":
        # A Jacobian from vertex coordinates loses digits as cells get small beside the mesh: with many bounds allow too much.
        per_side = 50 if sample.precision == "double" else 12
        limit = min(limit, per_side**dim)
    count = int(limit * rng.uniform(0.4, 1)) if rng.random() < 0.7 else int(rng.integers(2, limit))
    return next(n for n in range(max(count, 2), 1, -1) if all(n % k for k in range(2, math.isqrt(n) + 1)))


def random_plex(sample, rng):
    """The sample's mesh: one cell type, or several."""
    cell = sample.element[0]
    if cell not in MIXED:
        return random_cells(cell, num_cells(sample, rng), rng, sample.shape)
    dim = 2 if cell == "triangle+quadrilateral" else 3
    counts = tuple(int(count) for count in rng.integers(2, 5 if dim == 2 else 3, dim))
    distort = 0 if sample.shape == "affine" else 0.1
    return random_mixed(cell, counts, int(rng.integers(2**31)), distort, PETSc.COMM_SELF)


def random_form(sample, dm, rng):
    """The form, and the sample's unknown."""
    shape = () if sample.num_comp == 1 else (sample.num_comp,)
    V = FunctionSpace(dm, "Lagrange", sample.element[1], shape=shape)
    dim, x = V.mesh.dim, coordinates(dm)
    scalar = Function(FunctionSpace(dm, "DG", int(rng.integers(sample.form == "gradients", 3))), "scalar")
    vector = Function(FunctionSpace(dm, "Lagrange", int(rng.integers(1, 3)), shape=(dim,)), "vector")
    for function in (scalar, vector):
        function.vec.setArray(rng.uniform(0.5, 1.5, function.vec.getLocalSize()))
    number, direction = Constant(dm, rng.uniform(0.5, 1.5)), Constant(dm, rng.uniform(0.5, 1.5, dim))
    measure, surface = (kind(V.ufl_domain(), degree=quadrature_degree(sample)) for kind in (dx, ds))
    if sample.form == "fields":
        return lower_form(*coupled_fields(sample, V, scalar, vector, measure, surface, rng))
    u, v, n = Function(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    # One direction for a scalar and for a vector-valued function alike: grad has the derivative last.
    along = ufl.dot(grad(u), vector + direction)
    second = sum(ufl.dot(grad(grad(u)), direction)[..., i] for i in range(dim)) if sample.num_comp > 1 else ufl.div(grad(u))
    F = {
        "all": (number + inner(u, u)) * scalar * inner(grad(u), grad(v)) * measure
        + inner(along, v) * measure
        + inner(u, ufl.dot(grad(v), vector)) * x[0] * measure
        - ufl.exp(-inner(u, u)) * inner(u, v) * measure,
        "mass": scalar * inner(u, v) * measure,
        "stiffness": inner(grad(u), grad(v)) * measure,
        "gradients": (ufl.div(vector) + x[0]) * inner(along, v) * measure
        + inner(grad(scalar), grad(scalar)) * inner(u, v) * measure,
        "boundary": inner(grad(u), grad(v)) * measure
        + (number + inner(u, u)) * scalar * inner(u, v) * surface
        + ufl.dot(vector + x, n) * inner(along, v) * surface
        - inner(ufl.dot(grad(u), n), ufl.dot(grad(v), direction)) * surface,
        "second": inner(second + u, ufl.dot(grad(v), vector)) * measure
        + ufl.div(grad(scalar)) * inner(along, v) * measure
        + inner(second, second) * inner(u, v) * measure
        + number * inner(second, v) * surface,
    }[sample.form]
    return lower_form(F, u)


def coupled_fields(sample, V, scalar, vector, measure, surface, rng):
    """A form of three fields with different degrees and components, one of them discontinuous, and its unknown."""
    dm = V.dm
    degree = int(rng.integers(1, 4 if V.mesh.dim < 3 else 3))
    spaces = {"first": V, "second": FunctionSpace(dm, "Lagrange", degree), "third": FunctionSpace(dm, "DG", 1, shape=(2,))}
    W = MixedSpace({name: spaces[name] for name in rng.permutation(list(spaces))})
    w = Function(W, "w")
    tests = dict(zip(spaces_of(W), ufl.split(ufl.TestFunction(W)), strict=True))
    u, p, q = (w.sub(name) for name in spaces)
    v, r, s = (tests[name] for name in spaces)
    F = (1 + p**2 + inner(q, q)) * scalar * inner(grad(u), grad(v)) * measure - inner(u, u) * ufl.dot(grad(r), vector) * measure
    F += (ufl.dot(grad(p), vector) * s[0] + q[1] * p * s[1] + inner(ufl.dot(grad(u), vector), v)) * measure
    F += (p * inner(u, v) + q[0] * r) * surface
    return F, w


def spaces_of(W):
    return [field.name for field in W.fields]


class Case:
    """A form on a mesh with random vectors, and what the twin makes of them."""

    def __init__(self, sample, rng):
        self.sample, self.rng = sample, rng
        self.form = random_form(sample, random_plex(sample, rng), rng)
        space = self.space = self.form.space
        state, direction = (rng.uniform(-1, 1, space.num_local) for _ in range(2))
        self.vectors = {"u": state, "w": direction}
        self.vectors |= {f"a{i}": function.local_array() for i, function in enumerate(self.form.coefficients)}

    def operator(self, schedule):
        sample, blocked = self.sample, schedule == "transposed"
        settings = Settings(
            # Facets and diagonals go by the other schedule where this one is not asked for by name.
            schedule="auto" if blocked else f"cell:group_size={self.sample.group_size}",
            precision=sample.precision,
            scatter=sample.scatter,
            geometry=sample.geometry,
            num_blocks=sample.num_blocks if blocked else 0,
            num_batches=sample.num_batches if blocked else 0,
            default_quadrature_order=quadrature_degree(sample) if sample.points == "petsc" else -1,
        )
        operator = FormOperator(self.form, settings, for_comm("", self.space.mesh.mpi))
        operator.update()
        return operator

    def expected(self, operator):
        """The twin's residual, action, diagonal (one L-vector each) and matrices (one array per term), with bounds of the error."""
        constants = operator.form.constant_values()
        arithmetic = Arithmetic(self.sample.precision, self.sample.geometry)
        parts = {"residual": [], "action": [], "diagonal": []}
        matrices = []
        for term in operator.terms:
            bounds = Bounds(term, arithmetic)
            for target in ("residual", "action"):
                if (pointwise := term.pointwise(target)) is not None:
                    parts[target].append((term, bounds.element_vectors(pointwise, self.vectors, constants)))
            for target in ("matrix", "diagonal"):
                if (pointwise := term.pointwise(target)) is not None:
                    entries = bounds.element_matrices(pointwise, self.vectors, constants)
                    if target == "matrix":
                        matrices.append(entries)
                    else:
                        parts[target].append((term, diagonal(entries, term)))
        return {name: [local_vector(self.space, found, arithmetic)] for name, found in parts.items()} | {"matrix": matrices}

    def computed(self, operator, target):
        """What the kernels make of it, in poisoned buffers."""
        runtime, size, scalar = operator.runtime, self.space.num_local, operator.scalar
        given = {"u": target == "residual", "base": target != "residual", "w": target == "action"}
        for name, wanted in given.items():
            values = self.vectors["w" if name == "w" else "u"] if wanted else np.full(size, np.nan)
            runtime.write(getattr(operator, name), values.astype(scalar))
        operator.prepare(target)
        poison(runtime, operator.out)
        if operator._sums.segments is not None:
            poison(runtime, operator._sums.segments.buffer)
        if target == "matrix":
            poison(runtime, operator._matrix)
            return operator.matrices()
        getattr(operator, target)()
        return runtime.read(operator.out, np.empty(size, scalar))


def poison(runtime, buffer):
    """Fills a device buffer with NaN (all bits set, in either precision)."""
    runtime.write(buffer, np.full(buffer.size, 0xFF, np.uint8))


def errors(case):
    """The largest error of an entry in units of its bound, by schedule and target; NaN if an entry is."""
    found = {}
    expected = None
    action = "transposed" if case.sample.residual == "cell" else "cell"
    targets = {case.sample.residual: ["residual"], action: ["action"]}
    targets["cell"].append(case.sample.matrices)
    for schedule in targets:
        operator = case.operator(schedule)
        expected = case.expected(operator) if expected is None else expected
        for target in targets[schedule]:
            got = case.computed(operator, target)
            pairs = zip(got if target == "matrix" else [got], expected[target], strict=True)
            found[schedule, target] = float(np.max([result.worst(array) for array, result in pairs]))
            plans = [entry.plan for entry in operator.prepare(target) if not entry.plan.work.facet]
            assert target in ("diagonal", "matrix") or {plan.schedule for plan in plans} == {schedule}
            if schedule == "transposed":
                wanted = (case.sample.num_blocks, case.sample.num_batches)
                assert {(plan.num_blocks, plan.num_batches) for plan in plans} == {wanted}
    return found


@pytest.mark.parametrize("number", range(NUM_SAMPLES))
def test_kernels_equal_the_twin(seed, rng, number):
    sample = samples(np.random.default_rng(seed))[number]
    case = Case(sample, rng)
    check_shape(sample, case.space.mesh)
    found = errors(case)
    print(sample, case.space.mesh.view(), found)
    assert all(error <= 1 for error in found.values())


def check_shape(sample, mesh):
    """The mesh has the cells that the sample asks for: simplices are always affine."""
    for block in mesh.blocks:
        if sample.shape == "affine" or block.reference.is_simplex:
            assert block.affine.all()
        elif sample.shape == "distorted" and len(mesh.blocks) == 1:
            assert not block.affine.any()


def test_large_groups_fit_the_stack_of_a_cpu(rng):
    """Private arrays of a whole group stand on a thread's stack under PoCL; groups are cut to what fits."""
    largest = dict(element=("tetrahedron", 3), num_comp=3, num_blocks=8, num_batches=13, precision="double", scatter="gather")
    built = dict(residual="cell", matrices="matrix")
    sample = SimpleNamespace(**largest, **built, geometry="recomputed", shape="distorted", form="all", group_size=64, points="many")
    found = errors(Case(sample, rng))
    assert all(error <= 1 for error in found.values()), found
