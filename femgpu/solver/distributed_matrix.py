"""Sparse matrices whose rows are spread over ranks, as vectors are: products on the device, other ranks' numbers by MPI."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from femgpu import log
from femgpu.krylov.vectors import C_TYPES
from femgpu.multigrid import Calls, Entries, SparseMatrix
from femgpu.operators.sums import transpose
from femgpu.runtime import Runtime
from femgpu.solver.halo import exchange

# Of all messages here, another one than those of vectors and of shared rows.
_TAG = 3


class Share(NamedTuple):
    """A rank's share of a matrix on the host: A x = D x + R E S x, where E takes numbers from rank to rank.

    By rows S picks what others need of x, and R are the entries in their columns. In the transpose, D' x + S' E' R' x, R' makes
    shares of their rows, and S' adds up what they make of this rank's: what moves is as much.

    Attributes:
        own: D.
        send: S; its rows are what goes to each rank, rank by rank.
        receive: R; its columns are what comes from each rank, rank by rank.
        num_sent: (num_ranks,) how many numbers go to each.
        num_received: (num_ranks,) how many come from each.
    """

    own: Entries
    send: Entries
    receive: Entries
    num_sent: list[int]
    num_received: list[int]

    @classmethod
    def by_rows(cls, comm: Any, ranges: npt.NDArray[Any], own: Entries, others: Entries, ghosts: npt.NDArray[Any]) -> Share:
        """The share of a rank that has the entries of its rows; collective.

        Args:
            comm: mpi4py communicator.
            ranges: (num_ranks + 1,) where the columns of each rank begin.
            own: the entries in this rank's columns, which count from its first.
            others: those in columns of other ranks, which are places in `ghosts`.
            ghosts: (num_ghosts,) numbers of these columns, ascending.
        """
        wanted = np.split(ghosts, np.searchsorted(ghosts, ranges[1:-1]))
        asked = comm.alltoall(wanted)
        places = (np.concatenate(asked) - ranges[comm.rank]).astype(np.int32)
        picked = Entries(np.arange(len(places) + 1, dtype=np.int32), places, np.ones(len(places)))
        return cls(own, picked, others, [len(part) for part in asked], [len(part) for part in wanted])

    def transposed(self, num_columns: int) -> Share:
        """The share of the transpose, which the rank has that has the columns.

        Args:
            num_columns: of this rank.
        """
        send, receive = _transposed(self.receive, sum(self.num_received)), _transposed(self.send, num_columns)
        return Share(_transposed(self.own, num_columns), send, receive, self.num_received, self.num_sent)


class DistributedMatrix:
    """A matrix between parts of vectors on the ranks' devices.

    On one rank, and where no other needs anything, a product is one launch. Elsewhere the device computes with this rank's own
    columns while MPI moves what goes to and comes from others, through pinned memory. Products are collective.

    Args:
        runtime: the device.
        comm: mpi4py communicator.
        share: the entries; what stands in `Share.send` stays, other values may change.
        dtype: of values and vectors.
    """

    def __init__(self, runtime: Runtime, comm: Any, share: Share, dtype: np.dtype[Any]):
        self._runtime, self._comm, ctype = runtime, comm, C_TYPES[dtype.name]
        make = partial(SparseMatrix, runtime, source_type=ctype, target_type=ctype, value_type=ctype)
        self._own, self._num_sent, self._num_received = make(share.own), share.num_sent, share.num_received
        numbers = sum(self._num_sent), sum(self._num_received)
        self._send, self._receive = (make(part) if count else None for part, count in zip(share[1:3], numbers, strict=True))
        # Host memory is counted in numbers of 8 bytes.
        hosts = ((runtime.pinned(count) if count else np.empty(0)).view(dtype)[:count] for count in numbers)
        self._sent, self._received = ((runtime.empty(host.nbytes), host) for host in hosts)

    def multiply(self, x: Any, y: Any) -> None:
        """Makes y = A x."""
        for call in self.bind(x, y):
            call()

    def bind(self, x: Any, y: Any) -> Calls:
        """The calls that make y = A x."""
        calls: Calls = [self._own.bind(x, y)]
        if self._send is not None:
            # On the queue it stands before the product with the rank's own columns, which then runs beside the exchange.
            calls = [self._send.bind(x, self._sent[0]), self._read, *calls]
        if self._send is not None or self._receive is not None:
            calls.append(self._exchange)
        if self._receive is not None:
            calls.append(self._receive.bind(self._received[0], y, add=True))
        return calls

    def diagonal(self, y: Any, size: int = 1, shift: int = 0) -> None:
        """As of `SparseMatrix`, of this rank's rows: it must have the same columns."""
        self._own.diagonal(y, size, shift)

    def set_values(self, own: npt.NDArray[np.float64], receive: npt.NDArray[np.float64]) -> None:
        """Other entries in the same places, as `Share` has them, row by row."""
        self._own.set_values(own)
        if self._receive is not None:
            self._receive.set_values(receive)

    def _read(self) -> None:
        self._runtime.read(*self._sent)

    def _exchange(self) -> None:
        with log.event("FGHalo"):
            exchange(self._comm, _TAG, self._sent[1], self._num_sent, self._received[1], self._num_received)
            self._runtime.write(*self._received)


def _transposed(entries: Entries, num_columns: int) -> Entries:
    """The transpose of a matrix with so many columns; entries of a row stay in their order."""
    rows = np.repeat(np.arange(len(entries.starts) - 1, dtype=np.int32), np.diff(entries.starts))
    *_, order = transpose(entries.columns)
    starts = np.append(0, np.cumsum(np.bincount(entries.columns, minlength=num_columns))).astype(np.int32)
    return Entries(starts, rows[order], entries.values[order])
