"""Preconditioners that are blocks on a diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from femgpu.krylov.operator import Preconditioner
from femgpu.krylov.vectors import Vectors

# The file with the kernels.
PRECONDITIONERS = "preconditioners.cl"


def block_diagonal(vectors: Vectors, inverses: Any, size: int) -> Preconditioner:
    """M of successive blocks on its diagonal.

    Args:
        vectors: kernels and lengths.
        inverses: device buffer (num_blocks, size, size) of their entries, column by column, in the vectors' precision.
        size: rows of a block, which divides the lengths of all ranks.
    """
    if size == 1:
        return Preconditioner(inverses)
    given = np.int32(size), inverses, inverses, inverses
    multiply = vectors.kernel("block_multiply", *given, file=PRECONDITIONERS)
    return Preconditioner(apply=lambda r, z: multiply.bound({3: r, 4: z})())
