"""Poisson's equation with a variable coefficient: PETSc's SNES tutorial ex12 on OpenCL kernels.

Strong form, on any mesh, with the exact solution prescribed on the whole boundary:

    -div(nu grad u) = f

Weak form: find u with u = exact on the boundary and, for all v that vanish there,

    int nu grad u . grad v dx - int f v dx = 0

The coefficient nu is chosen by -variable_coefficient:

    none        nu = 1
    analytic    nu = x_0 + x_1, evaluated at the points
    field       nu = x_0 + x_1 as a finite element field of degree -mat_petscspace_degree (default 0, constant per cell)
    nonlinear   nu = |grad u|^2 / 2, so that Newton has work to do

and the exact solution by -exact:

    quadratic       u = 2/dim |x|^2, whose Laplacian is 4, in every space of degree 2 or more
    trigonometric   a product of sines over the mesh's bounding box
    ex12            quadratic, with f as ex12 writes it: -4, -6 (x_0 + x_1) or -16 (x_0^2 + x_1^2). In 2D that is the f of this u;
                    in 3D with a variable coefficient it is not, and only residuals can be compared with ex12's

With the first two, f follows from UFL; with `field`, it belongs to x_0 + x_1, not to its interpolant. On a mesh that reaches below
zero, x_i in nu counts from the bounding box's lower corner, so that nu is not negative.

-run_type full   solve, print the error, write what -output and -picture name
          test   print the residual of the exact solution's interpolant, of zero, and the error of the linear model
          perf   time one residual evaluation by device events: GF/s and GB/s

Run lines:

    mpiexec -n 2 python drivers/poisson.py -dm_plex_filename meshes/bracket.msh -petscspace_degree 2 \
        -variable_coefficient analytic -exact trigonometric -ksp_type cg -pc_type gamg -snes_monitor
    python drivers/poisson.py -dm_plex_simplex 0 -dm_plex_box_faces 8,8 -variable_coefficient nonlinear
    python drivers/poisson.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 4,4,4 -petscspace_degree 2 -run_type test \
        -exact ex12 -variable_coefficient field -mat_petscspace_degree 2 -petscfe_default_quadrature_order 2
    python drivers/poisson.py -dm_plex_box_faces 400,400 -petscspace_degree 1 -run_type perf \
        -variable_coefficient field -petscfe_default_quadrature_order 0 -petscfe_num_blocks 4 -petscfe_num_batches 16
"""

import math

import common
import numpy as np
import ufl
from petsc4py import PETSc
from ufl import div, grad, inner

import femgpu
from femgpu.errors import OptionError

COEFFICIENTS = ("none", "analytic", "field", "nonlinear")
RUN_TYPES = ("full", "test", "perf")
EXACT = ("quadratic", "trigonometric", "ex12")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    accept_ex12_options(options)
    show_solution = options.getBool("show_solution", False)
    common.check_outputs(options)
    coefficient = common.choice(options, "variable_coefficient", COEFFICIENTS, "none")
    run_type = common.choice(options, "run_type", RUN_TYPES, "full")
    kind = common.choice(options, "exact", EXACT, "quadratic")
    degree = common.number(options, "petscspace_degree", 1)
    nu_degree = common.number(options, "mat_petscspace_degree", 0)

    problem, exact = discretise(femgpu.mesh.create(), degree, coefficient, kind, nu_degree)
    if run_type == "perf":
        from femgpu.bench.residual import report

        problem.u.interpolate(exact)
        common.say(report(problem))
        return
    if run_type == "test":
        common.check_residuals(problem, exact)
        return
    error = common.error_norm(problem, exact)
    problem.solve()
    common.report(problem, error)
    common.write(options, problem.u)
    if show_solution:
        problem.u.vec.view()


def discretise(dm, degree, coefficient, kind, nu_degree=0):
    """The problem with its initial guess, and its exact solution.

    Args:
        dm: the mesh.
        degree: of the Lagrange space.
        coefficient: one of `COEFFICIENTS`.
        kind: one of `EXACT`.
        nu_degree: of the space of nu, where nu is a field.
    """
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    exact = exact_solution(dm, kind)
    nu, nu_exact = make_coefficient(dm, u, exact, coefficient, nu_degree)
    f = ex12_source(dm, coefficient) if kind == "ex12" else -div(nu_exact * grad(exact))
    dx = common.measure(degree) if kind == "trigonometric" else ufl.dx
    F = inner(nu * grad(u), grad(v)) * dx - f * v * dx
    bc = femgpu.DirichletBC(space, exact, "boundary")
    if coefficient == "nonlinear":
        # nu vanishes with grad u: start from a function with a gradient.
        u.interpolate(sum(femgpu.coordinates(dm)))
    return femgpu.NonlinearProblem(F, u, bcs=[bc]), exact


def exact_solution(dm, kind):
    """The exact solution."""
    if kind == "trigonometric":
        return math.prod(ufl.sin(math.pi * s + 0.3) for s in common.relative(dm))
    x = femgpu.coordinates(dm)
    return 2.0 / len(x) * inner(x, x)


def make_coefficient(dm, u, exact, kind, degree):
    """The coefficient of the discrete problem, and the one that f is made from."""
    if kind == "none":
        return ufl.as_ufl(1.0), ufl.as_ufl(1.0)
    if kind == "nonlinear":
        return inner(grad(u), grad(u)) / 2, inner(grad(exact), grad(exact)) / 2
    lower = np.minimum(common.bounding_box(dm)[0], 0.0)
    linear = sum(s - float(least) for s, least in list(zip(femgpu.coordinates(dm), lower, strict=True))[:2])
    if kind == "analytic":
        return linear, linear
    space = femgpu.FunctionSpace(dm, "DG" if degree == 0 else "Lagrange", degree)
    nu = femgpu.Function(space, name="nu")
    nu.interpolate(linear)
    return nu, linear


def ex12_source(dm, coefficient):
    """F as ex12 has it: f0_u, f0_analytic_u and f0_analytic_nonlinear_u, with the sign of the right-hand side."""
    x = list(femgpu.coordinates(dm))[:2]
    if coefficient == "none":
        return ufl.as_ufl(-4.0)
    return -16 * sum(s**2 for s in x) if coefficient == "nonlinear" else -6 * sum(x)


def accept_ex12_options(options):
    """Takes the older command lines of ex12: aliases, and what femgpu does otherwise."""
    if options.hasName("petscspace_order") and not options.hasName("petscspace_degree"):
        options.setValue("petscspace_degree", options.getString("petscspace_order"))
    kind = options.getString("petscfe_type", "opencl")
    if kind not in ("opencl", "basic"):
        raise OptionError(f"-petscfe_type {kind!r}: expected opencl; femgpu's kernels are OpenCL always")
    if options.hasName("refinement_limit"):
        raise OptionError(
            f"-refinement_limit {options.getString('refinement_limit')}: no mesh generator refines by cell volume here; "
            "use -dm_refine <levels> or a finer box, -dm_plex_box_faces <n,n>"
        )


if __name__ == "__main__":
    common.run(main)
