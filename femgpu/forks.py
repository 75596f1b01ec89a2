"""A forked child of a process that runs PETSc, MPI or OpenCL has none of their threads, and waits for them for ever."""

from __future__ import annotations

import os
import sys

from femgpu.errors import DeviceError

_forked = False


def watch() -> None:
    """Looks out for forks; called when femgpu is imported."""
    os.register_at_fork(after_in_child=_note)


def refuse() -> None:
    """Refuses OpenCL in a child that was forked too late.

    Raises:
        DeviceError: in such a child.
    """
    if _forked:
        raise DeviceError(
            "this process was forked from one that had started PETSc, MPI or OpenCL, whose threads it lacks: femgpu cannot compute "
            'in it. Fork before petsc4py is imported, or start processes anew: multiprocessing.get_context("spawn"), subprocess'
        )


def _note() -> None:
    global _forked
    _forked = _forked or bool({"petsc4py.PETSc", "mpi4py.MPI", "femgpu.runtime"} & sys.modules.keys())
