"""Solves one nonlinear problem with whatever vectors the options ask for, and prints what happened in its KSP as JSON.

Run by test_viennacl.py in a process of its own: one process has one OpenCL context.
"""

import json
import sys

import petsc4py

petsc4py.init(sys.argv)

import ufl  # noqa: E402
from petsc4py import PETSc  # noqa: E402
from ufl import dx, grad, inner  # noqa: E402

import femgpu  # noqa: E402


def main() -> None:
    PETSc.Log.begin()
    options = PETSc.Options()
    dm = femgpu.mesh.create()
    if vec_type := options.getString("set_vec_type", ""):
        dm.setVecType(vec_type)
    if options.getBool("host_problem_first", False):
        other = make_problem(femgpu.mesh.box((2, 2), cell="quadrilateral"))
        other.solve()
    problem = make_problem(dm)
    # PETSc's own count of copies of ViennaCL vectors between host and device, and femgpu's of host vectors.
    events = [PETSc.Log.Event(name) for name in ("VecVCLCopyTo", "VecVCLCopyFrom", "FGTransfer")]
    iterations = []

    def monitor(ksp: PETSc.KSP, iteration: int, norm: float) -> None:
        copies = [event.getPerfInfo()["count"] for event in events]
        iterations.append([iteration, *copies, ksp.getSolution().getOffloadMask()])

    problem.snes.getKSP().setMonitor(monitor)
    u = problem.solve()
    reached = {
        "vec_type": u.vec.getType(),
        "norm": u.vec.norm(),
        "integral": femgpu.assemble(u * u * dx),
        "newton": problem.snes.getIterationNumber(),
        "iterations": iterations,
    }
    if dm.comm.rank == 0:
        print(json.dumps(reached))


def make_problem(dm: PETSc.DMPlex) -> femgpu.NonlinearProblem:
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    kappa, u, v = femgpu.Function(V), femgpu.Function(V), ufl.TestFunction(V)
    kappa.interpolate(lambda x: 1 + x[0] * x[1])
    # Before the problem: the functional must not start a context of its own.
    assert abs(femgpu.assemble(kappa * dx) - 1.25) < 1e-12
    F = inner((kappa + u**2) * grad(u), grad(v)) * dx - v * dx
    return femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, lambda x: x[0])])


main()
