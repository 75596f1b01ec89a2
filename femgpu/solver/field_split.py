"""PETSc's python type of a preconditioner by fields, for saddle points, on the device.

-pc_type python -pc_python_type femgpu.FieldSplit
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

from femgpu.errors import DataError, FormError
from femgpu.forms import field_block, schur_form
from femgpu.krylov import Vectors, programs
from femgpu.mesh.garbage import keep_aside
from femgpu.operators import Saddle, saddle
from femgpu.runtime import Device
from femgpu.solver.ahead import Ahead
from femgpu.solver.device_preconditioner import buffers_method, operator_of
from femgpu.solver.device_vec import load, store
from femgpu.solver.field_block import FieldBlock
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian, create_matfree
from femgpu.solver.solver_types import shifted_factors
from femgpu.solver.zero_guess import ZeroGuess

_FILE = "fields.cl"
# Preconditioners of the elliptic block that need no entries.
_NO_ENTRIES = ("none", "jacobi", "python", "shell", "ksp")


class FieldSplit(ZeroGuess, Ahead):
    """Preconditioner of a saddle point: the upper triangle of its blocks, by the Schur complement of the constraint.

    The Jacobian is (A B'; B C), A elliptic, in the rows of a velocity or displacement, B and C in those of a pressure. The pressure
    comes from the diagonal of a mass matrix that is spectrally equivalent to the Schur complement (`forms.schur_form`; in Stokes'
    equations the pressure's over the viscosity, which the entries of A tell point by point), the velocity from a PC for A, one
    cycle of `femgpu.PMG` unless options with the prefix `fieldsplit_` and the name of the field say otherwise. What is left of
    the residual after the pressure takes one product with the whole Jacobian. All of it works on device buffers, with PCs that do.

    | option | default | |
    |---|---|---|
    | -fieldsplit_velocity_pc_type | python | and all other options of the PC for A, whose field is called velocity here |
    | -fieldsplit_velocity_pc_python_type | femgpu.PMG | |

    Attributes:
        inner: the PC for A; None before the first set-up.
    """

    def __init__(self) -> None:
        self.inner: PETSc.PC | None = None
        self._let_go()

    def setUp(self, pc: PETSc.PC) -> None:  # noqa: N802
        """Makes the blocks at the first time, and takes them to the state of the matrix; collective.

        Raises:
            DataError: for a matrix that is no matrix-free Jacobian of femgpu's.
            FormError: for a Jacobian that is no saddle point of two fields.
        """
        found = ((mat, operator_of(mat)) for mat in reversed(pc.getOperators()))
        mat, operator = next(((mat, operator) for mat, operator in found if operator is not None), (None, None))
        if operator is None:
            raise DataError(
                "femgpu.FieldSplit needs the matrix-free Jacobian of a NonlinearProblem; take -femgpu_jacobian matfree, or "
                "-pc_type fieldsplit"
            )
        self.prepare(pc, mat, operator)
        assert self.inner is not None and self._elliptic is not None and self._constraint is not None
        for block in (self._elliptic, self._constraint):
            block.update()
        self._constraint.operator.device.diagonal(self._diagonal)
        if self._assembled is not None:
            self._assembled.fill()
        for mat in self.inner.getOperators():
            mat.assemble()
        self.inner.setUp()

    def programs(self, pc: PETSc.PC, device: Device) -> list[tuple[str, str]]:
        """That which takes fields out of vectors."""
        return programs(device, (_FILE,))

    def prepare(self, pc: PETSc.PC, mat: PETSc.Mat, operator: GlobalOperator) -> None:
        """Makes the blocks where they are not those there are; raises as `setUp`."""
        if operator is not self._operator or operator.local.bends != self._bends:
            self._create(pc, operator)

    def apply(self, pc: PETSc.PC, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = preconditioned x."""
        assert self._operator is not None
        load(self._operator.local.runtime, x, self._given)
        self.apply_buffers(pc, self._given, self._found)
        store(self._operator.local.runtime, self._found, y)

    def apply_buffers(self, pc: PETSc.PC, r: Any, z: Any) -> None:
        """Z = preconditioned r, device buffers."""
        operator, elliptic, constraint = self._operator, self._elliptic, self._constraint
        assert operator is not None and elliptic is not None and constraint is not None and self.inner is not None
        operator.local.runtime.zero(z, self._whole.num_bytes)
        self._divide.bound({3: r, 4: z})()
        operator.device.action(z, self._product)
        self._take.bound({2: self._product, 3: r})()
        apply = buffers_method(self.inner)
        if apply is not None:
            apply(self.inner, self._part, self._solved)
        else:
            runtime = operator.local.runtime
            store(runtime, self._part, self._vecs[0])
            self.inner.apply(*self._vecs)
            load(runtime, self._vecs[1], self._solved)
        self._put.bound({3: z})()

    def view(self, pc: PETSc.PC, viewer: PETSc.Viewer) -> None:
        """Prints the blocks and the inner PC."""
        if viewer.getType() != PETSc.Viewer.Type.ASCII or self.inner is None or self._names is None:
            return
        elliptic, constraint = self._names
        viewer.printfASCII(f"  femgpu.FieldSplit: {constraint} by the diagonal of a mass matrix, {elliptic} by\n")
        viewer.pushASCIITab()
        self.inner.view(viewer)
        viewer.popASCIITab()

    def destroy(self, pc: PETSc.PC) -> None:
        """Lets blocks and inner PC go."""
        self._let_go()

    def _let_go(self) -> None:
        if self.inner is not None:
            self.inner.destroy()
            keep_aside((self._operator, self._elliptic, self._constraint, self._assembled, self._vecs))
        self.inner, self._bends = None, -1
        self._operator: GlobalOperator | None = None
        self._elliptic: FieldBlock | None = None
        self._constraint: FieldBlock | None = None
        self._assembled: AssembledJacobian | None = None
        self._names: tuple[str, str] | None = None
        self._vecs: Any = None
        self._given = self._found = self._product = self._part = self._solved = self._diagonal = None

    def _create(self, pc: PETSc.PC, operator: GlobalOperator) -> None:
        self._let_go()
        form, space, runtime = operator.local.form, operator.local.space, operator.local.runtime
        found = saddle(form)
        if not isinstance(found, Saddle):
            prefix = pc.getOptionsPrefix() or ""
            raise FormError(
                f"femgpu.FieldSplit on {space}: {found}; take another: {shifted_factors(prefix, pc.comm)}, "
                f"or -{prefix}pc_type fieldsplit -{prefix}pc_fieldsplit_type schur -{prefix}pc_fieldsplit_schur_precondition selfp"
            )
        self._operator, self._bends, self._names = operator, operator.local.bends, (found.elliptic, found.constraint)
        parts = [space.sub(name) for name in self._names]
        own = [part.collapse() for part in parts]
        fields = [part.place for part in parts]
        self._elliptic = FieldBlock(operator, field_block(form, fields[0], own[0]), parts[0], own[0], ("action", "diagonal"))
        self._constraint = FieldBlock(operator, schur_form(form, fields[0], fields[1], own[1]), parts[1], own[1], ("diagonal",))
        mpi = space.mesh.mpi
        self._whole = Vectors(runtime, space.numbering.num_owned, mpi)
        self._given, self._found, self._product = (self._whole.empty() for _ in range(3))
        vectors, other = self._elliptic.vectors, self._constraint.vectors
        self._part, self._solved, self._diagonal = vectors.empty(), vectors.empty(), other.empty()
        part, whole = self._part, self._product
        self._take = vectors.kernel("take_field", self._elliptic.map, whole, whole, part, file=_FILE)
        self._put = vectors.kernel("put_field", self._elliptic.map, self._solved, whole, file=_FILE)
        self._divide = other.kernel("divide_field", self._constraint.map, self._diagonal, whole, whole, file=_FILE)
        self._create_inner(pc)

    def _create_inner(self, pc: PETSc.PC) -> None:
        assert self._elliptic is not None and self._names is not None
        operator, template = self._elliptic.operator, self._elliptic.space.create_vec()
        self._vecs = template.duplicate(), template.duplicate()
        prefix = f"{pc.getOptionsPrefix() or ''}fieldsplit_{self._names[0]}_"
        mat = create_matfree(operator, template)
        self.inner = inner = PETSc.PC().create(comm=pc.comm)
        inner.incrementTabLevel(1, parent=pc)
        inner.setOptionsPrefix(prefix)
        inner.setOperators(mat, mat)
        inner.setType(PETSc.PC.Type.PYTHON)
        inner.setPythonType("femgpu.PMG")
        inner.setFromOptions()
        if inner.getType() not in _NO_ENTRIES:
            self._assembled = AssembledJacobian(operator, template)
            inner.setOperators(mat, self._assembled.mat)
