"""Poisson's equation with discontinuous functions: interior penalty methods (Arnold, SIAM J. Numer. Anal. 19, 1982).

Strong form, on any mesh, u given on the whole boundary:

    -div(nu grad u) = f

Weak form: find u, a polynomial in each cell, such that for all such v

    int nu grad u . grad v dx - int {nu grad u} . [v n] dS + s int [u n] . {nu grad v} dS
        + int sigma {nu} [u n] . [v n] dS = int f v dx

where dS are the facets between two cells, {w} is the mean of both sides, [w n] = w+ n+ + w- n-, and sigma = penalty degree^2 / h,
h the mean of the diameters of both cells. On the boundary the same terms hold u at its values: no dof is prescribed.

-solution   smooth        u = prod_i sin(pi s_i + 0.3), s_i from 0 to 1 over the mesh's bounding box; nu = 1 + s_0
            interface     nu jumps from 1 to -contrast at s_0 = 1/2, and with it the slope of u; cells must not be cut by that line
-method     sipg          s = -1: symmetric, for conjugate gradients; rate degree + 1
            nipg          s = 1: any penalty above 0 will do, from degree 2 on 0, too; a rate less where the degree is even
            iipg          s = 0
-penalty <20.0>           sipg needs one that is large enough
-contrast <10.0>          of nu

Run lines:

    python drivers/dg_poisson.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -ksp_type cg -pc_type pbjacobi -ksp_converged_reason
    python drivers/dg_poisson.py -dm_plex_simplex 0 -dm_plex_box_faces 16,16 -solution interface -petscspace_degree 3 \
        -ksp_type cg -pc_type lu -femgpu_jacobian assembled -picture dg.png
    mpiexec -n 2 python drivers/dg_poisson.py -dm_plex_dim 3 -dm_plex_box_faces 4,4,4 -petscspace_degree 1 -ksp_type cg \
        -pc_type jacobi
    python drivers/dg_poisson.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 4,4,4 -method nipg -penalty 1 -pc_type ilu \
        -femgpu_jacobian assembled -output dg.vtu
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import avg, div, dot, dS, grad, inner, jump

import femgpu

SOLUTIONS = ("smooth", "interface")
METHODS = {"sipg": -1.0, "nipg": 1.0, "iipg": 0.0}


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    solution = common.choice(options, "solution", SOLUTIONS, "smooth")
    method = common.choice(options, "method", tuple(METHODS), "sipg")
    degree = common.number(options, "petscspace_degree", 1, minimum=1)
    penalty = common.number(options, "penalty", 20.0, minimum=0.0)
    contrast = common.number(options, "contrast", 10.0, minimum=1e-6)
    problem, exact = discretise(femgpu.mesh.create(), degree, solution, method, penalty, contrast)
    error = common.error_norm(problem, exact)
    problem.solve()
    common.report(problem, error)
    common.write(options, problem.u)


def discretise(dm, degree, solution="smooth", method="sipg", penalty=20.0, contrast=10.0):
    """The problem, and its exact solution.

    Args:
        dm: the mesh.
        degree: of the functions in each cell.
        solution: one of `SOLUTIONS`.
        method: one of `METHODS`.
        penalty: factor of sigma.
        contrast: of nu on both sides of the interface.
    """
    space = femgpu.FunctionSpace(dm, "DG", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    nu, exact = data(dm, solution, contrast)
    mesh, dx, ds = space.ufl_domain(), common.measure(degree), ufl.ds(degree=2 * degree + 2)
    n, h, s = ufl.FacetNormal(mesh), ufl.CellDiameter(mesh), METHODS[method]
    sigma = penalty * degree**2
    F = inner(nu * grad(u), grad(v)) * dx + div(nu * grad(exact)) * v * dx
    F -= dot(avg(nu * grad(u)), jump(v, n)) * dS + nu * dot(grad(u), n) * v * ds
    # UFL makes a zero of what is multiplied by zero, and no integral of a zero.
    if s:
        F += s * dot(jump(u, n), avg(nu * grad(v))) * dS + s * nu * (u - exact) * dot(grad(v), n) * ds
    if sigma:
        F += sigma * avg(nu) / avg(h) * dot(jump(u, n), jump(v, n)) * dS + sigma / h * nu * (u - exact) * v * ds
    return femgpu.NonlinearProblem(F, u), exact


def data(dm, solution, contrast):
    """The coefficient nu and the exact solution."""
    s = common.relative(dm)
    if solution == "smooth":
        return 1 + s[0], math.prod(ufl.sin(math.pi * entry + 0.3) for entry in s)
    nu = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0), name="nu")
    nu.interpolate(ufl.conditional(ufl.lt(s[0], 0.5), 1.0, contrast))
    # nu du/dx is the same on both sides, and so are derivatives along the interface: u - 1 vanishes there.
    return nu, 1 + ufl.sin(2 * (s[0] - 0.5)) * math.prod(ufl.cos(entry) for entry in s[1:]) / nu


if __name__ == "__main__":
    common.run(main)
