"""Products with the transposed Jacobian, and the Krylov and Newton methods that ask for them."""

import pytest
import ufl
from petsc4py import PETSc
from ufl import as_vector, conditional, div, dot, ds, dx, gt, inner, nabla_grad

import femgpu
from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, PointwiseForm, mesh

grad = ufl.grad


def scalar(dm, degree=1):
    V = FunctionSpace(dm, "Lagrange", degree)
    return V, Function(V), ufl.TestFunction(V)


def convection(dm):
    """An unsymmetric form with a branch, on cells and facets."""
    V, u, v = scalar(dm, 2)
    x, n = femgpu.coordinates(dm), ufl.FacetNormal(V.ufl_domain())
    wind = as_vector((1 + x[1], u - x[0]))
    F = (1 + u**2) * inner(grad(u), grad(v)) * dx + conditional(gt(u, 0.1), dot(wind, grad(u)) ** 2, u * u.dx(0)) * v * dx
    F += u**2 * dot(n, grad(u)) * v * ds - dot(grad(v), wind) * u * ds - v * dx
    return F, u, [DirichletBC(V, 1.0, (1, 3))]


def least_squares(dm):
    """Second derivatives of the unknown and of the test function, each with other derivatives of the other one."""
    V, u, v = scalar(dm, 2)
    x = femgpu.coordinates(dm)
    F = ((1 + u**2) * u.dx(0).dx(1) + u.dx(0)) * (div(grad(v)) + x[1] * v.dx(1)) * dx
    F += (u * div(grad(u)) * v + u**3 * v.dx(0).dx(1)) * dx
    return F, u, [DirichletBC(V, 1.0, 1)]


def flow(dm):
    """Navier-Stokes: fields, single components prescribed, blocks that do not couple."""
    W = MixedSpace({"v": FunctionSpace(dm, "Lagrange", 2, shape=(2,)), "p": FunctionSpace(dm, "Lagrange", 1)})
    w, (v, q) = Function(W), ufl.TestFunctions(W)
    u, p = ufl.split(w)
    F = inner(grad(u), grad(v)) * dx + dot(dot(u, nabla_grad(u)), v) * dx - p * div(v) * dx + 2 * q * div(u) * dx + p * q * dx
    return F, w, [DirichletBC(W.sub("v"), 0.3, 1, component=0), DirichletBC(W.sub("v"), (1.0, 0.0), 4)]


def bodies(dm):
    """g0 to g3 given as C, over two fields."""
    W = MixedSpace({"v": FunctionSpace(dm, "Lagrange", 1, shape=(2,)), "p": FunctionSpace(dm, "Lagrange", 2)})
    w = Function(W)
    form = PointwiseForm(
        W,
        f0={"v": "f0[0] = u[0];", "p": "f0[0] = u[2];"},
        g0={("v", "p"): "g0[0] = 1. + u[2]; g0[1] = x[0];", ("p", "p"): "g0[0] = 2.;"},
        g1={("p", "v"): "g1[0] = 3.; g1[1] = x[1]; g1[2] = 1.; g1[3] = u[0];", ("v", "v"): "g1[0] = 1.; g1[3] = 0.5; g1[6] = 2.;"},
        g2={("v", "p"): "g2[1] = 0.7; g2[2] = x[0];"},
        g3={("v", "v"): "for (int i = 0; i < 16; ++i) g3[i] = i + x[1];", ("p", "p"): "g3[0] = 1.; g3[1] = 2.; g3[3] = 3.;"},
        facets={1: {"f0": {"v": "f0[0] = u[2];", "p": "f0[0] = u[0];"}, "g2": {("p", "v"): "g2[0] = n[0]; g2[3] = n[1];"}}},
    )
    return form, w, [DirichletBC(W.sub("p"), 0.5, 3)]


def check(problem, rng, tolerance=1e-13):
    """Matrix-free against AIJ, both applied transposed to the same vector."""
    x, y, z = (problem.u.vec.duplicate() for _ in range(3))
    problem.u.vec.setArray(rng.uniform(-1, 1, x.getLocalSize()))
    problem.linearise(problem.u.vec)
    x.setArray(rng.uniform(-1, 1, x.getLocalSize()))
    free, filled = problem.snes.getJacobian()[:2]
    assert (free.getType(), filled.getType()[-3:]) == ("python", "aij")
    for product in ("multTranspose", "mult", "multTranspose"):
        getattr(free, product)(x, y)
        getattr(filled, product)(x, z)
        size = z.norm(PETSc.NormType.INFINITY)
        y.axpy(-1.0, z)
        assert 0 < size and y.norm(PETSc.NormType.INFINITY) <= tolerance * size, product


@pytest.mark.parametrize("make", [convection, least_squares, flow, bodies])
@pytest.mark.parametrize("options", [{}, {"femgpu_qdata": "store", "femgpu_scatter": "gather"}], ids=["default", "stored"])
def test_transpose_of_the_assembled_matrix(set_options, rng, make, options):
    set_options(femgpu_pmat="assembled", **options)
    F, u, bcs = make(mesh.box((3, 2), cell="triangle", comm=PETSc.COMM_SELF))
    check(NonlinearProblem(F, u, bcs), rng)


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("precision", ["double", "single"])
def test_transpose_on_ranks(set_options, rng, precision):
    set_options(femgpu_pmat="assembled", femgpu_precision=precision)
    F, u, bcs = convection(mesh.box((3, 2), cell="triangle"))
    check(NonlinearProblem(F, u, bcs), rng, 1e-13 if precision == "double" else 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"ksp_type": "bicg", "pc_type": "jacobi"},
        {"ksp_type": "lsqr", "pc_type": "none"},
        {"ksp_type": "cgne", "pc_type": "none"},
        {"snes_type": "newtontr"},
        {"snes_type": "newtontrdc"},
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_methods_that_ask_for_the_transpose(set_options, options):
    dm = mesh.box((3, 3), cell="triangle", comm=PETSc.COMM_SELF)
    V, u, v = scalar(dm)
    F = (inner(grad(u), grad(v)) + (3 + u) * u.dx(0) * v - v) * dx
    NonlinearProblem(F, u, DirichletBC(V, 0.0)).solve()
    expected = u.vec.array_r.copy()
    set_options(ksp_rtol=1e-9, **options)
    u.vec.set(0)
    NonlinearProblem(F, u, DirichletBC(V, 0.0)).solve()
    assert abs(u.vec.array_r - expected).max() <= 1e-6 * abs(expected).max()
