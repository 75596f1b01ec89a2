"""Minimum cuts of directed networks with real capacities."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

SOURCE, SINK = "source", "sink"
# The flow is computed in 32-bit integers: capacities are rounded to a thousandth, or coarser if they are large.
_LARGEST_FLOW = 2**28
_FINEST = 1000.0


class Cut:
    """A network from SOURCE to SINK whose vertices have any names.

    All edges from the source need a finite capacity.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {SOURCE: 0, SINK: 1}
        self._capacities: dict[tuple[int, int], float] = {}

    def edge(self, tail: Hashable, head: Hashable, capacity: float) -> None:
        """Adds an edge; of several between two vertices the last counts."""
        number = self._numbers
        ends = number.setdefault(tail, len(number)), number.setdefault(head, len(number))
        self._capacities[ends] = capacity

    def source_side(self) -> dict[Hashable, None]:
        """The vertices on the source's side of a minimum cut, as few as possible, in the order of their edges."""
        # Imported here: a tenth of a second and more, which forms without a state to store do not need.
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        size = len(self._numbers)
        ends = np.array(list(self._capacities), dtype=np.int32).reshape(-1, 2)
        capacities = csr_matrix((self._integers(), (ends[:, 0], ends[:, 1])), shape=(size, size))
        residual = capacities - maximum_flow(capacities, 0, 1).flow
        residual.eliminate_zeros()
        reached = np.zeros(size, dtype=bool)
        reached[breadth_first_order(residual, 0, return_predecessors=False)] = True
        return {name: None for name, is_reached in zip(self._numbers, reached, strict=True) if is_reached}

    def _integers(self) -> np.ndarray:
        total = sum(value for (tail, _), value in self._capacities.items() if tail == 0)
        scale = min(_FINEST, _LARGEST_FLOW / total) if total > 0 else _FINEST
        # No flow exceeds the total: an edge of more than that is never cut.
        uncut = math.ceil(total * scale) + len(self._capacities)
        # An edge that costs something keeps a capacity, so that nothing is cut in vain.
        return np.array(
            [0 if value == 0 else max(1, round(min(value * scale, uncut))) for value in self._capacities.values()], dtype=np.int32
        )
