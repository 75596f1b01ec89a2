"""Null spaces, given to the matrices of a problem."""

from __future__ import annotations

from collections.abc import Iterable

from petsc4py import PETSc


def give_nullspace(mats: Iterable[PETSc.Mat], nullspace: PETSc.NullSpace, transpose: PETSc.NullSpace | None) -> None:
    """Makes Krylov methods and direct solvers work in the complement of a null space.

    Args:
        mats: the matrices.
        nullspace: what the matrices map to zero.
        transpose: what their transposes map to zero, whose part of a right-hand side is dropped; None: not known.
    """
    for mat in mats:
        mat.setNullSpace(nullspace)
        if transpose is not None:
            mat.setTransposeNullSpace(transpose)


def give_near_nullspace(mats: Iterable[PETSc.Mat], nullspace: PETSc.NullSpace) -> None:
    """Tells algebraic multigrid what the matrices map to almost zero away from the boundary conditions.

    Args:
        mats: the matrices.
        nullspace: the modes, such as those of `rigid_body_modes`.
    """
    for mat in mats:
        mat.setNearNullSpace(nullspace)
