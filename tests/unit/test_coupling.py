"""Which actions treat components alike, and each by itself; which works of theirs have components that stand as cells."""

from dataclasses import replace

import pytest
import ufl
from random_meshes import random_cells
from ufl import dx, grad, inner

from femgpu import Constant, Function, FunctionSpace, MixedSpace, coordinates
from femgpu.bench.bakeoff import weak_form
from femgpu.bench.grid import Grid, GridSpace
from femgpu.forms import bilinear_form, lower_form
from femgpu.kernels import Wish, schedule_named
from femgpu.kernels.schedules.sumfact_pencils import SumfactPencilPlan
from femgpu.kernels.schedules.sumfact_planes import SumfactPlanePlan
from femgpu.model import Limits
from femgpu.model.bakeoff import PROBLEMS
from femgpu.operators import make_terms
from femgpu.operators.work import make_work
from femgpu.options import Settings

GPU = Limits(
    items=1024, local_bytes=227 << 10, atomics="ptx", native_atomics=True, unroll=10240, block=32, group=128, registers=65536
)
UNCOUPLED = {
    "mass": lambda u, v, a, b, c: c * inner(u, v) * dx,
    "Laplacian": lambda u, v, a, b, c: inner(grad(u), grad(v)) * dx,
    "conductivity and reaction": lambda u, v, a, b, c: (a * inner(grad(u), grad(v)) + b[0] * inner(u, v)) * dx,
    "tensor": lambda u, v, a, b, c: inner(ufl.dot(grad(u), ufl.as_matrix([[2, b[0]], [b[0], 1]])), grad(v)) * dx,
    "convection": lambda u, v, a, b, c: inner(ufl.dot(grad(u), b), v) * dx,
    "by a coefficient's gradient": lambda u, v, a, b, c: a.dx(0) * inner(u, v) * dx,
}
COUPLED = {
    "much that is shared": lambda u, v, a, b, c: ufl.exp(-b[0] * b[1]) * inner(grad(u), grad(v)) * dx,
    "elasticity": lambda u, v, a, b, c: inner(ufl.sym(grad(u)), grad(v)) * dx,
    "divergence": lambda u, v, a, b, c: (inner(grad(u), grad(v)) + ufl.div(u) * ufl.div(v)) * dx,
    "exchanged": lambda u, v, a, b, c: (u[0] * v[1] + u[1] * v[0]) * dx,
    "different numbers": lambda u, v, a, b, c: (u[0] * v[0] + 2 * u[1] * v[1]) * dx,
    "different signs": lambda u, v, a, b, c: (u[0].dx(0) * v[0].dx(0) - u[1].dx(0) * v[1].dx(0)) * dx,
    "different directions": lambda u, v, a, b, c: (u[0].dx(0) * v[0].dx(0) + u[1].dx(1) * v[1].dx(1)) * dx,
    "values and gradients": lambda u, v, a, b, c: (u[0] * v[0] + inner(grad(u[1]), grad(v[1]))) * dx,
    "different coefficients": lambda u, v, a, b, c: (b[0] * u[0] * v[0] + b[1] * u[1] * v[1]) * dx,
    "one component": lambda u, v, a, b, c: u[0] * v[0] * dx,
    "the state": lambda u, v, a, b, c: inner(u, u) * inner(u, v) * dx,
    "each by its own state": lambda u, v, a, b, c: (u[0] ** 2 * v[0] + u[1] ** 2 * v[1]) * dx,
    "second derivatives": lambda u, v, a, b, c: inner(ufl.div(grad(u)), v) * dx,
}


@pytest.mark.parametrize("name", [*UNCOUPLED, *COUPLED])
def test_uncoupled_actions(name, rng):
    dm = random_cells("quadrilateral", 2, rng, "distorted")
    V, A = FunctionSpace(dm, "Lagrange", 2, shape=(2,)), FunctionSpace(dm, "Lagrange", 1)
    u, a = Function(V), Function(A)
    form = lower_form((UNCOUPLED | COUPLED)[name](u, ufl.TestFunction(V), a, coordinates(dm), Constant(dm, 2.0)), u)
    (integral,) = form.integrals
    assert integral.action.uncoupled == (name in UNCOUPLED)
    assert not (integral.residual.uncoupled or integral.jacobian.uncoupled)


def test_one_component_and_two_fields(rng):
    """What is uncoupled are several components of one field."""
    dm = random_cells("hexahedron", 2, rng, "distorted")
    V = FunctionSpace(dm, "Lagrange", 2)
    mass = inner(ufl.TrialFunction(V), ufl.TestFunction(V)) * dx
    assert not bilinear_form(mass).integrals[0].action.uncoupled
    W = MixedSpace({"a": V, "b": FunctionSpace(dm, "Lagrange", 1)})
    form = bilinear_form(inner(ufl.TrialFunction(W), ufl.TestFunction(W)) * dx)
    (term,) = make_terms(form, Settings())
    assert form.integrals[0].action.uncoupled and not make_work(term, "action", form.integrals[0].action).uncoupled


def work_of(name, degree, source="lvector"):
    """The action of a bake-off problem."""
    form = bilinear_form(weak_form(PROBLEMS[name], GridSpace(Grid((2, 2, 2)), degree, PROBLEMS[name].num_comp)))
    (term,) = make_terms(form, Settings())
    return make_work(term, "action", form.integrals[0].action, source=source)


def first(work, limits=GPU, scatter="atomic", **parameters):
    """The default plan of sumfact."""
    return next(
        iter(schedule_named("sumfact").plans(work, limits, Wish("double", "recomputed", scatter, tuple(parameters.items()))))
    )


def test_components_that_stand_as_cells():
    """Vectors are as long, and as much is computed for a component as for the scalar problem."""
    whole, scalar = work_of("bp4", 2), work_of("bp3", 2)
    assert whole.uncoupled and (whole.parts, whole.whole) == (1, whole) and scalar.apart is scalar
    plan, one = first(whole), first(scalar)
    assert type(plan) is type(one) is SumfactPlanePlan and (plan.items, plan.cells) == (one.items, one.cells)
    assert plan.work.whole is whole and (plan.work.parts, plan.work.num_comp) == (3, 1) and "27 basis x 3 comp apart" in str(plan)
    (step,), (single,) = plan.steps(), one.steps()
    assert (step.parts, single.parts) == (3, 1) and plan.flops == 3 * one.flops
    assert step.global_size(16) == single.global_size(48) == 6 * plan.cells * plan.items
    moved = {array.name: array.words for array in step.arrays}
    assert moved["d_w"] == moved["d_out"] == 3 * 27 and moved["d_w_offsets"] == 27
    # Offsets of nodes with prescribed components say which by an array.
    masked = replace(whole.apart, rows=tuple(replace(row, masked=True) for row in whole.apart.rows))
    assert "d_prescribed" in {array.name for array in replace(plan, work=masked).arguments()}


@pytest.mark.parametrize(
    ("name", "degree", "stored", "parts"),
    [
        ("bp2", 4, 0, 1),
        ("bp2", 5, 0, 3),
        ("bp4", 6, 0, 1),
        ("bp4", 7, 0, 3),
        ("bp6", 6, 0, 1),
        ("bp6", 7, 0, 3),
        ("bp4", 8, 0, 1),
        ("bp6", 8, 0, 3),
        ("bp2", 8, 0, 3),
        ("bp2", 9, 0, 1),
        ("bp2", 5, 1, 3),
        ("bp4", 3, 6, 1),
        ("bp4", 4, 6, 1),
        ("bp4", 4, 11, 3),
        ("bp6", 4, 6, 1),
    ],
)
def test_pencils_of_components(name, degree, stored, parts):
    """From so many points per direction on, by what is computed and stored, while a group has room for all of a cell."""
    work = replace(work_of(name, degree), num_state=stored)
    plan = first(work, pencils=3)
    assert type(plan) is SumfactPencilPlan and (plan.work.parts, plan.cells_first) == (parts, parts > 1)
    default = first(work)
    assert type(default) is not SumfactPencilPlan or default.cells % parts == 0


@pytest.mark.parametrize(
    ("name", "degree", "planes"),
    [("bp6", 2, 21), ("bp6", 3, 0), ("bp4", 2, 8), ("bp4", 3, 6), ("bp4", 4, 0), ("bp2", 2, 8), ("bp2", 4, 5), ("bp2", 5, 0)],
)
def test_components_with_stored_numbers(name, degree, planes):
    """At few points per direction planes, which had 8 cells at Q2 in BP4 and so on when they were measured."""
    plan = first(replace(work_of(name, degree), num_state=1 if name == "bp2" else 6))
    assert type(plan) is (SumfactPlanePlan if planes else SumfactPencilPlan)
    assert not planes or (plan.cells, plan.work.parts) == (planes, 3)
    alone = first(replace(work_of(name.replace("4", "3").replace("6", "5"), degree), num_state=6))
    assert name == "bp2" or type(alone) is SumfactPencilPlan


@pytest.mark.parametrize(
    ("name", "degree", "stored", "shared"),
    [
        ("bp4", 3, 6, False),
        ("bp4", 4, 6, True),
        ("bp4", 8, 6, True),
        ("bp4", 9, 6, False),
        ("bp6", 4, 6, False),
        ("bp6", 5, 6, True),
        ("bp4", 4, 0, False),
        ("bp4", 6, 0, False),
        ("bp4", 7, 0, False),
        ("bp4", 8, 0, True),
        ("bp6", 8, 0, False),
        ("bp2", 5, 1, False),
        ("bp3", 4, 6, False),
    ],
)
def test_components_share_points(name, degree, stored, shared):
    """Where numbers are stored at the points and derivatives taken, or components mix, and a group has room for all of them."""
    work = replace(work_of(name, degree), num_state=stored)
    plan = first(work, pencils=1)
    assert plan.shares_points == shared and plan.sharers == (3 if shared else 1)
    assert plan.items == plan.sharers * plan.width**2 and not (shared and plan.work.parts > 1)
    assert not first(work, pencils=1, shared=0).shares_points
    assert first(work, pencils=1, shared=1).shares_points == (name in ("bp4", "bp6"))
    coupled = first(replace(work, uncoupled=False, num_state=0), pencils=1)
    assert coupled.shares_points == (name == "bp4" and coupled.q1d in (6, 7, 9, 10))
    # As those were that were measured, and where there is room.
    assert not first(replace(work, num_state=11), pencils=1).shares_points
    assert not first(replace(work, target="residual"), pencils=1).shares_points
    single = Wish("single", "recomputed", "atomic", (("pencils", 1),))
    assert not next(schedule_named("sumfact").plans(work, GPU, single)).shares_points
    if shared:
        small = first(work, replace(GPU, local_bytes=plan.local_bytes - 8), pencils=1)
        assert type(small) is SumfactPencilPlan and not small.shares_points
        # Of each component a lattice of values and three of derivatives.
        assert plan.num_lattices == 4 and plan.local_bytes >= 3 * 8 * 4 * plan.width**3


def test_more_components_than_points_on_a_line():
    """Some would have no points."""
    assert not first(work_of("bp6", 1), pencils=1, shared=1).shares_points
    assert first(work_of("bp6", 2), pencils=1, shared=1).shares_points


def test_components_stay_together():
    """Where cells have entries of their own."""
    assert first(work_of("bp4", 2), scatter="evector", planes=3).work.parts == 1
    assert not work_of("bp4", 2, source="evector").uncoupled
