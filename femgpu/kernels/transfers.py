"""The kernels between vectors: T and L, prescribed rows, sums of E-vectors, packing (`cl/vectors.cl`); Krylov methods' own."""

from __future__ import annotations

from femgpu.kernels.source import source, type_macros


def vector_kernels(precision: str) -> str:
    """The program of all of them for L- and E-vectors of a precision; T-vectors are double."""
    return "\n".join([*type_macros(precision), source("common.cl"), source("vectors.cl")])


def krylov_kernels(group_size: int, num_groups: int) -> str:
    """The program of what Krylov methods do between two actions (`cl/krylov.cl`), for double precision vectors.

    Args:
        group_size: items of a work-group, a power of 2.
        num_groups: work-groups, which are also the partial sums of a reduction.
    """
    macros = [f"#define GROUP_SIZE {group_size}", f"#define NUM_GROUPS {num_groups}"]
    return "\n".join(["#pragma OPENCL EXTENSION cl_khr_fp64 : enable", *macros, source("krylov.cl")])
