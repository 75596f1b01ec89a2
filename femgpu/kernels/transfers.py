"""Programs that no plan renders: between vectors, from element matrices to sparse ones, and those of Krylov methods."""

from __future__ import annotations

from typing import Any

from femgpu.kernels.array import DOT_SLOTS
from femgpu.kernels.node_lists import LIST_CONSTANTS, LISTING_ITEMS, NodeList
from femgpu.kernels.source import source, type_macros

# Vectors of 8 numbers that fill the registers of a CPU, and chains enough to hide what an operation takes.
MAD_VECTORS = {"double": 4, "float": 8}
# Steps of CG that x takes together.
CG_STEPS = 8


def vector_kernels(precision: str, owned: str = "double") -> str:
    """Between vectors (`cl/vectors.cl`): T and L, prescribed rows, sums of E-vectors, packing.

    Args:
        precision: of L- and E-vectors.
        owned: C type of T-vectors.
    """
    return "\n".join([*type_macros(precision), f"#define OWNED {owned}", source("common.cl"), source("vectors.cl")])


def krylov_kernels(
    group_size: int, num_groups: int, lanes: int, atomics: str, name: str = "krylov.cl", ctype: str = "double", block: int = 1
) -> str:
    """A program of what Krylov methods do between two actions.

    Args:
        group_size: items of a work-group, a power of 2.
        num_groups: work-groups, which are also the partial sums of a reduction.
        lanes: pairs of entries that an item loads at a time in kernels that read much.
        atomics: how they add to global memory, see `Limits`.
        name: file in `cl/` with the kernels; the sums of `reductions.cl` stand before it.
        ctype: C type of vectors, for the kernels that know more than double.
        block: rows that an item takes together, for the kernels that know more than one.
    """
    sizes = {"GROUP_SIZE": group_size, "NUM_GROUPS": num_groups, "LANES": lanes, "DOT_SLOTS": DOT_SLOTS, "CG_STEPS": CG_STEPS}
    sizes["BLOCK_SIZE"] = block
    sizes["WIDTH"] = 4 if ctype == "float" else 2  # numbers of 16 bytes
    macros = [f"#define {key} {value}" for key, value in (sizes | {"real": ctype, f"ATOMIC_{atomics.upper()}64": ""}).items()]
    parts = [source(part) for part in ("atomics.cl", "reductions.cl", name)]
    return "\n".join(["#pragma OPENCL EXTENSION cl_khr_fp64 : enable", *macros, *parts])


def sparse_kernels(value_type: str, source_type: str, target_type: str, shared: bool, group_size: int) -> str:
    """The program that multiplies sparse matrices with vectors (`cl/sparse.cl`).

    Args:
        value_type: C type of the entries and the sums.
        source_type: that of the vectors that are read.
        target_type: that of the results.
        shared: whether several items may share a row.
        group_size: items of a work-group.
    """
    given = {"VALUE": value_type, "SOURCE": source_type, "TARGET": target_type, "GROUP_SIZE": group_size}
    given |= {"SHARED": ""} if shared else {}
    macros = [f"#define {key} {value}" for key, value in given.items()]
    return "\n".join(["#pragma OPENCL EXTENSION cl_khr_fp64 : enable", *macros, source("sparse.cl")])


def entry_kernels(place: str) -> str:
    """The program that makes the rows of a sparse matrix and sums element matrices into them (`cl/entries.cl`).

    Args:
        place: C type of a place within a row.
    """
    macros = [*type_macros("double"), f"#define PLACE {place}"]
    return "\n".join([*macros, source("common.cl"), source("places.cl"), source("entries.cl")])


def block_kernels(precision: str, group_size: int) -> str:
    """The program of the blocks on a matrix's diagonal (`cl/diagonal_blocks.cl`).

    Args:
        precision: of L-vectors.
        group_size: items that invert a block.
    """
    macros = [*type_macros(precision), f"#define GROUP_SIZE {group_size}"]
    return "\n".join([*macros, source("common.cl"), source("diagonal_blocks.cl")])


def children_kernels(num_nodes: int) -> str:
    """The program that makes element matrices of those of a refined mesh (`cl/children.cl`).

    Args:
        num_nodes: of a cell, for each component.
    """
    macros = ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable", f"#define NODES {num_nodes}"]
    return "\n".join([*macros, source("children.cl")])


def nesting_kernels() -> str:
    """The program that finds out where the nodes of nested spaces stand (`cl/nesting.cl`)."""
    return source("nesting.cl")


def list_kernels() -> str:
    """The program that makes arrays over cells (`cl/lists.cl`)."""
    return source("lists.cl")


def node_list_kernels(entry: NodeList, block: int) -> str:
    """The program that makes lists of the nodes of work-groups (`cl/node_lists.cl`).

    Args:
        entry: the lists.
        block: cells whose places are interleaved.
    """
    given = {"CELLS": entry.cells, "NUM_BASIS": entry.num_basis, "NUM_KEYS": entry.num_keys}
    given |= {"BLOCK": block, "PLACE_WORDS": entry.place_words, "TOGETHER": entry.together}
    given |= LIST_CONSTANTS | {"GROUP_SIZE": LISTING_ITEMS}
    given |= {"MOST_RESULTS": entry.most_results, "MOST_SLOTS": entry.most_slots, "EVEN_ROWS": int(entry.slots > 0)}
    given |= {"PACKED": int(entry.packed), "PLACE_RANGE": entry.place_range}
    macros = [f"#define {key} {value}" for key, value in given.items()]
    return "\n".join([*macros, source("node_lists.cl")])


def interpolation_kernels(
    shape: tuple[int, int, int], num_comp: int, types: tuple[str, str], group: tuple[int, int], atomics: str
) -> str:
    """The program that takes functions from one space to a finer one, and the transpose (`cl/interpolate.cl`).

    Args:
        shape: directions of the lattices of nodes, fine and coarse nodes in each.
        num_comp: components of the field.
        types: C types of fine and of coarse vectors; arithmetic is in that of the fine ones.
        group: items of a work-group, and the cells' components that they share.
        atomics: how coarse vectors are added to, see `Limits`; empty: each cell writes entries of its own.
    """
    fine, coarse = types
    given: dict[str, Any] = dict(zip(("DIM", "P", "Q", "ITEMS", "COLUMNS"), (*shape, *group), strict=True))
    given |= {"NUM_COMP": num_comp, "FINE": fine, "COARSE": coarse}
    given |= {f"ATOMIC_{atomics.upper()}{64 if coarse == 'double' else 32}": "", "ATOMIC": ""} if atomics else {}
    macros = [f"#define {key} {value}" for key, value in given.items()]
    adds = [source("atomics.cl")] if atomics else []
    return "\n".join(
        ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable", *macros, f"typedef {coarse} scalar;", *adds, source("interpolate.cl")]
    )


def roofline_kernels(ctype: str, steps: int, adds: int, atomics: str = "", mma: int = 0) -> str:
    """The program that shows what a device does at most (`cl/roofline.cl`).

    Args:
        ctype: C type of the numbers that are multiplied and added.
        steps: between two looks at the number of rounds, in each of which an item multiplies and adds `MAD_VECTORS` vectors of 8.
        adds: of an item to global memory.
        atomics: how they are made, see `Limits`; empty: there are none.
        mma: rows of the matrices that matrix instructions take, which are tried, too; 0: they are not.
    """
    given: dict[str, Any] = {"REAL": ctype, "REAL8": f"{ctype}8", "STEPS": steps, "ADDS": adds, "VECTORS": MAD_VECTORS[ctype]}
    given |= {"MMA": mma} if mma else {}
    given |= {f"ATOMIC_{atomics.upper()}64": "", "ATOMIC": ""} if atomics else {}
    macros = [f"#define {key} {value}" for key, value in given.items()]
    sums = [source("atomics.cl")] if atomics else []
    return "\n".join(["#pragma OPENCL EXTENSION cl_khr_fp64 : enable", *macros, *sums, source("roofline.cl")])
