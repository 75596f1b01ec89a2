"""The operators of a problem from T-buffer to T-buffer, boundary rows and other ranks' shares included; no PETSc objects."""

from __future__ import annotations

from typing import Any

from femgpu import log
from femgpu.errors import DataError, collective
from femgpu.forms import Form
from femgpu.operators import FormOperator
from femgpu.operators.planner import EVENTS
from femgpu.options import Settings
from femgpu.runtime import Kernel, Launch, Runtime
from femgpu.solver.transfer import BoundaryRows, Transfer

# Pairs of buffers whose launches are remembered: more than a Krylov method goes through between restarts.
_PAIRS = 128


class DeviceOperator:
    """Residual, Jacobian action, its transpose and diagonal between device buffers of T-vectors; every call is collective.

    Rows of prescribed dofs are `s (u - value)`, their columns are dropped from the action: kernels skip prescribed rows and read
    a direction as zero there. Where a T-vector is an L-vector (one rank, nothing that the section constrains, the same
    precision) the kernels read and write T-vectors as they stand: an action is the launch that prepares its result and the
    kernel, which may do that itself (`Application.zeroes`), and one launch more where E-vectors are summed. These sums need no
    preparation where no dofs are prescribed.

    What changes between evaluations is the caller's to bring here: boundary values (`rows.evaluate`, `transfer.update_values`), the
    factor s (`transfer.scale`), coefficients, constants and coordinates (`local.update`), the state (`set_base`).

    Args:
        form: the lowered form.
        rows: the prescribed dofs.
        settings: the options.
        runtime: the device.
        single: whether T-vectors are floats, as those of a level of multigrid may be; else they are doubles.

    Attributes:
        local: the operators between L-vectors.
        transfer: between T- and L-vectors.
        single: whether T-vectors are floats.
        direct: whether T-vectors are read and written as they stand.
    """

    def __init__(self, form: Form, rows: BoundaryRows, settings: Settings, runtime: Runtime, single: bool = False):
        space = form.space
        mask = rows.mask() if space.mesh.mpi.allreduce(len(rows.local)) else None
        self.local = FormOperator(form, settings, runtime, mask)
        self._any_rows = mask is not None
        self.runtime, self.single = runtime, single
        with collective(space.mesh.mpi):
            self.transfer = Transfer(space, rows, settings.precision, runtime, single)
            self.direct = self.transfer.same and self.transfer.halo is None
        self._prepare: dict[int, Kernel] = {}
        self._bound, self._bends = runtime.bindings(_PAIRS), self.local.bends

    def residual(self, t: Any, out: Any) -> None:
        """`out` = residual at the state t."""
        transfer, local = self.transfer, self.local
        if self.direct and not self._any_rows:
            local.residual(t, out)
            return
        transfer.to_local(t, local.u)
        transfer.set_values(local.u)
        if self.direct:
            local.residual(None, out)
        else:
            local.residual()
            transfer.to_global(local.out, out)
        transfer.boundary_residual(t, out)

    def set_base(self, t: Any) -> None:
        """Makes t the state of action, diagonal and matrices."""
        self.transfer.to_local(t, self.local.base)
        self.transfer.set_values(self.local.base)
        self.local.base_changed()

    def set_rate(self, t: Any, rate: Any, shift: float, target: Any) -> None:
        """Fills the L-vector of the time derivative of a state.

        Args:
            t: the state.
            rate: its time derivative, whose boundary rows are changed in place.
            shift: derivative of the rate with respect to the state.
            target: device buffer of the L-vector, `local.inputs.rate` or `base_rate`.
        """
        self.transfer.boundary_rate(t, rate, shift)
        self.transfer.to_local(rate, target)

    def action(self, t: Any, out: Any, target: str = "action") -> None:
        """`out` = Jacobian, or for the target "transposed" its transpose, times the direction t.

        Boundary rows are s times the direction in both: the Jacobian has nothing else in them, nor in their columns.
        """
        transfer, local = self.transfer, self.local
        if self.direct:
            with log.event(EVENTS[target], local.flops(target), self.runtime.finish):
                local.store(target)
                for launch in self._launches(t, out, target):
                    launch()
        else:
            transfer.to_local(t, local.w)
            local.action(target=target)
            transfer.to_global(local.out, out)
            transfer.boundary_action(t, out)

    @property
    def adds(self) -> bool:
        """Whether `add` serves."""
        return self.direct and self.local.sums_dots

    def add(self, t: Any, out: Any, dots: Any) -> None:
        """`out` += a factor times the Jacobian times the direction t; boundary rows are the caller's.

        Args:
            t: the direction.
            out: s t would stand in boundary rows (`local.mask`, `transfer.scale_buffer`).
            dots: buffer of `DOT_WORDS` doubles; the products of direction and Jacobian times direction are added to the first
                `DOT_SLOTS`, and the quotient of the two behind them is the factor.
        """
        with log.event(EVENTS["action"], self.local.flops("action"), self.runtime.finish):
            self.local.store()
            for launch in self._launches(t, out, "action", dots):
                launch()

    def bind(self, t: Any, out: Any) -> list[Launch]:
        """What `add` launches between two buffers that are read and written as they stand, without dots.

        What they read at the points is brought there by `local.store`.
        """
        return self._launches(t, out, "action", prepared=True)

    def _launches(self, t: Any, out: Any, target: str, dots: Any = None, prepared: bool = False) -> list[Launch]:
        """Everything that an action between two buffers launches, bound once; with `dots` the result is prepared, too."""
        if self._bends != self.local.bends:
            self._bound, self._bends = self.runtime.bindings(_PAIRS), self.local.bends
        prepared = prepared or dots is not None
        key = (target, t.int_ptr, out.int_ptr, prepared, None if dots is None else dots.int_ptr)
        found = self._bound.get(key)
        if found is None:
            if t.int_ptr == out.int_ptr:
                raise DataError("an action reads its direction while it writes its result; expected two buffers, got one")
            # Never next to prescribed entries, which the launch that prepares the result writes.
            zeroes = not prepared and self.local.prepare(target)[0].zeroes
            ready = prepared or zeroes or self.local.num_stored(target) == self.local.num_local
            found = [] if ready else [self._preparing(target).bound({4: t, 5: out})]
            found += self.local.bind(target, t, out, dots, fresh=not prepared, zeroes=zeroes)
            buffers = (t, out) if dots is None else (t, out, dots)
            self._bound.put(key, found, tuple(map(self.runtime.holds, buffers)))
        return found

    def _preparing(self, target: str) -> Kernel:
        """What makes a result ready for the launches of a target."""
        first = self.local.num_stored(target)
        if first not in self._prepare:
            self._prepare[first] = self.transfer.prepare_action(self.local.mask, first)
        return self._prepare[first]

    def diagonal(self, out: Any, shift: int = 0) -> None:
        """`out` = diagonal of the Jacobian.

        Args:
            out: the result.
            shift: how many columns further, in turns, the entries stand in their blocks of `transfer.block_size` rows.
        """
        if self.direct:
            self.local.diagonal(out, shift)
        else:
            self.local.diagonal(shift=shift)
            self.transfer.to_global(self.local.out, out)
        if shift:
            self.transfer.clear_beside(out, shift)
        else:
            self.transfer.boundary_diagonal(out)
