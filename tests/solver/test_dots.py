"""Actions that sum direction times result on the way, and conjugate gradients on them."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import div, dx, grad, inner, sym

from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, mesh
from femgpu.kernels import DOT_SLOTS, DOT_WORDS

ATOMIC = {"femgpu_scatter": "atomic"}


def stokes():
    """A form whose pressure rows do not read the direction's pressure."""
    dm = mesh.box((3, 4), cell="quadrilateral")
    W = MixedSpace({"u": FunctionSpace(dm, "Lagrange", 2, 2), "p": FunctionSpace(dm, "Lagrange", 1)})
    w, t = Function(W), ufl.TestFunction(W)
    (u, p), (v, q) = ufl.split(w), ufl.split(t)
    F = inner(sym(grad(u)), grad(v)) * dx - p * div(v) * dx - q * div(u) * dx + u[0] ** 3 * v[1] * dx
    return F, w, [DirichletBC(W.sub("u"), lambda x: (x[1], 0 * x[0]), 1), DirichletBC(W.sub("u"), 0.0, 2, component=0)]


def cube():
    """A cell that is not affine, and a masked corner."""
    dm = mesh.box((2, 1, 1), cell="hexahedron")
    coordinates = dm.getCoordinates()
    coordinates.setValue(0, -0.1)
    coordinates.assemble()
    dm.setCoordinates(coordinates)
    V = FunctionSpace(dm, "Lagrange", 2)
    u, v = Function(V), ufl.TestFunction(V)
    return inner((1 + u**2) * grad(u), grad(v)) * dx, u, [DirichletBC(V, 0.0, 1)]


def combined():
    """Coefficients in even and odd polynomials, of two components, some prescribed."""
    dm = mesh.box((2, 2, 2), cell="tetrahedron")
    V = FunctionSpace(dm, "Lagrange", 2, shape=(2,))
    u, v = Function(V), ufl.TestFunction(V)
    return inner(grad(u), grad(v)) * dx + u[0] * v[1] * dx, u, [DirichletBC(V, 0.0, 1, component=0)]


def components():
    """Components that do not mix on such cells, some prescribed."""
    _, u, _ = cube()
    V = FunctionSpace(u.space.dm, "Lagrange", 2, shape=(3,))
    u, v = Function(V), ufl.TestFunction(V)
    return inner(grad(u), grad(v)) * dx + inner(u, v) * dx, u, [DirichletBC(V, 0.0, 1, component=1)]


def robin():
    """A term over facets beside one over cells."""
    dm = mesh.box((3, 3), cell="triangle")
    V = FunctionSpace(dm, "Lagrange", 3)
    u, v = Function(V), ufl.TestFunction(V)
    return inner((1 + u**2) * grad(u), grad(v)) * dx + u * v * ufl.ds, u, []


def penalty():
    """A term over facets between two cells."""
    dm = mesh.box((3, 3), cell="triangle")
    V = FunctionSpace(dm, "DG", 1)
    u, v = Function(V), ufl.TestFunction(V)
    return u * v * dx + (1 + ufl.avg(u) ** 2) * inner(ufl.jump(u), ufl.jump(v)) * ufl.dS, u, []


@pytest.mark.parametrize(
    "make, schedule",
    [
        (stokes, "cell"),
        (stokes, "tiled"),
        (stokes, "tiled:mma=1,parts=2"),
        (stokes, "sumfact:lanes=2"),
        (stokes, "sumfact:items=3"),
        (stokes, "sumfact:pencils=2"),
        (cube, "sumfact:pencils=2"),
        (cube, "sumfact:planes=2"),
        (cube, "sumfact:slices=2"),
        (components, "sumfact:planes=2"),
        (stokes, "gemm"),
        (cube, "gemm:cells=3"),
        (combined, "cell"),
        (combined, "cell:lanes=1"),
        (robin, "auto"),
        (penalty, "auto"),
    ],
)
def test_dots_are_direction_times_result(make, schedule, rng):
    F, w, bcs = make()
    problem = NonlinearProblem(F, w, bcs, petsc_options={**ATOMIC, "femgpu_schedule": schedule})
    w.vec.setArray(rng.standard_normal(w.vec.getSize()))
    problem.linearise(w.vec)
    device, runtime = problem.operator.device, problem.runtime
    direction = rng.standard_normal(w.vec.getSize())
    t, out, expected = (
        runtime.upload(direction),
        runtime.upload(np.zeros_like(direction)),
        runtime.upload(np.full_like(direction, np.nan)),
    )
    numbers = rng.standard_normal(DOT_WORDS)
    dots = runtime.upload(numbers)
    before = runtime.read(dots, np.empty(DOT_SLOTS)).sum()
    assert device.adds
    device.add(t, out, dots)
    device.action(t, expected)
    found, whole = runtime.read(out, np.empty_like(direction)), runtime.read(expected, np.empty_like(direction))
    rows = problem.operator.rows.owned
    assert not found[rows].any()
    whole[rows] = 0
    np.testing.assert_allclose(found, numbers[-2] / numbers[-1] * whole, atol=1e-12 * max(1, abs(numbers[-2] / numbers[-1])))
    dot = runtime.read(dots, np.empty(DOT_SLOTS)).sum() - before
    assert dot == pytest.approx(direction @ whole, abs=1e-11 * np.abs(direction * whole).sum())


@pytest.mark.parametrize("options", [{"femgpu_deterministic": True}, {**ATOMIC, "femgpu_precision": "mixed"}])
def test_some_actions_sum_no_dots(options):
    """Those whose order of adding must stay, and those that read a rounded direction."""
    F, w, bcs = robin()
    problem = NonlinearProblem(F, w, bcs, petsc_options=options)
    problem.linearise(w.vec)
    assert not problem.operator.device.adds


@pytest.mark.parametrize("iterations", [1, 2, 7, 60])
@pytest.mark.parametrize("pc", ["none", "jacobi"])
def test_cg_on_such_an_action(pc, iterations, rng):
    """Every number of steps leaves the solution of PETSc's own method: x takes two of them at a time."""
    V = FunctionSpace(mesh.box((8, 7), cell="triangle"), "Lagrange", 2)
    u, v = Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + u * v * dx
    problem = NonlinearProblem(F, u, DirichletBC(V, 0.0, 1), petsc_options=ATOMIC)
    problem.linearise(u.vec)
    b, solutions = u.vec.duplicate(), []
    b.setArray(rng.standard_normal(b.getSize()))  # prescribed entries, too
    for kind in ({"ksp_type": "cg"}, {"ksp_type": "python", "ksp_python_type": "femgpu.CG"}):
        ksp, x = PETSc.KSP().create(), b.duplicate()
        database = PETSc.Options()
        given = {"ksp_rtol": 1e-13, "ksp_max_it": iterations, "pc_type": pc, **kind}
        for name, value in given.items():
            database[name] = value
        ksp.setOperators(problem.jacobian)
        ksp.setFromOptions()
        for name in given:
            database.delValue(name)
        ksp.solve(b, x)
        solutions.append(x.array_r.copy())
        ksp.destroy()
    np.testing.assert_allclose(solutions[1], solutions[0], rtol=0, atol=1e-9 * np.abs(solutions[0]).max())


@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
def test_cg_on_an_operator_that_needs_one_step(iterations, rng):
    """A quotient of residuals near zero: the direction before cannot be had from the present one."""
    V = FunctionSpace(mesh.box((5, 5), cell="triangle"), "DG", 0)
    u, v = Function(V), ufl.TestFunction(V)
    f = Function(V)
    f.vec.setArray(rng.standard_normal(f.vec.getSize()))
    options = {**ATOMIC, "snes_type": "ksponly", "ksp_type": "python", "ksp_python_type": "femgpu.CG", "pc_type": "jacobi"}
    # Past the exact solution, however little is left of the residual.
    options |= {"ksp_norm_type": "none", "ksp_max_it": iterations}
    NonlinearProblem((u - f) * v * dx, u, petsc_options=options).solve()
    np.testing.assert_allclose(u.vec.array_r, f.vec.array_r, rtol=1e-12)
