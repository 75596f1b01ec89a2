"""Bratu's problem, the steady state of a reaction whose heat feeds it: PETSc's SNES tutorial ex5 with finite elements.

Strong form, on any mesh, u given on the whole boundary:

    -div(grad u) - lambda exp(u) = f

Weak form: find u with its boundary values and, for all v that vanish there,

    int grad u . grad v dx - int (lambda exp(u) + f) v dx = 0

-solution manufactured   u = prod_i sin(pi s_i + 0.3), s_i from 0 to 1 over the mesh's bounding box; f follows from UFL
          classic        f = 0, u = 0 on the boundary: there is a solution up to a largest lambda (3.51 on an interval of
                         length 1, 6.81 on a square, 9.90 on a cube), and Newton from zero finds the lower of two. On an
                         interval it is u = -2 ln(cosh((s - 1/2) theta) / cosh(theta / 2)), 2 theta^2 = lambda L^2 cosh^2(theta / 2)
-lambda <3.0>            Frank-Kamenetskii's parameter, per length squared

Run lines:

    python drivers/bratu.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -snes_monitor -pc_type lu
    python drivers/bratu.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -solution classic -lambda 6.8 -picture bratu.png
    python drivers/bratu.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 6,6,6 -petscspace_degree 2 -ksp_type cg \
        -pc_type gamg
    python drivers/bratu.py -dm_plex_dim 1 -dm_plex_simplex 0 -dm_plex_box_faces 50 -petscspace_degree 3 -solution classic
    mpiexec -n 2 python drivers/bratu.py -dm_plex_filename meshes/bracket.msh -lambda 2000 -pc_type gamg -snes_monitor \
        -output bratu.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import div, grad, inner

import femgpu

SOLUTIONS = ("manufactured", "classic")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    solution = common.choice(options, "solution", SOLUTIONS, "manufactured")
    strength = common.number(options, "lambda", 3.0)
    degree = common.number(options, "petscspace_degree", 1)

    problem, exact = discretise(femgpu.mesh.create(), degree, strength, solution)
    error = common.error_norm(problem, exact)
    problem.solve()
    common.report(problem, error)
    common.say(f"Largest value: {problem.u.vec.max()[1]:.12e}")
    common.write(options, problem.u)


def discretise(dm, degree, strength, solution="manufactured"):
    """The problem, and its exact solution where there is one.

    Args:
        dm: the mesh.
        degree: of the Lagrange space.
        strength: lambda.
        solution: one of `SOLUTIONS`.
    """
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    lam = femgpu.Constant(dm, strength)
    dx = common.measure(degree)
    F = inner(grad(u), grad(v)) * dx - lam * ufl.exp(u) * v * dx
    if solution == "classic":
        bc = femgpu.DirichletBC(space, 0.0, "boundary")
        return femgpu.NonlinearProblem(F, u, bcs=[bc]), classic_solution(dm, strength)
    exact = math.prod(ufl.sin(math.pi * s + 0.3) for s in common.relative(dm))
    f = -div(grad(exact)) - lam * ufl.exp(exact)
    bc = femgpu.DirichletBC(space, exact, "boundary")
    return femgpu.NonlinearProblem(F - f * v * dx, u, bcs=[bc]), exact


def classic_solution(dm, strength):
    """The lower solution on an interval, as UFL; None where there is no formula (2D and 3D) or no solution."""
    if dm.getDimension() != 1:
        return None
    lower, upper = common.bounding_box(dm)
    scale = math.sqrt(strength / 2) * float(upper[0] - lower[0])
    theta = 0.0
    while abs(scale * math.cosh(theta / 2) - theta) > 1e-15:  # the lower of two fixed points attracts from below
        theta = scale * math.cosh(theta / 2)
        if theta > 2.4:  # the largest lambda has 2.3994
            return None
    s = common.relative(dm)[0]
    return -2 * ufl.ln(ufl.cosh((s - 0.5) * theta) / math.cosh(theta / 2))


if __name__ == "__main__":
    common.run(main)
