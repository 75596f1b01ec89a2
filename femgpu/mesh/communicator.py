"""The communicator that a user gives."""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

from femgpu.errors import DataError


def communicator(comm: Any) -> PETSc.Comm:
    """PETSc's communicator: of PETSc, of mpi4py, or by default PETSC_COMM_WORLD.

    Raises:
        DataError: for what is none.
    """
    if comm is None:
        return PETSc.COMM_WORLD
    try:
        return PETSc.Comm(comm)
    except TypeError:
        raise DataError(f"comm is {comm!r} of type {type(comm).__name__}; expected a PETSc.Comm or an mpi4py.MPI.Comm") from None
