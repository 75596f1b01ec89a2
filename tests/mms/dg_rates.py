"""Prints the rates of docs/ufl.md: discontinuous functions on all cells, by the drivers' problems. On several ranks with mpiexec.

mpiexec -n 2 python tests/mms/dg_rates.py
"""

import math
import sys
from pathlib import Path

import petsc4py

petsc4py.init(sys.argv)
sys.path[:0] = [str(Path(__file__).parents[1])]
from driver_modules import dg_advection, dg_poisson  # noqa: E402
from petsc4py import PETSc  # noqa: E402

import femgpu  # noqa: E402

OPTIONS = {"ksp_type": "cg", "pc_type": "pbjacobi", "ksp_rtol": "1e-11", "ksp_max_it": "20000"}
# Cells per direction of two meshes, by dimension and degree.
COUNTS = {
    2: {1: (16, 32), 2: (12, 24), 3: (8, 16)},
    "tetrahedron": {1: (8, 16), 2: (5, 10), 3: (4, 8)},
    3: {1: (8, 16), 2: (5, 10), 3: (4, 8)},
}


def poisson(dm, degree):
    problem, exact = dg_poisson.discretise(dm, degree)
    problem.solve()
    return femgpu.error_norm(problem.u, exact)


def advection(dm, degree):
    # Steps whose errors do not show, at a rate of 3.
    ts, u, exact = dg_advection.explicit(dm, degree, courant=2.0 if degree < 3 else 0.4)
    ts.setMaxTime(0.1)
    ts.solve(u.vec)
    return femgpu.error_norm(u, exact)


def main():
    """Prints a row for each cell and degree."""
    options = PETSc.Options()
    for name, value in OPTIONS.items():
        options[name] = value
    for cell in ("triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism"):
        dim = 2 if cell in ("triangle", "quadrilateral") else 3
        for degree in (1, 2, 3):
            counts = COUNTS[dim][degree]
            row = [f"| {cell} | {degree} | {counts[0]}, {counts[1]} |"]
            for solve in (poisson, advection):
                errors = [solve(femgpu.mesh.box((count,) * dim, cell), degree) for count in counts]
                row.append(f" {errors[1]:.3e} | {math.log(errors[0] / errors[1]) / math.log(counts[1] / counts[0]):.2f} |")
            PETSc.Sys.Print("".join(row))


main()
