"""Orders of the points of a mesh in which what neighbouring cells read stands side by side.

PETSc numbers the dofs of all points of one kind after those of another, and the points as the mesh came: generators of unstructured
meshes number cells and vertices almost at random. What a work-group gathers and adds is then in up to a cache line for each number.
What that costs, and what these orders save, is measured in docs/benchmarks ("Numbering").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import reference_cell
from femgpu.mesh.closures import Parts, parts_of
from femgpu.mesh.topology import Topology

# Cells whose points stand together: as many as the items of a work-group.
BLOCK = 128
# Cells that read together, and numbers of a vector that are read together.
ITEMS, _TOGETHER = 32, 4
# Of elements; those of higher degree have more dofs on a point than one, which PETSc wants to stand together, and gain nothing.
_MOST_DEGREE = 3
# Steps of the grid that orders points along a curve, 2^_BITS per axis; 3 axes fit 64 bits.
_BITS = 20


def wins(degree: int) -> bool:
    """Whether an order of its own pays for continuous elements of a degree; of degree 1 all points with dofs are of one kind."""
    return 1 < degree <= _MOST_DEGREE


def along_curve(points: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """(num,) places of points (num, dim) along Morton's curve through their bounding box."""
    num, dim = points.shape
    code = np.zeros(num, np.uint64)
    if not num:
        return code
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    steps = ((points - low) / np.where(extent > 0, extent, 1) * (2**_BITS - 1)).astype(np.uint64)
    for bit in range(_BITS):
        for axis in range(dim):
            code |= ((steps[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * dim + axis)
    return code


def first_met(
    topology: Topology,
    places: Mapping[str, npt.NDArray[np.int64]],
    wanted: npt.NDArray[np.bool_] | None = None,
    pieces: Iterable[tuple[slice, Parts]] | None = None,
) -> npt.NDArray[np.int64]:
    """Numbers by which to sort points: by the first block of cells that has them, there by the part of a cell that they are.

    Neighbouring items then find the same part of neighbouring cells side by side.

    Args:
        topology: the points of the mesh.
        places: for each type of cells (num_cells,) where they stand among those of their type.
        wanted: (num_points,) of which points; None: of all.
        pieces: `parts_of` the one type of cells, where they are at hand.

    Returns:
        (num_points,) no two alike among points of a type, of cells negative; anything for points that are not wanted.
    """
    start, before = np.int32(topology.start), 0
    keys = np.full(len(topology.types), np.iinfo(np.int64).max)
    for name, place in places.items():
        num_parts = len(reference_cell(name).entities)
        for rows, parts in pieces or parts_of(topology, name):
            for number in range(1, num_parts):
                points = parts(number)[0] - start
                if wanted is None or wanted[points[:1]].any():
                    np.minimum.at(keys, points, before + sort_key(place[rows], number, num_parts))
        before += (len(place) // BLOCK + 1) * num_parts * BLOCK
    for name, place in places.items():
        keys[topology.of_type(name) - start] = place - len(keys)
    return keys


def sort_key(place: npt.NDArray[np.int64], part: Any, num_parts: int) -> npt.NDArray[np.int64]:
    """By which to sort a part of the cell at a place: by the block of cells, there by the part, there by the cell."""
    block, rest = np.divmod(place, BLOCK)
    return (block * num_parts + part) * BLOCK + rest


def local_order(
    topology: Topology, cell: str, with_dofs: npt.NDArray[np.bool_], pieces: Iterable[tuple[slice, Parts]] | None = None
) -> npt.NDArray[np.int32]:
    """The points of a mesh of one cell type in an order of their dofs.

    First come the cells, whose dofs no others share: kernels store them where they add the rest, and need no zeros there.

    Args:
        topology: the points of the mesh.
        cell: the type.
        with_dofs: (num_points,) which points have dofs, all of a type or none.
        pieces: `parts_of` the cells, where they are at hand.

    Returns:
        (num_points,) the numbers of the points, less that of the first one: those without dofs, then the others.
    """
    keys = first_met(topology, {cell: np.arange(len(topology.of_type(cell)))}, with_dofs, pieces)
    used = np.flatnonzero(with_dofs)
    return np.concatenate([np.flatnonzero(~with_dofs), used[np.argsort(keys[used])]]).astype(np.int32)


def pieces_read(nodes: npt.NDArray[np.int32]) -> float:
    """Pieces of a vector that so many cells side by side read for a node of each, 1 to `ITEMS`, by their (num_cells, num_nodes)."""
    whole = len(nodes) // ITEMS * ITEMS
    groups = np.sort(nodes[:whole].reshape(-1, ITEMS, nodes.shape[1]) // _TOGETHER, axis=1)
    return 1 + np.count_nonzero(np.diff(groups, axis=1)) / max(1, groups.shape[0] * groups.shape[2])
