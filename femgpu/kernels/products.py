"""Element matrices whose points are summed beforehand: where what multiplies the basis functions is the same at all points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from femgpu.kernels.work import SECOND, Work

# Numbers in the tables of products at most: larger ones leave the caches.
_MOST_WORDS = 1 << 17
# Operations of an entry by points over those by products, from which on tables of products are worth their loads.
_GAIN = 2


def with_products(work: Work) -> Work:
    """The work with its points summed beforehand where its integrand allows that and it is worth it; else the work itself.

    An entry of the matrix is the sum over points of weight times measure times test factor times block times trial factor, where
    factors are values and derivatives of basis functions. In affine cells, with coefficients that are constant in a cell, measure
    and block leave the sum.
    """
    constant = all(field.num_basis == 1 and not field.gradient and not field.hessian for field in work.fields)
    if not (work.affine and constant) or work.facet or work.num_state or work.reads & {"x", "n"} or work.writes & SECOND:
        return work
    factors = sum(work.dim if letter == "D" else 1 for letter in {test for test, _ in work.factors})
    words, most = work.block_words, max(row.num_basis for row in work.rows)
    if _GAIN * words > factors * work.num_qpts or words * most**2 * len(work.rows) ** 2 > _MOST_WORDS:
        return work
    return replace(work, num_qpts=1, products=True)


def product_words(work: Work) -> Iterator[tuple[int, int, int]]:
    """Numbers of the fields of test function and direction, and how many numbers their products are."""
    if work.products:
        for i, test in enumerate(work.rows):
            for j, trial in enumerate(work.rows):
                yield i, j, work.block_words * test.num_basis * trial.num_basis


def product_tables(work: Work, weights: np.ndarray, tabulations: Mapping[int, list[np.ndarray]]) -> Iterator[np.ndarray]:
    """The tables of `product_words`: for each word of a block (num_basis of the test function, num_basis of the direction).

    Args:
        work: of `with_products`.
        weights: (num_qpts,) of the rule.
        tabulations: values (num_qpts, num_basis) and gradients (num_qpts, num_basis, dim) at all points, by table.
    """
    parts = [
        {"B": [tables[0].reshape(len(weights), -1)], "D": list(np.moveaxis(tables[1].reshape(len(weights), -1, work.dim), 2, 0))}
        for tables in (tabulations[row.table] for row in work.rows)
    ]
    value = [trial for test, trial in work.factors if test == "B"]
    gradient = [trial for test, trial in work.factors if test == "D"]
    for test in parts:
        for trial in parts:
            pairs = [(v, t) for v in test["B"] for kind in value for t in trial[kind]]
            pairs += [(v, t) for v in test["D"] for kind in gradient for t in trial[kind]]
            yield np.array([(weights[:, None] * v).T @ t for v, t in pairs])
