"""Solves drivers' problems with no solver named, however small they are, and prints what was chosen, iterations and errors.

Arguments: types of cells, degrees and names of drivers, each separated by commas. A line of JSON per case, on standard error, and
all of them on the last line.

Run by hand, on all cells and degrees: PYTHONPATH=tests mpiexec -n 2 python tests/drivers/solve_by_default.py
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from driver_modules import PROBLEMS, dg_advection, dg_poisson, heat, reaction_diffusion  # noqa: E402
from petsc4py import PETSc  # noqa: E402

import femgpu  # noqa: E402
from femgpu.solver import default_solver  # noqa: E402

MESHES = {"triangle": (8, 6), "quadrilateral": (6, 5), "tetrahedron": (3, 3, 3), "hexahedron": (3, 3, 2)}
TIMED = {"heat": heat.discretise, "reaction_diffusion": reaction_diffusion.discretise, "dg_advection": dg_advection.discretise}
NAMES = (*PROBLEMS, "dg_poisson", *TIMED)
# Steps in time.
STEPS, SECONDS = 2, 0.1


def solve(name, dm, degree):
    """Linear iterations, the error, and what was chosen."""
    if name in TIMED:
        problem, exact = TIMED[name](dm, degree)
        problem.solve(STEPS * SECONDS, SECONDS)
        errors = [problem.u.vec.norm()] if name == "reaction_diffusion" else [femgpu.error_norm(problem.u, exact)]
        return problem.ts.getKSPIterations(), errors, problem._pair.chosen
    if name in PROBLEMS:
        case = PROBLEMS[name](dm, degree)
        case.solve()
        problem, errors = case.problem, case.errors()
    else:
        problem, exact = dg_poisson.discretise(dm, degree)
        problem.solve()
        errors = [femgpu.error_norm(problem.u, exact)]
    return problem.snes.getLinearSolveIterations(), errors, problem._pair.chosen


def main(cells="", degrees="1,2,3,4", names=""):
    default_solver.SMALL = 0
    options = PETSc.Options()
    options.setValue("ksp_rtol", 1e-8)
    options.setValue("ksp_max_it", 2000)
    given, found, first = options.getAll(), {}, PETSc.COMM_WORLD.rank == 0
    for cell in cells.split(",") if cells else MESHES:
        for degree in map(int, degrees.split(",")):
            for name in names.split(",") if names else NAMES:
                # Its degree is the pressure's: velocities end at 4, too.
                if name == "stokes" and degree == 4:
                    continue
                key = f"{name} {cell} {degree}"
                try:
                    found[key] = solve(name, femgpu.mesh.box(MESHES[cell], cell=cell), degree)
                except (femgpu.errors.FemgpuError, PETSc.Error) as error:
                    found[key] = 0, [], str(error)
                # A driver may set those that it wants.
                for option in options.getAll().keys() - given.keys():
                    options.delValue(option)
                if first:
                    print(json.dumps({key: found[key]}), file=sys.stderr, flush=True)
    if first:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
