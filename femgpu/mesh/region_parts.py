"""The parts of cells that lie in a region: cells themselves, facets, edges and vertices.

Points below others of the region say nothing new: refinement marks the edges and vertices inside of marked facets, too. They are
left out, so that closures, which cost time and memory, are computed only where a region has edges or vertices of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.mesh.block import Block
from femgpu.mesh.closures import closure
from femgpu.mesh.shared_points import any_rank
from femgpu.mesh.topology import Topology, cone_offsets, cone_places, point_types

_Ints = npt.NDArray[np.int32]
_Mask = npt.NDArray[np.bool_]


def find_parts(
    dm: PETSc.DMPlex, mpi: Any, blocks: Sequence[Block], topology: Callable[[], Topology], points: _Ints
) -> tuple[_Ints, _Ints]:
    """Finds the parts of cells that are among points; collective.

    Args:
        dm: the DMPlex.
        mpi: its mpi4py communicator.
        blocks: its cells by type.
        topology: gives its points in bulk; collective, called where the region has edges or vertices of its own.
        points: (n,) points of this rank.

    Returns:
        Cells of this rank, and for each the number of a part of it in `ReferenceCell.entities`; both (num_parts,). On a shared
        facet both cells are named, at a vertex all around it. Parts below others that are among the points may be left out.
    """
    start, end = dm.getChart()
    mask = np.zeros(end - start, bool)
    mask[points - start] = True
    first_cell, last_cell = dm.getHeightStratum(0)
    first, last = dm.getHeightStratum(1)
    cells = np.flatnonzero(mask[first_cell - start : last_cell - start])
    found = [(cells, np.zeros(len(cells))), _facets(dm, mask)]
    lower = mask.copy()
    for low, high in ((first_cell, last_cell), (first, last)):
        lower[low - start : high - start] = False
    if mpi.allreduce(int(lower.any())):
        lower &= ~any_rank(dm, _below(dm, mask))
        if mpi.allreduce(int(lower.any())):
            found += _lower_parts(dm, blocks, topology(), lower)
    return tuple(np.concatenate(entries).astype(np.int32) for entries in zip(*found, strict=True))  # type: ignore[return-value]


def _facets(dm: PETSc.DMPlex, mask: _Mask) -> tuple[npt.NDArray, npt.NDArray]:
    start, end = dm.getHeightStratum(0)
    where = np.flatnonzero(mask[petsc_c.cones(dm, start, end) - np.int32(dm.getChart()[0])])
    cells, places = cone_places(point_types(dm, start, end), where)
    return cells, places + 1


def _below(dm: PETSc.DMPlex, mask: _Mask) -> _Mask:
    """Points below others that are marked, on this rank."""
    below = np.zeros_like(mask)
    start = dm.getChart()[0]
    for height in range(dm.getDimension()):
        low, high = dm.getHeightStratum(height)
        cones, offsets = _cones(dm, height)
        above = (mask | below)[low - start : high - start]
        below[cones[np.repeat(above, np.diff(offsets))]] = True
    return below


def _cones(dm: PETSc.DMPlex, height: int) -> tuple[_Ints, npt.NDArray[np.int64]]:
    """Cones of the points of a height, counted from the begin of the chart, and where each begins."""
    low, high = dm.getHeightStratum(height)
    return petsc_c.cones(dm, low, high) - np.int32(dm.getChart()[0]), cone_offsets(point_types(dm, low, high))


def _lower_parts(
    dm: PETSc.DMPlex, blocks: Sequence[Block], topology: Topology, lower: _Mask
) -> list[tuple[npt.NDArray, npt.NDArray]]:
    """The parts that are marked edges and vertices."""
    start, first_cell = topology.start, dm.getHeightStratum(0)[0]
    around = lower.copy()
    for height in reversed(range(dm.getDimension())):
        low, high = dm.getHeightStratum(height)
        cones, offsets = _cones(dm, height)
        if high > low:
            around[low - start : high - start] |= np.logical_or.reduceat(around[cones], offsets[:-1])
    found = []
    for block in blocks:
        cells = topology.of_type(block.cell)
        cells = cells[around[cells - start]]
        rows, entities = np.nonzero(lower[closure(topology, block.cell, cells).parts - start])
        found.append((cells[rows] - first_cell, entities + 1))
    return found
