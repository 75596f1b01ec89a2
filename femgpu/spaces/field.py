"""A field: one Lagrange component group of a space, with its place in the space's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement


@cache
def entry_components(shape: tuple[int, ...], symmetric: bool) -> tuple[int, ...]:
    """The stored component of each entry of a value, entries counted row by row.

    Args:
        shape: value shape.
        symmetric: whether values are symmetric tensors. They store the rows of the lower triangle, (0, 0), (1, 0), (1, 1), (2, 0)
            and so on, as basix does.
    """
    if not symmetric:
        return tuple(range(prod(shape)))
    return tuple(max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i, j in product(range(shape[0]), repeat=2))


@dataclass(frozen=True, eq=False)
class Field:
    """One field of a space.

    Attributes:
        name: as fieldsplit and files call it.
        offset: its first component among those of the space.
        shape: value shape.
        elements: the scalar element on each of the mesh's blocks.
        offsets: (num_cells, num_basis) int32 positions of component 0 in the L-vector, one array per block.
        side: 0, or 1 for the field as the second cell of a facet has it, whose components follow all those of the first cell.
        symmetric: whether values are symmetric tensors, of which half is stored.
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    elements: tuple[LagrangeElement, ...]
    offsets: tuple[npt.NDArray[np.int32], ...]
    side: int = 0
    symmetric: bool = False

    @property
    def num_comp(self) -> int:
        """Components of a value that are stored."""
        return int(self.entry_components.max()) + 1

    @cached_property
    def entry_components(self) -> npt.NDArray[np.int32]:
        """(prod(shape),) the stored component of each entry of a value, entries counted row by row."""
        return np.array(entry_components(self.shape, self.symmetric), np.int32)

    @property
    def degree(self) -> int:
        """Degree of the Lagrange functions, the same on all blocks."""
        return self.elements[0].degree

    @property
    def polynomial_degree(self) -> int:
        """Degree of all functions, bubbles included."""
        return self.elements[0].polynomial_degree

    @property
    def bubble(self) -> bool:
        """Whether there is a node in the middle of each cell, see `LagrangeElement`."""
        return self.elements[0].bubble

    @property
    def family(self) -> str:
        """What FunctionSpaces with such a field are called."""
        return self.elements[0].family

    @property
    def continuous(self) -> bool:
        """Whether neighbouring cells share nodes."""
        return self.elements[0].continuous

    def dofs(self, block: int, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.int32]:
        """(num_cells, num_basis * num_comp) positions in the L-vector of the dofs of a block's cells, components fastest."""
        first = self.offsets[block][cells]
        every = (first[:, :, None] + np.arange(self.num_comp, dtype=np.int32)).astype(np.int32, copy=False)
        return every.reshape(len(first), first.shape[1] * self.num_comp)


def copy_nodes(
    source: npt.NDArray[np.float64],
    origins: Sequence[npt.NDArray[np.int32]],
    target: npt.NDArray[np.float64],
    places: Sequence[npt.NDArray[np.int32]],
    num_comp: int,
) -> None:
    """Copies the nodal values of a field from one L-vector to another, of equal elements on the same mesh.

    Args:
        source: (num_local,) the values.
        origins: for each block the (num_cells, num_basis) positions of component 0 in `source`.
        target: an L-vector too, written in place.
        places: as `origins`, in `target`.
        num_comp: components of a value.
    """
    for origin, place in zip(origins, places, strict=True):
        for component in range(num_comp):
            target[place + component] = source[origin + component]
