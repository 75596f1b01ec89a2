"""The operators of a problem between PETSc's T-vectors, boundary rows included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from petsc4py import PETSc

from femgpu.forms import Form
from femgpu.operators import FormOperator
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.solver.device_vec import Staging
from femgpu.solver.transfer import BoundaryRows, Transfer
from femgpu.spaces import DirichletBC


class GlobalOperator:
    """Residual, Jacobian action and diagonal from T-vectors to T-vectors; every call is collective.

    Rows of prescribed dofs are `s (u - value)`, their columns are dropped from the action. s is the mean of the diagonal's
    other rows, taken at the first state after `reset` and kept, so that the action is the exact derivative of the residual.

    Args:
        form: the lowered form.
        bcs: Dirichlet conditions.
        settings: the options.
        runtime: the device.
        scale: s where the caller rules it.
    """

    def __init__(
        self,
        form: Form,
        bcs: Sequence[DirichletBC],
        settings: Settings,
        runtime: Runtime,
        scale: float | None = None,
    ):
        self.local = FormOperator(form, settings, runtime)
        self.rows = BoundaryRows(form.space, bcs)
        self.transfer = Transfer(form.space, self.rows, settings.precision, runtime)
        self.staging = Staging(runtime, form.space.layout.num_owned)
        self._mpi = form.space.mesh.mpi
        self._interior = np.ones(form.space.layout.num_owned, bool)
        self._interior[self.rows.owned] = False
        self._any_rows = self._mpi.allreduce(len(self.rows.owned)) > 0
        self._given_scale = scale
        self.refresh()

    def refresh(self) -> None:
        """Evaluates the boundary conditions anew and forgets the scale of their rows."""
        self.rows.evaluate()
        self.transfer.update_values()
        self._scaled = self._given_scale is not None
        if self._given_scale is not None:
            self.transfer.scale = self._given_scale

    def residual(self, x: PETSc.Vec, f: PETSc.Vec) -> None:
        """F = residual at x."""
        self._ensure_scale(x)
        self.local.update()
        with self.staging.reading(x) as t, self.staging.writing(f) as out:
            if self.transfer.direct:
                self.local.residual(t, out)
                return
            self.transfer.to_local(t, self.local.u, 1.0)
            self.local.residual()
            self.transfer.to_global(self.local.out, out)
            self.transfer.boundary(t, out, 1.0)

    def linearise(self, x: PETSc.Vec) -> None:
        """Makes x the state of action, diagonal and matrices."""
        self._ensure_scale(x)
        self._set_base(x)

    def action(self, w: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = Jacobian times w."""
        with self.staging.reading(w) as t, self.staging.writing(y) as out:
            if self.transfer.direct:
                self.local.action(t, out)
                return
            self.transfer.to_local(t, self.local.w, 0.0)
            self.local.action()
            self.transfer.to_global(self.local.out, out)
            self.transfer.boundary(t, out, 0.0)

    def diagonal(self, d: PETSc.Vec) -> None:
        """D = diagonal of the Jacobian."""
        with self.staging.writing(d) as out:
            self.local.diagonal()
            self.transfer.to_global(self.local.out, out)
            self.transfer.boundary_diagonal(out)

    def insert_values(self, x: PETSc.Vec) -> None:
        """Sets the boundary rows of x to their values."""
        array = x.array_r.copy()
        array[self.rows.owned] = self.rows.owned_values
        x.setArray(array)

    def _set_base(self, x: PETSc.Vec) -> None:
        self.local.update()
        with self.staging.reading(x) as t:
            self.transfer.to_local(t, self.local.base, 1.0)
        self.local.base_changed()

    def _ensure_scale(self, x: PETSc.Vec) -> None:
        if self._scaled:
            return
        self._scaled = True
        if not self._any_rows or not self.local.form.has_jacobian:
            return
        self._set_base(x)
        diagonal = x.duplicate()
        self.diagonal(diagonal)
        values = diagonal.array_r[self._interior]
        diagonal.destroy()
        total, count = self._mpi.allreduce(np.array([values.sum(), len(values)]))
        mean = total / max(count, 1)
        # An operator without a usable diagonal at this state (p-Laplace at zero, say) gets plain identity rows.
        self.transfer.scale = float(mean) if np.isfinite(mean) and mean > 0 else 1.0
