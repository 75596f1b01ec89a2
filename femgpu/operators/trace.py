"""What terms on facets have besides: the nodes there, and the pairs of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement


@dataclass(frozen=True)
class Trace:
    """The functions of an element that are not zero on a facet, of each of a rule's facets equally many.

    Attributes:
        element: the element.
        nodes: for each facet the numbers of its nodes, increasing.
    """

    element: LagrangeElement
    nodes: tuple[tuple[int, ...], ...]
    # No lattice has these nodes alone.
    product: ClassVar[None] = None

    @property
    def num_basis(self) -> int:
        """Functions on a facet."""
        return len(self.nodes[0])


class Pairs(NamedTuple):
    """All facets of a mesh between two cells of certain types.

    Attributes:
        first: (num_pairs,) the first cell of each within its block, int32.
        second: (num_pairs,) the second cell.
        numbers: (num_cells,) which of them the facets of a term are, int32.
    """

    first: npt.NDArray[np.int32]
    second: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int32]
