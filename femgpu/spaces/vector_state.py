"""Whether a function has been written to."""

from __future__ import annotations

import zlib

from femgpu.spaces.function import Function


def vector_state(function: Function) -> tuple[int, int]:
    """What changes when a function is written to on this rank: PETSc's state and, while others hold its vector, a checksum.

    A view of the vector's array holds it, and PETSc does not notice what is written there. Solvers hold vectors, too: of unknowns
    (`Function.unknown`) there is the state alone.
    """
    vec = function.vec
    return vec.stateGet(), 0 if function.unknown or vec.refcount < 2 else zlib.crc32(vec.getArray(readonly=True))
