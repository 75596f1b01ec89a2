"""The Jacobian as a matrix: matrix-free behind a python Mat, and assembled from element matrices."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import log, petsc_aij, petsc_blocks, petsc_c
from femgpu.errors import OptionError, collective
from femgpu.operators import Assembly, Columns, Groups, is_symmetric
from femgpu.solver.device_vec import check_vector
from femgpu.solver.field_block import FieldBlock, block_of
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.shared_rows import SharedRows
from femgpu.solver.state_watch import StateWatch

# Types of matrices whose arrays are written as they stand.
_AIJ = ("", "aij", "seqaij", "mpiaij")


class Jacobian(PETSc.Mat):
    """A Mat whose products, in the user's own lines, follow the unknown, and take no vectors that do not fit.

    Attributes:
        follow: brings the matrix to the state that it is to have, before each product; collective.
    """

    follow: Callable[[], None] = staticmethod(lambda: None)

    def mult(self, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = A x."""
        self._prepare(x, y)
        super().mult(x, y)

    def multTranspose(self, x: PETSc.Vec, y: PETSc.Vec) -> None:  # noqa: N802
        """Y = A^T x."""
        self._prepare(x, y)
        super().multTranspose(x, y)

    def multAdd(self, x: PETSc.Vec, v: PETSc.Vec, y: PETSc.Vec) -> None:  # noqa: N802
        """Y = v + A x."""
        self._prepare(x, v, y)
        super().multAdd(x, v, y)

    def multTransposeAdd(self, x: PETSc.Vec, v: PETSc.Vec, y: PETSc.Vec) -> None:  # noqa: N802
        """Y = v + A^T x."""
        self._prepare(x, v, y)
        super().multTransposeAdd(x, v, y)

    def getDiagonal(self, result: PETSc.Vec | None = None) -> PETSc.Vec:  # noqa: N802
        """The diagonal of A."""
        self._prepare(*(() if result is None else (result,)))
        return super().getDiagonal(result)

    def __mul__(self, x: PETSc.Vec | float) -> PETSc.Vec | PETSc.Mat:
        self._prepare(*((x,) if isinstance(x, PETSc.Vec) else ()))
        return super().__mul__(x)

    def _prepare(self, *vecs: PETSc.Vec) -> None:
        ranges = self.getOwnershipRanges()
        for vec in vecs:
            check_vector(vec, ranges)
        self.follow()


class JacobianContext:
    """Context of the matrix-free Mat: what PETSc calls.

    Args:
        operator: the operators; `linearise` sets the state.
        template: a T-vector whose type `createVecs` follows.
        watch: notices that the state is not that of now; None: who owns the state sees to that.

    Attributes:
        multTranspose: y = J^T x, None where the form does not know its Jacobian.
    """

    _blocks: Any = None

    def __init__(self, operator: GlobalOperator, template: PETSc.Vec, watch: StateWatch | None = None):
        self.operator = operator
        self.template = template
        self._watch = watch
        form = operator.local.form
        # PETSc asks the context whether it has a transpose.
        self.multTranspose = (self.mult if is_symmetric(form) else self._transposed) if form.has_jacobian else None

    def current(self) -> GlobalOperator:
        """The operators at the state of now; collective.

        Raises:
            SolverError: when what the Jacobian reads has changed since that state was set.
        """
        if self._watch is not None:
            self._watch.check()
        return self.operator

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = J x."""
        self.current().action(x, y)

    def _transposed(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        self.current().action(x, y, "transposed")

    def getDiagonal(self, mat: PETSc.Mat, d: PETSc.Vec) -> None:  # noqa: N802
        """D = diagonal of J."""
        self.current().diagonal(d)

    def offer_blocks(self, mat: PETSc.Mat) -> None:
        """Lets the Mat tell PCPBJACOBI the inverses of its diagonal blocks."""
        context = weakref.ref(self)  # what PETSc is given does not keep the operators

        def inverses(size: int) -> npt.NDArray[np.float64]:
            found = context()
            assert found is not None
            return found.current().invert_blocks(size).read()

        self._blocks = petsc_blocks.give_inverse_blocks(mat, inverses)

    def scale(self, mat: PETSc.Mat, factor: float) -> None:
        """Multiplies J by a number, until it is evaluated anew; TS does that where it solves for initial rates."""
        self.operator.factor *= factor

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:  # noqa: N802
        """Vectors of the template's type."""
        return self.template.duplicate(), self.template.duplicate()

    def duplicate(self, mat: PETSc.Mat, copy: bool) -> PETSc.Mat:
        """Another Mat on the same operators; it shares the state."""
        return create_matfree(self.operator, self.template, self._watch)

    def createSubMatrix(  # noqa: N802
        self, mat: PETSc.Mat, rows: PETSc.IS, columns: PETSc.IS, out: PETSc.Mat | None = None
    ) -> PETSc.Mat:
        """The block of a field as a matrix-free Jacobian of its own, at the state of now; other parts are PETSc's virtual ones.

        Asked again with what it gave, it takes that to the state.
        """
        context = out.getPythonContext() if out is not None and out.getType() == PETSc.Mat.Type.PYTHON else None
        if isinstance(context, BlockContext):
            self.current()
            context.block.update()
            return out
        block = block_of(self.current(), rows) if rows.equal(columns) else None
        if block is None:
            return PETSc.Mat().createSubMatrixVirtual(mat, rows, columns) if out is None else out
        return _create(BlockContext(block))


class BlockContext(JacobianContext):
    """Context of the Mat of one field of several.

    Args:
        block: its operators.
    """

    def __init__(self, block: FieldBlock):
        super().__init__(block.operator, block.space.create_vec())
        self.block = block


def create_matfree(operator: GlobalOperator, template: PETSc.Vec, watch: StateWatch | None = None) -> Jacobian:
    """A python Mat over the Jacobian action, see `JacobianContext`."""
    return _create(JacobianContext(operator, template, watch))


def _create(context: JacobianContext) -> Jacobian:
    sizes = context.template.getSizes()
    mat = Jacobian().createPython((sizes, sizes), context, comm=context.template.getComm())
    mat.setBlockSize(context.template.getBlockSize())
    mat.setUp()
    context.offer_blocks(mat)
    return mat


def create_difference(snes: PETSc.SNES, template: PETSc.Vec, error: float) -> Jacobian:
    """A Mat of type mffd over the solver's residual; the options -mat_mffd_* with the solver's prefix apply.

    Args:
        snes: the solver; its residual is set.
        template: a T-vector whose type `createVecs` follows.
        error: relative error of the residual; its square root scales the difference.
    """
    sizes = template.getSizes()
    mat = Jacobian().create(comm=template.getComm())
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
    """The Jacobian's entries, summed on the device and copied into PETSc's arrays once.

    Args:
        operator: the operators.
        template: a T-vector.
        kind: PETSc's type of the matrix, as `-mat_type` says it; others than AIJ get their entries row by row, from the host.

    Attributes:
        mat: the matrix.
        assembly: its values on the device.

    Raises:
        OptionError: for SBAIJ, which keeps one half, where the Jacobian is not symmetric; for ViennaCL's types.
        PlanError: where there are more entries on a rank than 32-bit indices reach.
    """

    def __init__(self, operator: GlobalOperator, template: PETSc.Vec, kind: str = ""):
        self.operator = operator
        local = operator.local
        prescribed, groups = operator.rows.mask(), Groups(local.storage)
        local.prepare(local.assembly_target)
        self._shared = SharedRows(local, groups, prescribed) if local.mpi.size > 1 else None
        with collective(local.mpi):
            columns = Columns.of(local.storage.numbering, prescribed) if self._shared is None else self._shared.columns
            self.assembly = Assembly(local, groups, columns, None if self._shared is None else self._shared.rows)
        rows = self._rows(columns)
        self._sizes = [len(values) for _, _, values in rows]
        del self.assembly.pattern.columns_of_values
        # What another type than AIJ takes its values from.
        self._rows_by_host = [] if kind in _AIJ else rows
        self.mat = self._create(template, rows) if kind in _AIJ else self._create_other(template, kind)

    def fill(self, diagonal: float | None = None) -> None:
        """Computes the entries at the operators' state; collective.

        Args:
            diagonal: what boundary rows have there; default s.
        """
        assembly = self.assembly
        assembly.compute(self.operator.transfer.scale if diagonal is None else diagonal)
        if self._shared is not None:
            self._shared.add(assembly)
        self.copy()
        if self.operator.factor != 1.0:
            self.mat.scale(self.operator.factor)

    def copy(self) -> None:
        """Copies the values on the device to PETSc; collective."""
        with log.event("FGTransfer"):
            if self._rows_by_host:
                self._read([values for _, _, values in self._rows_by_host])
                for starts, columns, values in self._rows_by_host:
                    self.mat.setValuesCSR(starts, columns, values)
            else:
                with petsc_aij.aij_values(self.mat, self._sizes) as arrays:
                    self._read(arrays)
        self.mat.assemble()

    def _read(self, arrays: list[npt.NDArray[np.float64]]) -> None:
        for number, values in enumerate(arrays):
            if len(values):
                section = self.assembly.pattern.section(self.assembly.values, number, 8)
                self.operator.local.runtime.read(section, values)

    def _rows(self, columns: Columns) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Starts, global columns and values of this rank's rows, first those of its own columns."""
        pattern, found = self.assembly.pattern, []
        for part in range(2):
            indices = pattern.indices(part)
            starts = pattern.starts[: columns.num_owned, part] - np.int32(pattern.begins[part])
            numbers = columns.globally(indices).astype(PETSc.IntType) if part or columns.first else indices
            found.append((np.append(starts, np.int32(len(indices))), numbers, np.zeros(len(indices))))
        return found

    def _create(self, template: PETSc.Vec, rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> PETSc.Mat:
        sizes, ((starts, columns, values), away) = template.getSizes(), rows
        first = self.assembly.pattern.columns.first
        own = starts, columns - columns.dtype.type(first) if first else columns, values
        given = own if self._shared is None else (own, away)
        return Jacobian().createAIJWithArrays((sizes, sizes), given, template.getBlockSize(), comm=template.getComm())

    def _create_other(self, template: PETSc.Vec, kind: str) -> PETSc.Mat:
        if "viennacl" in kind:
            raise OptionError(f"-mat_type {kind}: PETSc 3.26 multiplies it with host vectors wrongly; expected aij")
        mat, sizes = Jacobian().create(comm=template.getComm()), template.getSizes()
        mat.setSizes((sizes, sizes), bsize=template.getBlockSize())
        try:
            mat.setType(kind)
        except PETSc.Error:
            raise OptionError(f"-mat_type {kind}: this PETSc has no such type; expected aij, baij or sbaij") from None
        if "sbaij" in kind:
            if not is_symmetric(self.operator.local.form):
                raise OptionError(
                    f"-mat_type {kind}: it keeps one half of the Jacobian, which is not symmetric; expected aij or baij"
                )
            mat.setOption(PETSc.Mat.Option.IGNORE_LOWER_TRIANGULAR, True)
        mat.setUp()
        return mat
