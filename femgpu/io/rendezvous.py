"""Nodal values from one copy of a mesh to another that is distributed otherwise.

A node is known by where it and the middle of its cell are, so that discontinuous functions and periodic meshes need no more.
The ranks that have and the rank that wants a node meet at a third, which the hash of these coordinates names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import DataError
from femgpu.mesh import Block
from femgpu.spaces import Function, SubFunction

# Coordinates agree when they are rounded to this part of the mesh's extent. Two that differ by rounding errors fall apart where
# a border lies between them; the second grid has its borders elsewhere. The shifts keep borders away from simple fractions.
_GRID = 1e-9
_SHIFTS = (0.31830988618, 0.81830988618)
_MULTIPLIERS = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F]], np.uint64)


def bring(source: Function, target: Function | SubFunction, where: str) -> None:
    """Copies nodal values between equal spaces on two copies of a mesh; collective.

    Args:
        source: what to copy.
        target: takes the values.
        where: names the source in messages.

    Raises:
        DataError: on all ranks, when the meshes differ.
    """
    comm, extent = target.space.mesh.mpi, _extent(target)
    given, positions = _points(source), _positions(target)
    wanted = _points(target)
    values = source.local_array()[_positions(source)]
    found = np.zeros(len(wanted), bool)
    result = np.zeros((len(wanted), target.space.num_comp))
    for shift in _SHIFTS:
        missing = np.flatnonzero(~found)
        answers, known = _meet(comm, _hashes(given, extent, shift), values, _hashes(wanted[missing], extent, shift))
        result[missing[known]] = answers[known]
        found[missing[known]] = True
        if comm.allreduce(int((~found).sum())) == 0:
            break
    if lost := comm.allreduce(int((~found).sum())):
        total = comm.allreduce(len(wanted))
        raise DataError(
            f"{where} was written on another mesh, or before or after this one moved: {lost} of {total} nodes of {target.name}, "
            "counted in each cell, are not in it; a moved mesh restarts where it was then, as femgpu.mesh.read of the file has it"
        )
    local = target.local_array()
    local[positions] = result
    (target.parent if isinstance(target, SubFunction) else target).set_local(local)


def _positions(u: Function | SubFunction) -> npt.NDArray[np.int32]:
    """(num_nodes, num_comp) positions in the L-vector of each node of each cell."""
    nodes = np.concatenate([offsets.ravel() for offsets in u.space.field.offsets])
    return nodes[:, None] + np.arange(u.space.num_comp, dtype=np.int32)


def _points(u: Function | SubFunction) -> npt.NDArray[np.float64]:
    """(num_nodes, 2 dim) places of each node of each cell, and of the middles of the cells."""
    pieces = [
        _block_points(block, element.nodes) for block, element in zip(u.space.mesh.blocks, u.space.field.elements, strict=True)
    ]
    return np.concatenate(pieces)


def _block_points(block: Block, nodes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    vertices = block.reference.vertices
    points = block.physical_points(np.concatenate([nodes, vertices.mean(axis=0, keepdims=True)]))
    middles = np.broadcast_to(points[:, -1:], points[:, :-1].shape)
    return np.concatenate([points[:, :-1], middles], axis=2).reshape(-1, 2 * block.dim)


def _extent(u: Function | SubFunction) -> float:
    box = np.array(u.space.dm.getBoundingBox())
    return float((box[:, 1] - box[:, 0]).max())


def _hashes(points: npt.NDArray[np.float64], extent: float, shift: float) -> npt.NDArray[np.uint64]:
    """(num_nodes, 2) two hashes of the rounded coordinates."""
    cells = np.floor(points / (_GRID * extent) + shift).astype(np.int64).view(np.uint64)
    hashes = np.zeros((2, len(points)), np.uint64)
    for column in cells.T:
        hashes = (hashes ^ column) * _MULTIPLIERS
        hashes ^= hashes >> np.uint64(29)
    return hashes.T


def _meet(
    comm: Any, given: npt.NDArray[np.uint64], values: npt.NDArray[np.float64], wanted: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """(num_wanted, num_comp) values, and which of them some rank has; collective."""
    order, parts = _by_rank(given, comm.size)
    received = comm.alltoall([(given[part], values[part]) for part in np.split(order, parts)])
    keys, entries = (np.concatenate(column) for column in zip(*received, strict=True))
    sort = np.argsort(keys[:, 0], kind="stable")
    keys, entries = keys[sort], entries[sort]
    order, parts = _by_rank(wanted, comm.size)
    questions = comm.alltoall([wanted[part] for part in np.split(order, parts)])
    answers = comm.alltoall([_look_up(keys, entries, question) for question in questions])
    result, known = np.zeros((len(wanted), values.shape[1])), np.zeros(len(wanted), bool)
    result[order], known[order] = (np.concatenate(column) for column in zip(*answers, strict=True))
    return result, known


def _by_rank(keys: npt.NDArray[np.uint64], size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The order that puts keys of the same rank together, and where the next rank's begin."""
    ranks = (keys[:, 1] % np.uint64(size)).astype(np.int64)
    order = np.argsort(ranks, kind="stable")
    return order, np.searchsorted(ranks[order], np.arange(1, size))


def _look_up(
    keys: npt.NDArray[np.uint64], entries: npt.NDArray[np.float64], wanted: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    if len(keys) == 0:
        return np.zeros((len(wanted), entries.shape[1])), np.zeros(len(wanted), bool)
    places = np.minimum(np.searchsorted(keys[:, 0], wanted[:, 0]), len(keys) - 1)
    return entries[places], (keys[places] == wanted).all(axis=1)
