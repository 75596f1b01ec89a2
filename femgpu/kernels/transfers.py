"""The kernels between vectors: T and L, prescribed rows, sums of E-vectors, packing (`cl/vectors.cl`)."""

from __future__ import annotations

from femgpu.kernels.source import source, type_macros


def vector_kernels(precision: str) -> str:
    """The program of all of them for L- and E-vectors of a precision; T-vectors are double."""
    return "\n".join([*type_macros(precision), source("common.cl"), source("vectors.cl")])
