"""Python types of PETSc's KSP over femgpu's own Krylov methods, loadable by name, also from C.

-ksp_type python -ksp_python_type femgpu.CG
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import krylov, petsc_c
from femgpu.mesh.garbage import keep_aside
from femgpu.runtime import current
from femgpu.solver.device_vec import load, store
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import JacobianContext
from femgpu.solver.python_types import FormMatrix

_REASONS = {
    krylov.INDEFINITE_OPERATOR: PETSc.KSP.ConvergedReason.DIVERGED_INDEFINITE_MAT,
    krylov.INDEFINITE_PRECONDITIONER: PETSc.KSP.ConvergedReason.DIVERGED_INDEFINITE_PC,
    krylov.NOT_FINITE: PETSc.KSP.ConvergedReason.DIVERGED_NANORINF,
}
_NORMS = {
    PETSc.KSP.NormType.PRECONDITIONED: "preconditioned",
    PETSc.KSP.NormType.UNPRECONDITIONED: "unpreconditioned",
    PETSc.KSP.NormType.NATURAL: "natural",
    PETSc.KSP.NormType.NONE: None,
}
# PCs that multiply by a diagonal: their effect on ones is all that a device needs of them.
_DIAGONAL = (PETSc.PC.Type.JACOBI,)


class CG:
    """Context of a python KSP: conjugate gradients on device buffers.

    With `-pc_type jacobi` or `none` and a matrix-free Jacobian of femgpu's nothing leaves the device but the norms; every other PC
    and Mat works as well, on vectors that are copied.

    Attributes:
        method: the method, None before the first set-up.
    """

    def __init__(self) -> None:
        self.method: krylov.CG | None = None
        self._vecs: tuple[PETSc.Vec, PETSc.Vec] | None = None

    def create(self, ksp: PETSc.KSP) -> None:
        """Says which norms it computes."""
        priorities = {PETSc.KSP.NormType.PRECONDITIONED: 3, PETSc.KSP.NormType.UNPRECONDITIONED: 2, PETSc.KSP.NormType.NATURAL: 2}
        priorities[PETSc.KSP.NormType.NONE] = 1
        petsc_c.support_norms(ksp, {int(norm): value for norm, value in priorities.items()}, int(PETSc.PC.Side.LEFT))

    def setUp(self, ksp: PETSc.KSP) -> None:  # noqa: N802
        """Makes vectors and kernels; the operator is looked up at each solve."""
        mat = ksp.getOperators()[0]
        self._vecs = mat.createVecs()
        runtime = current()
        size = mat.getLocalSize()[0]
        self._vectors = krylov.Vectors(runtime, size, ksp.comm.tompi4py())
        self._b, self._x, self._diagonal = (self._vectors.empty() for _ in range(3))
        self._sum = self._vectors.sums(1)
        self._dot = self._vectors.kernel("dot_product", self._x, self._x, self._sum)
        self._take_out = self._vectors.kernel("take_out", self._sum, self._b, self._x)
        # Norms are looked at one iteration later where a device works while the host waits.
        lag = int(runtime.device.is_gpu and ksp.comm.size == 1 and self._preconditions_on_device(ksp))
        self.method = krylov.CG(self._vectors, lag)

    def solve(self, ksp: PETSc.KSP, b: PETSc.Vec, x: PETSc.Vec) -> None:
        """Solves A x = b as PETSc's options say."""
        assert self.method is not None
        mat = ksp.getOperators()[0]
        guess = ksp.getInitialGuessNonzero()
        runtime = self._vectors.runtime
        load(runtime, b, self._b)
        if guess:
            load(runtime, x, self._x)
        null = mat.getNullSpace()
        ended = self.method.solve(
            self._operator(mat),
            self._b,
            self._x,
            self._preconditioner(ksp),
            self._test(ksp),
            ksp.getTolerances()[3],
            _NORMS[ksp.getNormType()],
            guess,
            self._projection(null) if null.handle else None,
        )
        store(runtime, self._x, x)
        ksp.setIterationNumber(ended.iterations)
        if np.isfinite(ended.norm):
            ksp.norm = ended.norm
        ksp.setConvergedReason(_REASONS[ended.reason] if isinstance(ended.reason, str) else ended.reason)

    def view(self, ksp: PETSc.KSP, viewer: PETSc.Viewer) -> None:
        """Prints where vectors and preconditioner live."""
        if self.method is None or viewer.getType() != PETSc.Viewer.Type.ASCII:
            return
        where = "on the device" if self._preconditions_on_device(ksp) else "by PETSc, with two copies per iteration"
        viewer.printfASCII(f"  femgpu.CG on {self._vectors.runtime.device}, preconditioned {where}\n")

    def destroy(self, ksp: PETSc.KSP) -> None:
        """Lets vectors and kernels go."""
        keep_aside(self._vecs)
        self.method = None
        self._vecs = None

    def _operator(self, mat: PETSc.Mat) -> krylov.Operator:
        """What makes q = A p on buffers: femgpu's own operator, or PETSc's vectors."""
        operator = _operator(mat)
        if operator is None or not operator.linearised or operator.factor != 1.0:
            return krylov.Operator(lambda p, q: self._by_vecs(mat.mult, p, q))
        device = operator.device
        add = device.add if device.adds else None
        return krylov.Operator(device.action, add, device.local.mask, device.transfer.scale_buffer)

    def _by_vecs(self, function: Callable[[PETSc.Vec, PETSc.Vec], None], source: Any, target: Any) -> None:
        """What PETSc computes from one vector into another, on buffers."""
        assert self._vecs is not None
        given, result = self._vecs
        runtime = self._vectors.runtime
        store(runtime, source, given)
        function(given, result)
        load(runtime, result, target)

    @staticmethod
    def _preconditions_on_device(ksp: PETSc.KSP) -> bool:
        return ksp.getPC().getType() in (PETSc.PC.Type.NONE, *_DIAGONAL)

    def _preconditioner(self, ksp: PETSc.KSP) -> krylov.Preconditioner:
        pc = ksp.getPC()
        if pc.getType() == PETSc.PC.Type.NONE:
            return krylov.Preconditioner()
        if pc.getType() in _DIAGONAL:
            assert self._vecs is not None
            self._vecs[0].set(1.0)
            pc.apply(*self._vecs)
            load(self._vectors.runtime, self._vecs[1], self._diagonal)
            return krylov.Preconditioner(self._diagonal)
        return krylov.Preconditioner(apply=lambda r, z: self._by_vecs(pc.apply, r, z))

    def _projection(self, null: PETSc.NullSpace) -> Callable[[Any], None]:
        """Takes the parts along a null space out of a vector."""
        vectors, size = self._vectors, self._vectors.num_owned
        modes = [vec.array_r for vec in null.getVecs()]
        if null.hasConstant():
            assert self._vecs is not None
            modes.append(np.full(size, self._vecs[0].getSize() ** -0.5))
        buffers = [vectors.runtime.upload(np.ascontiguousarray(mode)) for mode in modes]

        def project(z: Any) -> None:
            for mode in buffers:
                self._dot.bound({1: mode, 2: z})()
                vectors.complete(self._sum, 0, 1)
                self._take_out.bound({2: mode, 3: z})()

        return project

    @staticmethod
    def _test(ksp: PETSc.KSP) -> Callable[[int, float], int]:
        """PETSc's convergence test with all that goes with it: history, monitors, largest number of iterations."""
        limit = ksp.getTolerances()[3]
        if ksp.getNormType() == PETSc.KSP.NormType.NONE:
            return lambda iteration, norm: int(PETSc.KSP.ConvergedReason.CONVERGED_ITS) if iteration >= limit else 0

        def test(iteration: int, norm: float) -> int:
            ksp.setIterationNumber(iteration)
            ksp.norm = norm
            ksp.logConvergenceHistory(norm)
            ksp.monitor(iteration, norm)
            reason = ksp.callConvergenceTest(iteration, norm)
            if not reason and iteration >= limit:
                return int(PETSc.KSP.ConvergedReason.DIVERGED_MAX_IT)
            return int(reason or 0)

        return test


def _operator(mat: PETSc.Mat) -> GlobalOperator | None:
    """The operators behind a matrix-free Jacobian of femgpu's; None of other Mats."""
    context = mat.getPythonContext() if mat.getType() == PETSc.Mat.Type.PYTHON else None
    if isinstance(context, FormMatrix):
        return context.operator(mat)
    return context.operator if isinstance(context, JacobianContext) else None
