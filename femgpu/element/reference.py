"""PETSc's reference cells: vertices in closure order, facets in cone order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from femgpu.errors import MeshError


@dataclass(frozen=True, eq=False)
class ReferenceCell:
    """A reference cell on [-1, 1]^dim.

    Simplices are x_i >= -1, sum of x_i <= 2 - dim. PETSc lists vertices such that the first facet points outwards, which
    is why vertices 1 and 2 of the tetrahedron, and 1 and 3 of the hexahedron, are swapped with respect to VTK.

    Attributes:
        name: interval, triangle, quadrilateral, tetrahedron or hexahedron.
        dim: topological dimension.
        vertices: (num_vertices, dim) coordinates in PETSc's closure order.
        facets: vertex numbers of each facet, facets in PETSc's cone order.
        is_simplex: whether the cell is a simplex.
        volume: the measure of the cell.
    """

    name: str
    dim: int
    vertices: npt.NDArray[np.float64]
    facets: tuple[tuple[int, ...], ...]
    is_simplex: bool
    volume: float

    @property
    def facet_cells(self) -> tuple[str, ...]:
        """Type of each facet."""
        return tuple({1: "point", 2: "interval", 3: "triangle", 4: "quadrilateral"}[len(facet)] for facet in self.facets)

    @property
    def num_vertices(self) -> int:
        """Number of vertices."""
        return len(self.vertices)


_CELLS: dict[str, tuple[list[list[int]], tuple[tuple[int, ...], ...], bool, float]] = {
    "interval": ([[-1], [1]], ((0,), (1,)), True, 2.0),
    "triangle": ([[-1, -1], [1, -1], [-1, 1]], ((0, 1), (1, 2), (0, 2)), True, 2.0),
    "quadrilateral": ([[-1, -1], [1, -1], [1, 1], [-1, 1]], ((0, 1), (1, 2), (2, 3), (0, 3)), False, 4.0),
    "tetrahedron": (
        [[-1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]],
        ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
        True,
        4.0 / 3.0,
    ),
    "hexahedron": (
        [[-1, -1, -1], [-1, 1, -1], [1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]],
        ((0, 1, 2, 3), (4, 5, 6, 7), (0, 3, 4, 5), (1, 2, 6, 7), (2, 3, 5, 6), (0, 1, 4, 7)),
        False,
        8.0,
    ),
}

CELL_NAMES = tuple(_CELLS)


@cache
def reference_cell(name: str) -> ReferenceCell:
    """Looks a reference cell up.

    Args:
        name: one of `CELL_NAMES`.

    Returns:
        The reference cell; the same object for the same name.

    Raises:
        MeshError: for any other name.
    """
    if name not in _CELLS:
        raise MeshError(f"cell {name!r} is not supported; expected one of {', '.join(CELL_NAMES)}")
    vertices, facets, is_simplex, volume = _CELLS[name]
    array = np.array(vertices, np.float64)
    array.flags.writeable = False
    return ReferenceCell(name, array.shape[1], array, facets, is_simplex, volume)
