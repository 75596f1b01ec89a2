"""Between T-vectors (PETSc's) and L-vectors (the kernels'), on the device: maps, halo, boundary rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu import petsc_c
from femgpu.errors import DataError
from femgpu.kernels import vector_kernels
from femgpu.runtime import Kernel, Runtime
from femgpu.solver.halo import Halo
from femgpu.spaces import DirichletBC, Space


class BoundaryRows:
    """The prescribed dofs of a problem: where they stand in L and T, and their values.

    Args:
        space: the space.
        bcs: the conditions; where two prescribe one dof, the later rules.

    Attributes:
        local: (n,) int32 positions in the L-vector, ghosts and dofs that the section constrains included.
        owned: (m,) int32 positions in this rank's T-vector; dofs constrained by the section have none.
        values: (n,) float64 at `local`.
        owned_values: (m,) float64 at `owned`.
    """

    def __init__(self, space: Space, bcs: Sequence[DirichletBC]):
        for bc in bcs:
            if bc.space.root is not space:
                raise DataError(
                    f"a boundary condition is on another space ({bc.space}) than the unknown ({space}); expected the very object: "
                    "DirichletBC(u.space, ...), or u.space.sub(name)"
                )
        self.space = space
        self.bcs = tuple(bcs)
        numbering = space.numbering
        rows = [bc.local_rows for bc in self.bcs] + [numbering.constrained]
        self.local = np.unique(np.concatenate(rows)).astype(np.int32)
        numbers = numbering.global_of_local[self.local] - numbering.first
        self._is_owned = (numbering.global_of_local[self.local] >= 0) & (numbers >= 0) & (numbers < numbering.num_owned)
        self.owned = numbers[self._is_owned].astype(np.int32)
        self.values = np.zeros(len(self.local))

    @property
    def owned_values(self) -> npt.NDArray[np.float64]:
        """(m,) values at `owned`."""
        return self.values[self._is_owned]

    def evaluate(self) -> None:
        """Evaluates the conditions anew; collective.

        Raises:
            DataError: when values have the wrong shape or are not finite.
        """
        dense = np.zeros(self.space.num_local)
        if self.space.numbering.any_constrained:
            vector = self.space.dm.getLocalVec()
            vector.set(0)
            petsc_c.insert_boundary_values(self.space.dm, vector)
            dense[:] = vector.array_r
            self.space.dm.restoreLocalVec(vector)
        for bc in self.bcs:
            dense[bc.local_rows] = bc.values()
        self.values = dense[self.local]


class Transfer:
    """T -> L and back for one space, on the device.

    Args:
        space: the space.
        rows: the boundary rows.
        precision: of the kernels; L-vectors are stored in it, T-vectors are double.
        runtime: the device.

    Attributes:
        scale: factor s of the boundary rows `s (u - value)`.
        direct: whether a T-vector is an L-vector as it stands: one rank, no prescribed dofs, no conversion.
    """

    def __init__(self, space: Space, rows: BoundaryRows, precision: str, runtime: Runtime):
        numbering = space.numbering
        self.rows = rows
        self.runtime = runtime
        self.scale = 1.0
        self.num_owned = numbering.num_owned
        parallel = bool(space.mesh.mpi.size > 1)
        self.halo = Halo(numbering, space.mesh.halo_comm, precision, runtime) if parallel else None
        # Without a map, and in double precision, a copy of the buffer does what the kernel would.
        self._same = numbering.is_identity and precision != "single"
        self.direct = self._same and not parallel and not len(rows.local)
        source = vector_kernels(precision)
        vector = runtime.empty(8)  # a placeholder until the first call

        def kernel(name: str, count: int, *arguments: Any) -> Kernel:
            return Kernel(runtime, source, name, [np.int32(count), *arguments], count, 64)

        if not self._same:
            owned_map = runtime.upload(numbering.local_of_owned)
            self._t_to_l = kernel("t_to_l", self.num_owned, owned_map, vector, vector)
            self._l_to_t = kernel("l_to_t", self.num_owned, owned_map, vector, vector)
        local, owned = runtime.upload(rows.local), runtime.upload(rows.owned)
        self._local_values, self._owned_values = runtime.empty(8 * len(rows.local)), runtime.empty(8 * len(rows.owned))
        zero = np.float64(0)
        self._set_rows = kernel("set_rows", len(rows.local), local, self._local_values, zero, vector)
        self._boundary_rows = kernel("boundary_rows", len(rows.owned), owned, self._owned_values, zero, zero, vector, vector)
        self._fill_rows = kernel("fill_rows", len(rows.owned), owned, zero, vector)
        self._insert_rows = kernel("insert_rows", len(rows.owned), owned, self._owned_values, zero, vector)
        self._rate_rows = kernel("rate_rows", len(rows.owned), owned, self._owned_values, zero, vector, vector)

    def update_values(self) -> None:
        """Brings the boundary values to the device."""
        self.runtime.write(self._local_values, self.rows.values)
        self.runtime.write(self._owned_values, self.rows.owned_values)

    def to_local(self, t: Any, local: Any, boundary: float | None) -> None:
        """Fills an L-vector from a T-vector, ghosts included.

        Args:
            t: device buffer of the T-vector.
            local: device buffer of the L-vector.
            boundary: the boundary values are written times this: 1 in a state, 0 in a direction; None leaves the T-vector's.
        """
        if self._same:
            self.runtime.copy(t, local, 8 * self.num_owned)
        else:
            self._t_to_l.set(2, t)
            self._t_to_l.set(3, local)
            self._t_to_l()
        if self.halo is not None:
            self.halo.forward(local)
        if boundary is None:
            return
        self._set_rows.set(3, np.float64(boundary))
        self._set_rows.set(4, local)
        self._set_rows()

    def to_global(self, local: Any, t: Any) -> None:
        """Fills a T-vector from the ranks' shares in an L-vector; ghosts of `local` are used up."""
        if self.halo is not None:
            self.halo.backward(local)
        if self._same:
            self.runtime.copy(local, t, 8 * self.num_owned)
        else:
            self._l_to_t.set(2, local)
            self._l_to_t.set(3, t)
            self._l_to_t()

    def boundary(self, given: Any, out: Any, shift: float) -> None:
        """Boundary rows of a residual (shift 1) or an action (shift 0): out = s (given - shift value)."""
        self._boundary_rows.set(3, np.float64(shift))
        self._boundary_rows.set(4, np.float64(self.scale))
        self._boundary_rows.set(5, given)
        self._boundary_rows.set(6, out)
        self._boundary_rows()

    def insert(self, t: Any, fraction: float) -> None:
        """Boundary rows of a T-vector move to their values, or so far that a fraction of the way leads there."""
        self._insert_rows.set(3, np.float64(fraction))
        self._insert_rows.set(4, t)
        self._insert_rows()

    def boundary_rate(self, state: Any, rate: Any, shift: float) -> None:
        """Boundary rows of the rate of a state become those of the boundary values: rate += shift (value - state).

        Args:
            state: device buffer of the T-vector.
            rate: device buffer of the T-vector, changed in place.
            shift: derivative of the rate with respect to the state.
        """
        self._rate_rows.set(3, np.float64(shift))
        self._rate_rows.set(4, state)
        self._rate_rows.set(5, rate)
        self._rate_rows()

    def boundary_diagonal(self, out: Any) -> None:
        """Boundary rows of a diagonal: out = s."""
        self._fill_rows.set(2, np.float64(self.scale))
        self._fill_rows.set(3, out)
        self._fill_rows()
