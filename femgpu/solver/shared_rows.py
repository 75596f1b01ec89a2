"""Rows of a matrix that cells of several ranks add to: the owner's rows get the columns and the values of the others' shares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from femgpu import log
from femgpu.errors import collective
from femgpu.operators import Assembly, Columns, FormOperator, Groups, Pattern
from femgpu.solver.halo import exchange

# Of all messages here, another one than that of the vectors' exchange.
_TAG = 2


class SharedRows:
    """The exchange of shares of rows; collective to make and to use.

    Args:
        operator: the operators.
        groups: the groups of dofs of the space.
        prescribed: (num_local,) uint8, entries of the L-vector that are prescribed.

    Attributes:
        columns: this rank's columns, with those that others bring.
        rows: what others add to this rank's rows, in the order of the ranks.
    """

    def __init__(self, operator: FormOperator, groups: Groups, prescribed: npt.NDArray[np.uint8]):
        self._comm, self._runtime = operator.mpi, operator.runtime
        numbering = operator.storage.numbering
        with collective(self._comm):
            columns = Columns.of(numbering, prescribed)
            pattern = Pattern(operator.runtime, operator.terms, groups, columns, shares_only=True)
            lengths = pattern.lengths[columns.num_owned :].sum(axis=1)
            numbers = columns.globally(pattern.indices(2))
            cuts = np.searchsorted(columns.away, numbering.ranges[1:-1])
            ends = np.concatenate([[0], np.cumsum(lengths)])[cuts]
            parts = list(zip(np.split(columns.away, cuts), np.split(lengths, cuts), np.split(numbers, ends), strict=True))
        got = self._comm.alltoall(parts)
        with collective(self._comm):
            rows, lengths, numbers = (np.concatenate(entries) for entries in zip(*got, strict=True))
            self.columns = Columns.of(numbering, prescribed, numbers[~columns.owns(numbers)])
            self.rows = self.columns.numbered(rows), lengths.astype(np.int32), self.columns.numbered(numbers)
            self._sent, self._received = ([len(part[2]) for part in share] for share in (parts, got))
            self._send, self._receive = self._runtime.pinned(sum(self._sent)), self._runtime.pinned(sum(self._received))
            self._device = self._runtime.empty(8 * sum(self._received))

    def add(self, assembly: Assembly) -> None:
        """Brings this rank's shares to the owners and adds theirs to this rank's values; collective."""
        with log.event("FGHalo"):
            if len(self._send):
                self._runtime.read(assembly.pattern.section(assembly.values, 2, 8), self._send)
            exchange(self._comm, _TAG, self._send, self._sent, self._receive, self._received)
            self._runtime.write(self._device, self._receive)
            assembly.add(self._device)
