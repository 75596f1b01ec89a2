"""What PETSc's own CPU finite elements print for the drivers' problems, with PETSc's points.

PETSc 3.26.1; initial residuals for a zero initial guess with the boundary values inserted, constrained dofs not counted.
"""

import pytest
from driver_modules import elasticity, poisson

import femgpu


def initial_residual(problem):
    """The norm of the residual of zero with the boundary values inserted, whose rows then vanish."""
    u, residual = problem.u, problem.u.vec.duplicate()
    u.interpolate(0.0)
    problem.insert_boundary_values(u.vec)
    problem.residual(u.vec, residual)
    return residual.norm()


@pytest.mark.parametrize("kind", ["quadratic", "ex12"])
def test_ex12_nonlinear(set_options, kind):
    """Ex12 -variable_coefficient nonlinear, Q1 on 8x8 quadrilaterals; in 2D ex12's source is that of the exact solution."""
    set_options(petscfe_default_quadrature_order=1)
    dm = femgpu.mesh.box((8, 8), cell="quadrilateral")
    problem, _ = poisson.discretise(dm, 1, "nonlinear", kind)
    assert initial_residual(problem) == pytest.approx(3.775538408962e02, rel=1e-10)


def test_ex12_field_in_3d(set_options):
    """Ex12 -variable_coefficient field, Q2 on 4x4x4 hexahedra, coefficient in Q2."""
    set_options(petscfe_default_quadrature_order=2)
    dm = femgpu.mesh.box((4, 4, 4), cell="hexahedron")
    problem, _ = poisson.discretise(dm, 2, "field", "ex12", nu_degree=2)
    assert initial_residual(problem) == pytest.approx(4.885868284949e00, rel=1e-10)


def test_ex17(set_options):
    """Ex17 -sol_type elas_quad, Q1 on 8x8 quadrilaterals."""
    set_options(petscfe_default_quadrature_order=1)
    dm = femgpu.mesh.box((8, 8), cell="quadrilateral")
    problem, exact = elasticity.discretise(dm, 1, (1.0, 1.0), "elas_quad")
    assert initial_residual(problem) == pytest.approx(9.145702827467e00, rel=1e-10)
    problem.u.interpolate(exact)
    assert femgpu.error_norm(problem.u, exact) == pytest.approx(0.00368285, abs=5e-9)
