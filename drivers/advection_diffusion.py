"""Advection, diffusion and reaction with a full diffusion tensor, stabilised by SUPG.

Strong form, on any mesh, with u prescribed on the whole boundary:

    R(u) = -div(K grad u) + b . grad u + c u - f = 0

Weak form (streamline upwind Petrov-Galerkin, Brooks and Hughes 1982): find u with its boundary values and, for all v that vanish
there,

    int K grad u . grad v dx + int (b . grad u + c u - f) v dx + sum_cells int_cell tau R(u) b . grad v dx = 0

The second derivatives in R are taken inside each cell; they are not zero from degree 2 on. With the cell's diameter h divided by
the degree and k, the mean of K's eigenvalues,

    tau = ((2 |b| / h)^2 + (12 k / h^2)^2 + c^2)^(-1/2)

which takes over from Galerkin's method where h |b| > 6 k.

-solution manufactured   u = prod_i sin(2 s_i + 0.3) + s_0, s_i from 0 to 1 over the mesh's bounding box; f follows from UFL
          layer          f = 1 and u = 0 on the boundary: a slope with steep layers where the flow leaves. Without SUPG the
                         solution oscillates wherever the mesh does not resolve them
-diffusion <0.01>        K: one number (times the identity), or dim * dim numbers, row by row
-velocity <1,0.5,0.25>   b, as many numbers as the mesh has dimensions
-reaction <0>            c
-supg <true>             with the last term of the weak form

Run lines:

    python drivers/advection_diffusion.py -dm_plex_box_faces 16,16 -petscspace_degree 2 -pc_type lu
    python drivers/advection_diffusion.py -dm_plex_simplex 0 -dm_plex_box_faces 32,32 -solution layer -diffusion 1e-4 \
        -ksp_type gmres -pc_type ilu -picture layer.png
    python drivers/advection_diffusion.py -dm_plex_dim 3 -dm_plex_box_faces 6,6,6 -petscspace_degree 2 -reaction 1 \
        -diffusion 0.02,0.01,0,0,0.02,0,0.01,0,0.04 -ksp_type gmres -pc_type ilu
    python drivers/advection_diffusion.py -dm_plex_dim 3 -dm_plex_simplex 0 -dm_plex_box_faces 6,6,6 -ksp_type bcgs -pc_type ilu
    mpiexec -n 2 python drivers/advection_diffusion.py -dm_plex_filename meshes/bracket.msh -diffusion 1e-4 -velocity 0,0,1 \
        -ksp_type gmres -pc_type asm -ksp_monitor -output advection_diffusion.vtu
"""

import math

import common
import numpy as np
import ufl
from petsc4py import PETSc
from ufl import CellDiameter, div, dot, grad, inner
from ufl.domain import extract_unique_domain

import femgpu
from femgpu.errors import OptionError

SOLUTIONS = ("manufactured", "layer")


def main():
    """Runs the driver with the options of the command line."""
    options = PETSc.Options()
    common.check_outputs(options)
    solution = common.choice(options, "solution", SOLUTIONS, "manufactured")
    degree = common.number(options, "petscspace_degree", 1)
    reaction = common.number(options, "reaction", 0.0)
    supg = options.getBool("supg", True)

    dm = femgpu.mesh.create()
    dim = dm.getDimension()
    velocity = common.numbers(options, "velocity", [1.0, 0.5, 0.25][:dim])
    diffusion = tensor(options.getString("diffusion", "0.01"), dim)
    problem, exact = discretise(dm, degree, diffusion, velocity, reaction, solution, supg)
    error = common.error_norm(problem, exact)
    problem.solve()
    common.report(problem, error)
    common.say(f"Values from {problem.u.vec.min()[1]:.6e} to {problem.u.vec.max()[1]:.6e}")
    common.write(options, problem.u)


def tensor(text, dim):
    """K from the option: one number or dim * dim, with a positive definite symmetric part."""
    try:
        entries = np.array([float(word) for word in text.split(",")])
    except ValueError:
        entries = np.zeros(0)
    if entries.size not in (1, dim * dim):
        raise OptionError(f"-diffusion {text}: expected one number, or {dim * dim} separated by commas")
    K = entries * np.eye(dim) if entries.size == 1 else entries.reshape(dim, dim)
    if not np.linalg.eigvalsh(K + K.T).min() > 0:
        raise OptionError(f"-diffusion {text}: expected a matrix whose symmetric part is positive definite")
    return K


def discretise(dm, degree, diffusion, velocity, reaction, solution="manufactured", supg=True):
    """The problem, and its exact solution where there is one.

    Args:
        dm: the mesh.
        degree: of the Lagrange space.
        diffusion: (dim, dim) K.
        velocity: (dim,) b.
        reaction: c.
        solution: one of `SOLUTIONS`.
        supg: whether to stabilise.
    """
    space = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v = femgpu.Function(space, name="u"), ufl.TestFunction(space)
    K, b, c = (femgpu.Constant(dm, value) for value in (diffusion, velocity, reaction))

    def operator(w):
        return -div(K * grad(w)) + dot(b, grad(w)) + c * w

    exact, f = None, femgpu.Constant(dm, 1.0)
    if solution == "manufactured":
        s = common.relative(dm)
        exact = math.prod(ufl.sin(2 * r + 0.3) for r in s) + s[0]
        f = operator(exact)
    dx = common.measure(degree)
    F = inner(K * grad(u), grad(v)) * dx + (dot(b, grad(u)) + c * u - f) * v * dx
    if supg:
        F += tau(K, b, c, CellDiameter(extract_unique_domain(v)) / degree) * (operator(u) - f) * dot(b, grad(v)) * dx
    bc = femgpu.DirichletBC(space, 0.0 if exact is None else exact, "boundary")
    return femgpu.NonlinearProblem(F, u, bcs=[bc]), exact


def tau(K, b, c, h):
    """The time that the flow, diffusion and reaction together need to pass a cell."""
    k = ufl.tr(K) / len(b)
    return ((2 / h) ** 2 * dot(b, b) + (12 * k / h**2) ** 2 + c**2) ** -0.5


if __name__ == "__main__":
    common.run(main)
