"""What the python types of PETSc's KSP over femgpu's Krylov methods have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from petsc4py import PETSc

from femgpu import krylov, options, petsc_ksp
from femgpu.errors import SolverError, collective
from femgpu.krylov import Operator, Outcome, Preconditioner, Vectors
from femgpu.mesh.garbage import keep_aside
from femgpu.runtime import Device, current
from femgpu.solver.ahead import Ahead
from femgpu.solver.device_preconditioner import DevicePreconditioner, operator_of, works_on_device
from femgpu.solver.device_vec import load, store

Norm, Side, Reason = PETSc.KSP.NormType, PETSc.PC.Side, PETSc.KSP.ConvergedReason
_REASONS = {
    krylov.INDEFINITE_OPERATOR: Reason.DIVERGED_INDEFINITE_MAT,
    krylov.INDEFINITE_PRECONDITIONER: Reason.DIVERGED_INDEFINITE_PC,
    krylov.NOT_FINITE: Reason.DIVERGED_NANORINF,
    krylov.BREAKDOWN: Reason.DIVERGED_BREAKDOWN,
    krylov.EXACT: Reason.CONVERGED_HAPPY_BREAKDOWN,
}
_JACOBI = (PETSc.PC.Type.JACOBI, PETSc.PC.Type.PBJACOBI)
_NORMS = {Norm.PRECONDITIONED: "preconditioned", Norm.UNPRECONDITIONED: "unpreconditioned", Norm.NATURAL: "natural"}


class ConvergenceTest:
    """PETSc's convergence test with all that goes with it: history, monitors, largest number of iterations.

    Args:
        ksp: the solver.

    Attributes:
        limit: most iterations.
    """

    def __init__(self, ksp: PETSc.KSP):
        self._ksp, self.limit = ksp, ksp.getTolerances()[3]
        self._norms = ksp.getNormType() != Norm.NONE

    def __call__(self, iteration: int, norm: float) -> int:
        """Reports and checks."""
        self.report(iteration, norm)
        return self.check(iteration, norm)

    def report(self, iteration: int, norm: float) -> None:
        """Writes history, calls monitors."""
        if self._norms:
            self._take(iteration, norm)
            self._ksp.logConvergenceHistory(norm)
            self._ksp.monitor(iteration, norm)

    def check(self, iteration: int, norm: float) -> int:
        """PETSc's reason to stop, 0 for none."""
        if not self._norms:
            return int(Reason.CONVERGED_ITS) if iteration >= self.limit else 0
        self._take(iteration, norm)
        reason = int(self._ksp.callConvergenceTest(iteration, norm) or 0)
        return reason or (int(Reason.DIVERGED_MAX_IT) if iteration >= self.limit else 0)

    def _take(self, iteration: int, norm: float) -> None:
        self._ksp.setIterationNumber(iteration)
        self._ksp.norm = norm


class KrylovType(Ahead, ABC):
    """Context of a python KSP: a Krylov method on device buffers.

    With a matrix-free Jacobian of femgpu's and a PC that works on the device (`DevicePreconditioner`) nothing leaves the device but
    the norms; every other PC and Mat works as well, on vectors that are copied.

    Attributes:
        method: the method, None before the first set-up.
        from_zero: whether the next solve begins at zero, whatever is in the solution and PETSc thinks (`ZeroGuess`).
    """

    # What PETSc chooses norm and side of the preconditioner from, by priority.
    SUPPORTED: ClassVar[dict[tuple[Any, Any], int]] = {
        (Norm.PRECONDITIONED, Side.LEFT): 3,
        (Norm.UNPRECONDITIONED, Side.LEFT): 2,
        (Norm.NONE, Side.LEFT): 1,
    }

    method: Any
    # What there is from set-up to reset.
    _vectors: Any
    _vecs: Any
    _preconditioner: Any
    _out: Any
    _dot: Any
    _take_out: Any
    _null: tuple[Any, list[Any]]
    # Whether programs may still be under way.
    _waits: bool

    def __init__(self) -> None:
        self.from_zero = False
        self._let_go()

    @abstractmethod
    def files(self, ksp: PETSc.KSP) -> tuple[str, ...]:
        """The files with the method's kernels."""

    @abstractmethod
    def make(self, ksp: PETSc.KSP, vectors: Vectors, check: int) -> Any:
        """The method; at set-up."""

    def settings(self, ksp: PETSc.KSP) -> dict[str, Any]:
        """What the method's `solve` wants to know of PETSc's options besides."""
        return {"norm": self.norm(ksp)}

    def run(
        self,
        ksp: PETSc.KSP,
        system: tuple[Operator, Any, Any],
        preconditioner: Preconditioner,
        test: ConvergenceTest,
        guess: bool,
        project: Callable[[Any], None] | None,
    ) -> Outcome:
        """Solves with operator, right-hand side and solution; these are buffers."""
        ended: Outcome = self.method.solve(*system, preconditioner, test, guess=guess, project=project, **self.settings(ksp))
        return ended

    def iterate(self) -> Any:
        """A buffer with the solution so far, for monitors."""
        if self._out is None:
            self._out = self._vectors.empty()
        self.method.solution(self._x, self._out)
        return self._out

    def summary(self) -> str:
        """What -ksp_view says of the method."""
        return ""

    def programs(self, ksp: PETSc.KSP, device: Device) -> list[tuple[str, str]]:
        """Those of the method, and of a preconditioner that is a diagonal."""
        return krylov.programs(device, (*self.files(ksp), *([krylov.PRECONDITIONERS] if ksp.getPC().getType() in _JACOBI else [])))

    def create(self, ksp: PETSc.KSP) -> None:
        """Says which norms it computes."""
        petsc_ksp.support_norms(ksp, self.SUPPORTED)

    def setUp(self, ksp: PETSc.KSP) -> None:  # noqa: N802
        """Makes vectors and kernels; the operator is looked up at each solve."""
        mat, runtime = ksp.getOperators()[0], current()
        self._vecs = mat.createVecs()
        self._vectors = vectors = krylov.Vectors(runtime, mat.getLocalSize()[0], ksp.comm.tompi4py())
        self._b, self._x = vectors.empty(), vectors.empty()
        self._sum = vectors.sums(1)
        self._dot = vectors.kernel("dot_product", np.int32(0), self._x, self._x, self._sum)
        self._take_out = vectors.kernel("take_out", self._sum, self._b, self._x)
        self._preconditioner = DevicePreconditioner(vectors, self._vecs, self._by_vecs)
        # Norms are looked at later where a device works while the host waits.
        alone = runtime.device.is_gpu and ksp.comm.size == 1 and works_on_device(ksp.getPC())
        self._check = options.read(ksp.getOptionsPrefix() or "").ksp_check or (0 if alone else 1)
        self.method = self.make(ksp, vectors, self._check)
        self._waits = bool(runtime.programs.threads)

    def solve(self, ksp: PETSc.KSP, b: PETSc.Vec, x: PETSc.Vec) -> None:
        """Solves A x = b as PETSc's options say."""
        mat, pc, runtime = ksp.getOperators()[0], ksp.getPC(), self._vectors.runtime
        from_zero, self.from_zero = self.from_zero, False
        if from_zero:
            # Tests of convergence ask.
            ksp.setInitialGuessNonzero(False)
        if petsc_ksp.has_failed(pc):
            if from_zero:
                x.set(0.0)
            ksp.setConvergedReason(Reason.DIVERGED_PCSETUP_FAILED)
            return
        if self._waits:
            # By now the preconditioner is set up. What one rank cannot build is told on all, not inside of an iteration.
            with collective(ksp.comm.tompi4py()):
                for source, name in self.programs(ksp, runtime.device):
                    runtime.build(runtime.text(source), name)
            self._waits = False
        # Whoever looks at each iteration sees it when it is the last.
        self.method.check = 1 if petsc_ksp.has_monitor(ksp) or ksp.getConvergenceTest() is not None else self._check
        guess = ksp.getInitialGuessNonzero()
        load(runtime, b, self._b)
        if guess:
            load(runtime, x, self._x)
        null = mat.getNullSpace()
        project = self._projection(null) if null.handle and ksp.getPCSide() == Side.LEFT else None
        preconditioner = self._preconditioner.of(pc)
        system = self._operator(mat), self._b, self._x
        ended = self.run(ksp, system, preconditioner, ConvergenceTest(ksp), guess, project)
        store(runtime, self._x, x)
        ksp.setIterationNumber(ended.iterations)
        if np.isfinite(ended.norm):
            ksp.norm = ended.norm
        reason = _REASONS[ended.reason] if isinstance(ended.reason, str) else ended.reason
        if reason == Reason.DIVERGED_NANORINF and petsc_ksp.has_failed(pc):
            reason = Reason.DIVERGED_PCSETUP_FAILED
        ksp.setConvergedReason(reason)

    def buildSolution(self, ksp: PETSc.KSP, x: PETSc.Vec) -> None:  # noqa: N802
        """The solution so far, in a vector.

        Raises:
            SolverError: without a vector.
        """
        if not x.handle:
            raise SolverError(
                "femgpu's Krylov methods keep the solution on the device; KSPBuildSolution needs a vector to put it in: take "
                "PETSc's own, -ksp_type cg or gmres, for -snes_type newtontr and newtontrdc"
            )
        store(self._vectors.runtime, self.iterate(), x)

    def view(self, ksp: PETSc.KSP, viewer: PETSc.Viewer) -> None:
        """Prints where vectors and preconditioner live."""
        if self.method is None or viewer.getType() != PETSc.Viewer.Type.ASCII:
            return
        where = "on the device" if works_on_device(ksp.getPC()) else "by PETSc, with two copies per iteration"
        summary = f"{self.summary()}, " if self.summary() else ""
        name = f"femgpu.{type(self).__name__} on {self._vectors.runtime.device}"
        viewer.printfASCII(f"  {name}, {summary}preconditioned {where}\n")

    def reset(self, ksp: PETSc.KSP) -> None:
        """Lets vectors and kernels go."""
        # The method remembers what it was preconditioned by.
        keep_aside((self._vecs, self._preconditioner, self.method))
        self._let_go()

    def destroy(self, ksp: PETSc.KSP) -> None:
        """Lets vectors and kernels go."""
        self.reset(ksp)

    def norm(self, ksp: PETSc.KSP) -> str:
        """The norm that was asked for, in the methods' words."""
        return _NORMS.get(ksp.getNormType(), "preconditioned")

    def _let_go(self) -> None:
        self.method = self._vectors = self._vecs = self._preconditioner = None
        self._b = self._x = self._out = self._sum = self._dot = self._take_out = None
        self._null = (None, [])

    def _operator(self, mat: PETSc.Mat) -> Operator:
        """What makes q = A p on buffers: femgpu's own operator, or PETSc's vectors."""
        operator = operator_of(mat)
        if operator is None or not operator.linearised or operator.factor != 1.0:
            return Operator(self._by_vecs(mat.mult))
        device = operator.device
        add = device.add if device.adds else None
        return Operator(device.action, add, device.local.mask, device.transfer.scale_buffer)

    def _by_vecs(self, function: Callable[[PETSc.Vec, PETSc.Vec], None]) -> Callable[[Any, Any], None]:
        """What PETSc computes from one vector into another, between buffers."""
        given, result = self._vecs
        runtime = self._vectors.runtime

        def apply(source: Any, target: Any) -> None:
            store(runtime, source, given)
            function(given, result)
            load(runtime, result, target)

        return apply

    def _projection(self, null: PETSc.NullSpace) -> Callable[[Any], None]:
        """Takes the parts along a null space out of a vector; its modes are uploaded where they have changed."""
        vectors, vecs = self._vectors, null.getVecs()
        key = (null.id, *((vec.id, vec.stateGet()) for vec in vecs))
        if key != self._null[0]:
            modes = [vec.array_r for vec in vecs]
            if null.hasConstant():
                modes.append(np.full(vectors.num_owned, self._vecs[0].getSize() ** -0.5))
            self._null = key, [vectors.runtime.upload(np.ascontiguousarray(mode)) for mode in modes]
        buffers = self._null[1]

        def project(z: Any) -> None:
            for mode in buffers:
                self._dot.bound({2: mode, 3: z})()
                vectors.complete(self._sum, 0, 1)
                self._take_out.bound({2: mode, 3: z})()

        return project
