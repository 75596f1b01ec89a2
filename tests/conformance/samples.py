"""Random forms on random meshes, so chosen that every value of every axis occurs."""

import itertools
import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import ufl
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, random_cells, random_mixed
from ufl import avg, dS, ds, dx, grad, inner, jump

from femgpu import Constant, Function, FunctionSpace, MixedSpace, coordinates
from femgpu.forms import functional, lower_form
from femgpu.options import Settings

FORMS = ("all", "mass", "stiffness", "gradients", "boundary", "facets", "fields", "second", "test second", "between", "isotropic")
# What has degree 1 to 4, some with bubbles.
BUBBLES = [("triangle", 1, "P+B"), ("triangle", 2, "P+B"), ("tetrahedron", 1, "P+B")]
LOW = [*itertools.product(ALL_CELLS, range(1, 5)), *itertools.product(MIXED, range(1, 3)), *BUBBLES]
HIGH = [*itertools.product(ALL_CELLS, range(5, 9))]
HIGHEST = [("quadrilateral", degree) for degree in range(9, 16)]
# Numbers of cells of the meshes: the twin computes each of them once, however often a kernel does.
_CELLS = 5


def draw(rng, count, **axes):
    """Samples: each axis runs through its values in random order, as often as there are samples."""
    columns = {}
    for name, values in axes.items():
        values = list(values)
        rounds = -(-count // len(values))
        order = np.concatenate([rng.permutation(len(values)) for _ in range(rounds)])[:count]
        columns[name] = [values[i] for i in rng.permutation(order)]
    return [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


@dataclass(frozen=True)
class Problem:
    """A form with data.

    Attributes:
        form: the lowered form.
        vectors: L-vectors of state, direction and coefficients by name.
        constants: values of the form's constants.
    """

    form: object
    vectors: dict
    constants: np.ndarray


def make_problem(sample, rng):
    """A sample's form on its mesh, with random vectors.

    Args:
        sample: with `element` (cell, degree, and the family where it has bubbles), `num_comp`, `form` (one of `FORMS`, "simple",
            "constants", "values", "uncoupled" or "functional"), `shape` of the cells (`flat` for triangles only) and `points`.
        rng: random numbers.
    """
    dm = _mesh(sample, rng)
    form = _functional(sample, dm, rng) if sample.form == "functional" else _form(sample, dm, rng)
    spaces = {"u": form.unknown.space, "w": form.space} if form.space is not None else {}
    vectors = {name: rng.uniform(-1, 1, space.num_local) for name, space in spaces.items()}
    vectors |= {f"a{i}": function.local_array() for i, function in enumerate(form.coefficients)}
    return Problem(form, vectors, form.constant_values())


def _mesh(sample, rng):
    cell = sample.element[0]
    if sample.shape == "flat":
        return _flattened(random_cells(cell, _CELLS, rng, "affine"))
    if cell not in MIXED:
        return random_cells(cell, _CELLS, rng, sample.shape)
    counts = tuple(int(count) for count in rng.integers(2, 4 if cell == "triangle+quadrilateral" else 3, 2))
    counts += () if cell == "triangle+quadrilateral" else (2,)
    return random_mixed(cell, counts, int(rng.integers(2**31)), 0 if sample.shape == "affine" else 0.1, PETSc.COMM_SELF)


def _flattened(dm):
    """A mesh of triangles, 1e5 times as wide as high, turned."""
    coordinates, turn = dm.getCoordinatesLocal(), np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
    coordinates.array[:] = (coordinates.array.reshape(-1, 2) * (1, 1e-5) @ turn.T).ravel()
    dm.setCoordinatesLocal(coordinates)
    return dm


def quadrature_degree(sample):
    """The degree that the rule integrates exactly."""
    degree = sample.element[1]
    return {"one": 0, "few": degree, "many": 2 * degree + 1, "petsc": degree}[sample.points]


def make_settings(sample, **values):
    """The options of a sample: PETSc's own points where it says so."""
    return Settings(default_quadrature_order=sample.element[1] if sample.points == "petsc" else -1, **values)


def _data(sample, dm, rng):
    """A scalar and a vector function, not constant in any cell but where degree 0 stands for what is."""
    dim = dm.getDimension()
    scalar = Function(FunctionSpace(dm, "DG", int(rng.integers(sample.form == "gradients", 3))), "scalar")
    vector = Function(FunctionSpace(dm, "Lagrange", int(rng.integers(1, 3)), shape=(dim,)), "vector")
    for function in (scalar, vector):
        function.vec.setArray(rng.uniform(0.5, 1.5, function.vec.getLocalSize()))
    return scalar, vector


def _functional(sample, dm, rng):
    scalar, vector = _data(sample, dm, rng)
    domain, x, number = scalar.space.ufl_domain(), coordinates(dm), Constant(dm, rng.uniform(0.5, 1.5))
    measure, surface = (kind(domain, degree=quadrature_degree(sample)) for kind in (dx, ds))
    inside = (number * scalar * ufl.div(vector) + inner(vector, vector) * x[0]) * measure
    return functional(inside + ufl.dot(vector, ufl.FacetNormal(domain)) * scalar * surface)


def _form(sample, dm, rng):
    shape = () if sample.num_comp == 1 else (sample.num_comp,)
    family = "DG" if sample.form == "between" and rng.random() < 0.5 else "Lagrange"
    V = FunctionSpace(dm, *sample.element[2:] or [family], sample.element[1], shape=shape)
    dim, x = V.mesh.dim, coordinates(dm)
    scalar, vector = _data(sample, dm, rng)
    number, direction = Constant(dm, rng.uniform(0.5, 1.5)), Constant(dm, rng.uniform(0.5, 1.5, dim))
    measure, surface = (kind(V.ufl_domain(), degree=quadrature_degree(sample)) for kind in (dx, ds))
    if sample.form == "fields":
        return lower_form(*_fields(V, scalar, vector, measure, surface, rng))
    u, v, n = Function(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    # One direction for a scalar and for a vector-valued function alike: grad has the derivative last.
    along = ufl.dot(grad(u), vector + direction)
    second, test_second = (
        sum(ufl.dot(grad(grad(w)), direction)[..., i] for i in range(dim)) if sample.num_comp > 1 else ufl.div(grad(w))
        for w in (u, v)
    )
    on_facets = (number + inner(u, u)) * scalar * inner(u, v) * surface + ufl.dot(vector + x, n) * inner(along, v) * surface
    if sample.form == "between":
        return lower_form(_between(u, v, n, scalar, vector, number) * dS(degree=quadrature_degree(sample)), u)
    F = {
        "simple": (number + inner(u, u)) * inner(grad(u), grad(v)) * measure + inner(u, v) * measure,
        "all": (number + inner(u, u)) * scalar * inner(grad(u), grad(v)) * measure
        + inner(along, v) * measure
        + inner(u, ufl.dot(grad(v), vector)) * x[0] * measure
        - ufl.exp(-inner(u, u)) * inner(u, v) * measure,
        "mass": scalar * inner(u, v) * measure,
        "values": number * inner(u, v) * measure,
        "uncoupled": number * (x[0] * inner(grad(u), grad(v)) + inner(u, v)) * measure
        + inner(ufl.dot(grad(u), direction), v) * measure,
        "isotropic": number * scalar * inner(grad(u), grad(v)) * measure + x[0] * inner(u, v) * measure,
        "stiffness": inner(grad(u), grad(v)) * measure,
        "constants": number * (inner(grad(u), grad(v)) + inner(u, v)) * measure + inner(ufl.dot(grad(u), direction), v) * measure,
        "gradients": (ufl.div(vector) + x[0]) * inner(along, v) * measure
        + inner(grad(scalar), grad(scalar)) * inner(u, v) * measure,
        "boundary": inner(grad(u), grad(v)) * measure
        + on_facets
        - inner(ufl.dot(grad(u), n), ufl.dot(grad(v), direction)) * surface,
        "facets": on_facets,
        "second": inner(second + u, ufl.dot(grad(v), vector)) * measure
        + ufl.div(grad(scalar)) * inner(along, v) * measure
        + inner(second, second) * inner(u, v) * measure
        + number * inner(second, v) * surface,
        "test second": inner(scalar * second + u, test_second) * measure
        + inner(along, test_second) * x[0] * measure
        + inner(second + u, ufl.dot(grad(v), vector) + v) * measure
        + number * inner(second + u, test_second) * surface,
    }[sample.form]
    return lower_form(F, u)


def _between(u, v, n, scalar, vector, number):
    """What couples both cells of a facet: all derivatives of both, the state of each, and nothing the same from both sides."""
    slope, test_slope = (ufl.dot(grad(w), vector) for w in (u, v))
    through, size = ufl.dot(vector, n("-")), ufl.CellVolume(u.space.ufl_domain())
    second, test_second = (sum(ufl.dot(grad(grad(w)), vector)[..., i] for i in range(len(vector))) for w in (u, v))
    F = number * scalar("-") * inner(jump(u), jump(v)) * (1 + inner(u("+"), u("-")))
    F += (
        through * inner(avg(slope), v("+"))
        + size("+") * inner(u("-"), test_slope("+"))
        + scalar("+") * inner(slope("+"), test_slope("-"))
    )
    return F + inner(second("-"), test_second("+")) + inner(u("+"), v("-")) if u.space.degree > 1 else F


def _fields(V, scalar, vector, measure, surface, rng):
    """A form of three fields with different degrees and components, one of them discontinuous, and its unknown."""
    dm = V.dm
    degree = int(rng.integers(1, 4 if V.mesh.dim < 3 else 3))
    spaces = {"first": V, "second": FunctionSpace(dm, "Lagrange", degree), "third": FunctionSpace(dm, "DG", 1, shape=(2,))}
    W = MixedSpace({name: spaces[name] for name in rng.permutation(list(spaces))})
    w = Function(W, "w")
    tests = dict(zip([field.name for field in W.fields], ufl.split(ufl.TestFunction(W)), strict=True))
    u, p, q = (w.sub(name) for name in spaces)
    v, r, s = (tests[name] for name in spaces)
    F = (1 + p**2 + inner(q, q)) * scalar * inner(grad(u), grad(v)) * measure - inner(u, u) * ufl.dot(grad(r), vector) * measure
    F += (ufl.dot(grad(p), vector) * s[0] + q[1] * p * s[1] + inner(ufl.dot(grad(u), vector), v)) * measure
    F += (p * inner(u, v) + q[0] * r) * surface
    return F, w


def is_prime(n):
    return n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1))
