"""Arrays that are spread over the ranks, brought to the first rank piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 1 << 25
_TAG = 8461


class GatheredRows:
    """The rows of all ranks, one rank after the other; construction is collective.

    The first rank iterates over `chunks`, the others call `send`, all of them for the same arrays in the same order.
    The first rank never holds more than its own rows and one piece of `CHUNK_BYTES`.
    """

    def __init__(self, comm: Any, rows: NDArray) -> None:
        """Counts the rows.

        Args:
            comm: an mpi4py communicator.
            rows: (num_rows, ...) this rank's rows, of one dtype and trailing shape on all ranks.
        """
        self._comm = comm
        self._rows = np.ascontiguousarray(rows)
        self._counts = comm.allgather(len(rows))
        self.num_rows: int = sum(self._counts)
        self.chunks = self._receive()

    def send(self) -> None:
        """Hands this rank's rows to the first rank."""
        for part in self._parts(len(self._rows)):
            self._comm.Send(self._rows[part], dest=0, tag=_TAG)

    def drain(self) -> None:
        """Receives what is left, so that nobody waits after the first rank met an error."""
        for _ in self.chunks:
            pass

    def _receive(self) -> Iterator[NDArray]:
        yield self._rows
        for rank in range(1, self._comm.size):
            for part in self._parts(self._counts[rank]):
                piece = np.empty((part.stop - part.start, *self._rows.shape[1:]), dtype=self._rows.dtype)
                self._comm.Recv(piece, source=rank, tag=_TAG)
                yield piece

    def _parts(self, num_rows: int) -> Iterator[slice]:
        row_bytes = self._rows.dtype.itemsize * int(np.prod(self._rows.shape[1:], dtype=int))
        step = max(1, CHUNK_BYTES // row_bytes)
        return (slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step))
