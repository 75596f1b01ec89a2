"""The heat equation with temperatures that change on the boundary, over PETSc's time integrators.

Strong form, on any mesh, u given on the whole boundary at all times, and everywhere at t = 0:

    du/dt - div(k(u) grad u) = f

Weak form: find u(t) with its boundary values and, for all v that vanish there,

    int du/dt v dx + int k(u) grad u . grad v dx - int f v dx = 0

Exact solution: u = 1 + exp(-t) prod_i sin(pi s_i + 0.3) / 2, s_i from 0 to 1 over the mesh's bounding box; f follows from UFL.

-conductivity linear      k = L^2, with L the largest side of the bounding box: a disturbance fades within t = 1/10
              nonlinear   k = L^2 (1 + u^2): Newton has work to do in every step
-series <file.pvd>        states for ParaView, at every -series_every <1> steps
-checkpoint <file.h5>     written at every -checkpoint_every <10> steps and at the end
-restart                  go on from the checkpoint, where there is one

The end is t = 1 and the step 1/20 unless -ts_max_time and -ts_time_step say otherwise. Without -ts_type the integrator is BDF of
order 2.

Run lines:

    python drivers/heat.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -pc_type lu -ts_monitor
    python drivers/heat.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -conductivity nonlinear -ts_type cn -pc_type lu \
        -snes_monitor -series heat.pvd -series_every 5
    python drivers/heat.py -dm_plex_simplex 0 -dm_plex_box_faces 8,8 -petscspace_degree 3 -pc_type lu -ts_type dirk \
        -ts_adapt_type basic -ts_rtol 1e-5 -ts_atol 1e-5 -ts_adapt_monitor
    python drivers/heat.py -dm_plex_dim 3 -dm_plex_box_faces 4,4,4 -petscspace_degree 2 -ksp_type cg -pc_type jacobi \
        -ts_type beuler -checkpoint heat.h5 -restart
    python drivers/heat.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 4,4,4 -ksp_type cg -pc_type jacobi -output heat.vtu
    mpiexec -n 2 python drivers/heat.py -dm_plex_filename meshes/bracket.msh -femgpu_jacobian assembled -pc_type gamg \
        -ts_time_step 0.25 -ts_monitor
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import div, grad, inner

import femgpu

CONDUCTIVITIES = ("linear", "nonlinear")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    conductivity = common.choice(options, "conductivity", CONDUCTIVITIES, "linear")
    degree = common.number(options, "petscspace_degree", 1)

    problem, exact = discretise(femgpu.mesh.create(), degree, conductivity)
    common.integrate(problem, options, 1.0, 0.05)
    space = problem.u.space
    common.say(f"L2 error: {femgpu.error_norm(problem.u, exact):.6e} ({space.num_dofs} dofs, degree {degree})")
    common.write(options, problem.u)


def discretise(dm, degree, conductivity="linear"):
    """The problem at t = 0, and its exact solution.

    Args:
        dm: the mesh.
        degree: of the Lagrange space.
        conductivity: one of `CONDUCTIVITIES`.
    """
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    t = femgpu.Constant(dm, 0.0)
    lower, upper = common.bounding_box(dm)
    scale = float((upper - lower).max()) ** 2

    def k(u):
        return scale * (1 + u**2) if conductivity == "nonlinear" else ufl.as_ufl(scale)

    bump = math.prod(ufl.sin(math.pi * s + 0.3) for s in common.relative(dm))
    exact, rate = common.with_rate(t, lambda t: 1 + 0.5 * ufl.exp(-t) * bump)
    f = rate - div(k(exact) * grad(exact))
    F = (femgpu.time_derivative(u) * v + inner(k(u) * grad(u), grad(v)) - f * v) * common.measure(degree)
    u.interpolate(exact)
    return femgpu.TimeProblem(F, u, femgpu.DirichletBC(space, exact, "boundary"), t), exact


if __name__ == "__main__":
    common.run(main)
