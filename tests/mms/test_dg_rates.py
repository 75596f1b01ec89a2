"""Discontinuous Galerkin methods: rates of the symmetric interior penalty method and of advection, what upwind fluxes conserve."""

import math

import pytest
import ufl
from driver_modules import dg_advection, dg_poisson
from petsc4py import PETSc
from ufl import avg, div, dot, dS, ds, dx, grad, jump

import femgpu
from femgpu import DirichletBC, Function, FunctionSpace, NonlinearProblem
from femgpu.operators import is_symmetric

# Cells per direction of two meshes, by cell, degree and the driver's solution.
MESHES = {("triangle", 1, "smooth"): (8, 16), ("triangle", 3, "smooth"): (4, 8), ("quadrilateral", 2, "interface"): (4, 8)}


@pytest.mark.parametrize(("cell", "degree", "solution"), MESHES)
def test_interior_penalty(set_options, cell, degree, solution):
    set_options(ksp_type="preonly", pc_type="lu", femgpu_jacobian="assembled")
    errors, counts = [], MESHES[cell, degree, solution]
    for count in counts:
        problem, exact = dg_poisson.discretise(femgpu.mesh.box((count, count), cell, comm=PETSc.COMM_SELF), degree, solution)
        problem.solve()
        errors.append(femgpu.error_norm(problem.u, exact))
    assert is_symmetric(problem.operator.local.form)
    assert math.log(errors[0] / errors[1]) / math.log(counts[1] / counts[0]) > degree + 0.85


@pytest.mark.parametrize(("method", "penalty", "degree", "error"), [("iipg", 20.0, 1, 7e-3), ("nipg", 0.0, 2, 1.2e-2)])
def test_other_penalties(set_options, method, penalty, degree, error):
    """Where a factor is zero, too, of which UFL makes no integral."""
    set_options(ksp_type="preonly", pc_type="lu", femgpu_jacobian="assembled")
    dm = femgpu.mesh.box((8, 8), "quadrilateral", comm=PETSc.COMM_SELF)
    problem, exact = dg_poisson.discretise(dm, degree, method=method, penalty=penalty)
    problem.solve()
    assert femgpu.error_norm(problem.u, exact) < error


@pytest.mark.parallel([3])
def test_interior_penalty_on_ranks(set_options):
    """Methods that know no ranks take the same steps to the same error."""
    set_options(ksp_type="cg", pc_type="jacobi", ksp_rtol=1e-10)
    found = []
    for comm in (PETSc.COMM_SELF, PETSc.COMM_WORLD):
        problem, exact = dg_poisson.discretise(femgpu.mesh.box((4, 4), "quadrilateral", comm=comm), 2, "interface")
        problem.solve()
        found.append((femgpu.error_norm(problem.u, exact), problem.snes.getLinearSolveIterations()))
    (one, steps), (ranks, theirs) = found
    assert ranks == pytest.approx(one, rel=1e-8) and abs(steps - theirs) <= 1


# Cells per direction of two meshes, by cell, degree and the driver's solution.
FLOWS = {
    ("triangle", 2, "rotation"): (8, 12),
    ("quadrilateral", 1, "translation"): (8, 16),
    ("tetrahedron", 2, "translation"): (5, 8),
    ("hexahedron", 1, "translation"): (6, 12),
    ("prism", 2, "translation"): (3, 6),
}


@pytest.mark.parametrize(("cell", "degree", "solution"), FLOWS)
def test_advection(cell, degree, solution):
    errors, counts = [], FLOWS[cell, degree, solution]
    for count in counts:
        dm = femgpu.mesh.box((count,) * (2 if cell in ("triangle", "quadrilateral") else 3), cell, comm=PETSc.COMM_SELF)
        ts, u, exact = dg_advection.explicit(dm, degree, solution)
        ts.setMaxTime(0.1)
        ts.solve(u.vec)
        errors.append(femgpu.error_norm(u, exact))
    rate = math.log(errors[0] / errors[1]) / math.log(counts[1] / counts[0])
    print(cell, degree, errors, rate)
    assert rate > degree + 0.85


@pytest.mark.parallel([1, 3])
def test_advection_implicit_and_on_ranks(set_options):
    """With steps so short that the integrators' errors do not show."""
    errors = []
    for comm in (PETSc.COMM_SELF, PETSc.COMM_WORLD):
        ts, u, exact = dg_advection.explicit(femgpu.mesh.box((4, 4), "triangle", comm=comm), 2, "rotation")
        ts.setMaxTime(0.05)
        ts.solve(u.vec)
        errors.append(femgpu.error_norm(u, exact))
    set_options(pc_type="jacobi", ksp_rtol=1e-10, ts_type="cn", snes_rtol=1e-9)
    problem, exact = dg_advection.discretise(femgpu.mesh.box((4, 4), "triangle"), 2, "rotation")
    problem.solve(0.05, 0.0025)
    assert errors[1] == pytest.approx(errors[0], rel=1e-9)
    assert femgpu.error_norm(problem.u, exact) == pytest.approx(errors[0], rel=1e-2)


@pytest.mark.parallel([1, 2, 3])
def test_upwind_fluxes_conserve(rng):
    """What leaves a cell enters its neighbour: all rows of a vortex within the box sum to nothing, and a constant stays."""
    dm = femgpu.mesh.box((5, 4), "triangle")
    V = FunctionSpace(dm, "DG", 2)
    u, v, n = Function(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
    x, y = femgpu.coordinates(dm)
    flow = ufl.as_vector([ufl.sin(ufl.pi * x) * ufl.cos(ufl.pi * y), -ufl.cos(ufl.pi * x) * ufl.sin(ufl.pi * y)])
    outflow = ufl.max_value(dot(flow, n), 0)
    degree = 12
    F = -u * dot(flow, grad(v)) * dx(degree=degree) + jump(v) * (outflow("+") * u("+") - outflow("-") * u("-")) * dS(degree=degree)
    problem = NonlinearProblem(F, u)
    u.vec.setArray(rng.uniform(-1, 1, u.vec.getLocalSize()))
    residual = u.vec.duplicate()
    problem.residual(u.vec, residual)
    assert abs(residual.sum()) < 1e-13 * residual.norm(PETSc.NormType.NORM_1)
    u.vec.set(1.0)
    problem.residual(u.vec, residual)
    assert residual.norm(PETSc.NormType.INFINITY) < 1e-9


def test_biharmonic(set_options):
    """A plate by interior penalty with continuous functions; its slope at the boundary is held by the same terms.

    The rate in L2 is 2 at degree 2 and degree + 1 above (Brenner and Sung, J. Sci. Comput. 22, 2005).
    """
    set_options(ksp_type="preonly", pc_type="lu", femgpu_jacobian="assembled")
    (cell, degree, rate), counts = ("triangle", 2, 2), (8, 16)
    errors = []
    for count in counts:
        dm = femgpu.mesh.box((count, count), cell, comm=PETSc.COMM_SELF)
        V = FunctionSpace(dm, "Lagrange", degree)
        u, v, n, h = Function(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain()), ufl.CellDiameter(V.ufl_domain())
        x, y = femgpu.coordinates(dm)
        exact, penalty = ufl.sin(2 * x + y) + x**2 * y, 8.0 * degree
        slope = dot(grad(u - exact), n)
        F = (lap(u) * lap(v) - lap(lap(exact)) * v) * dx
        F += (penalty / avg(h) * jump(grad(u), n) - avg(lap(u))) * jump(grad(v), n) * dS - jump(grad(u), n) * avg(lap(v)) * dS
        F += ((penalty / h * slope - lap(u)) * dot(grad(v), n) - slope * lap(v)) * ds
        problem = NonlinearProblem(F, u, DirichletBC(V, exact, "boundary"))
        problem.solve()
        assert is_symmetric(problem.operator.local.form)
        errors.append(femgpu.error_norm(u, exact))
    assert abs(math.log(errors[0] / errors[1]) / math.log(2) - rate) < 0.35, errors


def lap(u):
    return div(grad(u))
