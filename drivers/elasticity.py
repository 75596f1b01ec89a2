"""Linear elasticity: PETSc's SNES tutorial ex17 on OpenCL kernels, and a loaded part.

Strong form, on any mesh, for a displacement u with the strain e(u) = (grad u + grad u^T) / 2:

    -div(sigma(u)) = f,   sigma(u) = 2 mu e(u) + lambda div(u) I

Weak form: find u with its boundary values and, for all v that vanish where u is prescribed,

    int sigma(u) : grad v dx - int f . v dx = 0

-sol_type elas_trig             u_i = sin(2 pi x_i) - 2 x_{i-1} x_i (the second term from i = 1 on)
          elas_quad             u_i = x_i^2 - 2 x_{i-1} x_i, in every space of degree 2 or more
          elas_uniform_strain   u linear, in every space
          loaded                no exact solution: u = 0 on the boundary -clamped, body force -force

In the first three u is prescribed on the whole boundary, and f follows from UFL.

-mu <1.0>, -lambda <1.0>        Lame's parameters
-clamped <1>                    value of Face Sets (loaded)
-force <0,0,-1>                 force per volume (loaded), as many numbers as the mesh has dimensions
-near_nullspace <true>          give the rigid-body modes to the preconditioner: algebraic multigrid needs them
-run_type full                  solve, print the error, write what -output and -picture name
          test                  print the residual of the exact solution's interpolant, of zero, and the error of the interpolant

The degree is -petscspace_degree, or ex17's -displacement_petscspace_degree.

Run lines:

    python drivers/elasticity.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -ksp_type cg -pc_type gamg
    python drivers/elasticity.py -dm_plex_simplex 0 -dm_plex_box_faces 8,8 -sol_type elas_quad -run_type test \
        -displacement_petscspace_degree 1 -petscfe_default_quadrature_order 1
    python drivers/elasticity.py -dm_plex_dim 3 -dm_plex_box_faces 4,4,4 -petscspace_degree 2 -ksp_type cg -pc_type gamg
    python drivers/elasticity.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 4,4,4 -pc_type gamg \
        -sol_type elas_uniform_strain
    mpiexec -n 2 python drivers/elasticity.py -dm_plex_filename meshes/bracket.msh -sol_type loaded -mu 8e10 -lambda 1.2e11 \
        -force 0,0,-1e8 -ksp_type cg -pc_type gamg -ksp_monitor -output elasticity.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import Identity, div, dx, grad, inner, sym

import femgpu

SOLUTIONS = ("elas_trig", "elas_quad", "elas_uniform_strain", "loaded")
RUN_TYPES = ("full", "test")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    solution = common.choice(options, "sol_type", SOLUTIONS, "elas_trig")
    run_type = common.choice(options, "run_type", RUN_TYPES, "full")
    degree = common.number(options, "displacement_petscspace_degree", common.number(options, "petscspace_degree", 1))
    mu, lam = common.number(options, "mu", 1.0), common.number(options, "lambda", 1.0)
    near_nullspace = options.getBool("near_nullspace", True)

    dm = femgpu.mesh.create()
    if solution == "loaded":
        force = common.numbers(options, "force", [0.0] * (dm.getDimension() - 1) + [-1.0])
        clamped = common.number(options, "clamped", 1)
        problem, exact, exact_values = loaded(dm, degree, mu, lam, clamped, force), None, None
    else:
        problem, exact, exact_values = discretise(dm, degree, mu, lam, solution)
    if near_nullspace:
        problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    if run_type == "test" and exact is not None:
        common.check_residuals(problem, exact, exact_values)
        return
    problem.solve()
    common.report(problem, exact)
    common.say(f"Largest displacement: {common.largest(problem.u):.6e}")
    common.write(problem.u, options)


def stress(u, mu, lam):
    """The stress of a displacement."""
    return 2 * mu * sym(grad(u)) + lam * div(u) * Identity(len(u))


def discretise(dm, degree, mu, lam, solution):
    """The problem with an exact solution, and that solution as UFL and as a callable of points."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),))
    u, v = femgpu.Function(space, name="displacement"), ufl.TestFunction(space)
    mu, lam = femgpu.Constant(dm, mu), femgpu.Constant(dm, lam)
    exact, values = common.manufactured(dm, lambda x, m: FIELDS[solution](x, m, dm.getDimension()))
    f = -div(stress(exact, mu, lam))
    F = inner(stress(u, mu, lam), grad(v)) * dx - inner(f, v) * dx
    bc = femgpu.DirichletBC(space, values, "boundary")
    return femgpu.NonlinearProblem(F, u, bcs=[bc]), exact, values


def loaded(dm, degree, mu, lam, clamped, force):
    """The problem of a clamped part under a body force."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),))
    u, v = femgpu.Function(space, name="displacement"), ufl.TestFunction(space)
    mu, lam, force = (femgpu.Constant(dm, value) for value in (mu, lam, force))
    F = inner(stress(u, mu, lam), grad(v)) * dx - inner(force, v) * dx
    return femgpu.NonlinearProblem(F, u, bcs=[femgpu.DirichletBC(space, 0.0, clamped)])


def trigonometric(x, m, dim):
    """Ex17's trig_2d_u and trig_3d_u."""
    return [m.sin(2 * math.pi * x[i]) - (2 * x[i - 1] * x[i] if i else 0) for i in range(dim)]


def quadratic(x, m, dim):
    """Ex17's quadratic_2d_u and quadratic_3d_u."""
    return [x[i] ** 2 - (2 * x[i - 1] * x[i] if i else 0) for i in range(dim)]


def uniform_strain(x, m, dim):
    """Ex17's uniform_strain_u."""
    return [0.1 * x[0] + 0.3 * x[1], 0.3 * x[0] + 0.25 * x[1], 0 * x[0]][:dim]


FIELDS = {"elas_trig": trigonometric, "elas_quad": quadratic, "elas_uniform_strain": uniform_strain}


if __name__ == "__main__":
    common.run(main)
