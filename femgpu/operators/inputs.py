"""What a form reads besides its unknown: coefficients, constants and rates on the device, brought there when they changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu import log
from femgpu.errors import DataError, collective
from femgpu.forms import Form
from femgpu.mesh import Mesh
from femgpu.operators.arrays import real_type, scalar_type
from femgpu.runtime import Runtime
from femgpu.spaces import Function, Storage, rate_of, vector_state


class Inputs:
    """Coefficients and constants of a form on the device.

    The time derivative of the unknown is a coefficient that, like the state, has a buffer for the residual and one for the
    Jacobian.

    Args:
        form: the lowered form.
        precision: of the kernels.
        runtime: the device.
        mesh: the mesh, which is brought up to date with its coordinates first.

    Attributes:
        buffers: by role: ("constants",), ("vector", "a0"), ...
        rate: time derivative of the state of the residual, an L-vector; None where the form has none.
        base_rate: that of the state of the Jacobian.
        filled: whether the buffers hold anything.
    """

    def __init__(self, form: Form, precision: str, runtime: Runtime, mesh: Mesh):
        self.form = form
        self.runtime = runtime
        self.mesh = mesh
        self.mpi = mesh.mpi
        self._real, self._scalar = np.dtype(real_type(precision)), np.dtype(scalar_type(precision))
        self._constants = np.full(max(form.constant_offsets[-1], 1), np.nan)
        self.buffers: dict[tuple, Any] = {("constants",): runtime.empty(self._constants.size * self._real.itemsize)}
        for i, function in enumerate(form.coefficients):
            self.buffers["vector", f"a{i}"] = runtime.empty(self._storage(function).num_local * self._scalar.itemsize)
        rate = None if form.unknown is None else rate_of(form.unknown)
        self._rate_name = f"a{form.coefficients.index(rate)}" if rate in form.coefficients else ""
        self.rate = self.buffers.get(("vector", self._rate_name))
        self._rate_bytes = 0 if rate is None or self.rate is None else self._storage(rate).num_local * self._scalar.itemsize
        self.base_rate = None if self.rate is None else runtime.empty(self._rate_bytes)
        self.filled = False
        self.forget()

    def forget(self) -> None:
        """Takes everything for changed at the next `update`."""
        self._constants[:] = np.nan
        self._states: list[tuple[int, int] | None] = [None] * len(self.form.coefficients)

    def at_base(self) -> dict[tuple, Any]:
        """The buffers as the Jacobian reads them."""
        return self.buffers | ({("vector", self._rate_name): self.base_rate} if self._rate_name else {})

    def update(self) -> bool:
        """Brings changed coefficients and constants to the device; collective.

        Returns:
            Whether any had changed.

        Raises:
            DataError: when a coefficient holds numbers that are not finite.
            MeshError: when the mesh has moved so far that cells are inverted.
        """
        self.filled = True
        self.mesh.update()  # sizes of cells are coefficients
        constants = self.form.constant_values()
        fresh = not np.array_equal(constants, self._constants[: len(constants)])
        if fresh:
            self._constants[: len(constants)] = constants
            self.runtime.write(self.buffers["constants",], self._constants.astype(self._real))
        states = [vector_state(function) for function in self.form.coefficients]
        changed = np.array([state != old for state, old in zip(states, self._states, strict=True)], bool)
        if self.mpi.size > 1 and len(changed):
            # A vector that was written on one rank only must be exchanged by all.
            self.mpi.Allreduce(MPI.IN_PLACE, changed, MPI.LOR)
        for i in map(int, np.flatnonzero(changed)):
            self._update_coefficient(i)
            self._states[i] = states[i]
        return fresh or bool(changed.any())

    def _storage(self, function: Function) -> Storage:
        """How the buffer of a coefficient holds its dofs."""
        return function.space.storage(self.form.wide)  # type: ignore[no-any-return]

    def _update_coefficient(self, i: int) -> None:
        """Brings coefficient i to the device; collective."""
        function = self.form.coefficients[i]
        with log.event("FGTransfer"):
            local = function.local_array()
            with collective(self.mpi):
                check_finite(local, f"coefficient {function.name}")
            wide = self._storage(function).extend(local)
            self.runtime.write(self.buffers["vector", f"a{i}"], wide.astype(self._scalar))
            if f"a{i}" == self._rate_name:
                self.runtime.copy(self.rate, self.base_rate, self._rate_bytes)


def check_finite(values: npt.NDArray[np.float64], what: str) -> None:
    """Refuses NaN and infinity.

    Raises:
        DataError: naming how many entries of what are not finite.
    """
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if bad.any():
        raise DataError(
            f"{what} has {int(bad.sum())} entries of {len(values)} that are not finite, first entry {int(np.argmax(bad))}; "
            "expected finite numbers"
        )
