"""Linear elasticity: PETSc's SNES tutorial ex17 on OpenCL kernels, and a loaded part.

Strong form, on any mesh, for a displacement u with the strain e(u) = (grad u + grad u^T) / 2:

    -div(sigma(u)) = f,   sigma(u) = 2 mu e(u) + lambda div(u) I

with u prescribed on a part of the boundary, sigma(u) n = t on the part `loaded`, and no forces on the rest. Weak form: find u with
its boundary values and, for all v that vanish where u is prescribed,

    int sigma(u) : grad v dx - int f . v dx - int_loaded t . v ds = 0

-sol_type elas_trig             u_i = sin(2 pi x_i) - 2 x_{i-1} x_i (the second term from i = 1 on)
          elas_quad             u_i = x_i^2 - 2 x_{i-1} x_i, in every space of degree 2 or more
          elas_uniform_strain   u linear, in every space
          loaded                no exact solution: u = 0 on -clamped, f = -force, t = -traction on -loaded

In the first three u is prescribed on the whole boundary, and f follows from UFL.

-mu <1.0>, -lambda <1.0>        Lame's parameters
-clamped <1>, -loaded <2>       regions: values of Face Sets, or names, such as those of gmsh's physical groups
-force <0,0,0>                  force per volume, as many numbers as the mesh has dimensions
-traction <0,0,-1>              force per area, likewise
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
        -clamped "mounting holes" -loaded "load bore" -traction 0,0,-1e7 -ksp_type cg -pc_type gamg -ksp_monitor \
        -output elasticity.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import Identity, div, ds, dx, grad, inner, sym

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
    material = common.number(options, "mu", 1.0), common.number(options, "lambda", 1.0)
    near_nullspace = options.getBool("near_nullspace", True)

    dm = femgpu.mesh.create()
    if solution == "loaded":
        clamped, loaded = common.region(options, "clamped", 1), common.region(options, "loaded", 2)
        zeros = [0.0] * (dm.getDimension() - 1)
        forces = common.numbers(options, "force", [*zeros, 0.0]), common.numbers(options, "traction", [*zeros, -1.0])
        problem, exact = load(dm, degree, material, clamped, loaded, *forces), None
    else:
        problem, exact = discretise(dm, degree, material, solution)
    if near_nullspace:
        problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    if run_type == "test" and exact is not None:
        common.check_residuals(problem, exact)
        return
    error = common.error_norm(problem, exact)
    problem.solve()
    common.report(problem, error)
    common.say(f"Largest displacement: {common.largest(problem.u):.6e}")
    common.write(options, problem.u)


def stress(u, mu, lam):
    """The stress of a displacement."""
    return 2 * mu * sym(grad(u)) + lam * div(u) * Identity(len(u))


def discretise(dm, degree, material, solution):
    """The problem with an exact solution, and that solution."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),))
    u, v = femgpu.Function(space, name="displacement"), ufl.TestFunction(space)
    mu, lam = (femgpu.Constant(dm, value) for value in material)
    exact = exact_solution(dm, solution)
    f = -div(stress(exact, mu, lam))
    F = inner(stress(u, mu, lam), grad(v)) * dx - inner(f, v) * dx
    bc = femgpu.DirichletBC(space, exact, "boundary")
    return femgpu.NonlinearProblem(F, u, bcs=[bc]), exact


def exact_solution(dm, solution):
    """Ex17's trig_2d_u, quadratic_2d_u (and 3d) and uniform_strain_u."""
    x, dim = femgpu.coordinates(dm), dm.getDimension()
    if solution == "elas_uniform_strain":
        return ufl.as_vector([0.1 * x[0] + 0.3 * x[1], 0.3 * x[0] + 0.25 * x[1], 0.0][:dim])
    first = [ufl.sin(2 * math.pi * s) if solution == "elas_trig" else s**2 for s in x]
    return ufl.as_vector([first[i] - (2 * x[i - 1] * x[i] if i else 0) for i in range(dim)])


def load(dm, degree, material, clamped, loaded, force, traction):
    """The problem of a part that is clamped on one part of its boundary and loaded on another, and all over."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dm.getDimension(),))
    u, v = femgpu.Function(space, name="displacement"), ufl.TestFunction(space)
    mu, lam, f, t = (femgpu.Constant(dm, value) for value in (*material, force, traction))
    F = inner(stress(u, mu, lam), grad(v)) * dx - inner(f, v) * dx - inner(t, v) * ds(loaded)
    return femgpu.NonlinearProblem(F, u, bcs=[femgpu.DirichletBC(space, 0.0, clamped)])


if __name__ == "__main__":
    common.run(main)
