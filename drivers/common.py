"""What all drivers need besides their mathematics: PETSc's start, options, scaled coordinates, reports, files, errors.

Importing it starts PETSc with the options of the command line, so that it stands first in a driver.
"""

import math
import sys
from pathlib import Path

import petsc4py

import femgpu  # before MPI starts, which loads PoCL: its cache is chosen here

petsc4py.init(sys.argv)

import numpy as np  # noqa: E402
import ufl  # noqa: E402
from mpi4py import MPI  # noqa: E402
from petsc4py import PETSc  # noqa: E402

from femgpu.errors import FemgpuError, OptionError  # noqa: E402


def run(main):
    """Runs a driver: errors become a message on the first rank and exit code 1; -help begins with the driver's document.

    The device is there, and solvers' kernels are on their way, before the mesh is made.
    """
    if PETSc.Options().hasName("help"):
        say(sys.modules["__main__"].__doc__)
    try:
        femgpu.start()
        main()
    except (FemgpuError, PETSc.Error) as error:
        if PETSc.COMM_WORLD.rank == 0:
            name = Path(sys.argv[0]).name
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


def say(text):
    """Prints on the first rank."""
    PETSc.Sys.Print(text)


def choice(options, name, legal, default):
    """An option with a fixed set of values."""
    value = options.getString(name, default)
    if value not in legal:
        raise OptionError(f"-{name} {value!r}: expected one of {', '.join(legal)}")
    return value


def number(options, name, default, minimum=-math.inf):
    """An option with a number, of the default's kind: an integer or a real."""
    text = options.getString(name, str(default))
    kind = type(default)
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not (value >= minimum and math.isfinite(value)):
        least = f" of at least {minimum}" if minimum > -math.inf else ""
        raise OptionError(f"-{name} {text}: expected {'an integer' if kind is int else 'a number'}{least}")
    return value


def numbers(options, name, default):
    """An option with as many numbers as its default, separated by commas."""
    text = options.getString(name, ",".join(map(str, default)))
    try:
        values = [type(entry)(word) for entry, word in zip(default, text.split(","), strict=True)]
    except ValueError:
        kind = "integers" if isinstance(default[0], int) else "numbers"
        raise OptionError(f"-{name} {text}: expected {len(default)} {kind} separated by commas") from None
    return values


def region(options, name, default):
    """An option with a region of the boundary: a value of "Face Sets", or a name."""
    text = options.getString(name, str(default))
    return int(text) if text.lstrip("-").isdigit() else text


def bounding_box(dm):
    """Lower and upper corner of the mesh over all ranks."""
    return np.array(dm.getBoundingBox()).T


def relative(dm):
    """Coordinates that go from 0 to 1 over the mesh's bounding box, as a list of UFL expressions."""
    x, (lower, upper) = femgpu.coordinates(dm), bounding_box(dm)
    return [(x[i] - float(lower[i])) / float(upper[i] - lower[i]) for i in range(len(x))]


def with_rate(t, function):
    """A function of the time, given as a function of its argument, and its time derivative, both as UFL expressions."""
    now = ufl.variable(t)
    expression = function(now)
    return expression, ufl.diff(expression, now)


def measure(degree):
    """What forms of solutions of a degree are integrated by: sources and laws that are no polynomials name no quadrature."""
    return ufl.dx(degree=2 * degree + 2)


def largest(u):
    """The largest length of a nodal value over all ranks."""
    nodal = u.vec.array_r.reshape(-1, u.space.num_comp)
    mine = float(np.linalg.norm(nodal, axis=1).max(initial=0.0))
    return u.space.mesh.mpi.allreduce(mine, op=MPI.MAX)


def error_norm(problem, exact):
    """The error where the exact solution is known, for `report`; made before a solve, whose kernels are built beside its own."""
    return None if exact is None else femgpu.ErrorNorm(problem.u, exact)


def report(problem, error=None):
    """Prints iterations, and the error where the exact solution is known."""
    snes, space = problem.snes, problem.u.space
    say(f"Newton iterations: {snes.getIterationNumber()}, linear iterations: {snes.getLinearSolveIterations()}")
    if error is not None:
        say(f"L2 error: {error.value():.6e} ({space.num_dofs} dofs, degree {space.degree})")


def check_residuals(problem, exact):
    """Checks of the discretisation without a solve, as PETSc's tutorials print them for -run_type test.

    The initial residual is PETSc's: zero with the boundary values inserted, whose rows then vanish.
    """
    u = problem.u
    u.interpolate(exact)
    residual, zero = u.vec.duplicate(), u.vec.duplicate()
    say(f"L_2 error of the interpolant: {femgpu.error_norm(u, exact):.12e}")
    problem.residual(u.vec, residual)
    say(f"L_2 residual of the interpolant: {residual.norm():.12e}")
    problem.linearise(u.vec)
    problem.jacobian.mult(u.vec, residual)
    say(f"Jacobian times the interpolant: {residual.norm():.12e}")
    zero.set(0)
    problem.insert_boundary_values(zero)
    problem.residual(zero, residual)
    say(f"Initial residual: {residual.norm():.12e}")


def check_outputs(options):
    """Refuses files that could not be written after the solve."""
    for name, legal in (("output", (".vtu", ".pvtu", ".h5")), ("picture", (".png",))):
        path = Path(options.getString(name, "")) if options.hasName(name) else None
        if path is not None and (path.suffix not in legal or not path.parent.is_dir()):
            raise OptionError(f"-{name} {path}: expected a file that ends in {', '.join(legal)}, in a folder that exists")


def write(options, *functions):
    """Writes the files that -output and -picture name; the picture is of the first function."""
    output, picture = options.getString("output", ""), options.getString("picture", "")
    if output:
        femgpu.write(output, *functions)
        say(f"wrote {output}")
    if picture:
        from femgpu.io import picture as draw

        draw(picture, functions[0])
        say(f"wrote {picture}")


def integrate(problem, options, t_end, dt):
    """Solves a problem in time; PETSc's -ts_max_time and -ts_time_step go before t_end and dt.

    -series <file.pvd>      states for ParaView, at every -series_every <1> steps
    -checkpoint <file.h5>   written at every -checkpoint_every <10> steps and at the end
    -restart                go on from the checkpoint, where there is one
    """
    series, checkpoint = options.getString("series", ""), options.getString("checkpoint", "")
    if options.getBool("restart", False):
        if not checkpoint:
            raise OptionError("-restart: expected -checkpoint <file.h5> beside it, which says from where")
        if Path(checkpoint).is_file():
            problem.restart(checkpoint)
            say(f"restart from {checkpoint}: step {problem.step}, t = {problem.t.value:.6g}")
    if series:
        problem.output(series, every=number(options, "series_every", 1, minimum=1))
    if checkpoint:
        problem.checkpoint(checkpoint, every=number(options, "checkpoint_every", 10, minimum=1))
    problem.solve(t_end, dt)
    ts = problem.ts
    say(
        f"{ts.getType()}: {problem.step} steps to t = {problem.t.value:.6g}, {ts.getStepRejections()} rejected; "
        f"{ts.getSNESIterations()} Newton and {ts.getKSPIterations()} linear iterations"
    )
