"""Solves every driver's manufactured problem on any number of ranks and prints errors and Newton steps as JSON on the last line.

Arguments name Krylov methods that solve each problem, one after the other: petsc for PETSc's GMRES, or one of femgpu's; CG solves
those that it is for.

Run by hand: PYTHONPATH=tests mpiexec -n 2 python tests/drivers/solve_all.py petsc femgpu.GMRES
"""

import itertools
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from driver_modules import PROBLEMS  # noqa: E402
from petsc4py import PETSc  # noqa: E402

import femgpu  # noqa: E402

OPTIONS = {
    "ksp_rtol": 1e-12,
    "ksp_gmres_restart": 300,
    "ksp_max_it": 2000,
    "fieldsplit_velocity_pc_type": "jacobi",
}
UNSYMMETRIC_OR_INDEFINITE = ("advection_diffusion", "helmholtz", "stokes")
# Each problem takes the next of these meshes, with its degree.
MESHES = {"triangle": ((5, 4), 2), "hexahedron": ((3, 2, 2), 1), "tetrahedron": ((2, 2, 2), 1)}


def main():
    options, results = PETSc.Options(), {method: {} for method in sys.argv[1:]}
    for name, value in {**OPTIONS, "snes_rtol": 1e-10, "femgpu_deterministic": None, "options_left": 0}.items():
        options.setValue(name, value)
    for (name, make), (cell, (counts, degree)) in zip(PROBLEMS.items(), itertools.cycle(MESHES.items())):
        options.setValue("pc_type", "fieldsplit" if name == "stokes" else "jacobi")
        for method, found in results.items():
            if name in UNSYMMETRIC_OR_INDEFINITE and method == "femgpu.CG":
                continue
            options.setValue("ksp_type", "gmres" if method == "petsc" else "python")
            options.setValue("ksp_python_type", method)
            case = make(femgpu.mesh.box(counts, cell=cell), degree)
            case.solve()
            found[f"{name} {cell}"] = [*case.errors(), case.problem.u.vec.norm(), case.problem.snes.getIterationNumber()]
    if PETSc.COMM_WORLD.rank == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
