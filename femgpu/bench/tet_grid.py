"""The bent box of `grid.py` in tetrahedra, six of them in each hexahedron (Kuhn's split), as arrays.

Dofs are numbered by their places in the lattice of all nodes, x fastest, those of degree 2 and 3 block by block (`mesh.locality`),
cells by the hexahedron that they are in. A user's mesh has neither these numbers nor others that kernels could know; a test
compares both but for that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from femgpu.bench.grid import Grid
from femgpu.element import LagrangeElement

# (6, 4, 3) the corners of the tetrahedra in the unit cube, in the order of the reference tetrahedron's vertices, det J > 0.
CORNERS = np.array(
    [
        corners if np.linalg.det(corners[1:] - corners[0]) > 0 else corners[[0, 2, 1, 3]]
        for corners in (
            np.cumsum([np.zeros(3, int), *np.eye(3, dtype=int)[list(order)]], axis=0) for order in itertools.permutations(range(3))
        )
    ]
)
# Cells whose positions are computed at a time.
_CHUNK = 1 << 16


class TetGrid(Grid):
    """The unit cube, bent, in six tetrahedra for each of so many boxes per axis; otherwise a `Grid`.

    Args:
        counts: boxes along x, y and z.
    """

    cell: ClassVar[str] = "tetrahedron"
    split: ClassVar[int] = 6

    @property
    def volume(self) -> float:
        """Of all cells, whose outer faces are flat where the bent box's are not."""
        corners = self.coords[self.blocks[0].coord_dofs]
        return float(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 6)

    def along_axes(self, element: LagrangeElement) -> npt.NDArray[np.int32]:
        """(num_cells, num_basis) places of the nodes: that of the hexahedron's first corner and that of the node within it."""
        degree = element.degree
        x, y, _ = (count * degree + 1 for count in self.counts)
        steps = np.array([1, x, x * y])
        # (6, num_basis) within a hexahedron.
        inside = (_lattice_places(element) @ CORNERS) @ steps
        along = [degree * step * np.arange(count) for step, count in zip(steps, self.counts, strict=True)]
        corners = (along[2][:, None, None] + along[1][:, None] + along[0]).ravel()
        offsets: npt.NDArray[np.int32] = corners.astype(np.int32)[:, None, None] + inside.astype(np.int32)
        return offsets.reshape(self.num_cells, -1)

    def neighbours(self, cell: int) -> npt.NDArray[np.int32]:
        """Those of all hexahedra that share a vertex with a cell's own."""
        hexahedra = super().neighbours(cell // self.split).astype(np.int32)
        found = (hexahedra[:, None] * np.int32(self.split) + np.arange(self.split, dtype=np.int32)).ravel()
        return found.astype(np.int32)

    def first_coordinate(self, element: LagrangeElement) -> Iterator[tuple[npt.NDArray, npt.NDArray]]:
        """Of some cells at a time: offsets and positions along x of the nodes."""
        offsets, corners = self.offsets(element), self.blocks[0].coord_dofs
        shares = _shares(element) @ np.linalg.inv(_shares(LagrangeElement(self.cell, 1)))
        for begin in range(0, self.num_cells, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            yield offsets[part], self.coords[corners[part], 0] @ shares.T


def _shares(element: LagrangeElement) -> npt.NDArray[np.float64]:
    """(num_basis, 4) barycentric coordinates of the nodes, by the vertices of the reference tetrahedron."""
    along = 0.5 * (element.nodes + 1)
    return np.column_stack([1 - along.sum(axis=1), along])


def _lattice_places(element: LagrangeElement) -> npt.NDArray[np.int64]:
    """(num_basis, 4) the barycentric coordinates of the nodes in steps of a lattice of equal spaces, which sum to the degree."""
    degree, shares = element.degree, _shares(element)
    # Nodes crowd near the ends of an edge: what is evenly spaced is their number.
    edge = np.sort(shares[(np.abs(shares[:, 2:]) < 1e-12).all(axis=1), 1])
    even = np.interp(shares, edge, np.arange(degree + 1))
    places = np.rint(even * (degree / even.sum(axis=1, keepdims=True))).astype(int)
    assert (places.sum(axis=1) == degree).all() and len(np.unique(places, axis=0)) == len(places)
    return places
