"""What PETSc's python types of femgpu's do before their set-up, beside the kernels of the form that are being built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from petsc4py import PETSc

from femgpu.runtime import Device, Runtime
from femgpu.solver.global_operator import GlobalOperator


class Ahead:
    """Base of such types; `solver` is the PETSc object that they are the context of."""

    def programs(self, solver: Any, device: Device) -> list[tuple[str, str]]:
        """Source and name of the programs that they launch on a device between the operators, as far as the options tell."""
        return []

    def prepare(self, solver: Any, mat: PETSc.Mat, operator: GlobalOperator) -> None:
        """That part of the set-up for a matrix-free Jacobian and its operators that reads no state; collective."""


def build_ahead(ksp: PETSc.KSP, runtime: Runtime) -> None:
    """Starts to build what a KSP and its PC launch between the operators."""
    runtime.build_ahead([entry for solver, context in _contexts(ksp) for entry in context.programs(solver, runtime.device)])


def prepare(ksp: PETSc.KSP, mat: PETSc.Mat, operator: GlobalOperator) -> None:
    """Prepares a KSP and its PC for a matrix-free Jacobian and its operators; collective."""
    for solver, context in _contexts(ksp):
        context.prepare(solver, mat, operator)


def _contexts(ksp: PETSc.KSP) -> Iterator[tuple[Any, Ahead]]:
    for solver in (ksp, ksp.getPC()):
        context = solver.getPythonContext() if solver.getType() == "python" else None
        if isinstance(context, Ahead):
            yield solver, context
