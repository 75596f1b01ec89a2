"""Solves every driver's manufactured problem on any number of ranks and prints errors and Newton steps as JSON on the last line.

An argument names one of femgpu's Krylov methods in the place of PETSc's GMRES; CG solves those that it is for.

Run by hand: PYTHONPATH=tests mpiexec -n 2 python tests/drivers/solve_all.py [femgpu.GMRES]
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
    "ksp_type": "gmres",
    "ksp_rtol": 1e-12,
    "ksp_gmres_restart": 300,
    "ksp_max_it": 2000,
    "fieldsplit_velocity_pc_type": "jacobi",
}
UNSYMMETRIC_OR_INDEFINITE = ("advection_diffusion", "helmholtz", "stokes")
# Each problem takes the next of these meshes, with its degree.
MESHES = {"triangle": ((5, 4), 2), "hexahedron": ((3, 2, 2), 1), "tetrahedron": ((2, 2, 2), 1)}


def main():
    options, own = PETSc.Options(), {"ksp_type": "python", "ksp_python_type": sys.argv[1]} if len(sys.argv) > 1 else {}
    for name, value in {**OPTIONS, **own, "snes_rtol": 1e-10, "femgpu_deterministic": None, "options_left": 0}.items():
        options.setValue(name, value)
    results = {}
    for (name, make), (cell, (counts, degree)) in zip(PROBLEMS.items(), itertools.cycle(MESHES.items())):
        if name in UNSYMMETRIC_OR_INDEFINITE and sys.argv[1:] == ["femgpu.CG"]:
            continue
        options.setValue("pc_type", "fieldsplit" if name == "stokes" else "jacobi")
        case = make(femgpu.mesh.box(counts, cell=cell), degree)
        case.solve()
        results[f"{name} {cell}"] = [*case.errors(), case.problem.u.vec.norm(), case.problem.snes.getIterationNumber()]
    if PETSc.COMM_WORLD.rank == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
