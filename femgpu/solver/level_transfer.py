"""Transfers between two levels of multigrid, and what is prescribed on the coarser one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from femgpu.krylov.vectors import C_TYPES
from femgpu.multigrid import Calls, SparseMatrix
from femgpu.solver.transfer import BoundaryRows, Transfer
from femgpu.spaces import Space


def prescribed(space: Space, between: csr_array, mask: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The coarse dofs whose functions do not vanish on what is prescribed on the finer level; collective.

    Args:
        space: the coarse one.
        between: (fine.num_local, space.num_local) coarse functions in the finer space.
        mask: what is prescribed there, over an L-vector that begins with those entries.

    Returns:
        Their positions in the L-vector, the same on all ranks.
    """
    marks = np.zeros(between.shape[1])
    marks[between[np.flatnonzero(mask[: between.shape[0]])].indices] = 1
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
        between: (fine num_local, coarse num_local), coarse functions in the finer space, by positions in the spaces' own L-vectors.
        finer: what is prescribed there; prolonged functions are zero at it.
        coarser: what is prescribed on the coarse level, whose dofs count as zero.
        transfer: between T- and L-vectors of the coarse level.
        owned: type of the T-vectors of both levels.
        local: type of the coarse L-vectors.
    """

    def __init__(
        self,
        between: csr_array,
        finer: BoundaryRows,
        coarser: BoundaryRows,
        transfer: Transfer,
        owned: np.dtype[Any],
        local: np.dtype[Any],
    ):
        runtime, numbering = transfer.runtime, finer.space.numbering
        # In place, as products with diagonal matrices take ten times as long.
        up = between.copy() if numbering.is_identity else between[numbering.local_of_owned]
        prescribed_rows = np.repeat(finer.mask()[numbering.local_of_owned] != 0, np.diff(up.indptr))
        up.data[prescribed_rows | (coarser.mask() != 0)[up.indices]] = 0
        up.eliminate_zeros()
        # What L-vectors hold behind those entries counts for nothing on the way up and is zero on the way down.
        count = coarser.storage.num_local
        up.resize(up.shape[0], count)
        # An L-vector is passed over where it has the entries of a T-vector, though in another precision.
        self._direct = coarser.space.numbering.is_identity and transfer.halo is None
        values = C_TYPES[owned.name]
        coarse = values if self._direct else C_TYPES[local.name]
        self._up = SparseMatrix(runtime, up, coarse, values, values)
        self._down = SparseMatrix(runtime, csr_array(up.T), values, coarse, values)
        self._transfer = transfer
        self._local = None if self._direct else runtime.empty(local.itemsize * count)

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
            return [self._down.bind(fine, coarse)]
        return [self._down.bind(fine, self._local), partial(self._transfer.to_global, self._local, coarse)]

    def bind_prolong(self, coarse: Any, fine: Any) -> Calls:
        """What `prolong` calls for two buffers."""
        if self._direct:
            return [self._up.bind(coarse, fine)]
        return [partial(self._transfer.to_local, coarse, self._local), self._up.bind(self._local, fine)]
