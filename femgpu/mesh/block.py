"""The cells of one type in a mesh: what kernels, which know one cell type each, run over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element import LagrangeElement, ReferenceCell, default_rule, reference_cell
from femgpu.mesh import geometry
from femgpu.mesh.closures import Corners
from femgpu.mesh.coordinates import read_vertices


@dataclass(frozen=True, eq=False)
class Block:
    """The cells of one type of this rank; a rank may have none.

    Attributes:
        index: position in `Mesh.blocks`.
        cell: name of the cell type.
        ids: (num_cells,) numbers of the cells within the mesh, increasing, int32.
        coord_element: the element of the coordinates; degree above 1 on curved meshes.
        coords: (num_coord_nodes, dim) node coordinates, float64; one array for all blocks of a mesh.
        coord_dofs: (num_cells, coord_element.num_basis) nodes of each cell, int32.
        affine: (num_cells,) mask of cells whose map is affine; a mesh that moves may lose some.
    """

    index: int
    cell: str
    ids: npt.NDArray[np.int32]
    coord_element: LagrangeElement
    coords: npt.NDArray[np.float64]
    coord_dofs: npt.NDArray[np.int32]
    affine: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        index: int,
        ids: npt.NDArray[np.int32],
        element: LagrangeElement,
        coords: npt.NDArray[np.float64],
        dofs: npt.NDArray[np.int32],
    ) -> Block:
        """A block whose affine cells are found; the arguments are its attributes."""
        return cls(index, element.cell, ids, element, coords, dofs, geometry.affine_mask(element, coords, dofs))

    @property
    def always_affine(self) -> bool:
        """Whether the cells are affine wherever their nodes are."""
        return geometry.always_affine(self.coord_element)

    def affine_now(self) -> npt.NDArray[np.bool_]:
        """(num_cells,) mask of cells whose map is affine with the present coordinates."""
        return geometry.affine_mask(self.coord_element, self.coords, self.coord_dofs)

    @property
    def num_cells(self) -> int:
        """Cells of this type on this rank."""
        return len(self.ids)

    @property
    def reference(self) -> ReferenceCell:
        """The reference cell."""
        return reference_cell(self.cell)

    @property
    def dim(self) -> int:
        """Topological and geometric dimension."""
        return self.reference.dim

    def physical_points(self, points: npt.ArrayLike, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.float64]:
        """Images of reference points in cells.

        Args:
            points: (num_points, dim) points of the reference cell.
            cells: which cells, counted within the block; default all.

        Returns:
            (num_cells, num_points, dim), float64.
        """
        values = self.coord_element.tabulate(points)[0]
        return geometry.map_points(self.coords, self.coord_dofs[cells], values)

    def jacobians(self, points: npt.ArrayLike, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.float64]:
        """Jacobians J[i, k] = dx_i / dX_k of the map from the reference cell.

        Args:
            points: (num_points, dim) points of the reference cell.
            cells: which cells, counted within the block; default all.

        Returns:
            (num_cells, num_points, dim, dim), float64.
        """
        grads = self.coord_element.tabulate(points)[1]
        return geometry.map_jacobians(self.coords, self.coord_dofs[cells], grads)

    def hessians(self, points: npt.ArrayLike, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.float64]:
        """Second derivatives H[i, k, l] = d2 x_i / dX_k dX_l of the map from the reference cell.

        Args:
            points: (num_points, dim) points of the reference cell.
            cells: which cells, counted within the block; default all.

        Returns:
            (num_cells, num_points, dim, dim, dim), float64.
        """
        return geometry.map_hessians(self.coords, self.coord_dofs[cells], self.coord_element.hessians(points))

    def check_orientation(self) -> None:
        """Tests det J at the nodes of the coordinates and the points of a rule that integrates it.

        Raises:
            MeshError: when cells are inverted or collapsed, or coordinates are not finite.
        """
        element = self.coord_element
        rule = default_rule(self.cell, max(1, self.dim * element.degree))
        points = np.concatenate([element.nodes, rule.points])
        geometry.check_orientation(element, self.coords, self.coord_dofs, self.affine, self.ids, points)


def straight_blocks(dm: PETSc.DMPlex, types: Sequence[Corners], mpi: Any) -> tuple[Block, ...]:
    """The cells of a DM with straight edges and cells of any types, a block for each type; collective.

    Raises:
        MeshError: when the coordinates are of degree above 1.
    """
    coords, nodes = read_vertices(dm, types, mpi)
    start, blocks = dm.getHeightStratum(0)[0], []
    for index, (corners, vertices) in enumerate(zip(types, nodes, strict=True)):
        element = LagrangeElement(corners.cell, 1)
        ids = corners.cells - np.int32(start)
        blocks.append(Block.of(index, ids, element, coords, vertices.take(geometry.node_vertices(element), axis=1)))
    return tuple(blocks)


def places(blocks: Sequence[Block]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Which block each cell of a mesh is in, and its index within the block; both (num_cells,) int32."""
    num_cells = sum(block.num_cells for block in blocks)
    number, index = np.zeros(num_cells, np.int32), np.zeros(num_cells, np.int32)
    for block in blocks:
        number[block.ids] = block.index
        index[block.ids] = np.arange(block.num_cells, dtype=np.int32)
    return number, index
