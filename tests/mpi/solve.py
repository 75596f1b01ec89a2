"""Solves the problems of test_ranks.py on any number of ranks and prints norms and Newton histories as JSON on the last line.

Where there are more than three ranks, those without cells on each are enough, and one other.

Run by hand: mpiexec -n 2 python tests/mpi/solve.py [seed]
"""

import json
import math
import sys

import numpy as np
import ufl
from mpi4py import MPI
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu

COMM = PETSc.COMM_WORLD
RNG = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def prepare(prefix, **options):
    """Solver options of one problem; the Krylov method and its preconditioner know nothing of ranks."""
    defaults = dict(ksp_rtol=1e-12, ksp_atol=0, ksp_max_it=2000, pc_type="jacobi", snes_rtol=1e-8, snes_stol=0)
    for name, value in (defaults | options).items():
        PETSc.Options().setValue(prefix + name, value)


def distort(dm, size):
    """Moves all vertices by a function of where they are."""
    local = dm.getCoordinatesLocal()
    x = local.getArray().reshape(-1, dm.getDimension()).copy()
    local.setArray((x + 0.1 * size * np.sin(7 * x[:, ::-1] + RNG.uniform(0, 6))).ravel())
    dm.setCoordinatesLocal(local)
    return dm


def run(F, u, bcs, exact, prefix):
    """Solves; the error, the norm, functionals and histories that must not depend on the ranks."""
    problem = femgpu.NonlinearProblem(F, u, bcs=bcs, options_prefix=prefix)
    snes, linear = problem.snes, []
    snes.setConvergenceHistory()
    snes.getKSP().setMonitor(lambda ksp, iteration, norm: linear.append(norm) if iteration == 0 else None)
    problem.solve()
    difference = u - exact
    return {
        "ranks": COMM.getSize(),
        "cells": u.space.mesh.num_cells_global,
        "least_cells": u.space.mesh.mpi.allreduce(u.space.mesh.num_cells, op=MPI.MIN),
        "newton": snes.getConvergenceHistory()[0].tolist(),
        "linear": linear,
        "error": math.sqrt(femgpu.assemble(inner(difference, difference) * dx(degree=6))),
        "gradient_error": math.sqrt(femgpu.assemble(inner(grad(difference), grad(difference)) * dx(degree=6))),
        "norm": u.vec.norm(),
    }


def diffusion(dm, degree, prefix, **options):
    """-div((1 + u^2) grad u) = f with a known solution."""
    prepare(prefix, ksp_type="gmres", ksp_gmres_restart=200, **options)
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    phase = RNG.uniform(0, 6)
    exact = 1 + ufl.sin(x[0] + 2 * x[1] + phase) * ufl.exp(-x[len(x) - 1])
    f = -ufl.div((1 + exact**2) * grad(exact))
    F = (inner((1 + u**2) * grad(u), grad(v)) - f * v) * dx(degree=2 * degree + 1)
    bc = femgpu.DirichletBC(V, lambda x: 1 + np.sin(x[0] + 2 * x[1] + phase) * np.exp(-x[-1]), "boundary")
    u.interpolate(1.0)
    return run(F, u, [bc], exact, prefix)


def elasticity(dm, degree, prefix, region, linear=False, **options):
    """A clamped block of a linear or St. Venant-Kirchhoff material under a load; its error is the distance to an affine field."""
    prepare(prefix, ksp_type="cg", **options)
    dim = dm.getDimension()
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, shape=(dim,))
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    stiffness = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0), "stiffness")
    stiffness.interpolate(lambda x: 1 + x[0] + x[1])
    identity = ufl.Identity(dim)
    if linear:
        stress = stiffness * (ufl.tr(grad(u)) * identity + 2 * ufl.sym(grad(u)))
    else:
        deformation = identity + grad(u)
        strain = (deformation.T * deformation - identity) / 2
        stress = deformation * (stiffness * (ufl.tr(strain) * identity + 2 * strain))
    load = ufl.as_vector([RNG.uniform(0.05, 0.15), *[-0.3 * x[0]] * (dim - 1)])
    F = (inner(stress, grad(v)) - inner(load, v)) * dx(degree=2 * degree)
    bc = femgpu.DirichletBC(V, 0.0, region)
    return run(F, u, [bc], ufl.as_vector([0.1 * x[0], *[0.2 * x[1]] * (dim - 1)]), prefix)


def pair(comm=COMM):
    """Two tetrahedra that share a face."""
    points = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0.9, 0.8, 1.1]])
    cells = np.array([[0, 1, 2, 3], [4, 3, 2, 1]], np.int32)
    if comm.getRank() > 0:
        cells, points = cells[:0], points[:0]
    dm = PETSc.DMPlex().createFromCellList(3, cells, points, interpolate=True, comm=comm)
    if comm.getSize() > 1:
        dm.distribute(0)
    return dm


def main():
    PETSc.Options().setValue("femgpu_deterministic", None)
    box = femgpu.mesh.box
    results = {
        "tets P2": diffusion(distort(box((3, 3, 2), cell="tetrahedron"), 0.3), 2, "a_"),
        "2 quads Q2 elasticity": elasticity(distort(box((2, 1), cell="quadrilateral"), 0.5), 2, "e_", 4),
        "2 tets P3": diffusion(pair(), 3, "f_"),
    }
    if COMM.getSize() <= 3:
        tets, quads = ((3, 3, 2), "tetrahedron"), ((7, 5), "quadrilateral")
        results |= {
            "tets P2 assembled": diffusion(distort(box(*tets), 0.3), 2, "b_", femgpu_jacobian="assembled"),
            "quads Q2 elasticity": elasticity(distort(box(*quads), 0.2), 2, "c_", 4),
            "quads Q2 linear elasticity": elasticity(distort(box(*quads), 0.2), 2, "d_", 4, linear=True),
        }
    if COMM.getRank() == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
