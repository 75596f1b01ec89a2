"""Between T-vectors (PETSc's) and L-vectors (the kernels'), on the device: maps, halo, boundary rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu import petsc_c
from femgpu.errors import DataError
from femgpu.kernels import vector_kernels
from femgpu.krylov.vectors import C_TYPES
from femgpu.operators.arrays import scalar_type
from femgpu.runtime import Kernel, Runtime, Scalars
from femgpu.solver.conditions import Conditions, as_tuple
from femgpu.solver.halo import Halo
from femgpu.spaces import Space

# Values that differ by less, relative to the largest one, are the same.
_ROUNDING = 1e-10
# Items of a GPU that sum a vector, and of a work-group of them.
_SUMMING = 32768, 128


class BoundaryRows:
    """The prescribed dofs of a problem: where they stand in L and T, and their values.

    Args:
        space: the space.
        bcs: the conditions, or a single one; where two prescribe one dof, the later rules. None: none.
        more: positions in the space's L-vector of more dofs, prescribed at zero.
        wide: what the form's L-vectors hold, see `Form.wide`.

    Attributes:
        bcs: the conditions.
        storage: how L-vectors hold the dofs.
        local: (n,) int32 positions in the L-vector, ghosts and dofs that the section constrains included.
        owned: (m,) int32 positions in this rank's T-vector; dofs constrained by the section have none.
        values: (n,) float64 at `local`.
        owned_values: (m,) float64 at `owned`.
        num_conflicts: of the owned, those for which two conditions had different values when last evaluated.
    """

    def __init__(self, space: Space, bcs: Conditions, more: npt.NDArray[np.int32] | None = None, wide: bool = False):
        self.bcs = as_tuple(bcs)
        for bc in self.bcs:
            if bc.space.root is not space:
                raise DataError(
                    f"a boundary condition is on another space ({bc.space}) than the unknown ({space}); expected the very object: "
                    "DirichletBC(u.space, ...), or u.space.sub(name)"
                )
        self.space, self.storage, self._wide = space, space.storage(wide), wide
        marked = np.zeros(space.num_local, np.uint8)
        for rows in [bc.local_rows for bc in self.bcs] + [space.numbering.constrained] + ([] if more is None else [more]):
            marked[rows] = 1
        self.local = np.flatnonzero(self.storage.extend(marked)).astype(np.int32)
        numbering = self.storage.numbering
        numbers = numbering.global_of_local[self.local] - numbering.first
        self._is_owned = (numbering.global_of_local[self.local] >= 0) & (numbers >= 0) & (numbers < numbering.num_owned)
        self.owned = numbers[self._is_owned].astype(np.int32)
        self._places = [np.searchsorted(self.local, bc.local_rows) for bc in self.bcs]
        self.values = np.zeros(len(self.local))
        self.num_conflicts = 0

    @property
    def owned_values(self) -> npt.NDArray[np.float64]:
        """(m,) values at `owned`."""
        return self.values[self._is_owned]

    def mask(self) -> npt.NDArray[np.uint8]:
        """(num_local,) 1 at the prescribed entries of an L-vector, 0 elsewhere."""
        mask = np.zeros(self.storage.num_local, np.uint8)
        mask[self.local] = 1
        return mask

    @property
    def of_space(self) -> npt.NDArray[np.int32]:
        """(m,) int32 those of `local` that are positions in the space's own L-vector."""
        return self.local[: np.searchsorted(self.local, self.space.num_local)]

    def evaluate(self) -> None:
        """Evaluates the conditions anew; collective.

        Raises:
            DataError: when values have the wrong shape or are not finite.
        """
        found = np.zeros(len(self.of_space))
        if self.space.numbering.any_constrained:
            vector = self.space.dm.getLocalVec()
            vector.set(0)
            petsc_c.insert_boundary_values(self.space.dm, vector)
            found[:] = vector.array_r[self.of_space]
            self.space.dm.restoreLocalVec(vector)
        given, conflict = np.zeros(len(found), bool), np.zeros(len(found), bool)
        for bc, places in zip(self.bcs, self._places, strict=True):
            values = bc.values()
            size = max(np.abs(values).max(initial=0), np.abs(found[places]).max(initial=0))
            conflict[places] |= given[places] & (np.abs(found[places] - values) > _ROUNDING * size)
            given[places], found[places] = True, values
        self.num_conflicts = int(conflict[self._is_owned[: len(found)]].sum())
        if self._wide:
            dense = np.zeros(self.space.num_local)
            dense[self.of_space] = found
            found = self.storage.extend(dense)[self.local]
        self.values = found


class Transfer:
    """T -> L and back for one space, on the device.

    Args:
        space: the space.
        rows: the boundary rows.
        precision: of the kernels; L-vectors are stored in it.
        runtime: the device.
        single: whether T-vectors are floats; else they are doubles.

    Attributes:
        num_bytes: of a T-vector.
        same: whether a T-vector has the entries of an L-vector, in its order and precision.
        halo: the exchange with other ranks; None on one rank.
    """

    def __init__(self, space: Space, rows: BoundaryRows, precision: str, runtime: Runtime, single: bool = False):
        numbering = rows.storage.numbering
        self.rows = rows
        self.runtime = runtime
        self.num_owned = numbering.num_owned
        parallel = bool(space.mesh.mpi.size > 1)
        self.halo = Halo(numbering, space.mesh.mpi, precision, runtime) if parallel else None
        dtype = np.dtype(np.float32 if single else np.float64)
        self.num_bytes = dtype.itemsize * numbering.num_owned
        self.same = numbering.is_identity and scalar_type(precision) == dtype
        source = self._source = vector_kernels(precision, C_TYPES[dtype.name])
        vector = runtime.empty(8)  # a placeholder until the first call

        def kernel(name: str, count: int, *arguments: Any) -> Kernel:
            return Kernel(runtime, source, name, [np.int32(count), *arguments], count, 64)

        if not self.same:
            owned_map = runtime.upload(numbering.local_of_owned)
            self._unpack = kernel("unpack", self.num_owned, owned_map, vector, vector)
            self._pack = kernel("pack", self.num_owned, owned_map, vector, vector)
        local, owned = runtime.upload(rows.local), runtime.upload(rows.owned)
        self._local_values, self._owned_values = runtime.empty(8 * len(rows.local)), runtime.empty(8 * len(rows.owned))
        self._scalars = Scalars(runtime, 1)
        self.scale = 1.0
        given, zero = (owned, self._owned_values), np.float64(0)
        self._set_rows = kernel("set_rows", len(rows.local), local, self._local_values, vector)
        self._state_rows, self._direction_rows = (
            kernel("boundary_rows", len(rows.owned), *given, np.float64(shift), self._scalars.buffer, vector, vector)
            for shift in (1, 0)
        )
        self._fill_rows = kernel("fill_rows", len(rows.owned), owned, self._scalars.buffer, vector)
        self._clear_beside = kernel("clear_beside", len(rows.owned), owned, np.int32(self.block_size), np.int32(0), vector)
        self._insert_rows = kernel("insert_rows", len(rows.owned), *given, zero, vector)
        self._rate_rows = kernel("rate_rows", len(rows.owned), *given, zero, vector, vector)
        self._totals: tuple[Kernel, Any, npt.NDArray[np.float64]] | None = None

    @property
    def block_size(self) -> int:
        """Rows of the blocks that the components of a node make of both vectors; 1 where these are not made of such alone."""
        space = self.rows.space
        return space.num_comp if len(space.fields) == 1 and not space.numbering.any_constrained else 1

    @property
    def scale(self) -> float:
        """Factor s of the boundary rows `s (u - value)`."""
        return self._scale

    @scale.setter
    def scale(self, value: float) -> None:
        # It changes seldom and is read by kernels from memory: setting an argument costs more than a launch.
        self._scale = value
        self._scalars.set(value)

    @property
    def scale_buffer(self) -> Any:
        """Device buffer of `scale`."""
        return self._scalars.buffer

    def prepare_action(self, mask: Any, first: int) -> Kernel:
        """The kernel y = s x on prescribed entries, zero elsewhere, whose arguments 4 and 5 are x and y.

        Args:
            mask: device buffer (num_owned,) uint8 of the prescribed entries; None: none is.
            first: the first entry that is written.
        """
        vector = self._scalars.buffer  # a placeholder until it is bound
        given = [np.int32(first), np.int32(self.num_owned), mask, self._scalars.buffer, vector, vector]
        return Kernel(self.runtime, self._source, "prepare_action", given, self.num_owned - first, 256)

    def update_values(self) -> None:
        """Brings the boundary values to the device."""
        self.runtime.write(self._local_values, self.rows.values)
        self.runtime.write(self._owned_values, self.rows.owned_values)

    def to_local(self, t: Any, local: Any) -> None:
        """Fills an L-vector from a T-vector, ghosts included; both are device buffers."""
        if self.same:
            self.runtime.copy(t, local, self.num_bytes)
        else:
            self._unpack.set(2, t)
            self._unpack.set(3, local)
            self._unpack()
        if self.halo is not None:
            self.halo.forward(local)

    def to_global(self, local: Any, t: Any) -> None:
        """Fills a T-vector from the ranks' shares in an L-vector; ghosts of `local` are used up."""
        if self.halo is not None:
            self.halo.backward(local)
        if self.same:
            self.runtime.copy(local, t, self.num_bytes)
        else:
            self._pack.set(2, local)
            self._pack.set(3, t)
            self._pack()

    def set_values(self, local: Any) -> None:
        """Writes the boundary values into an L-vector, ghosts included."""
        self._set_rows.set(3, local)
        self._set_rows()

    def boundary_residual(self, state: Any, out: Any) -> None:
        """Boundary rows of a residual: out = s (state - value), T-vectors."""
        self._boundary(self._state_rows, state, out)

    def boundary_action(self, direction: Any, out: Any) -> None:
        """Boundary rows of an action: out = s direction, T-vectors."""
        self._boundary(self._direction_rows, direction, out)

    def _boundary(self, kernel: Kernel, given: Any, out: Any) -> None:
        kernel.set(5, given)
        kernel.set(6, out)
        kernel()

    def boundary_diagonal(self, out: Any) -> None:
        """Boundary rows of a diagonal: out = s."""
        self._fill_rows.set(3, out)
        self._fill_rows()

    def clear_beside(self, out: Any, shift: int) -> None:
        """Boundary rows and columns of what stands `shift` columns further than the diagonal, in turns, in its blocks: zero."""
        self._clear_beside.set(3, np.int32(shift))
        self._clear_beside.set(4, out)
        self._clear_beside()

    def totals(self, t: Any) -> npt.NDArray[np.float64]:
        """(2,) sums of the entries of a T-vector, and of their absolute values, on this rank."""
        if self._totals is None:
            items, group = _SUMMING if self.runtime.device.is_gpu else (self.runtime.device.units, 1)
            parts = np.zeros((2, items))
            buffer = self.runtime.upload(parts)
            given = [np.int32(self.num_owned), None, buffer]
            self._totals = Kernel(self.runtime, self._source, "totals", given, items, group), buffer, parts
        kernel, buffer, parts = self._totals
        kernel.set(1, t)
        kernel()
        kernel.set(1, None)
        return np.asarray(self.runtime.read(buffer, parts).sum(1))

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
