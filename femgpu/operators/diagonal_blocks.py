"""The blocks on the diagonal of a form's Jacobian, from its element matrices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from femgpu import log
from femgpu.operators.form_operator import FormOperator
from femgpu.operators.planner import EVENTS
from femgpu.operators.sums import transpose
from femgpu.operators.term import Term
from femgpu.runtime import Kernel

# Parts of a buffer begin at multiples of a device's alignment.
_ALIGNMENT = 512
_GROUP_SIZE = 64
# Position of the element matrices among the arguments of `gather_blocks`.
_MATRICES = 11


class DiagonalBlocks:
    """Blocks of successive rows and columns, as L-vectors: what stands so many columns further than the diagonal, in turns.

    Rows that other ranks own hold this rank's share, those of prescribed dofs are zero.

    Args:
        operator: the operators of the form.
        size: rows of a block, which divides all ranks' numbers of owned dofs.
        prescribed: (num_local,) uint8, the entries of L-vectors that are prescribed.
        source: the program with the kernels.

    Attributes:
        diagonals: device buffers of the L-vectors, the diagonal first; undefined before `compute`.
    """

    def __init__(self, operator: FormOperator, size: int, prescribed: npt.NDArray[np.uint8], source: str):
        runtime, self._operator, self._source = operator.runtime, operator, source
        self._stride = -(-operator.vector_bytes // _ALIGNMENT) * _ALIGNMENT
        self._num_bytes = size * self._stride
        runtime.require(self._num_bytes, f"the blocks of {size} rows on the diagonal")
        self._whole = runtime.empty(self._num_bytes)
        self.diagonals = [self._whole.get_sub_region(c * self._stride, max(operator.vector_bytes, 8)) for c in range(size)]
        numbers = operator.storage.numbering.global_of_local
        self._free = (numbers >= 0) & (prescribed == 0)
        blocks = np.stack([np.where(self._free, numbers // size, -1), numbers % size], axis=1)
        self._blocks = runtime.upload(blocks.astype(np.int32))
        self._kernels: dict[Term, Kernel] = {}
        self._bends = operator.bends

    def compute(self) -> None:
        """Sums them at the state of the Jacobian."""
        operator = self._operator
        operator.prepare("matrix")
        if self._bends != operator.bends:
            self._kernels.clear()
            self._bends = operator.bends
        with log.event(EVENTS["matrix"], operator.flops("matrix"), operator.runtime.finish):
            operator.runtime.zero(self._whole, self._num_bytes)
            for term, first, count, matrices in operator.element_matrices():
                if term not in self._kernels:
                    self._kernels[term] = self._make(term)
                self._kernels[term].bound({0: np.int32(first), 1: np.int32(count), _MATRICES: matrices})()

    def _make(self, term: Term) -> Kernel:
        """What sums the matrices of a term."""
        runtime, dofs = self._operator.runtime, term.dofs()
        # Entries of prescribed rows come last.
        rows, starts, entries = transpose(np.where(self._free[dofs], dofs, np.int32(len(self._free))).ravel())
        count = int(np.searchsorted(rows, len(self._free)))
        stride = np.uint64(self._stride // self._operator.scalar.itemsize)
        given = [np.int32(0), np.int32(0), np.int32(count), np.int32(term.num_rows), np.int32(len(self.diagonals)), stride]
        given += [runtime.upload(array) for array in (rows, starts, entries, dofs)]
        given += [self._blocks, None, self._whole]
        return Kernel(runtime, self._source, "gather_blocks", given, count, _GROUP_SIZE)
