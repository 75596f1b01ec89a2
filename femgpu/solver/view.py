"""What `-femgpu_view` prints: device, mesh, plans, and the time of every kernel against its byte model."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from petsc4py import PETSc

from femgpu import log
from femgpu.forms import StateSplit
from femgpu.mesh.reorder import advice
from femgpu.operators.application import Application
from femgpu.operators.device import on_device
from femgpu.runtime.rates import peak_bandwidth
from femgpu.solver.field_split import FieldSplit
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.krylov_base import KrylovType
from femgpu.solver.pmg import PMG


def view(operator: GlobalOperator, vec: PETSc.Vec, assembled: bool, ksp: PETSc.KSP, chosen: str) -> str:
    """The report of a problem; collective. Device and memory are those of each rank, cells of all, times of the slowest.

    Args:
        operator: the operators of the problem.
        vec: a T-vector, as the solver has them.
        assembled: whether the solver has an AIJ matrix too.
        ksp: the linear solver.
        chosen: which it is and why, where nobody named it.
    """
    local = operator.local
    space, runtime = local.space, local.runtime
    copies, fills = runtime.num_copies, runtime.num_fills
    bandwidth = peak_bandwidth(runtime)
    lines = [
        "femgpu",
        f"  device: {runtime.device}; copies at {bandwidth / 1e9:.1f} GB/s",
        f"  {space.mesh.view()}",
        *(f"  note: {text}" for text in [advice(space.mesh)] if text),
        f"  space: {space}, {space.num_dofs} dofs; {_rows(operator)}",
        f"  jacobian: {_jacobian(local.form.has_jacobian, local.settings.jacobian, assembled)}",
    ]
    lines += ["  debug: memory that nobody has written is NaN, kernels check their indices"] if runtime.checks else []
    lines.append(f"  linear solver: {chosen or 'as the options or the program say'}")
    lines += [f"  {phase}" for phase in _phases(operator)] + [f"    {level}" for level in _levels(ksp.getPC())]
    lines.append(f"  on the host: {_host_work(vec, assembled, ksp)}")
    lines += [f"  note: {note}" for note in local.form.notes]
    for applications in local.applications.values():
        for application in applications:
            lines += _application(application, bandwidth, runtime.profiling)
            if application in local.splits:
                lines.append(f"    {_split(application, local.splits[application])}")
    lines += [f"  not served: {refusal}" for refusal in local.refusals]
    memory = f"device memory: {runtime.allocated_bytes / 2**20:.1f} MiB in {runtime.num_allocations} allocations so far"
    lines.append(f"  {memory}; {copies} copies, {fills} fills")
    return "\n".join(lines)


def _phases(operator: GlobalOperator) -> list[str]:
    """Where the time of the process's solves went, on the slowest rank; nothing where PETSc records no events."""
    if not log.is_active():
        return []
    mpi, found = operator.local.space.mesh.mpi, {}
    for name in ("SNESSolve", "PCSetUp", "KSPSolve", "FGBuild"):
        record = PETSc.Log.Event(name).getPerfInfo()
        found[name] = record["count"], mpi.allreduce(record["time"], op=MPI.MAX)
    (_, total), (_, setup), (count, solve), (_, build) = found.values()
    rate = f", {1e-6 * operator.local.space.num_dofs * count / solve:.3g} M dofs/s" if solve else ""
    waits = f"waits for compilers {build:.3g} s"
    return [f"solves so far, SNESSolve {total:.3g} s: PCSetUp {setup:.3g} s, {count} KSPSolve {solve:.3g} s{rate}; {waits}"]


def _levels(pc: PETSc.PC) -> list[str]:
    """The levels of `femgpu.PMG`, also of that for a field, from the finest down."""
    context = pc.getPythonContext() if pc.getType() == PETSc.PC.Type.PYTHON else None
    if isinstance(context, FieldSplit):
        return [] if context.inner is None else _levels(context.inner)
    levels = context.levels if isinstance(context, PMG) else []
    return [f"{what}: {dofs} dofs, {level.about}" for what, dofs, level in levels]


def _rows(operator: GlobalOperator) -> str:
    mpi, own = operator.local.space.mesh.mpi, operator.rows
    rows, conflicts = mpi.allreduce(np.array([len(own.owned), own.num_conflicts]))
    several = f", {conflicts} of them to different values by several conditions, of which the last rules" if conflicts else ""
    return f"{rows} prescribed{several} (rows scaled by {operator.transfer.scale:.3g})"


def _host_work(vec: PETSc.Vec, assembled: bool, ksp: PETSc.KSP) -> str:
    """What does not stay on the device."""
    work = []
    if not on_device(vec):
        own = ksp.getType() == PETSc.KSP.Type.PYTHON and isinstance(ksp.getPythonContext(), KrylovType)
        solved = "vectors of SNES, right-hand sides and solutions of KSP, copied once each"
        work.append(solved if own else "vectors of SNES and KSP, copied at each evaluation")
    work += ["matrix entries, inserted by PETSc"] if assembled else []
    work += ["halo exchange by MPI"] if vec.comm.size > 1 else []
    return "; ".join(work) or "nothing but scalars"


def _jacobian(known: bool, kind: str, assembled: bool) -> str:
    if not known:
        return "matrix-free difference of the residual (the form gives no g0 to g3)"
    if kind == "assembled":
        return "assembled on the device, AIJ"
    return "matrix-free" + (", assembled AIJ for the preconditioner" if assembled else "")


def _split(application: Application, split: StateSplit) -> str:
    """What the action keeps at the points."""
    work = application.plan.work
    size = application.plan.itemsize("float" if work.rounded else "real")
    total = size * (work.num_state * work.num_qpts + work.num_cell_state)
    return f"state: {split}" + (f"; {total} bytes per cell" if total else "")


def _application(application: Application, bandwidth: float, profiling: bool) -> list[str]:
    """Cells of all ranks, and the time of the slowest."""
    term, plan, mpi = application.term, application.plan, application.term.mesh.mpi
    rule = term.quadrature
    cells, most = mpi.allreduce(term.num_cells), mpi.allreduce(term.num_cells, op=MPI.MAX)
    seconds = mpi.allreduce(np.nan_to_num(application.mean_seconds), op=MPI.MAX)
    traffic = plan.bytes * most
    lines = [
        f"  {plan}",
        f"    {cells} cells, rule {rule.name} (degree {rule.degree}), {plan.bytes} B and {plan.flops} flops per cell: "
        f"at least {traffic / bandwidth * 1e6:.1f} us by its bytes",
    ]
    lines += [f"    {application.note}"] if application.note else []
    if seconds > 0:
        lines.append(
            f"    {application.calls} calls, {seconds * 1e6:.1f} us each: {traffic / seconds / 1e9:.1f} GB/s "
            f"({100 * traffic / seconds / bandwidth:.0f} % of copy), {plan.flops * most / seconds / 1e9:.1f} GF/s per rank"
        )
    else:
        lines.append(f"    {application.calls} calls" + ("" if profiling else " (PETSc's queue records no times)"))
    return lines
