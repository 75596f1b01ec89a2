"""PETSc python types that any PETSc program can load by name, also one written in C.

    -mat_type python -mat_python_type femgpu.FormMatrix -femgpu_form poisson_form.py:poisson
    -pc_type python -pc_python_type femgpu.AssembledPC -assembled_pc_type gamg

The Mat needs a DM (MatSetDM) with one PetscFE field; its section rules: dofs that it constrains are not part of the vectors. The
Jacobian is taken at zero, or at the global vector that the program composes with the Mat under the name "femgpu_state"; the
state is read whenever the Mat is assembled, and at its first use:

    PetscObjectCompose((PetscObject)J, "femgpu_state", (PetscObject)x);
    MatAssemblyBegin(J, MAT_FINAL_ASSEMBLY);
    MatAssemblyEnd(J, MAT_FINAL_ASSEMBLY);
"""

from __future__ import annotations

from collections.abc import Callable

from petsc4py import PETSc

from femgpu.errors import DataError, FormError
from femgpu.mesh.garbage import keep_aside
from femgpu.operators.device import on_device
from femgpu.solver.form_binding import BoundForm
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian, JacobianContext, create_matfree


class FormMatrix:
    """Context of a python Mat: the matrix-free Jacobian of the form that `-femgpu_form` names.

    The Mat's options prefix applies. Everything is made at the first use, when the Mat has its DM.
    """

    def __init__(self) -> None:
        self._bound: BoundForm | None = None
        _begin_log()
        self._jacobian: JacobianContext | None = None

    def operator(self, mat: PETSc.Mat) -> GlobalOperator:
        """The operators at the Mat's state; collective at first use."""
        return self._context(mat).operator

    def assemblyEnd(self, mat: PETSc.Mat, kind: int) -> None:  # noqa: N802
        """Takes the state that is composed with the Mat."""
        if self._bound is None:
            self._context(mat)
        else:
            self._bound.linearise(mat)

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = J x."""
        self._context(mat).mult(mat, x, y)

    @property
    def multTranspose(self) -> Callable[[PETSc.Mat, PETSc.Vec, PETSc.Vec], None] | None:  # noqa: N802
        """Y = J^T x; None where the form does not know its Jacobian."""
        return self._transpose if self._jacobian is None else self._jacobian.multTranspose

    def _transpose(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        if (action := self._context(mat).multTranspose) is None:
            raise FormError("the form does not know its Jacobian, whose differences of residuals have no transpose; give g0 to g3")
        action(mat, x, y)

    def getDiagonal(self, mat: PETSc.Mat, d: PETSc.Vec) -> None:  # noqa: N802
        """D = diagonal of J."""
        self._context(mat).getDiagonal(mat, d)

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:  # noqa: N802
        """Vectors of the type that the DM makes."""
        dm = _dm(mat)
        return dm.createGlobalVec(), dm.createGlobalVec()

    def duplicate(self, mat: PETSc.Mat, copy: bool) -> PETSc.Mat:
        """Another Mat on the same operators; it shares the state."""
        context = self._context(mat)
        return create_matfree(context.operator, context.template)

    def view(self, mat: PETSc.Mat, viewer: PETSc.Viewer) -> None:
        """Prints form, space and device."""
        if self._bound is not None and viewer.getType() == PETSc.Viewer.Type.ASCII:
            space, device = self._bound.operator.local.space, self._bound.operator.local.runtime.device
            viewer.printfASCII(f"  femgpu form {self._bound.name} in {space} on {device}\n")

    def destroy(self, mat: PETSc.Mat) -> None:
        """Lets the operators go."""
        self._bound = self._jacobian = None

    def _context(self, mat: PETSc.Mat) -> JacobianContext:
        if self._bound is None or self._jacobian is None:
            dm = _dm(mat)
            bound = BoundForm(dm, mat.getOptionsPrefix() or "")
            bound.linearise(mat)
            self._bound, self._jacobian = bound, JacobianContext(bound.operator, bound.template)
            self._jacobian.offer_blocks(mat)
        return self._jacobian


class AssembledPC:
    """Context of a python PC: the Jacobian assembled on the device, handed to an inner PC.

    The form is that of the PC's matrix where it is femgpu's (`FormMatrix`, or the matrix-free one of a `NonlinearProblem`),
    else the one that `-femgpu_form` names, on the PC's DM. The inner PC has the options prefix `assembled_` after the PC's own.
    It works on host vectors: ViennaCL vectors are copied.

    Attributes:
        inner: the inner PC, None before the first set-up.
    """

    def __init__(self) -> None:
        self.inner: PETSc.PC | None = None
        self._assembled: AssembledJacobian | None = None
        self._bound: BoundForm | None = None
        self._host: tuple[PETSc.Vec, PETSc.Vec] | None = None
        _begin_log()

    def setUp(self, pc: PETSc.PC) -> None:  # noqa: N802
        """Fills the matrix at the state and sets the inner PC up."""
        operator = self._operator(pc)
        if self._assembled is None or self._assembled.operator is not operator:
            self._create(pc, operator)
        assert self._assembled is not None and self.inner is not None
        self._assembled.fill()
        self.inner.setUp()

    def apply(self, pc: PETSc.PC, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = inner PC of x."""
        assert self.inner is not None
        self._on_host(self.inner.apply, x, y)

    def applyTranspose(self, pc: PETSc.PC, x: PETSc.Vec, y: PETSc.Vec) -> None:  # noqa: N802
        """Y = transpose of the inner PC of x."""
        assert self.inner is not None
        self._on_host(self.inner.applyTranspose, x, y)

    def _on_host(self, operation: Callable[[PETSc.Vec, PETSc.Vec], None], x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Gives the inner PC host vectors: PETSc's own mixture of them with ViennaCL vectors is wrong on several ranks."""
        if not on_device(x):
            operation(x, y)
            return
        assert self._assembled is not None
        if self._host is None:
            self._host = self._assembled.mat.createVecs()
        self._host[0].setArray(x.array_r)
        operation(*self._host)
        y.setArray(self._host[1].array_r)

    def view(self, pc: PETSc.PC, viewer: PETSc.Viewer) -> None:
        """Prints the inner PC."""
        if self.inner is not None:
            viewer.pushASCIITab()
            self.inner.view(viewer)
            viewer.popASCIITab()

    def destroy(self, pc: PETSc.PC) -> None:
        """Destroys the inner PC and its matrix."""
        self._release()
        self._bound = None

    def _release(self) -> None:
        if self.inner is not None:
            self.inner.destroy()
        if self._assembled is not None:
            self._assembled.mat.destroy()
            keep_aside(self._assembled)
        self.inner = self._assembled = self._host = None

    def _create(self, pc: PETSc.PC, operator: GlobalOperator) -> None:
        self._release()
        prefix = (pc.getOptionsPrefix() or "") + "assembled_"
        kind = PETSc.Options().getString(prefix + "mat_type", "")
        self._assembled = AssembledJacobian(operator, operator.local.space.create_vec(), kind)
        mat, outer = self._assembled.mat, pc.getOperators()[1]
        mat.setOptionsPrefix(prefix)
        mat.setFromOptions()
        if (near := outer.getNearNullSpace()).handle:
            mat.setNearNullSpace(near)
        if (null := outer.getNullSpace()).handle:
            mat.setNullSpace(null)
        self.inner = PETSc.PC().create(comm=pc.comm)
        self.inner.incrementTabLevel(1, parent=pc)
        self.inner.setOptionsPrefix(prefix)
        self.inner.setOperators(mat, mat)
        self.inner.setFromOptions()

    def _operator(self, pc: PETSc.PC) -> GlobalOperator:
        """The operators behind the PC's matrices, at their state."""
        matrices = pc.getOperators()[::-1]
        for mat in matrices:
            context = mat.getPythonContext() if mat.getType() == PETSc.Mat.Type.PYTHON else None
            if isinstance(context, FormMatrix):
                return context.operator(mat)
            if isinstance(context, JacobianContext):
                return context.current()
        dm = pc.getDM()
        if self._bound is None:
            if not dm.handle:
                raise DataError(
                    "femgpu.AssembledPC needs a matrix of type femgpu.FormMatrix or of a NonlinearProblem, or a DM on the PC "
                    "(SNESSetDM, KSPSetDM or PCSetDM) and -femgpu_form; it has neither"
                )
            self._bound = BoundForm(dm, pc.getOptionsPrefix() or "")
        self._bound.linearise(*matrices)
        return self._bound.operator


def _dm(mat: PETSc.Mat) -> PETSc.DM:
    dm = mat.getDM()
    if not dm.handle:
        raise DataError("a Mat of type femgpu.FormMatrix has no DM; call MatSetDM(mat, dm) before its first use")
    return dm


def _begin_log() -> None:
    """Has PETSc time its events where a view is asked for: later this may be inside of one, which then cannot end."""
    if any(name.endswith("femgpu_view") for name in PETSc.Options().getAll()):
        PETSc.Log.begin()
