"""Weights, normals and tabulations as a program sees them: an argument, or __constant numbers in its text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from femgpu.kernels.contraction import product_words, products
from femgpu.kernels.plan import Plan


def pack_tables(
    plan: Plan, weights: np.ndarray, normals: np.ndarray | None, tabulations: Mapping[int, list[np.ndarray]]
) -> np.ndarray:
    """Weights, normal and tabulations in the order of the program's table macros.

    Args:
        plan: the plan.
        weights: (num_qpts,), of facets (num_facets, num_qpts).
        normals: (num_facets, dim) reference normals of facets.
        tabulations: of each table of `plan.tables` values (num_qpts, num_basis), gradients (num_qpts, num_basis, dim) and, where
            the work says so, second derivatives (num_qpts, num_basis, dim, dim); of facets with num_facets as first axis.

    Returns:
        (num_facets or 1, plan.table_words) float64.
    """
    summed: list[np.ndarray] = []
    num_points = weights.shape[-1]
    if plan.work.contracted:
        summed, weights = list(products(plan.work, weights.ravel(), tabulations)), np.ones(1)
    pieces = [weights] if normals is None else [weights, normals]
    count, odd = 1 if normals is None else len(normals), plan.table_space == "__local"
    for array in (array for number in plan.tables for array in tabulations[number]):
        points = array.reshape(count, num_points, -1)[:, : plan.work.num_qpts]
        width = points.shape[2]
        pieces.append(np.pad(points, ((0, 0), (0, 0), (0, (width | odd) - width))))
    packed = np.concatenate([array.reshape(count, -1) for array in (*pieces, *summed)], axis=1)
    assert packed.shape == (count, plan.table_words)
    return packed


def table_text(plan: Plan, tables: np.ndarray) -> str:
    """Macros TABLE_W, TABLE_N, TABLE_B, TABLE_D, TABLE_H, and the numbers where they stand in the program.

    Args:
        plan: the plan.
        tables: what `pack_tables` makes.
    """
    work, odd, lines = plan.work, plan.table_space == "__local", [f"#define TABLE {plan.table_space}"]
    if plan.table_space == "__constant":
        numbers = ", ".join(f"R({float(value).hex()})" for value in tables.ravel())
        lines.append(f"__constant real d_tables[{tables.size}] = {{{numbers}}};")
    base = "s_tables" if odd else f"(d_tables + facet * {plan.table_words})" if work.facet else "d_tables"
    lines.append(f"#define TABLE_W(q) {base}[q]")
    start = work.num_qpts
    if work.facet:
        lines.append(f"#define TABLE_N ({base} + {start})")
        start += work.dim
    for number in plan.tables:
        for letter, words in work.tables[number].widths(work.dim).items():
            width = words | odd
            lines.append(f"#define TABLE_{letter}{number}(q) ({base} + {start} + (q) * {width})")
            start += work.num_qpts * width
    for i, j, words in product_words(work):
        lines.append(f"#define TABLE_P{i}_{j} ({base} + {start})")
        start += words
    lines += [f"#define TABLE_{letter}(i, q) TABLE_{letter}##i(q)" for letter in "BDH"]
    return "\n".join(lines)
