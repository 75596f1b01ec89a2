"""Functions of one Lagrange space in another that contains it, cell by cell: on the same mesh, or on one that refines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu.element import LagrangeElement
from femgpu.element.lattice import find_lattice
from femgpu.mesh.geometry import chunks
from femgpu.mesh.refine import child_values
from femgpu.spaces.space import Space

_ROUNDING = 1e-10
# Cells of a block whose children's nodes are looked at: of PETSc's refinement all or few are in order.
_CHECKED = 10000


@dataclass(frozen=True, eq=False)
class NestedCells:
    """What functions of a coarse field are at the nodes of a finer one in the cells of one type.

    Nodes are counted by lattices, the first direction fastest, with the same 1D functions in each; where nodes are no lattice,
    all of them stand in one direction.

    Attributes:
        num_comp: components of both fields.
        dim: directions of the lattices.
        table: (fine, coarse) the coarse functions at the fine nodes, in one direction.
        coarse_nodes: (num_cells, n) int32 positions of component 0 in the coarse L-vector.
        coarse_order: (coarse**dim,) int32 which of a cell's n nodes stands at each place of the lattice.
        fine_nodes: (num_cells, m) int32 the same in the fine L-vector; nodes may occur twice in a cell.
        fine_order: (fine**dim,) int32 which of them stands at each place, none of them twice.
    """

    num_comp: int
    dim: int
    table: npt.NDArray[np.float64]
    coarse_nodes: npt.NDArray[np.int32]
    coarse_order: npt.NDArray[np.int32]
    fine_nodes: npt.NDArray[np.int32]
    fine_order: npt.NDArray[np.int32]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Directions of the lattices, fine and coarse nodes in each."""
        return (self.dim, *self.table.shape)

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """(fine**dim, coarse**dim) all functions at all nodes."""
        values = self.table
        for _ in range(1, self.dim):
            values = np.kron(self.table, values).astype(np.float64, copy=False)
        return values


def nested(source: Space, target: Space) -> list[NestedCells]:
    """How the functions of a space are those of another one on the same mesh.

    Args:
        source: the space of the functions, continuous.
        target: a space with as many fields of as many components, of no lower degree.

    Returns:
        Cells of all types for all fields.
    """
    found = []
    for origin, field in zip(source.fields, target.fields, strict=True):
        for element, other, nodes, fine in zip(origin.elements, field.elements, origin.offsets, field.offsets, strict=True):
            if element.product is not None and other.product is not None:
                (line, order), (fine_line, fine_order), dim = element.product, other.product, element.reference.dim
            else:
                line, order, dim = element, _count(element.num_basis), 1
                fine_line, fine_order = other, _count(other.num_basis)
            table = line.tabulate(fine_line.nodes)[0]
            found.append(NestedCells(field.num_comp, dim, table, nodes, order, fine, fine_order))
    return found


def refined(source: Space, target: Space) -> list[NestedCells] | None:
    """The same for continuous spaces of degree 1, the target on a mesh that refines that of the source; collective.

    Returns:
        As `nested`; None, on all ranks, where the target's cells are not the children of this rank's cells, one cell's after the
        other's, as PETSc's regular refinement has them.
    """
    found = _refined(source, target)
    return found if source.mesh.mpi.allreduce(found is not None, op=MPI.LAND) else None


def _refined(source: Space, target: Space) -> list[NestedCells] | None:
    cells = [block.cell for block in source.mesh.blocks]
    if [block.cell for block in target.mesh.blocks] != cells:
        return None
    found = []
    for origin, field in zip(source.fields, target.fields, strict=True):
        own, tables = [], []
        for element, parents, offsets in zip(origin.elements, origin.offsets, field.offsets, strict=True):
            table = child_values(element.cell)
            if len(offsets) != len(parents) * len(table):
                return None
            tables.append(table.reshape(-1, element.num_basis))
            own.append(_of_children(element, field.num_comp, tables[-1], parents, offsets.reshape(len(parents), -1)))
        if not _agree(own, tables, source, target):
            return None
        found += own
    return found


def _of_children(
    element: LagrangeElement,
    num_comp: int,
    table: npt.NDArray[np.float64],
    parents: npt.NDArray[np.int32],
    children: npt.NDArray[np.int32],
) -> NestedCells:
    """Cells, and the nodes of their children (num_cells, nodes of all children), at which `table` has the coarse functions."""
    # Children share nodes: those of a cell that differ are enough.
    firsts = np.unique(np.round(table, 6), axis=0, return_index=True)[1].astype(np.int32)
    grid = find_lattice(table[firsts] @ element.nodes) if element.product is not None else None
    if element.product is None or grid is None:
        return NestedCells(num_comp, 1, table[firsts], parents, _count(element.num_basis), children, firsts)
    line, order = element.product
    return NestedCells(num_comp, element.reference.dim, line.tabulate(grid[0])[0], parents, order, children, firsts[grid[1]])


def _agree(parts: Sequence[NestedCells], tables: Sequence[npt.NDArray[np.float64]], source: Space, target: Space) -> bool:
    """Whether cells that share a node have the same value there: in another order they hardly do.

    Args:
        parts: the cells of one field.
        tables: for each (nodes of all children, nodes) the coarse functions at all `fine_nodes`.
        source: the coarse space.
        target: the fine space.
    """
    rough, made = np.random.default_rng(0).uniform(1.0, 2.0, source.num_local), np.full(target.num_local, np.nan)
    for part, table in zip(parts, tables, strict=True):
        for rows in chunks(len(part.coarse_nodes)):
            made[part.fine_nodes[rows][:, part.fine_order]] = rough[part.coarse_nodes[rows]] @ table[part.fine_order].T
    for part, table in zip(parts, tables, strict=True):
        count = len(part.coarse_nodes)
        some = np.linspace(0, count - 1, min(count, _CHECKED)).astype(int)
        if not np.allclose(rough[part.coarse_nodes[some]] @ table.T, made[part.fine_nodes[some]], rtol=_ROUNDING):
            return False
    # Every node of the field has a value.
    return np.count_nonzero(~np.isnan(made)) * target.num_comp == target.num_local


def injection(parts: Sequence[NestedCells], coarse: int) -> npt.NDArray[np.int32]:
    """(coarse,) where the nodes of a coarse space of degree 1, which are fine nodes, too, stand in the fine L-vector.

    Args:
        parts: the cells of all types for all fields.
        coarse: length of the coarse L-vector.
    """
    found = np.full(coarse, -1, np.int32)
    for part in parts:
        places = part.values.argmax(axis=0)
        for component in range(part.num_comp):
            number = np.int32(component)
            found[part.coarse_nodes[:, part.coarse_order] + number] = part.fine_nodes[:, part.fine_order[places]] + number
    return found


def _count(number: int) -> npt.NDArray[np.int32]:
    return np.arange(number, dtype=np.int32)
