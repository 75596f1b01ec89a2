"""Null spaces, given to the matrices of a problem."""

from __future__ import annotations

import warnings
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


def try_nullspace(mat: PETSc.Mat, tested: int, tolerance: float) -> int:
    """Warns of modes that a matrix does not map to zero, once for each null space that it is given; collective.

    Args:
        mat: the matrix.
        tested: what this gave before; 0: nothing.
        tolerance: the least that is not zero, relative to what becomes of a random vector.

    Returns:
        PETSc's number of the null space.
    """
    nullspace = mat.getNullSpace()
    if not nullspace.handle or nullspace.id == tested:
        return tested
    x, y = mat.createVecs()
    x.setRandom()
    mat.mult(x, y)
    size, modes = y.norm() / (x.norm() or 1.0), nullspace.getVecs()
    if nullspace.hasConstant():
        x.set(1.0)
        modes = [x, *modes]
    for number, mode in enumerate(modes):
        mat.mult(mode, y)
        if (left := y.norm() / (mode.norm() or 1.0)) > tolerance * size:
            warnings.warn(
                f"the null space that the Jacobian was given is none: of mode {number} it leaves {left / size:.1e} of what it "
                "makes of a random vector. Solutions lose their part in it: leave out set_nullspace, or give the modes that the "
                "form and its boundary conditions map to zero",
                stacklevel=2,
            )
    return int(nullspace.id)


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
