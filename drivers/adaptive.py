"""Laplace's equation around a corner that turns inwards, on meshes that are refined where the error is.

Strong form, u given on the whole boundary; of the mesh that the options name, a box or a file, the quarter to the right of the
middle of its bounding box and below it is cut out:

    -div(grad u) = 0

Weak form: find u with its boundary values and, for all v that vanish there,

    int grad u . grad v dx = 0

Exact solution: u = r^(2/3) sin(2 theta / 3) around the corner, whose derivatives are not bounded there. So on meshes that are
refined everywhere the error of grad u falls as N^(-1/3) in 2D, N the dofs, whatever the degree; where cells are refined by their
shares of it, it falls as N^(-degree/2).

A cell's share of the squared error is estimated by what is left of the equation in it, and by what grad u . n jumps by at its
facets, each of which belongs to two cells by half (Babuska and Rheinboldt, SIAM J. Numer. Anal. 15, 1978):

    h^2 int (div grad u)^2 dx + int {h} [grad u . n]^2 / 2 dS

-refinement adaptive      the cells that have -fraction <0.5> of the estimated error
            uniform       all cells
-max_dofs <4000>          the last mesh is the first one with more

Run lines:

    python drivers/adaptive.py -dm_plex_box_faces 4,4 -petscspace_degree 2 -picture corner.png
    python drivers/adaptive.py -dm_plex_simplex 0 -dm_plex_box_faces 4,4 -refinement uniform -pc_type lu
    mpiexec -n 2 python drivers/adaptive.py -dm_plex_dim 3 -dm_plex_box_faces 2,2,1 -max_dofs 1000 -output corner.vtu
    python drivers/adaptive.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 2,2,1 -refinement uniform -max_dofs 500
"""

import math

import common
import ufl
from petsc4py import PETSc
from ufl import div, dS, grad, inner, jump

import femgpu

REFINEMENTS = ("adaptive", "uniform")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    refinement = common.choice(options, "refinement", REFINEMENTS, "adaptive")
    degree = common.number(options, "petscspace_degree", 1, minimum=1)
    fraction = common.number(options, "fraction", 0.5, minimum=0.0)
    most = common.number(options, "max_dofs", 4000, minimum=1)
    for u, estimate, error in solve(cut(femgpu.mesh.create()), degree, most, fraction if refinement == "adaptive" else None):
        common.say(f"{u.space.num_dofs} dofs: error of grad u {error:.6e}, estimated {estimate:.6e}")
    common.write(options, u)


def solve(dm, degree, most, fraction):
    """The solution on each mesh, with the estimate of its error in grad u, and the error.

    Args:
        dm: the first mesh.
        degree: of the functions.
        most: the last mesh has more dofs.
        fraction: of the squared error that refined cells have; None: all cells are refined.
    """
    before = None
    while True:
        problem, exact = discretise(dm, degree)
        if before is not None:
            problem.u.interpolate(before)
        problem.solve()
        before, squares = problem.u, indicator(problem.u)
        yield problem.u, math.sqrt(squares.sum()), femgpu.error_norm(problem.u, exact, "H10")
        if problem.u.space.num_dofs > most:
            return
        dm = femgpu.mesh.refine(dm) if fraction is None else femgpu.mesh.adapt(dm, squares, fraction)


def discretise(dm, degree):
    """The problem, and its exact solution.

    Args:
        dm: the mesh.
        degree: of the functions.
    """
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    lower, upper = common.bounding_box(dm)
    x, y = (femgpu.coordinates(dm)[i] - float(lower[i] + upper[i]) / 2 for i in range(2))
    # from the cut's upper side on, against the clock; the angle of atan2 jumps within the cut
    angle = 0.75 * math.pi + ufl.atan2(-x - y, y - x)
    exact = ufl.sqrt(x**2 + y**2) ** (2 / 3) * ufl.sin(2 / 3 * angle)
    return femgpu.NonlinearProblem(inner(grad(u), grad(v)) * ufl.dx, u, femgpu.DirichletBC(space, exact, "boundary")), exact


def indicator(u):
    """The cells' shares of the squared error in grad u, a vector."""
    v, mesh = ufl.TestFunction(femgpu.FunctionSpace(u.space.dm, "DG", 0)), u.space.ufl_domain()
    h, n = ufl.CellDiameter(mesh), ufl.FacetNormal(mesh)
    return femgpu.assemble(h**2 * div(grad(u)) ** 2 * v * ufl.dx + ufl.avg(h) * jump(grad(u), n) ** 2 * ufl.avg(v) * dS)


def cut(dm):
    """The mesh without the quarter to the right of the middle and below it, by a transformation of PETSc's."""
    middle = sum(common.bounding_box(dm)) / 2
    femgpu.mesh.mark(dm, "left", lambda x: x[0] < middle[0] + 1e-9, dm.getDimension())
    femgpu.mesh.mark(dm, "above", lambda x: x[1] > middle[1] - 1e-9, dm.getDimension())
    kept = dm.getLabel("left").duplicate()
    kept.insertIS(dm.getLabel("above").getStratumIS(1), 1)
    transform = PETSc.DMPlexTransform().create(comm=dm.comm)
    transform.setDM(dm)
    transform.setType(PETSc.DMPlexTransformType.TRANSFORMFILTER)
    transform.setActive(kept)
    transform.setUp()
    return transform.apply(dm)


if __name__ == "__main__":
    common.run(main)
