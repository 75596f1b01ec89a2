"""Poisson's equation with a variable coefficient: PETSc's SNES tutorial ex12 on OpenCL kernels.

Strong form, on any mesh, with the exact solution prescribed on the whole boundary:

    -div(nu grad u) = f

Weak form: find u with u = exact on the boundary and, for all v that vanish there,

    int nu grad u . grad v dx - int f v dx = 0

The coefficient nu is chosen by -variable_coefficient:

    none        nu = 1
    analytic    nu = sum x_i, evaluated at the points
    field       nu = sum x_i as a finite element field of degree -mat_petscspace_degree (default 0, constant per cell)
    nonlinear   nu = |grad u|^2 / 2, so that Newton has work to do

and the exact solution by -exact: quadratic (c |x|^2 with Laplacian 4, in every space of degree 2 or more) or trigonometric
(a product of sines over the mesh's bounding box). f follows from UFL. With `field`, f belongs to sum x_i, not to its
interpolant. On a mesh that reaches below zero, x_i counts from the bounding box's lower corner, so that nu is not negative.

-run_type full   solve, print the error, write what -output and -picture name
          test   print the residual of the exact solution's interpolant, of zero, and the error of the linear model
          perf   time one residual evaluation by device events: GF/s and GB/s

Run lines:

    mpiexec -n 2 python drivers/poisson.py -dm_plex_filename meshes/bracket.msh -petscspace_degree 2 \
        -variable_coefficient analytic -exact trigonometric -ksp_type cg -pc_type gamg -snes_monitor
    python drivers/poisson.py -dm_plex_dim 2 -dm_plex_simplex 0 -dm_plex_box_faces 8,8 -variable_coefficient nonlinear
    python drivers/poisson.py -dm_plex_dim 2 -dm_plex_box_faces 400,400 -petscspace_degree 1 -run_type perf \
        -variable_coefficient field -petscfe_default_quadrature_order 0 -petscfe_num_blocks 4 -petscfe_num_batches 16
"""

import sys
from pathlib import Path

import petsc4py

petsc4py.init(sys.argv)

import numpy as np  # noqa: E402
import ufl  # noqa: E402
from petsc4py import PETSc  # noqa: E402
from ufl import div, dx, grad, inner  # noqa: E402

import femgpu  # noqa: E402
from femgpu.errors import FemgpuError, OptionError  # noqa: E402

COEFFICIENTS = ("none", "analytic", "field", "nonlinear")
RUN_TYPES = ("full", "test", "perf")
EXACT = ("quadratic", "trigonometric")


def main() -> None:
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    accept_ex12_options(options)
    show_solution = options.getBool("show_solution", False)
    check_outputs(options)
    coefficient = choice(options, "variable_coefficient", COEFFICIENTS, "none")
    run_type = choice(options, "run_type", RUN_TYPES, "full")
    kind = choice(options, "exact", EXACT, "quadratic")
    degree = options.getInt("petscspace_degree", 1)

    dm = femgpu.mesh.create()
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    x = femgpu.coordinates(dm)
    exact, exact_values = exact_solution(dm, x, kind)
    u = femgpu.Function(space, name="u")
    v = ufl.TestFunction(space)
    nu, nu_exact = make_coefficient(dm, x, u, exact, coefficient, options.getInt("mat_petscspace_degree", 0))
    source = -div(nu_exact * grad(exact))
    F = inner(nu * grad(u), grad(v)) * dx - source * v * dx
    bc = femgpu.DirichletBC(space, exact_values, "boundary")
    problem = femgpu.NonlinearProblem(F, u, bcs=[bc])

    if run_type == "perf":
        from femgpu.bench.residual import report

        u.interpolate(exact_values)
        say(report(problem))
        return
    if run_type == "test":
        test(problem, u, exact, exact_values)
        return
    if coefficient == "nonlinear":
        # nu vanishes with grad u: start from a function with a gradient.
        u.interpolate(lambda points: points.sum(axis=0))
    problem.solve()
    say(f"Newton iterations: {problem.snes.getIterationNumber()}, linear iterations: {problem.snes.getLinearSolveIterations()}")
    say(f"L2 error: {l2_error(u, exact):.6e} ({space.num_dofs} dofs, degree {degree})")
    write(u, options)
    if show_solution:
        u.vec.view()


def exact_solution(dm, x, kind):
    """The exact solution as a UFL expression and as a callable of points."""
    dim = len(x)
    if kind == "quadratic":
        scale = 2.0 / dim
        return scale * inner(x, x), lambda points: scale * (points**2).sum(axis=0)
    lower, upper = bounding_box(dm)
    wave, shift = np.pi / (upper - lower), 0.3

    def values(points):
        return np.prod([np.sin(wave[i] * (points[i] - lower[i]) + shift) for i in range(dim)], axis=0)

    expression = 1.0
    for i in range(dim):
        expression = expression * ufl.sin(float(wave[i]) * (x[i] - float(lower[i])) + shift)
    return expression, values


def make_coefficient(dm, x, u, exact, kind, degree):
    """The coefficient of the discrete problem, and the one that f is made from."""
    lower = np.minimum(bounding_box(dm)[0], 0.0)
    linear = sum(x[i] - float(lower[i]) for i in range(len(x)))
    if kind == "none":
        return ufl.as_ufl(1.0), ufl.as_ufl(1.0)
    if kind == "analytic":
        return linear, linear
    if kind == "nonlinear":
        return inner(grad(u), grad(u)) / 2, inner(grad(exact), grad(exact)) / 2
    space = femgpu.FunctionSpace(dm, "DG" if degree == 0 else "Lagrange", degree)
    nu = femgpu.Function(space, name="nu")
    nu.interpolate(lambda points: (points - lower[:, None]).sum(axis=0))
    return nu, linear


def bounding_box(dm):
    """Lower and upper corner of the mesh over all ranks."""
    return np.array(dm.getBoundingBox()).T


def test(problem, u, exact, exact_values):
    """Ex12's checks of the discretisation, without a solve.

    The initial residual is PETSc's: zero with the boundary values inserted, whose rows then vanish.
    """
    u.interpolate(exact_values)
    residual, zero = u.vec.duplicate(), u.vec.duplicate()
    say(f"L_2 error of the interpolant: {l2_error(u, exact):.6e}")
    problem.residual(u.vec, residual)
    say(f"L_2 residual of the interpolant: {residual.norm():.12e}")
    problem.linearise(u.vec)
    problem.jacobian.mult(u.vec, residual)
    say(f"Jacobian times the interpolant: {residual.norm():.12e}")
    zero.set(0)
    problem.insert_boundary_values(zero)
    problem.residual(zero, residual)
    say(f"Initial residual: {residual.norm():.12e}")


def l2_error(u, exact):
    """The L2 norm of u - exact, by a rule that is exact for twice the degree of u and a little more."""
    return np.sqrt(femgpu.assemble((u - exact) ** 2 * dx(degree=2 * u.space.element.degree + 3)))


def write(u, options):
    """Writes the files that the options name."""
    output, picture = options.getString("output", ""), options.getString("picture", "")
    if output:
        femgpu.write(output, u)
        say(f"wrote {output}")
    if picture:
        from femgpu.io import picture as draw

        draw(picture, u)
        say(f"wrote {picture}")


def check_outputs(options):
    """Refuses files that could not be written after the solve."""
    for name, legal in (("output", (".vtu", ".pvtu", ".h5")), ("picture", (".png",))):
        path = Path(options.getString(name, "")) if options.hasName(name) else None
        if path is not None and (path.suffix not in legal or not path.parent.is_dir()):
            raise OptionError(f"-{name} {path}: expected a file that ends in {', '.join(legal)}, in a folder that exists")


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


def choice(options, name, legal, default):
    """An option with a fixed set of values."""
    value = options.getString(name, default)
    if value not in legal:
        raise OptionError(f"-{name} {value!r}: expected one of {', '.join(legal)}")
    return value


def say(text):
    """Prints on the first rank."""
    PETSc.Sys.Print(text)


if __name__ == "__main__":
    try:
        main()
    except FemgpuError as error:
        if PETSc.COMM_WORLD.rank == 0:
            print(f"poisson.py: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
