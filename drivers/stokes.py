"""Stokes' equations with Taylor-Hood elements: a manufactured flow, and the flow in a box whose lid moves.

Strong form, on any mesh, with the velocity u prescribed on the whole boundary:

    -nu div(grad u) + grad p = f
    div u = 0

Weak form: find u with its boundary values and p such that, for all v that vanish on the boundary and all q,

    int nu grad u : grad v dx - int p div v dx - int q div u dx - int f . v dx = 0

The signs make the Jacobian symmetric. Velocities have the degree -petscspace_degree (2 or more; the default is 2), pressures one
less; both are continuous. The pressure is determined up to a constant, which the solver knows as the Jacobian's null space.

-solution manufactured   u = (sin X cos Y, -cos X sin Y) in 2D, (sin X cos Y cos Z, -cos X sin Y cos Z, 0) in 3D, p = cos(X + Y),
                         X = pi (x - x_min) / L + 0.3 and so on, L the longest side of the mesh's bounding box; f from UFL
          cavity         f = 0, u = (1, 0) or (1, 0, 0) on the side of the box where the last coordinate is largest, 0 on the others
-viscosity <1.0>         nu
-output, -picture        velocity and pressure; the picture shows the speed

Where no option names a solver, femgpu takes GMRES preconditioned by fields on the device (femgpu.FieldSplit): multigrid for the
velocity, and for the pressure the diagonal of its mass matrix over -nu, to which the Schur complement is spectrally equivalent.
PETSc's -pc_type fieldsplit -pc_fieldsplit_type schur, whose blocks are called velocity and pressure, gets that mass matrix from the
driver, and LU (algebraic multigrid on several ranks) for the velocity. PETSc's LU of the whole matrix does not pivot, and fails.

Run lines:

    python drivers/stokes.py -dm_plex_box_faces 8,8 -ksp_rtol 1e-8 -ksp_monitor
    python drivers/stokes.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -solution cavity -ksp_type fgmres -ksp_rtol 1e-8 \
        -pc_type fieldsplit -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type full -fieldsplit_velocity_pc_type lu \
        -fieldsplit_pressure_ksp_type gmres -fieldsplit_pressure_ksp_rtol 1e-8 -ksp_monitor -picture stokes.png
    python drivers/stokes.py -dm_plex_dim 3 -dm_plex_box_faces 3,3,3 -pc_fieldsplit_schur_precondition selfp -ksp_monitor
    mpiexec -n 2 python drivers/stokes.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 3,3,3 -ksp_type minres \
        -pc_fieldsplit_schur_fact_type diag -ksp_monitor -output stokes.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import conditional, cos, div, dx, grad, gt, inner, lt, sin

import femgpu
from femgpu.errors import OptionError

SOLUTIONS = ("manufactured", "cavity")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    solution = common.choice(options, "solution", SOLUTIONS, "manufactured")
    viscosity = common.number(options, "viscosity", 1.0)
    degree = common.number(options, "petscspace_degree", 2, minimum=2)
    set_solver(options)

    problem, exact = discretise(femgpu.mesh.create(), degree, viscosity, solution)
    problem.solve()
    common.report(problem)
    velocity, pressure = problem.u.sub("velocity"), problem.u.sub("pressure")
    if exact is not None:
        of_velocity, of_pressure = errors(problem, exact)
        common.say(
            f"L2 error of the velocity: {of_velocity:.6e}, of the pressure: {of_pressure:.6e} ({problem.u.space.num_dofs} dofs)"
        )
    common.write(options, velocity, pressure)


def set_solver(options):
    """What is left open of PETSc's solver by fields, where options ask for it."""
    # Those with femgpu in their name are of the solver that is taken without options.
    names = [name for name in options.getAll() if "femgpu" not in name]
    asked = any(name.startswith(("ksp_type", "pc_type", "pc_fieldsplit", "fieldsplit_")) for name in names)
    if not asked or options.getString("pc_type", "fieldsplit") != "fieldsplit":
        return
    usual = {
        "ksp_type": "gmres",
        "ksp_max_it": 1000,
        "pc_type": "fieldsplit",
        "pc_fieldsplit_type": "schur",
        "pc_fieldsplit_schur_fact_type": "upper",
        "fieldsplit_velocity_ksp_type": "preonly",
        "fieldsplit_velocity_pc_type": "lu" if PETSc.COMM_WORLD.size == 1 else "gamg",
        "fieldsplit_pressure_ksp_type": "preonly",
        "fieldsplit_pressure_pc_type": "jacobi",
    }
    for name, value in usual.items():
        if not options.hasName(name):
            options.setValue(name, value)


def discretise(dm, degree, viscosity, solution="manufactured"):
    """The problem, and its exact velocity and pressure where they are known.

    Args:
        dm: the mesh.
        degree: of the velocity.
        viscosity: nu.
        solution: one of `SOLUTIONS`.
    """
    dim = dm.getDimension()
    if dim == 1:
        raise OptionError("-dm_plex_dim 1: a flow without divergence needs 2 or 3 dimensions")
    velocity = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dim,))
    pressure = femgpu.FunctionSpace(dm, "Lagrange", degree - 1)
    space = femgpu.MixedSpace({"velocity": velocity, "pressure": pressure})
    w = femgpu.Function(space, name="flow")
    u, p = ufl.split(w)
    v, q = ufl.TestFunctions(space)
    nu = femgpu.Constant(dm, viscosity)
    dx = common.measure(degree)
    F = (nu * inner(grad(u), grad(v)) - p * div(v) - q * div(u)) * dx
    exact, prescribed = None, lid(dm)
    if solution == "manufactured":
        exact = prescribed, of_pressure = vortices(dm)
        F -= inner(-nu * div(grad(prescribed)) + grad(of_pressure), v) * dx
    problem = femgpu.NonlinearProblem(F, w, bcs=[femgpu.DirichletBC(space.sub("velocity"), prescribed, "boundary")])
    problem.set_nullspace(femgpu.constant_modes(space.sub("pressure")))
    precondition(problem, pressure, nu)
    return problem, exact


def vortices(dm):
    """The manufactured velocity and pressure."""
    lower, upper = common.bounding_box(dm)
    x = femgpu.coordinates(dm)
    X = [math.pi / float((upper - lower).max()) * (x[i] - float(lower[i])) + 0.3 for i in range(len(x))]
    depth = cos(X[2]) if len(X) == 3 else 1.0
    u = [sin(X[0]) * cos(X[1]) * depth, -cos(X[0]) * sin(X[1]) * depth, 0.0]
    return ufl.as_vector(u[: len(X)]), cos(X[0] + X[1])


def lid(dm):
    """The boundary velocity of the cavity. Nothing flows through the walls: its lid moves between them."""
    s = common.relative(dm)
    on_lid = ufl.And(gt(s[-1], 1 - 1e-8), ufl.And(gt(s[0], 1e-8), lt(s[0], 1 - 1e-8)))
    return ufl.as_vector([conditional(on_lid, 1.0, 0.0), *[0.0] * (dm.getDimension() - 1)])


def precondition(problem, pressure, nu):
    """Hands the pressure's mass matrix over -nu to PETSc, which approximates the Schur complement by it."""
    pc = problem.snes.getKSP().getPC()
    if pc.getType() != "fieldsplit" or PETSc.Options().hasName("pc_fieldsplit_schur_precondition"):
        return
    p, q = ufl.TrialFunction(pressure), ufl.TestFunction(pressure)
    mass = femgpu.assemble(-p * q / nu * dx, options_prefix="mass_")
    pc.setFieldSplitSchurPreType(PETSc.PC.FieldSplitSchurPreType.USER, mass)


def errors(problem, exact):
    """The L2 errors of velocity and pressure, the latter without its mean."""
    velocity, pressure = problem.u.sub("velocity"), problem.u.sub("pressure")
    dm = problem.u.space.dm
    volume = femgpu.assemble(femgpu.Constant(dm, 1.0) * dx)
    mean = femgpu.assemble((pressure - exact[1]) * dx) / volume
    return femgpu.error_norm(velocity, exact[0]), femgpu.error_norm(pressure, exact[1] + femgpu.Constant(dm, mean))


if __name__ == "__main__":
    common.run(main)
