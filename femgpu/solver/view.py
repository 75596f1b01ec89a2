"""What `-femgpu_view` prints: device, mesh, plans, and the time of every kernel against its byte model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from femgpu.operators.cell_kernel import CellKernel

if TYPE_CHECKING:
    from femgpu.solver.problem import NonlinearProblem


def view(problem: NonlinearProblem) -> str:
    """The report of a problem; collective, text on every rank, times of this rank."""
    space, runtime, local = problem.u.space, problem.runtime, problem.operator.local
    bandwidth = runtime.copy_bandwidth()
    lines = [
        "femgpu",
        f"  device: {runtime.device}; copies at {bandwidth / 1e9:.1f} GB/s",
        f"  {space.mesh.view()}",
        f"  space: {space}, {space.num_dofs} dofs; {_rows(problem)}",
        f"  jacobian: {_jacobian(problem)}",
    ]
    lines += [f"  note: {note}" for note in problem.form.notes]
    for kernels in local.kernels.values():
        for kernel in kernels:
            lines += _kernel(kernel, bandwidth, runtime.profiling)
    lines.append(f"  device memory: {runtime.allocated_bytes / 2**20:.1f} MiB in {runtime.num_allocations} allocations so far")
    return "\n".join(lines)


def _rows(problem: NonlinearProblem) -> str:
    rows = problem.u.space.mesh.mpi.allreduce(len(problem.operator.rows.owned))
    return f"{rows} prescribed (rows scaled by {problem.operator.transfer.scale:.3g})"


def _jacobian(problem: NonlinearProblem) -> str:
    if not problem.form.has_jacobian:
        return "matrix-free difference of the residual (the form gives no g0 to g3)"
    kind = problem.settings.jacobian
    if kind == "assembled":
        return "assembled on the device, AIJ"
    return "matrix-free" + (", assembled AIJ for the preconditioner" if problem.assembled else "")


def _kernel(kernel: CellKernel, bandwidth: float, profiling: bool) -> list[str]:
    term, plan = kernel.term, kernel.plan
    rule = term.quadrature
    traffic = plan.cell_bytes() * term.num_cells
    lines = [
        f"  {plan}",
        f"    {term.num_cells} cells, rule {rule.name} (degree {rule.degree}), {plan.cell_bytes()} B and "
        f"{plan.cell_flops(kernel.pointwise_flops)} flops per cell",
    ]
    seconds = kernel.kernel.mean_seconds
    if math.isfinite(seconds) and seconds > 0:
        lines.append(
            f"    {kernel.kernel.launches} launches, {seconds * 1e6:.1f} us each: {traffic / seconds / 1e9:.1f} GB/s "
            f"({100 * traffic / seconds / bandwidth:.0f} % of copy), {kernel.flops / seconds / 1e9:.1f} GF/s"
        )
    else:
        lines.append(f"    {kernel.kernel.launches} launches" + ("" if profiling else " (PETSc's queue records no times)"))
    return lines
