"""The operators of a problem between PETSc's T-vectors, boundary rows included."""

from __future__ import annotations

from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu.errors import DataError, SolverError, collective
from femgpu.forms import Form
from femgpu.kernels import vector_kernels
from femgpu.operators.device import on_device
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.solver.block_jacobi import BlockJacobi
from femgpu.solver.conditions import Conditions
from femgpu.solver.device_operator import DeviceOperator
from femgpu.solver.device_vec import Staging
from femgpu.solver.transfer import BoundaryRows

# What the mean of a diagonal is at least of the mean of its absolute values: less are roundings.
_CANCELLED = 1e-10


class GlobalOperator:
    """Residual, Jacobian action and diagonal from T-vectors to T-vectors; every call is collective.

    Rows of prescribed dofs are `s (u - value)`, their columns are dropped from the action. s is the mean of the diagonal's
    other rows, taken at the first state after `refresh` and kept, so that the action is the exact derivative of the residual.

    In forms with a time derivative, integrators give its T-vector as rate = shift u + something; at prescribed dofs the form
    sees shift value + something, the same formula for the boundary values, which does not depend on u.

    Args:
        form: the lowered form.
        bcs: Dirichlet conditions, or the rows that they prescribe.
        settings: the options.
        runtime: the device.
        scale: s where the caller rules it.
        single: whether the T-vectors of `device` are floats; those of PETSc are doubles, and then nothing here takes them.

    Attributes:
        device: the operators between device buffers.
        local: those between L-vectors.
        transfer: between T- and L-vectors.
        rows: the prescribed dofs.
        factor: multiplies action and diagonal; 1 whenever the Jacobian has got a new state.
        linearised: whether the Jacobian has a state.
        any_rows: whether any dof of any rank is prescribed.
        blocks: the inverse diagonal blocks that somebody asked for last.
    """

    def __init__(
        self,
        form: Form,
        bcs: Conditions | BoundaryRows,
        settings: Settings,
        runtime: Runtime,
        scale: float | None = None,
        single: bool = False,
    ):
        if not single:
            runtime.build_ahead([(vector_kernels(settings.precision), "vectors")])
        self.rows = bcs if isinstance(bcs, BoundaryRows) else BoundaryRows(form.space, bcs, wide=form.wide)
        self.device = DeviceOperator(form, self.rows, settings, runtime, single)
        self.local, self.transfer = self.device.local, self.device.transfer
        self._mpi = form.space.mesh.mpi
        with collective(self._mpi):
            ranges, rank = form.space.numbering.ranges, self._mpi.rank
            self.staging = Staging(runtime, ranges, rank, copies=self.local.inputs.rate is not None)
        self.any_rows = self._mpi.allreduce(len(self.rows.owned)) > 0
        self._given_scale = scale
        self.factor = 1.0
        self.linearised = False
        self.blocks: BlockJacobi | None = None
        self.refresh()

    def refresh(self) -> None:
        """Evaluates the boundary conditions anew and forgets the scale of their rows."""
        self.refresh_values()
        self._scaled = self._given_scale is not None
        if self._given_scale is not None:
            self.transfer.scale = self._given_scale

    def refresh_values(self) -> None:
        """Evaluates the boundary conditions anew."""
        self.rows.evaluate()
        self.transfer.update_values()

    def residual(self, x: PETSc.Vec, f: PETSc.Vec, rate: PETSc.Vec | None = None, shift: float = 0.0) -> None:
        """F = residual at x.

        Args:
            x: the state.
            f: the result.
            rate: time derivative of the state; None keeps the one before.
            shift: derivative of the rate with respect to the state; matters only where x differs from the boundary values.

        Raises:
            DataError: for other vectors than u.vec's like, or a result that is the state or the rate.
        """
        for vec in (x, f):
            self.staging.check(vec)
        if f.handle in (x.handle, None if rate is None else rate.handle):
            raise DataError(
                "the residual is to be written into the vector that it is computed from; expected f = u.vec.duplicate()"
            )
        self._ensure_scale(x)
        self.local.update()
        t, out = self.staging.reading(x), self.staging.writing(f)
        self._set_rate(t, rate, shift, self.local.inputs.rate)
        self.device.residual(t, out)
        self.staging.written(f)

    def linearise(self, x: PETSc.Vec, rate: PETSc.Vec | None = None, shift: float = 0.0) -> None:
        """Makes x the state of action, diagonal and matrices, and `rate` its time derivative, as in `residual`."""
        self._ensure_scale(x)
        self._set_base(x, rate, shift)
        self.linearised = True

    def action(self, w: PETSc.Vec, y: PETSc.Vec, target: str = "action") -> None:
        """Y = Jacobian, or for the target "transposed" its transpose, times w.

        Raises:
            SolverError: before the first `linearise`.
        """
        self._require_state()
        self.device.action(self.staging.reading(w), self.staging.writing(y), target)
        self.staging.written(y)
        if self.factor != 1.0:
            y.scale(self.factor)

    def jacobian_size(self) -> float:
        """The 1-norm of the Jacobian's product with a random vector that is zero at prescribed dofs; collective.

        Not finite where the Jacobian is not, 1 before the first `linearise`.
        """
        if not self.linearised:
            return 1.0
        w = PETSc.Vec().createMPI((self.transfer.num_owned, None), comm=self.local.space.comm)
        y = w.duplicate()
        rough = np.random.default_rng(1).uniform(1.0, 2.0, self.transfer.num_owned)
        rough[self.rows.owned] = 0
        w.setArray(rough)
        self.action(w, y)
        size = float(y.norm(PETSc.NormType.NORM_1))
        for vec in (w, y):
            vec.destroy()
        return size

    def diagonal(self, d: PETSc.Vec) -> None:
        """D = diagonal of the Jacobian, likewise."""
        self._require_state()
        self.device.diagonal(self.staging.writing(d))
        self.staging.written(d)
        if self.factor != 1.0:
            d.scale(self.factor)

    def invert_blocks(self, size: int) -> BlockJacobi:
        """The inverses of the Jacobian's diagonal blocks of `size` rows, at its state.

        Raises:
            SolverError: before the first `linearise`, and where a block has no inverse.
        """
        self._require_state()
        if self.blocks is None or self.blocks.size != size:
            self.blocks = BlockJacobi(self.device, size)
        self.blocks.compute(self.factor)
        return self.blocks

    def insert_values(self, x: PETSc.Vec, fraction: float = 1.0) -> None:
        """Moves the boundary rows of x to their values, or so far that a fraction of the way leads there."""
        self.staging.check(x)
        if on_device(x):
            self.transfer.insert(self.staging.runtime.wrap(x.getCLMemHandle("rw")), fraction)
            x.restoreCLMemHandle()
            return
        array, rows, values = x.array, self.rows.owned, self.rows.owned_values
        array[rows] = values if fraction == 1.0 else array[rows] + (values - array[rows]) / fraction

    def rescale(self) -> None:
        """Takes s, the factor of the boundary rows, from the diagonal at the state of the Jacobian; collective."""
        if not self.any_rows or not self.local.form.has_jacobian:
            return
        diagonal = self.staging.output
        # Boundary rows add nothing to the sums.
        self.transfer.scale = 0.0
        self.device.diagonal(diagonal)
        count = self.transfer.num_owned - len(self.rows.owned)
        total, size, count = self._mpi.allreduce(np.array([*self.transfer.totals(diagonal), count]))
        # An operator without a usable diagonal at this state (p-Laplace at zero, or one that cancels) gets plain identity rows.
        self.transfer.scale = float(total / count) if np.isfinite(size) and total > _CANCELLED * size else 1.0

    def _set_base(self, x: PETSc.Vec, rate: PETSc.Vec | None = None, shift: float = 0.0) -> None:
        self.local.update()
        self.factor = 1.0
        t = self.staging.reading(x)
        self._set_rate(t, rate, shift, self.local.inputs.base_rate)
        self.device.set_base(t)

    def _set_rate(self, t: Any, rate: PETSc.Vec | None, shift: float, target: Any) -> None:
        """Fills the L-vector of the time derivative of the state t, a device buffer."""
        if rate is None or target is None:
            return
        self.device.set_rate(t, self.staging.copy(rate), shift, target)

    def _ensure_scale(self, x: PETSc.Vec) -> None:
        if self._scaled:
            return
        self._scaled = True
        if not self.any_rows or not self.local.form.has_jacobian:
            return
        local, runtime = self.local, self.local.runtime
        # The residual does not move the Jacobian: its state waits in the direction's place, which the diagonal does not read.
        runtime.copy(local.base, local.w, local.vector_bytes)
        self._set_base(x)
        self.rescale()
        runtime.copy(local.w, local.base, local.vector_bytes)
        local.base_changed()

    def _require_state(self) -> None:
        if not self.linearised:
            raise SolverError(
                "the Jacobian has no state yet; call problem.linearise(x) first, take problem.jacobian, which does it at the "
                "unknown, or solve"
            )
