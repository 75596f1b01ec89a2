"""Interpolation from one Lagrange space to another on the same mesh, as a sparse matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array

from femgpu.spaces.field import Field
from femgpu.spaces.space import Space


def embedding(source: Space, target: Space) -> csr_array:
    """The nodal values of functions of another space: exact where the target contains the source.

    Args:
        source: the space of the functions.
        target: a space with as many fields of as many components on the same mesh.

    Returns:
        (target.num_local, source.num_local), from L-vectors to L-vectors, entries that are zero left out.
    """
    parts = [_entries(*fields) for fields in zip(source.fields, target.fields, strict=True)]
    rows, columns, values = (np.concatenate(entries) for entries in zip(*parts, strict=True))
    return coo_array((values, (rows, columns)), shape=(target.num_local, source.num_local)).tocsr()


def _entries(source: Field, target: Field) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Rows, columns and values of one field: each node of the target is served by one of its cells."""
    size = 1 + max((int(offsets.max(initial=-1)) for offsets in target.offsets), default=-1)
    cell_of, place_of, block_of = np.zeros(size, np.int32), np.zeros(size, np.int32), np.full(size, -1, np.int8)
    for block, offsets in enumerate(target.offsets):
        numbers = np.arange(len(offsets), dtype=np.int32)
        for place in range(offsets.shape[1]):
            nodes = offsets[:, place]
            cell_of[nodes], place_of[nodes], block_of[nodes] = numbers, place, block
    rows, columns, values = [], [], []
    components = np.arange(target.num_comp, dtype=np.int32)
    for block, (origin, element) in enumerate(zip(source.offsets, source.elements, strict=True)):
        table = element.tabulate(target.elements[block].nodes)[0]
        mine = np.flatnonzero(block_of == block).astype(np.int32)
        order = mine[np.argsort(place_of[mine], kind="stable")]
        ends = np.searchsorted(place_of[order], np.arange(len(table) + 1))
        for place, basis in enumerate(table):
            nodes, used = order[ends[place] : ends[place + 1]], np.flatnonzero(basis)
            from_nodes = origin[cell_of[nodes]][:, used]
            shape = (len(nodes), len(used), len(components))
            rows.append(np.broadcast_to(nodes[:, None, None] + components, shape).ravel())
            columns.append((from_nodes[:, :, None] + components).ravel())
            values.append(np.broadcast_to(basis[used][None, :, None], shape).ravel())
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
