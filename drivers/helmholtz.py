"""Helmholtz's equation: waves of one frequency, an indefinite problem where high degrees pay.

Strong form, on any mesh, with the exact solution prescribed on the whole boundary:

    -div(grad u) - k^2 u = f

Weak form: find u with u = exact on the boundary and, for all v that vanish there,

    int (grad u . grad v - k^2 u v) dx - int f v dx = 0

Exact solution: u = prod_i sin(k x_i + 0.3), a standing wave, so that f = (dim - 1) k^2 u; f follows from UFL. The problem has no
unique solution where k^2 is an eigenvalue of -div grad, and is indefinite beyond the first (2 pi^2 on the unit square): use a
direct solver, or GMRES with a strong preconditioner. Multigrid and CG do not converge there.

-wavenumber <8.0>   k, per length

Run lines:

    python drivers/helmholtz.py -dm_plex_box_faces 8,8 -petscspace_degree 5 -pc_type lu
    python drivers/helmholtz.py -dm_plex_simplex 0 -dm_plex_box_faces 12,12 -petscspace_degree 4 -wavenumber 20 \
        -ksp_type gmres -ksp_gmres_restart 200 -pc_type ilu -pc_factor_levels 2 -ksp_monitor
    python drivers/helmholtz.py -dm_plex_dim 3 -dm_plex_box_faces 3,3,3 -petscspace_degree 3 -pc_type lu
    python drivers/helmholtz.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 3,3,3 -petscspace_degree 5 \
        -ksp_type gmres -pc_type ilu
    mpiexec -n 2 python drivers/helmholtz.py -dm_plex_filename meshes/bracket.msh -wavenumber 60 -ksp_type gmres -pc_type asm \
        -ksp_monitor -output helmholtz.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import div, grad, inner

import femgpu


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    degree = common.number(options, "petscspace_degree", 1)
    wavenumber = common.number(options, "wavenumber", 8.0)

    problem, exact = discretise(femgpu.mesh.create(), degree, wavenumber)
    error = common.error_norm(problem, exact)
    problem.solve()
    common.report(problem, error)
    common.write(options, problem.u)


def discretise(dm, degree, wavenumber):
    """The problem and its exact solution."""
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    k = femgpu.Constant(dm, wavenumber)
    exact = math.prod(ufl.sin(k * s + 0.3) for s in femgpu.coordinates(dm))
    f = -div(grad(exact)) - k**2 * exact
    dx = common.measure(degree)
    F = (inner(grad(u), grad(v)) - k**2 * u * v) * dx - f * v * dx
    bc = femgpu.DirichletBC(space, exact, "boundary")
    return femgpu.NonlinearProblem(F, u, bcs=[bc]), exact


if __name__ == "__main__":
    common.run(main)
