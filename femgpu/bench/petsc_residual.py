"""One P2 Poisson residual on bent tetrahedra between local vectors: femgpu's schedule `cell` against PETSc's own.

`python -m femgpu.bench.petsc_residual FOLDER [grid cells per direction]` on one rank times femgpu, on several PETSc's
`DMPlexSNESComputeResidualFEM` with pointwise functions that the C compiler `cc` builds for this machine. Both print the norm of the
residual of the same function; rows are appended to FOLDER/residual-cpu.csv.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from ctypes import CDLL, c_double, c_int, c_void_p, cast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import ufl
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.mesh.box import box
from femgpu.petsc_c import call, declare
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Function, FunctionSpace, coordinates

# PETSc's rules: of order 2 are those that it takes for degree 2.
ORDERS = (1, 2)
SCHEDULES = ("cell:lanes=1", "cell", "tiled", "transposed")
_SECONDS = 2.0
_POINTWISE = """
#define ARGUMENTS int dim, int Nf, int NfAux, const int uOff[], const int uOff_x[], const double u[], const double u_t[], \\
  const double u_x[], const int aOff[], const int aOff_x[], const double a[], const double a_t[], const double a_x[], double t, \\
  const double x[], int numConstants, const double constants[]
void f0(ARGUMENTS, double f0[]) { f0[0] = -(x[0] + x[1]); }
void f1(ARGUMENTS, double f1[]) { for (int d = 0; d < dim; ++d) f1[d] = u_x[d]; }
int state(int dim, double t, const double x[], int Nc, double u[], void *context) { u[0] = x[0] * x[1] - x[2] * x[2]; return 0; }
"""


def mesh(faces: int) -> PETSc.DMPlex:
    """A box of 6 faces^3 tetrahedra, a little bent."""
    dm = box((faces,) * 3, "tetrahedron")
    vector = dm.getCoordinatesLocal()
    x = vector.getArray().reshape(-1, 3)
    x += 0.02 * np.sin(3 * x[:, [1, 2, 0]])
    dm.setCoordinatesLocal(vector)
    return dm


def times(run: Callable[[], Any]) -> tuple[float, float]:
    """Best and median seconds of many calls, on the slowest rank; collective."""
    run()
    found: list[float] = []
    while sum(found) < _SECONDS or len(found) < 5:
        MPI.COMM_WORLD.Barrier()
        start = time.perf_counter()
        run()
        found.append(MPI.COMM_WORLD.allreduce(time.perf_counter() - start, MPI.MAX))
    return min(found), float(np.median(found))


def femgpu_rows(dm: PETSc.DMPlex, order: int) -> list[dict[str, Any]]:
    """One for each schedule; with the launch that sums over cells."""
    options, rows = PETSc.Options(), []
    options.setValue("petscfe_default_quadrature_order", order)
    x = coordinates(dm)
    u = Function(FunctionSpace(dm, "Lagrange", 2), "u")
    u.interpolate(x[0] * x[1] - x[2] * x[2])
    v = ufl.TestFunction(u.space)
    for schedule in SCHEDULES:
        options.setValue("femgpu_schedule", schedule)
        problem = NonlinearProblem(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - (x[0] + x[1]) * v * ufl.dx, u)
        operator = problem.operator.local
        operator.runtime.write(operator.u, u.local_array())

        def run(operator: Any = operator) -> None:
            operator.residual()
            operator.runtime.finish()

        best, median = times(run)
        norm = np.linalg.norm(operator.runtime.read(operator.out, np.empty(operator.num_local)))
        (application,) = operator.prepare("residual")
        plan = application.plan
        row = {"who": f"femgpu {schedule}", "points": plan.work.num_qpts, "best_ms": 1e3 * best, "median_ms": 1e3 * median}
        row |= {"kernel_ms": 1e3 * application.measure(3, 20, 0.5).min(), "norm": norm, "cells": application.count}
        rows.append(row | {"flops": plan.flops, "bytes": plan.bytes, "device": str(operator.runtime.device), "plan": str(plan)})
    return rows


def petsc_rows(dm: PETSc.DMPlex, order: int) -> list[dict[str, Any]]:
    """PETSc's, zeroing of the result included."""
    declare(
        {
            "PetscDSSetResidual": [c_void_p, c_int, c_void_p, c_void_p],
            "DMProjectFunctionLocal": [c_void_p, c_double, c_void_p, c_void_p, c_int, c_void_p],
            "DMPlexSNESComputeResidualFEM": [c_void_p] * 4,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        text, built = Path(folder, "pointwise.c"), Path(folder, "pointwise.so")
        text.write_text(_POINTWISE)
        subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", text, "-o", built], check=True)
        library = CDLL(str(built))
    f0, f1, state = (cast(getattr(library, name), c_void_p) for name in ("f0", "f1", "state"))
    PETSc.Options().setValue("petscspace_degree", 2)
    dm = dm.clone()
    element = PETSc.FE().createDefault(3, 1, True, order)
    dm.setField(0, element)
    dm.createDS()
    call("PetscDSSetResidual", dm.getDS().handle, 0, f0, f1)
    u, out, total = dm.createLocalVec(), dm.createLocalVec(), dm.createGlobalVec()
    call("DMProjectFunctionLocal", dm.handle, 0.0, (c_void_p * 1)(state.value), None, PETSc.InsertMode.INSERT_VALUES, u.handle)

    def run() -> None:
        out.zeroEntries()
        call("DMPlexSNESComputeResidualFEM", dm.handle, u.handle, out.handle, None)

    best, median = times(run)
    dm.localToGlobal(out, total, addv=True)
    first, last = dm.getHeightStratum(0)
    cells = MPI.COMM_WORLD.allreduce(last - first)
    points = element.getQuadrature().getData()[0].size // 3
    who = f"PETSc, {MPI.COMM_WORLD.size} ranks"
    return [{"who": who, "points": points, "best_ms": 1e3 * best, "median_ms": 1e3 * median, "norm": total.norm(), "cells": cells}]


def main(folder: str, faces: int = 26) -> None:
    """Measures, prints and appends."""
    dm = mesh(faces)
    rows = femgpu_rows if MPI.COMM_WORLD.size == 1 else petsc_rows
    given = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "petsc": ".".join(map(str, PETSc.Sys.getVersion()))}
    found: Sequence[dict[str, Any]] = [given | row for order in ORDERS for row in rows(dm, order)]
    if MPI.COMM_WORLD.rank:
        return
    path = Path(folder, "residual-cpu.csv")
    names = "date petsc who points cells best_ms median_ms kernel_ms norm flops bytes device plan".split()
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows(found)
    for row in found:
        spent = f"best {row['best_ms']:.2f} ms, median {row['median_ms']:.2f}"
        print(f"{row['who']}, {row['points']} points: {spent}, norm {row['norm']:.12g}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
