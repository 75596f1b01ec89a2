"""The Jacobian as a matrix: matrix-free behind a python Mat, and assembled from element matrices."""

from __future__ import annotations

import numpy as np
from petsc4py import PETSc

from femgpu import log, petsc_c
from femgpu.errors import OptionError, collective
from femgpu.forms import has_transpose
from femgpu.operators import Assembly, Columns, Groups, is_symmetric
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.shared_rows import SharedRows

# Types of matrices that need no conversion, and those that there is one to.
_AIJ = ("", "aij", "seqaij", "mpiaij")
_BLOCKS = ("baij", "seqbaij", "mpibaij", "sbaij", "seqsbaij", "mpisbaij")


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
    """The Jacobian's entries in PETSc's own arrays, filled from the device in one copy.

    Args:
        operator: the operators.
        template: a T-vector.
        kind: PETSc's type of the matrix, as `-mat_type` says it; others than AIJ are converted from that at each `fill`.

    Attributes:
        mat: the matrix.

    Raises:
        OptionError: for other types than AIJ, BAIJ and SBAIJ, which keeps one half and takes a symmetric form.
        PlanError: where there are more entries on a rank than 32-bit indices reach.
    """

    def __init__(self, operator: GlobalOperator, template: PETSc.Vec, kind: str = ""):
        self.operator = operator
        local = operator.local
        prescribed, groups = operator.rows.mask(), Groups(local.space)
        local.prepare("matrix")
        self._shared = SharedRows(local, groups, prescribed) if local.mpi.size > 1 else None
        with collective(local.mpi):
            columns = Columns.of(local.space.numbering, prescribed) if self._shared is None else self._shared.columns
            self._assembly = Assembly(local, groups, columns, None if self._shared is None else self._shared.rows)
            self._values = [np.zeros(len(indices)) for indices in self._assembly.indices]
        self._aij = self.mat = self._create(template)
        if kind not in _AIJ:
            self._convert_to(kind)

    def fill(self, diagonal: float | None = None) -> None:
        """Computes the entries at the operators' state; collective.

        Args:
            diagonal: what boundary rows have there; default s.
        """
        assembly, runtime = self._assembly, self.operator.local.runtime
        assembly.compute(self.operator.transfer.scale if diagonal is None else diagonal)
        if self._shared is not None:
            self._shared.add(assembly)
        with log.event("FGTransfer"):
            for number, values in enumerate(self._values):
                if len(values):
                    runtime.read(assembly.pattern.section(assembly.values, number, 8), values)
        self._aij.assemble()
        if self.mat is not self._aij:
            self._aij.convert(self.mat.getType(), out=self.mat)
        if self.operator.factor != 1.0:
            self.mat.scale(self.operator.factor)

    def _create(self, template: PETSc.Vec) -> PETSc.Mat:
        """The AIJ matrix around the arrays of indices and values."""
        pattern, (own, away) = self._assembly.pattern, self._assembly.indices
        num_owned, sizes = pattern.columns.num_owned, template.getSizes()
        csr = []
        for part, indices in enumerate((own, pattern.columns.globally(away).astype(PETSc.IntType))):
            starts = pattern.starts[:num_owned, part] - np.int32(pattern.begins[part])
            csr.append((np.append(starts, np.int32(len(indices))), indices, self._values[part]))
        given = csr[0] if self._shared is None else tuple(csr)
        return PETSc.Mat().createAIJWithArrays((sizes, sizes), given, template.getBlockSize(), comm=template.getComm())

    def _convert_to(self, kind: str) -> None:
        if kind not in _BLOCKS:
            raise OptionError(f"-mat_type {kind}: expected aij, baij, or sbaij")
        if "sbaij" in kind:
            if not is_symmetric(self.operator.local.form):
                raise OptionError(
                    f"-mat_type {kind}: it keeps one half of the Jacobian, which is not symmetric; expected aij or baij"
                )
            for option in (PETSc.Mat.Option.SYMMETRIC, PETSc.Mat.Option.SYMMETRY_ETERNAL):
                self._aij.setOption(option, True)
        self.mat = self._aij.convert(kind, out=PETSc.Mat())
