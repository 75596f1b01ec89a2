"""What a flow carries along, with discontinuous functions and upwind fluxes, explicit or implicit in time.

Strong form, on any mesh, u given where the flow b enters, and everywhere at t = 0; b has no divergence:

    du/dt + div(b u) = 0

Weak form: find u(t), a polynomial in each cell, such that for all such v

    int du/dt v dx - int u b . grad v dx + int [v] (b . n+)^+ u+ - [v] (b . n-)^+ u- dS + int ((b . n)^+ u + (b . n)^- g) v ds = 0

where dS are the facets between two cells, [v] = v+ - v-, and a^+ and a^- are max(a, 0) and min(a, 0): what crosses a facet is what
the cell upstream has there. So it leaves one cell as it enters the other: u is conserved.

In coordinates s_i from 0 to 1 over the mesh's bounding box:

-solution   translation   b_s = (1, 1/2, 1/4), u = 1 + prod_i sin(2 pi (s_i - b_i t)) / 2
            rotation      a hill, exp(-40 |s - c(t)|^2), that goes once around the middle of the box within t = 1
-stepping   implicit      over TimeProblem: BDF of order 2, or what -ts_type says, with steps of 1/50
            explicit      a strong stability preserving Runge-Kutta method (Ketcheson, SIAM J. Sci. Comput. 30, 2008) of order 3
                          and 9 stages, or what -ts_type says (ssp, rk, euler); in a step the flow crosses -courant <2.0> over
                          2 degree + 1 of the shortest edge of a cell

The end is t = 1 unless -ts_max_time says otherwise; -ts_time_step goes before the steps above. With -stepping implicit there are
-series, -checkpoint and -restart, see drivers/heat.py.

Run lines:

    python drivers/dg_advection.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -stepping explicit -solution rotation \
        -picture hill.png
    python drivers/dg_advection.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -ts_type cn -pc_type pbjacobi -ts_monitor
    mpiexec -n 2 python drivers/dg_advection.py -dm_plex_dim 3 -dm_plex_box_faces 4,4,4 -ts_max_time 0.1 -output hill.vtu
    python drivers/dg_advection.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 6,6,6 -stepping explicit -ts_max_time 0.25
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import dot, dS, grad, jump

import femgpu

SOLUTIONS = ("translation", "rotation")
STEPPINGS = ("implicit", "explicit")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    solution = common.choice(options, "solution", SOLUTIONS, "translation")
    stepping = common.choice(options, "stepping", STEPPINGS, "implicit")
    degree = common.number(options, "petscspace_degree", 1, minimum=0)
    courant = common.number(options, "courant", 2.0, minimum=1e-6)

    dm = femgpu.mesh.create()
    if stepping == "implicit":
        problem, exact = discretise(dm, degree, solution)
        common.integrate(problem, options, 1.0, 0.02)
        u = problem.u
    else:
        for name in ("series", "checkpoint", "restart"):
            if options.hasName(name):
                raise common.OptionError(f"-{name}: -stepping explicit writes and reads none; expected -stepping implicit")
        ts, u, exact = explicit(dm, degree, solution, courant)
        ts.solve(u.vec)
        common.say(f"{ts.getType()}: {ts.getStepNumber()} steps to t = {ts.getSolveTime():.6g}")
    common.say(f"L2 error: {femgpu.error_norm(u, exact):.6e} ({u.space.num_dofs} dofs, degree {degree})")
    common.write(options, u)


def discretise(dm, degree, solution="translation"):
    """The problem at t = 0, and its exact solution.

    Args:
        dm: the mesh.
        degree: of the functions in each cell.
        solution: one of `SOLUTIONS`.
    """
    u, v, t, exact, flow = data(dm, degree, solution)
    F = femgpu.time_derivative(u) * v * common.measure(degree) + transport(u, v, flow, exact, degree)
    return femgpu.TimeProblem(F, u, t=t), exact


def explicit(dm, degree, solution="translation", courant=2.0):
    """PETSc's TS, the function that it changes, and the exact solution; arguments as of `discretise`, and the Courant number.

    The mass matrix has a block for each cell and nothing else: incomplete factors of each rank's rows are its factors.
    """
    u, v, t, exact, flow = data(dm, degree, solution)
    problem = femgpu.NonlinearProblem(transport(u, v, flow, exact, degree), u)
    mass = PETSc.KSP().create(dm.comm)
    mass.setOptionsPrefix("mass_")
    mass.setOperators(femgpu.assemble(ufl.TrialFunction(u.space) * v * ufl.dx))
    mass.setType(PETSc.KSP.Type.PREONLY)
    mass.getPC().setType(PETSc.PC.Type.BJACOBI)
    mass.setFromOptions()
    change = u.vec.duplicate()

    def rate(ts, time, x, out):
        t.value = time
        problem.residual(x, change)
        mass.solve(change, out)
        out.scale(-1.0)

    def at_end(ts):
        t.value = ts.getTime()

    ts = PETSc.TS().create(dm.comm)
    ts.setType(PETSc.TS.Type.SSP)
    if not PETSc.Options().hasName("ts_ssp_type"):
        PETSc.Options().setValue("ts_ssp_type", "rks3")
    ts.setRHSFunction(rate, u.vec.duplicate())
    ts.setPostStep(at_end)
    ts.setMaxTime(1.0)
    ts.setTimeStep(courant / ((2 * degree + 1) * fastest(dm, flow)))
    ts.setExactFinalTime(PETSc.TS.ExactFinalTime.MATCHSTEP)
    ts.setFromOptions()
    return ts, u, exact


def transport(u, v, flow, inflow, degree):
    """What leaves the cells less what enters them, by upwind fluxes.

    Args:
        u: what is carried along.
        v: the test function.
        flow: the velocity.
        inflow: u where the flow enters the mesh.
        degree: of u.
    """
    through = dot(flow, ufl.FacetNormal(u.space.ufl_domain()))
    out, into = ufl.max_value(through, 0), ufl.min_value(through, 0)
    rule = {"degree": 2 * degree + 2}
    between = jump(v) * (out("+") * u("+") - out("-") * u("-")) * dS(**rule)
    return -u * dot(flow, grad(v)) * ufl.dx(**rule) + between + (out * u + into * inflow) * v * ufl.ds(**rule)


def data(dm, degree, solution):
    """The unknown at t = 0, a test function, the time, the exact solution, and the flow."""
    space = femgpu.FunctionSpace(dm, "DG", degree)
    u, t, s = femgpu.Function(space, name="u"), femgpu.Constant(dm, 0.0), common.relative(dm)
    if solution == "translation":
        speed = [1.0, 0.5, 0.25][: len(s)]
        exact = 1 + 0.5 * math.prod(ufl.sin(2 * math.pi * (r - b * t)) for r, b in zip(s, speed, strict=True))
    else:
        speed = [2 * math.pi * (0.5 - s[1]), 2 * math.pi * (s[0] - 0.5), *[0.0] * (len(s) - 2)]
        angle = 2 * math.pi * t
        centre = [0.5 + 0.25 * ufl.cos(angle), 0.5 + 0.25 * ufl.sin(angle), *[0.5] * (len(s) - 2)]
        exact = ufl.exp(-40 * sum((r - c) ** 2 for r, c in zip(s, centre, strict=True)))
    lower, upper = common.bounding_box(dm)
    u.interpolate(exact)
    return u, ufl.TestFunction(space), t, exact, ufl.as_vector([b * float(h) for b, h in zip(speed, upper - lower, strict=True)])


def fastest(dm, flow):
    """How many cells the flow crosses in a unit of time, where these are most."""
    crossed = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 1))
    crossed.interpolate(ufl.sqrt(dot(flow, flow)) / ufl.MinCellEdgeLength(crossed.space.ufl_domain()))
    return crossed.vec.max()[1]


if __name__ == "__main__":
    common.run(main)
