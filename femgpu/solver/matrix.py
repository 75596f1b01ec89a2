"""The Jacobian as a matrix: matrix-free behind a python Mat, and assembled into AIJ from element matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import log, petsc_c
from femgpu.forms import has_transpose
from femgpu.operators import is_symmetric
from femgpu.solver.global_operator import GlobalOperator


class JacobianContext:
    """Context of the matrix-free Mat: what PETSc calls.

    Args:
        operator: the operators; `linearise` sets the state.
        template: a T-vector whose type `createVecs` follows.

    Attributes:
        multTranspose: y = J^T x, None where there is no matrix-free transpose (second derivatives of the direction).
    """

    def __init__(self, operator: GlobalOperator, template: PETSc.Vec):
        self.operator = operator
        self.template = template
        form = operator.local.form
        # PETSc asks the context whether it has a transpose.
        self.multTranspose = (self.mult if is_symmetric(form) else self._transposed) if has_transpose(form) else None

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = J x."""
        self.operator.action(x, y)

    def _transposed(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        self.operator.action(x, y, "transposed")

    def getDiagonal(self, mat: PETSc.Mat, d: PETSc.Vec) -> None:  # noqa: N802
        """D = diagonal of J."""
        self.operator.diagonal(d)

    def scale(self, mat: PETSc.Mat, factor: float) -> None:
        """Multiplies J by a number, until it is evaluated anew; TS does that where it solves for initial rates."""
        self.operator.factor *= factor

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:  # noqa: N802
        """Vectors of the template's type."""
        return self.template.duplicate(), self.template.duplicate()

    def duplicate(self, mat: PETSc.Mat, copy: bool) -> PETSc.Mat:
        """Another Mat on the same operators; it shares the state."""
        return create_matfree(self.operator, self.template)


def create_matfree(operator: GlobalOperator, template: PETSc.Vec) -> PETSc.Mat:
    """A python Mat over the Jacobian action."""
    sizes = template.getSizes()
    mat = PETSc.Mat().createPython((sizes, sizes), JacobianContext(operator, template), comm=template.getComm())
    mat.setUp()
    return mat


def create_difference(snes: PETSc.SNES, template: PETSc.Vec, error: float) -> PETSc.Mat:
    """A Mat of type mffd over the solver's residual; the options -mat_mffd_* with the solver's prefix apply.

    Args:
        snes: the solver; its residual is set.
        template: a T-vector whose type `createVecs` follows.
        error: relative error of the residual; its square root scales the difference.
    """
    sizes = template.getSizes()
    mat = PETSc.Mat().create(comm=template.getComm())
    mat.setSizes((sizes, sizes))
    mat.setVecType(template.getType())
    mat.setOptionsPrefix(snes.getOptionsPrefix())
    mat.setType("mffd")
    petsc_c.difference_options(mat, snes.getOptionsPrefix() or "", error)
    mat.setFromOptions()
    mat.setUp()
    petsc_c.difference_residual(mat, snes)
    return mat


class AssembledJacobian:
    """AIJ filled by MatSetValuesCOO from the device's element matrices.

    Args:
        operator: the operators.
        template: a T-vector.

    Attributes:
        mat: the matrix.
    """

    def __init__(self, operator: GlobalOperator, template: PETSc.Vec):
        self.operator = operator
        sizes = template.getSizes()
        mat = PETSc.Mat().create(comm=template.getComm())
        mat.setSizes((sizes, sizes), bsize=template.getBlockSize())
        mat.setType(PETSc.Mat.Type.AIJ)
        self.mat = mat
        self._preallocate()
        self._num_rows = len(operator.rows.owned)

    def fill(self, diagonal: float | None = None) -> None:
        """Computes the entries at the operators' state.

        Args:
            diagonal: what boundary rows have there; default s.
        """
        if self._bends != self.operator.local.bends:
            self._preallocate()
        pieces = [matrix.ravel() for matrix in self.operator.local.matrices()]
        pieces.append(np.full(self._num_rows, self.operator.transfer.scale if diagonal is None else diagonal))
        with log.event("FGMatrix"):
            self.mat.setValuesCOO(np.concatenate(pieces), PETSc.InsertMode.INSERT_VALUES)

    def _preallocate(self) -> None:
        rows, columns = self._pattern()
        self.mat.setPreallocationCOO(rows, columns)
        self._bends = self.operator.local.bends

    def _pattern(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Global rows and columns of all entries; PETSc ignores negative ones, which stand for prescribed dofs."""
        local, numbering = self.operator.local, self.operator.local.space.numbering
        numbers = numbering.global_of_local.astype(PETSc.IntType)
        boundary = numbers[self.operator.rows.local]
        numbers[self.operator.rows.local] = -1
        rows, columns = [], []
        for term in local.terms:
            if term.integral.jacobian is None:
                continue
            entries = numbers[term.dofs()]
            shape = (*entries.shape, entries.shape[1])
            rows.append(np.broadcast_to(entries[:, :, None], shape).ravel())
            columns.append(np.broadcast_to(entries[:, None, :], shape).ravel())
        owned = (boundary >= numbering.first) & (boundary < numbering.first + numbering.num_owned)
        rows.append(boundary[owned])
        columns.append(boundary[owned])
        return np.concatenate(rows), np.concatenate(columns)
