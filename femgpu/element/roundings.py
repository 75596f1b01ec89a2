"""Tables without the roundings that tell equal numbers apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Roundings of the largest number; symmetric rules and basix's polynomials have up to ten at the degrees of loops that are unrolled.
_ROUNDINGS = 16
# Entries of tables that no compiler sees number by number.
_MOST = 1 << 11


def equalised(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Numbers whose magnitudes differ by roundings alone made equal, and those that are zero but for them zero.

    Symmetric rules and functions give a few magnitudes over and over, each with roundings of its own. Where loops are unrolled
    compilers take as many different literals as there are, two instructions to fetch each.

    Args:
        numbers: of any shape; large tables come back as they are.

    Returns:
        The numbers, none further from its own than the numbers of its magnitude are from each other: 16 roundings of the largest
        one between neighbours.
    """
    largest = np.abs(numbers).max(initial=0.0)
    if numbers.size > _MOST or not 0.0 < largest < np.inf:
        return numbers
    sizes = np.abs(numbers).ravel()
    order = np.argsort(sizes)
    ordered = sizes[order]
    begins = np.flatnonzero(np.append(True, np.diff(ordered) > _ROUNDINGS * np.finfo(float).eps * largest))
    counts = np.diff(np.append(begins, len(ordered)))
    chosen = ordered[begins + counts // 2]
    chosen[ordered[begins] <= _ROUNDINGS * np.finfo(float).eps * largest] = 0.0
    sizes[order] = np.repeat(chosen, counts)
    # No negative zeros.
    return np.copysign(sizes.reshape(numbers.shape), numbers) + 0.0
