"""The p-Laplacian: diffusion whose coefficient is a power of the gradient, regularised where the gradient vanishes.

Strong form, on any mesh, with the exact solution prescribed on the whole boundary:

    -div((eps^2 + |grad u|^2)^((p-2)/2) grad u) = f

Weak form: find u with u = exact on the boundary and, for all v that vanish there,

    int (eps^2 + |grad u|^2)^((p-2)/2) grad u . grad v dx - int f v dx = 0

Exact solution: u = sum_i s_i^2 / 2 + sin(s_i) / (i + 1), s_i from 0 to 1 over the mesh's bounding box, i from 0; its gradient
vanishes nowhere. f follows from UFL.

The linear problem with this f, p = 2 on the left, is solved first; from its solution Newton goes to the p asked for in -steps equal
steps. p is a kernel argument: nothing is rebuilt on the way.

-p <3.0>      the power, larger than 1: below 2 the coefficient grows where the gradient is small, above it vanishes there
-eps <0.1>    the regularisation
-steps <1>    continuation steps in p

Run lines:

    python drivers/plaplace.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -p 4 -snes_monitor -pc_type lu
    python drivers/plaplace.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -p 1.3 -eps 0.01 -steps 3 -pc_type gamg
    python drivers/plaplace.py -dm_plex_dim 3 -dm_plex_box_faces 6,6,6 -petscspace_degree 2 -ksp_type cg -pc_type jacobi
    python drivers/plaplace.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 6,6,6 -ksp_type cg -pc_type gamg
    mpiexec -n 2 python drivers/plaplace.py -dm_plex_filename meshes/bracket.msh -p 3 -femgpu_jacobian assembled \
        -ksp_type cg -pc_type gamg -snes_monitor -output plaplace.vtu
"""

import common
import numpy as np
import ufl
from petsc4py import PETSc
from ufl import div, exp, grad, inner, ln

import femgpu
from femgpu.errors import OptionError


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    degree = common.number(options, "petscspace_degree", 1)
    power, eps = common.number(options, "p", 3.0), common.number(options, "eps", 0.1)
    steps = common.number(options, "steps", 1, minimum=1)
    if power <= 1:
        raise OptionError(f"-p {power}: expected a number larger than 1")

    problem, p, exact = discretise(femgpu.mesh.create(), degree, power, eps)
    error = common.error_norm(problem, exact)
    solve(problem, p, power, steps)
    common.report(problem, error)
    common.write(options, problem.u)


def discretise(dm, degree, power, eps):
    """The problem with the source of a power, its own power as a Constant (2 at first), and the exact solution for that power."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    p, power, eps = (femgpu.Constant(dm, value) for value in (2.0, power, eps))

    def flux(w, p):
        # A power written out: its derivative then shares the exponential, and costs no second and third power.
        return exp((p - 2) / 2 * ln(eps**2 + inner(grad(w), grad(w)))) * grad(w)

    exact = sum(s**2 / 2 + ufl.sin(s) / (i + 1) for i, s in enumerate(common.relative(dm)))
    f = -div(flux(exact, power))
    dx = common.measure(degree)
    F = inner(flux(u, p), grad(v)) * dx - f * v * dx
    bc = femgpu.DirichletBC(space, exact, "boundary")
    return femgpu.NonlinearProblem(F, u, bcs=[bc]), p, exact


def solve(problem, p, power, steps):
    """Goes from p = 2 to the power in equal steps, after the linear problem."""
    for p.value in np.linspace(2.0, power, steps + 1):
        problem.solve()


if __name__ == "__main__":
    common.run(main)
