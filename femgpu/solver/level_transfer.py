"""Transfers between two levels of multigrid, and what is prescribed on the coarser one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.krylov.vectors import C_TYPES
from femgpu.multigrid import Calls
from femgpu.operators import Interpolation, Nesting
from femgpu.operators.interpolation import ABSENT
from femgpu.solver.transfer import BoundaryRows, Transfer
from femgpu.spaces import Space


def prescribed(space: Space, nesting: Nesting, mask: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The coarse dofs whose functions do not vanish on what is prescribed on the finer level; collective.

    Args:
        space: the coarse one.
        nesting: of its functions in the finer space.
        mask: what is prescribed there, over an L-vector that begins with the space's own entries.

    Returns:
        Their positions in the L-vector, the same on all ranks.
    """
    marks = nesting.reached(mask)
    if space.mesh.mpi.size == 1:
        return np.flatnonzero(marks).astype(np.int32)
    dm = space.dm
    local, owned = dm.createLocalVec(), dm.createGlobalVec()
    local.setArray(marks)
    dm.localToGlobal(local, owned, addv=True)
    dm.globalToLocal(owned, local)
    found = np.flatnonzero(local.array_r).astype(np.int32)
    local.destroy()
    owned.destroy()
    return found


class LevelTransfer:
    """Prolongation from a coarse level to the next finer one, and its transpose, between T-vectors.

    Args:
        nesting: of the coarse functions in the finer space.
        finer: what is prescribed there; prolonged functions are zero at it.
        coarser: what is prescribed on the coarse level, whose dofs count as zero.
        transfer: between T- and L-vectors of the coarse level.
        owned: type of the T-vectors of both levels.
        local: type of the coarse L-vectors.
        atomic: as of `Interpolation`.
    """

    def __init__(
        self,
        nesting: Nesting,
        finer: BoundaryRows,
        coarser: BoundaryRows,
        transfer: Transfer,
        owned: np.dtype[Any],
        local: np.dtype[Any],
        atomic: bool,
    ):
        numbering = finer.space.numbering
        rows = np.full(numbering.num_local, ABSENT)
        rows[numbering.local_of_owned] = np.arange(numbering.num_owned, dtype=np.int32)
        mine = finer.of_space[rows[finer.of_space] != ABSENT]
        rows[mine] = ~rows[mine]
        # An L-vector is passed over where it has the entries of a T-vector, though in another precision.
        self._direct = coarser.space.numbering.is_identity and transfer.halo is None
        values = C_TYPES[owned.name]
        types = values, values if self._direct else C_TYPES[local.name]
        self._between = Interpolation(nesting, rows, coarser.mask(), types, atomic)
        self._transfer = transfer
        # What it holds behind the space's own entries counts for nothing on the way up and is zero on the way down.
        self._local = None if self._direct else transfer.runtime.empty(local.itemsize * coarser.storage.num_local)

    def restrict(self, fine: Any, coarse: Any) -> None:
        """Coarse = transposed prolongation of fine; zero on prescribed dofs."""
        for call in self.bind_restrict(fine, coarse):
            call()

    def prolong(self, coarse: Any, fine: Any) -> None:
        """Fine = the coarse function."""
        for call in self.bind_prolong(coarse, fine):
            call()

    def bind_restrict(self, fine: Any, coarse: Any) -> Calls:
        """What `restrict` calls for two buffers."""
        if self._direct:
            return self._between.bind_restrict(fine, coarse)
        return [*self._between.bind_restrict(fine, self._local), partial(self._transfer.to_global, self._local, coarse)]

    def bind_prolong(self, coarse: Any, fine: Any) -> Calls:
        """What `prolong` calls for two buffers."""
        if self._direct:
            return self._between.bind_prolong(coarse, fine)
        return [partial(self._transfer.to_local, coarse, self._local), *self._between.bind_prolong(self._local, fine)]
