"""Interpolation from one Lagrange space to another on the same mesh, or on one that refines it, as a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from scipy.sparse import csr_array

from femgpu.mesh.refine import child_values
from femgpu.spaces.field import Field
from femgpu.spaces.space import Space

# Rows (num_rows,) that have as many entries at the same place in a cell: their columns (num_rows, num) and values (num,).
_Chunk = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float64]]
_ROUNDING = 1e-10
# Cells of a block whose children's nodes are looked at: of PETSc's refinement all or few are in order.
_CHECKED = 10000


def embedding(source: Space, target: Space) -> csr_array:
    """The nodal values of functions of another space: exact where the target contains the source.

    Args:
        source: the space of the functions.
        target: a space with as many fields of as many components on the same mesh.

    Returns:
        (target.num_local, source.num_local), from L-vectors to L-vectors, entries that are zero left out.
    """
    parts = []
    for origin, field in zip(source.fields, target.fields, strict=True):
        pairs = zip(origin.elements, field.elements, strict=True)
        tables = [element.tabulate(other.nodes)[0] for element, other in pairs]
        parts.append(_chunks(origin, tables, field.offsets))
    return _matrix(source, target, chain.from_iterable(parts))


def refined_embedding(source: Space, target: Space) -> csr_array | None:
    """The same for continuous spaces of degree 1, the target on a mesh that refines that of the source; collective.

    Args:
        source: the space of the functions.
        target: a space with as many fields of as many components.

    Returns:
        As `embedding`; None, on all ranks, where the target's cells are not the children of this rank's cells, one cell's after
        the other's, as PETSc's regular refinement has them.
    """
    found = _refined(source, target)
    return found if source.mesh.mpi.allreduce(found is not None, op=MPI.LAND) else None


def _refined(source: Space, target: Space) -> csr_array | None:
    cells = [block.cell for block in source.mesh.blocks]
    if [block.cell for block in target.mesh.blocks] != cells:
        return None
    tables = list(map(child_values, cells))
    parts, checks = [], []
    for origin, field in zip(source.fields, target.fields, strict=True):
        children = []
        for parents, offsets, table in zip(origin.offsets, field.offsets, tables, strict=True):
            if len(offsets) != len(parents) * len(table):
                return None
            children.append(offsets.reshape(len(parents), -1))
        flat = [table.reshape(-1, table.shape[-1]) for table in tables]
        # Children share nodes: those of a cell that differ are enough.
        firsts = [np.unique(np.round(table, 6), axis=0, return_index=True)[1] for table in flat]
        kept = [offsets[:, first] for offsets, first in zip(children, firsts, strict=True)]
        parts.append(_chunks(origin, [table[first] for table, first in zip(flat, firsts, strict=True)], kept))
        checks += list(zip(origin.offsets, flat, children, strict=True))
    matrix = _matrix(source, target, chain.from_iterable(parts))
    # In another order the cells that share a node hardly agree about it.
    rough = np.random.default_rng(0).uniform(1.0, 2.0, source.num_local)
    made = matrix @ rough
    for parents, table, nodes in checks:
        some = np.linspace(0, len(parents) - 1, min(len(parents), _CHECKED)).astype(int)
        if not np.allclose(rough[parents[some]] @ table.T, made[nodes[some]], rtol=_ROUNDING):
            return None
    return matrix if np.diff(matrix.indptr).all() else None


def _matrix(source: Space, target: Space, chunks: Iterable[_Chunk]) -> csr_array:
    chunks = list(chunks)
    lengths = np.zeros(target.num_local + 1, np.int32)
    for rows, columns, _ in chunks:
        lengths[rows + 1] = columns.shape[1]
    starts = np.cumsum(lengths, dtype=np.int32)
    indices, entries = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for rows, columns, values in chunks:
        first = starts[rows]
        for number, value in enumerate(values):
            indices[first + number], entries[first + number] = columns[:, number], value
    matrix = csr_array((entries, indices, starts), shape=(target.num_local, source.num_local))
    matrix.sum_duplicates()  # across periods
    return matrix


def _chunks(source: Field, tables: Sequence[npt.NDArray[np.float64]], targets: Sequence[npt.NDArray[np.int32]]) -> Iterator[_Chunk]:
    """The entries of one field: each node of the target is served by one of the cells.

    Args:
        source: the field.
        tables: for each block (num_nodes, num_basis) its basis functions at nodes of the target in a cell.
        targets: for each block (num_cells, num_nodes) positions of component 0 of these nodes.
    """
    size = 1 + max((int(offsets.max(initial=-1)) for offsets in targets), default=-1)
    cell_of, place_of, block_of = np.zeros(size, np.int32), np.zeros(size, np.int32), np.full(size, -1, np.int8)
    for block, offsets in enumerate(targets):
        numbers = np.arange(len(offsets), dtype=np.int32)
        for place in range(offsets.shape[1]):
            nodes = offsets[:, place]
            cell_of[nodes], place_of[nodes], block_of[nodes] = numbers, place, block
    for block, (origin, table) in enumerate(zip(source.offsets, tables, strict=True)):
        mine = np.flatnonzero(block_of == block).astype(np.int32)
        order = mine[np.argsort(place_of[mine], kind="stable")]
        ends = np.searchsorted(place_of[order], np.arange(len(table) + 1))
        for place, basis in enumerate(table):
            nodes, used = order[ends[place] : ends[place + 1]], np.flatnonzero(basis)
            from_nodes = origin[:, used][cell_of[nodes]]
            for component in range(source.num_comp):
                yield nodes + np.int32(component), from_nodes + np.int32(component), basis[used]
