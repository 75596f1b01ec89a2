"""What can be done before a solver is set up: its own programs, beside the form's, and what reads no state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from petsc4py import PETSc

from femgpu import options
from femgpu.errors import OptionError
from femgpu.kernels import vector_kernels
from femgpu.operators.device import choose_runtime
from femgpu.runtime import Device, Runtime
from femgpu.solver.global_operator import GlobalOperator


class Ahead:
    """Base of such types; `solver` is the PETSc object that they are the context of."""

    def programs(self, solver: Any, device: Device) -> list[tuple[str, str]]:
        """Source and name of the programs that they launch on a device between the operators, as far as the options tell."""
        return []

    def prepare(self, solver: Any, mat: PETSc.Mat, operator: GlobalOperator) -> None:
        """That part of the set-up for a matrix-free Jacobian and its operators that reads no state; collective."""


def start(options_prefix: str = "") -> None:
    """Takes the device, and begins to build what the solvers that the options name launch; collective on PETSC_COMM_WORLD.

    Nobody needs to call it: problems do the same when they are made. A program that calls it before it reads or makes its mesh
    finds device and programs ready then. Its options have to be in PETSc's database.

    Args:
        options_prefix: of the problem.

    Raises:
        DeviceError: on all ranks, when no device fits.
        OptionError: for femgpu's options that do not fit.
    """
    settings, database = options.read(options_prefix), PETSc.Options()
    # Vectors on a device bring a context of PETSc's.
    if "viennacl" in database.getString("dm_vec_type", ""):
        return
    runtime = choose_runtime(settings, [], PETSc.COMM_WORLD.tompi4py())
    if not runtime.programs.threads:
        return
    programs = [(vector_kernels(settings.precision), "vectors")]
    ksp = PETSc.KSP().create(PETSc.COMM_SELF)
    ksp.setOptionsPrefix(options_prefix)
    # What is wrong with the options is told by the solver that reads them.
    with suppress(PETSc.Error, OptionError):
        for solver, name in ((ksp, "ksp"), (ksp.getPC(), "pc")):
            kind = database.getString(f"{options_prefix}{name}_type", "")
            python = database.getString(f"{options_prefix}{name}_python_type", "")
            if kind != "python":
                solver.setType(kind or None)
            elif python.startswith("femgpu."):
                solver.setType(kind)
                solver.setPythonType(python)
                if hasattr(context := solver.getPythonContext(), "setFromOptions"):
                    context.setFromOptions(solver)
        programs += _programs(ksp, runtime)
    # All at once: many are compiled by processes; the longest first, as the others fit beside them.
    runtime.build_ahead(sorted(programs, key=lambda program: -len(program[0])))
    ksp.destroy()


def build_ahead(ksp: PETSc.KSP, runtime: Runtime) -> None:
    """Starts to build what a KSP and its PC launch between the operators."""
    runtime.build_ahead(_programs(ksp, runtime))


def _programs(ksp: PETSc.KSP, runtime: Runtime) -> list[tuple[str, str]]:
    return [entry for solver, context in _contexts(ksp) for entry in context.programs(solver, runtime.device)]


def prepare(ksp: PETSc.KSP, mat: PETSc.Mat, operator: GlobalOperator) -> None:
    """Prepares a KSP and its PC for a matrix-free Jacobian and its operators; collective."""
    for solver, context in _contexts(ksp):
        context.prepare(solver, mat, operator)


def _contexts(ksp: PETSc.KSP) -> Iterator[tuple[Any, Ahead]]:
    for solver in (ksp, ksp.getPC()):
        context = solver.getPythonContext() if solver.getType() == "python" else None
        if isinstance(context, Ahead):
            yield solver, context
