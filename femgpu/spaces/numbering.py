"""How a rank's T-vector (owned dofs) stands in its L-vector (with ghosts and constrained dofs)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import meet


@dataclass(frozen=True)
class Numbering:
    """The T-L map of one section on one rank.

    Attributes:
        num_owned: length of the T-vector on this rank.
        num_local: length of the L-vector.
        first: global number of the first owned dof.
        ranges: (num_ranks + 1,) first global numbers of all ranks.
        local_of_owned: (num_owned,) int32 positions of the owned dofs in the L-vector.
        global_of_local: (num_local,) int64 global numbers; -1 where the section constrains the dof.
        any_constrained: whether the section constrains dofs on any rank.
    """

    num_owned: int
    num_local: int
    first: int
    ranges: npt.NDArray[np.int64]
    local_of_owned: npt.NDArray[np.int32]
    global_of_local: npt.NDArray[np.int64]
    any_constrained: bool

    @cached_property
    def is_identity(self) -> bool:
        """Whether T and L are the same vector."""
        return self.num_owned == self.num_local and bool((np.diff(self.local_of_owned) == 1).all())

    @property
    def constrained(self) -> npt.NDArray[np.int32]:
        """Positions in the L-vector of the dofs that the section constrains."""
        if not self.any_constrained:
            return np.empty(0, np.int32)
        return np.flatnonzero(self.global_of_local < 0).astype(np.int32)

    @property
    def ghosts(self) -> npt.NDArray[np.int32]:
        """Positions in the L-vector of the dofs that other ranks own."""
        numbers = self.global_of_local
        away = (numbers >= 0) & ((numbers < self.first) | (numbers >= self.first + self.num_owned))
        return np.flatnonzero(away).astype(np.int32)

    @classmethod
    def alone(cls, count: int) -> Numbering:
        """The map of a section of so many dofs on the only rank, which constrains none."""
        numbers = np.arange(count, dtype=np.int64)
        return cls(count, count, 0, np.array([0, count], np.int64), numbers.astype(np.int32), numbers, False)

    @classmethod
    def of(cls, dm: PETSc.DM) -> Numbering:
        """Reads the map of a DM's section by sending the global numbers through DMGlobalToLocal; collective."""
        mpi = dm.comm.tompi4py()
        meet(mpi)
        numbers, local = dm.createGlobalVec(), dm.createLocalVec()
        first, last = numbers.getOwnershipRange()
        ranges = np.array(numbers.getOwnershipRanges(), np.int64)
        numbers.setArray(np.arange(first, last, dtype=PETSc.ScalarType))
        local.set(-1)
        dm.globalToLocal(numbers, local)
        global_of_local = local.array_r.astype(np.int64)
        numbers.destroy()
        local.destroy()
        owned = np.flatnonzero((global_of_local >= first) & (global_of_local < last))
        local_of_owned = np.empty(last - first, np.int32)
        local_of_owned[global_of_local[owned] - first] = owned
        any_constrained = mpi.allreduce(bool((global_of_local < 0).any()))
        return cls(last - first, len(global_of_local), first, ranges, local_of_owned, global_of_local, any_constrained)
