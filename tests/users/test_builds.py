"""What GPUs unroll is bounded, so that the first run does not wait for the compiler."""

import math

import pytest
import ufl
from ufl import dx, exp, grad, inner, sin

import femgpu
from femgpu import runtime
from femgpu.forms import functional, lower_form
from femgpu.kernels import render
from femgpu.model import Limits
from femgpu.operators.application import term_tables
from femgpu.operators.division import make_terms
from femgpu.operators.ways import alternatives, choose_plan
from femgpu.operators.work import make_work
from femgpu.options import Settings

GPU = Limits(unroll=2048, block=32, group=128, local_bytes=200_000)


def plan_and_source(term, target, pointwise, settings=Settings()):  # noqa: B008
    plan = choose_plan(make_work(term, target, pointwise), term, settings, GPU).plan
    return plan, render(plan, pointwise.body, term_tables(term, plan, pointwise)[0])


def function(cell, degree, shape=()):
    dm = femgpu.mesh.box((1,) * (2 if cell == "triangle" else 3), cell=cell)
    return dm, femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", degree, shape=shape))


@pytest.mark.parametrize("cell, degree", [("triangle", 1), ("hexahedron", 2)])
def test_points_of_functionals(cell, degree):
    """They run once: no point is worth a second of compiling."""
    dm, u = function(cell, degree)
    exact = math.prod(sin(x) for x in femgpu.coordinates(dm))
    (term,) = make_terms(functional((u - exact) ** 2 * dx(degree=2 * degree + 4)), Settings())
    plan, source = plan_and_source(term, "functional", term.integral.functional)
    assert "#define POINTS_UNROLL _Pragma" not in source
    assert plan.unrolls_basis and "#define UNROLLED" in source
    # The model knows the functions' own instructions.
    assert plan.point_size > 20 * source.count("sin(")


def test_points_of_states():
    """State kernels have no rows either."""
    _, u = function("hexahedron", 2)
    F = exp(u) * inner(grad(u), grad(ufl.TestFunction(u.space))) * dx
    (term,) = make_terms(lower_form(F, u), Settings())
    limits = runtime.current().device.limits
    (candidate, _), *_ = alternatives(term, term.integral.action, Settings(qdata="store"), limits, u.space.mesh.mpi)
    assert term.quadrature.num_qpts > 30
    assert "#define POINTS_UNROLL _Pragma" not in plan_and_source(term, "state", candidate.split.state)[1]


@pytest.mark.parametrize("schedule", ("cell", "transposed"))
@pytest.mark.parametrize("degree, unrolled", [(1, True), (4, False)])
def test_basis_functions_of_vectors_in_all_schedules(schedule, degree, unrolled):
    _, u = function("hexahedron", degree, (3,))
    F = inner(u, u) * inner(grad(u), grad(ufl.TestFunction(u.space))) * dx(degree=2)
    (term,) = make_terms(lower_form(F, u), Settings())
    plan, source = plan_and_source(term, "residual", term.integral.residual, Settings(schedule=schedule))
    assert plan.schedule == schedule and ("#define UNROLLED" in source) == plan.unrolls_basis == unrolled
    assert ("#define ROLLED" in source) == plan.rolls_basis == (not unrolled)


def test_the_users_own_text_counts():
    space = function("triangle", 1)[1].space
    sizes = []
    for terms in (1, 400):
        form = femgpu.PointwiseForm(space, f0="f0[0] = " + " + ".join(["u[0] * x[0]"] * terms) + ";").lower(femgpu.Function(space))
        (term,) = make_terms(form, Settings())
        sizes.append(plan_and_source(term, "residual", term.integral.residual)[0].point_size)
    assert sizes[1] - sizes[0] > 399


def test_functions_in_the_users_own_text_count_as_what_they_become():
    space = function("triangle", 1)[1].space
    form = femgpu.PointwiseForm(space, f0="f0[0] = sin(u[0]) * pow (x[0], 2.5) + cosine(x[1]);").lower(femgpu.Function(space))
    size = form.integrals[0].residual.size
    assert 80 + 250 < size < 80 + 250 + 15
