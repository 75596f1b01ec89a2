"""Null spaces, given to the matrices of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petsc4py import PETSc

from femgpu.errors import DataError, alive, collective, told


def give_nullspace(mats: Sequence[PETSc.Mat], nullspace: PETSc.NullSpace, transpose: PETSc.NullSpace | None) -> None:
    """Makes Krylov methods and direct solvers work in the complement of a null space.

    Args:
        mats: the matrices.
        nullspace: what the matrices map to zero.
        transpose: what their transposes map to zero, whose part of a right-hand side is dropped; None: not known.

    Raises:
        DataError: for what is no null space of the matrices' size.
    """
    _check(mats, nullspace)
    if transpose is not None:
        _check(mats, transpose)
    for mat in mats:
        mat.setNullSpace(nullspace)
        if transpose is not None:
            mat.setTransposeNullSpace(transpose)


def give_near_nullspace(mats: Sequence[PETSc.Mat], nullspace: PETSc.NullSpace) -> None:
    """Tells algebraic multigrid what the matrices map to almost zero away from the boundary conditions.

    Args:
        mats: the matrices.
        nullspace: the modes, such as those of `rigid_body_modes`.

    Raises:
        DataError: for what is no null space of the matrices' size.
    """
    _check(mats, nullspace)
    for mat in mats:
        mat.setNearNullSpace(nullspace)


def _check(mats: Sequence[PETSc.Mat], nullspace: Any) -> None:
    if not isinstance(nullspace, PETSc.NullSpace):
        raise DataError(
            f"a null space is {told(nullspace)}; expected a PETSc.NullSpace: "
            "femgpu.constant_modes(space), femgpu.rigid_body_modes(space)"
        )
    alive(nullspace, "the null space")
    sizes = mats[0].getSizes()[0]
    with collective(mats[0].comm.tompi4py()):
        for vec in nullspace.getVecs():
            if vec.getSizes() != sizes:
                raise DataError(
                    f"a null space of vectors of sizes {vec.getSizes()} (on this rank, in all); expected {sizes}: modes of the "
                    "unknown's space problem.u.space, or of a field problem.u.space.sub(name)"
                )
