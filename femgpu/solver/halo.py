"""Halo exchange: ghosts take their owners' values, owners add their ghosts' shares; packed on the device, moved by MPI."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu import log
from femgpu.kernels import vector_kernels
from femgpu.operators.sums import transpose
from femgpu.runtime import Kernel, Runtime
from femgpu.spaces import Numbering

# Of all messages here. PETSc, on whose communicator they go, takes its tags from the top.
_TAG = 1


class Halo:
    """The exchange of one L-vector numbering; collective to make and to use.

    Args:
        numbering: the T-L map.
        comm: mpi4py communicator, PETSc's own of the mesh.
        precision: of the kernels.
        runtime: the device.
    """

    def __init__(self, numbering: Numbering, comm: Any, precision: str, runtime: Runtime):
        self.comm = comm
        self.runtime = runtime
        ghosts, owned = _lists(numbering, self.comm)
        self.ghost_counts, self.owned_counts = [len(part) for part in ghosts], [len(part) for part in owned]
        ghost_map, owned_map = np.concatenate(ghosts), np.concatenate(owned)
        self._ghost_host, self._owned_host = runtime.pinned(len(ghost_map)), runtime.pinned(len(owned_map))
        self._ghost_device, self._owned_device = (runtime.empty(8 * len(part)) for part in (ghost_map, owned_map))
        source, group = vector_kernels(precision), 64
        ghost_buffer, owned_buffer = runtime.upload(ghost_map), runtime.upload(owned_map)
        rows, starts, entries = transpose(owned_map)

        def kernel(name: str, count: int, *arguments: Any) -> Kernel:
            return Kernel(runtime, source, name, [np.int32(count), *arguments], count, group)

        vector = runtime.empty(8)  # a placeholder until the first call
        self._pack_owned = kernel("pack", len(owned_map), owned_buffer, vector, self._owned_device)
        self._unpack_ghosts = kernel("unpack", len(ghost_map), ghost_buffer, self._ghost_device, vector)
        self._pack_ghosts = kernel("pack", len(ghost_map), ghost_buffer, vector, self._ghost_device)
        self._add_owned = kernel(
            "unpack_add",
            len(rows),
            *(runtime.upload(part) for part in (rows, starts, entries)),
            self._owned_device,
            vector,
        )

    def forward(self, vector: Any) -> None:
        """Ghost entries of an L-vector (device buffer) become their owners' values."""
        with log.event("FGHalo"):
            self._pack_owned.set(2, vector)
            self._pack_owned()
            self._exchange(
                self._owned_device,
                self._owned_host,
                self.owned_counts,
                self._ghost_device,
                self._ghost_host,
                self.ghost_counts,
            )
            self._unpack_ghosts.set(3, vector)
            self._unpack_ghosts()

    def backward(self, vector: Any) -> None:
        """Ghost entries of an L-vector (device buffer) are added to their owners', in the order of the ranks."""
        with log.event("FGHalo"):
            self._pack_ghosts.set(2, vector)
            self._pack_ghosts()
            self._exchange(
                self._ghost_device,
                self._ghost_host,
                self.ghost_counts,
                self._owned_device,
                self._owned_host,
                self.owned_counts,
            )
            self._add_owned.set(5, vector)
            self._add_owned()

    def _exchange(
        self,
        source: Any,
        send: np.ndarray,
        send_counts: list[int],
        target: Any,
        receive: np.ndarray,
        receive_counts: list[int],
    ) -> None:
        self.runtime.read(source, send)
        exchange(self.comm, _TAG, send, send_counts, receive, receive_counts)
        self.runtime.write(target, receive)


def exchange(comm: Any, tag: int, send: np.ndarray, send_counts: list[int], receive: np.ndarray, receive_counts: list[int]) -> None:
    """Sends each rank its part of an array and receives the others' parts, both in the order of the ranks; collective.

    Args:
        comm: mpi4py communicator.
        tag: of the messages.
        send: what to send, part after part.
        send_counts: length of each rank's part.
        receive: is filled likewise.
        receive_counts: length of what each rank sends.
    """
    requests, start = [], 0
    for rank, count in enumerate(receive_counts):
        if count:
            requests.append(comm.Irecv(receive[start : start + count], rank, tag))
        start += count
    start = 0
    for rank, count in enumerate(send_counts):
        if count:
            requests.append(comm.Isend(send[start : start + count], rank, tag))
        start += count
    MPI.Request.Waitall(requests)


def _lists(numbering: Numbering, comm: Any) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
    """For each rank: positions of the ghosts that it owns, and of the owned dofs that it has as ghosts; orders match."""
    ghosts = numbering.ghosts
    numbers = numbering.global_of_local[ghosts]
    order = np.argsort(numbers, kind="stable")
    ghosts, numbers = ghosts[order], numbers[order]
    cuts = np.searchsorted(numbers, numbering.ranges[1:-1])
    wanted = np.split(numbers, cuts)
    asked = comm.alltoall(wanted)
    owned = [numbering.local_of_owned[part - numbering.first].astype(np.int32) for part in asked]
    return [part.astype(np.int32) for part in np.split(ghosts, cuts)], owned
