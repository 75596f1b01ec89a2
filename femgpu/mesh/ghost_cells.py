"""Copies of other ranks' cells that lie at this rank's facets: integrals over facets between two cells need both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.mesh.block import Block, places
from femgpu.mesh.shared_points import neighbours

_Ints = npt.NDArray[np.int32]


class CellFacets(NamedTuple):
    """Facets as cells have them, an entry for each cell of a facet; (num,) int32 each.

    Attributes:
        points: DMPlex points.
        cells: numbers of the cells.
        local_facets: which of the cells' facets they are.
        orientations: of the facets in the cells' cones.
    """

    points: _Ints
    cells: _Ints
    local_facets: _Ints
    orientations: _Ints

    def part(self, entries: npt.NDArray | slice) -> CellFacets:
        """Some of the entries."""
        return CellFacets(*(column[entries] for column in self))


class GhostCells:
    """The cells behind facets that this rank shares with ranks of higher numbers; collective to make.

    Of the two ranks that have a facet the one with the lower number integrates over it, and gets a copy of the other's cell: one
    for each facet. Copies are numbered behind the cells of this rank.

    Args:
        dm: the DMPlex.
        alone: the facets that one cell of this rank has alone.
        blocks: the cells of the mesh.
        mpi: the mesh's mpi4py communicator.

    Attributes:
        here: those of the facets that this rank integrates over, as its own cells have them.
        there: as the copies have them.
        blocks: those of the mesh, with the copies behind.
    """

    def __init__(self, dm: PETSc.DMPlex, alone: CellFacets, blocks: Sequence[Block], mpi: Any):
        self._mpi, self._given = mpi, tuple(blocks)
        rank, owner, number = neighbours(dm, mpi.rank, alone.points)
        # Both ranks of a facet have it at the same place among those that they share.
        order = np.lexsort((number, owner, rank))
        rank, order = rank[order], order[rank[order] >= 0]
        rank = rank[rank >= 0]
        self.here, theirs = alone.part(order[rank > mpi.rank]), alone.part(order[rank < mpi.rank])
        above, below = rank[rank > mpi.rank], rank[rank < mpi.rank]
        block_of, index_of = places(blocks)
        records = np.stack([block_of[theirs.cells], index_of[theirs.cells], theirs.local_facets, theirs.orientations], axis=1)
        sizes = [np.bincount(found, minlength=mpi.size) for found in (below, above)]
        received = swap(mpi, records, *sizes)
        self._rows, self._sizes = list[_Ints](), list[tuple[Any, Any]]()
        for block in blocks:
            sent, got = (found[numbers == block.index] for found, numbers in ((below, records[:, 0]), (above, received[:, 0])))
            self._rows.append(records[records[:, 0] == block.index, 1])
            self._sizes.append((np.bincount(sent, minlength=mpi.size), np.bincount(got, minlength=mpi.size)))
        first = sum(block.num_cells for block in blocks)
        numbers = np.arange(first, first + len(above), dtype=np.int32)
        self.there = CellFacets(self.here.points, numbers, received[:, 2], received[:, 3])
        self.blocks = self._extend([numbers[received[:, 0] == block.index] for block in blocks]) if mpi.size > 1 else self._given

    def bring(self, rows: Callable[[Block, _Ints], np.ndarray]) -> list[np.ndarray]:
        """Something of each copy; collective.

        Args:
            rows: of a block of the mesh and (n,) of its cells, an array (n, ...).

        Returns:
            For each block the rows of the copies, in their order.
        """
        every = zip(self._given, self._rows, self._sizes, strict=True)
        return [swap(self._mpi, rows(block, cells), *sizes) for block, cells, sizes in every]

    def follow(self) -> None:
        """Takes the copies to where the cells are now; collective."""
        if self._mpi.size > 1:
            coords = self.blocks[0].coords
            start = len(self._given[0].coords)
            coords[:start] = self._given[0].coords
            coords[start:] = np.concatenate([part.reshape(-1, coords.shape[1]) for part in self.bring(_nodes)])
            for block, given, affine in zip(self.blocks, self._given, self.bring(_affine), strict=True):
                block.affine[:] = np.concatenate([given.affine, affine])

    def _extend(self, numbers: Sequence[_Ints]) -> tuple[Block, ...]:
        nodes, dim = self.bring(_nodes), self._given[0].dim
        coords = np.concatenate([self._given[0].coords, *(part.reshape(-1, dim) for part in nodes)])
        start, found = len(self._given[0].coords), []
        for block, ids, part, affine in zip(self._given, numbers, nodes, self.bring(_affine), strict=True):
            dofs = np.arange(start, start + len(part) * part.shape[1], dtype=np.int32).reshape(part.shape[:2])
            start += dofs.size
            own = (block.ids, block.coord_dofs, block.affine)
            ids, dofs, affine = (np.concatenate(pair) for pair in zip(own, (ids, dofs, affine), strict=True))
            found.append(replace(block, ids=ids, coords=coords, coord_dofs=dofs, affine=affine))
        return tuple(found)


def _nodes(block: Block, cells: _Ints) -> np.ndarray:
    """(n, num_coord_basis, dim) the nodes of some cells."""
    return block.coords[block.coord_dofs[cells]]


def _affine(block: Block, cells: _Ints) -> np.ndarray:
    """(n,) which of some cells count as affine."""
    return block.affine[cells]


def swap(mpi: Any, rows: np.ndarray, sent: npt.NDArray, received: npt.NDArray) -> np.ndarray:
    """Sends rows to the ranks and receives theirs; collective.

    Args:
        mpi: mpi4py communicator.
        rows: (n, ...) those for rank 0 first.
        sent: (num_ranks,) how many go to each.
        received: (num_ranks,) how many come from each.

    Returns:
        (m, ...) those of rank 0 first.
    """
    found = np.empty((int(received.sum()), *rows.shape[1:]), rows.dtype)
    width = int(np.prod(rows.shape[1:], dtype=int))
    mpi.Alltoallv([np.ascontiguousarray(rows), sent * width], [found, received * width])
    return found
