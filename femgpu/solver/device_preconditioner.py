"""What PETSc's PC does to a vector, on device buffers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import petsc_ksp
from femgpu.krylov import PRECONDITIONERS, Preconditioner, Vectors, block_diagonal
from femgpu.solver.device_vec import load
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import JacobianContext
from femgpu.solver.python_types import FormMatrix

_OWN = (PETSc.PC.Type.NONE, PETSc.PC.Type.JACOBI, PETSc.PC.Type.PBJACOBI)
# What a python PC has that works on buffers: `apply_buffers(pc, r, z)` makes z = M r of two pyopencl.Buffers with the float64
# entries of this rank, in the order of the runtime's queue; r stays as it is.
_ON_BUFFERS = "apply_buffers"


class DevicePreconditioner:
    """M of a KSP, kept from solve to solve.

    `none`, `jacobi`, `pbjacobi` and python PCs with a method `apply_buffers(pc, r, z)` work on the device; what they are made of is
    computed anew where the matrix has changed. Diagonal and blocks of femgpu's matrix-free Jacobians come from the device; those
    of others, and what jacobi takes from rows, from PETSc's PC: what it makes of unit vectors. All other PCs get PETSc vectors.

    Args:
        vectors: kernels and lengths.
        vecs: two PETSc vectors.
        by_vecs: makes a function between buffers of one between such vectors.
    """

    def __init__(
        self,
        vectors: Vectors,
        vecs: tuple[PETSc.Vec, PETSc.Vec],
        by_vecs: Callable[[Callable[[PETSc.Vec, PETSc.Vec], None]], Callable[[Any, Any], None]],
    ):
        self._vectors, self._vecs, self._by_vecs = vectors, vecs, by_vecs
        self._key: tuple[Any, ...] = ()
        self._kept = Preconditioner()
        self._diagonal: Any = None

    def of(self, pc: PETSc.PC) -> Preconditioner:
        """M as it is now; collective."""
        kind = pc.getType()
        if kind == PETSc.PC.Type.NONE:
            return Preconditioner()
        if kind not in _OWN:
            apply = buffers_method(pc)
            return Preconditioner(apply=self._by_vecs(pc.apply) if apply is None else partial(apply, pc))
        pmat = pc.getOperators()[1]
        options = petsc_ksp.jacobi_options(pc) if kind == PETSc.PC.Type.JACOBI else None
        key = (pc.id, kind, options, pmat.id, pmat.stateGet())
        if key != self._key and not (petsc_ksp.is_reused(pc) and self._key[:3] == key[:3]):
            self._kept = self._blocks(pc, pmat) if options is None else self._jacobi(pc, pmat, options)
            self._key = key
        return self._kept

    def _jacobi(self, pc: PETSc.PC, pmat: PETSc.Mat, options: petsc_ksp.JacobiOptions) -> Preconditioner:
        if self._diagonal is None:
            self._diagonal = self._vectors.empty()
            self._invert = self._vectors.kernel("invert_diagonal", np.int32(0), np.int32(0), self._diagonal, file=PRECONDITIONERS)
        operator = operator_of(pmat)
        if options.diagonal and operator is not None and operator.linearised and operator.factor == 1.0:
            operator.device.diagonal(self._diagonal)
            self._invert.set(1, np.int32(options.absolute))
            self._invert.set(2, np.int32(options.fix_zeros))
            self._invert()
        else:
            self._vecs[0].set(1.0)
            pc.apply(*self._vecs)
            load(self._vectors.runtime, self._vecs[1], self._diagonal)
        return Preconditioner(self._diagonal)

    def _blocks(self, pc: PETSc.PC, pmat: PETSc.Mat) -> Preconditioner:
        size, operator = pmat.getBlockSize(), operator_of(pmat)
        if operator is not None and operator.blocks is not None:
            # PETSc has just set the PC up.
            buffer = operator.blocks.inverses
        else:
            given, result = self._vecs
            inverses = np.empty((self._vectors.num_owned // size, size, size))
            for column in range(size):
                given.set(0.0)
                given.array_w[column::size] = 1.0
                pc.apply(given, result)
                inverses[:, column] = result.array_r.reshape(-1, size)
            buffer = self._vectors.runtime.upload(inverses)
        return block_diagonal(self._vectors, buffer, size)


def buffers_method(pc: PETSc.PC) -> Callable[[PETSc.PC, Any, Any], None] | None:
    """The method of a python PC that works on buffers, where it has one."""
    return getattr(pc.getPythonContext(), _ON_BUFFERS, None) if pc.getType() == PETSc.PC.Type.PYTHON else None


def works_on_device(pc: PETSc.PC) -> bool:
    """Whether a PC needs no PETSc vectors."""
    return pc.getType() in _OWN or buffers_method(pc) is not None


def operator_of(mat: PETSc.Mat) -> GlobalOperator | None:
    """The operators behind a matrix-free Jacobian of femgpu's; None of other Mats."""
    context = mat.getPythonContext() if mat.getType() == PETSc.Mat.Type.PYTHON else None
    if isinstance(context, FormMatrix):
        return context.operator(mat)
    return context.current() if isinstance(context, JacobianContext) else None
