"""Actions whose points are coefficients of orthonormal polynomials.

Where the same numbers multiply values and derivatives everywhere in a cell, an action is a sum of integrals of products of two
functions: those of the direction and those of the test function. So is a sum over products of their coefficients in orthonormal
polynomials, which are fewer than the points of a rule that integrates such products: 10 for 14 with Poisson's equation on
tetrahedra of degree 3, 165 for 304 with a mass of degree 8. Kernels need not know: tabulations are of coefficients in place of
values, and each weighs 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement, Quadrature, equalised, orthonormal, reference_cell
from femgpu.kernels import SECOND, FieldWork, RowsWork, Work
from femgpu.operators.term import Term

# How far a rule's sum of products may be from that of the coefficients, relative to the largest: it is exact, or it is not.
_ROUNDING = 5e-15


def with_modes(term: Term, work: Work, elements: Sequence[Any]) -> Work:
    """The work with coefficients for points where its integrand allows that and they are fewer; else the work itself.

    Args:
        term: the term.
        work: what it computes.
        elements: those of the work's tables.
    """
    alike = work.affine and not work.facet and work.num_state == 0 and not work.reads & {"x", "n"} and not work.writes & SECOND
    directions, tests = _factors(work.fields), _factors(work.rows)
    own = {table for table, _ in directions | tests}
    if (
        work.target != "action"
        or not alike
        or not reference_cell(work.cell).is_simplex
        or any(field.vector != "w" for field in work.fields)
        or work.coord_table in own
        or not (directions and tests)
    ):
        return work
    degree = min(
        max(elements[table].polynomial_degree - (kind == "D") for table, kind in factors) for factors in (directions, tests)
    )
    if not 0 < comb(degree + work.dim, degree) < work.num_qpts:
        return work
    pairs = frozenset(((elements[t], k), (elements[u], m)) for t, k in tests for u, m in directions)
    assert isinstance(term.quadrature, Quadrature)
    if not _is_exact(term.quadrature, degree, pairs):
        return work
    return replace(work, num_qpts=comb(degree + work.dim, degree), modes=degree)


def modal_tables(term: Term, work: Work, tabulations: dict[int, list[npt.NDArray[np.float64]]]) -> tuple[Any, Any]:
    """Weights and tabulations of coefficients, facets first as those at the points; coordinates keep their constant gradients.

    Args:
        term: the term.
        work: of `with_modes`.
        tabulations: of each table values (1, num_qpts, num_basis) and gradients (1, num_qpts, num_basis, dim) at the points.
    """
    assert isinstance(term.quadrature, Quadrature)
    transform = modal_transform(term.quadrature, work.modes)
    found = {}
    for number, arrays in tabulations.items():
        if number == work.coord_table:
            found[number] = [np.repeat(array[:, :1], len(transform), axis=1) for array in arrays]
        else:
            found[number] = [equalised(np.tensordot(transform, array[0], 1))[None] for array in arrays]
    return np.ones((1, len(transform))), found


def modal_transform(rule: Quadrature, degree: int) -> npt.NDArray[np.float64]:
    """(num_modes, num_qpts) what makes coefficients in orthonormal polynomials up to a degree of values at the points."""
    return orthonormal(rule.cell, degree, rule.points).T * rule.weights


def _factors(group: Iterable[FieldWork | RowsWork]) -> set[tuple[int, str]]:
    """Tables, and B or D, of what is multiplied."""
    return {(part.table, kind) for part in group for kind, on in (("B", part.value), ("D", part.gradient)) if on}


@cache
def _is_exact(rule: Quadrature, degree: int, pairs: frozenset[Any]) -> bool:
    """Whether sums over a rule's points of all products are those over coefficients but for roundings."""
    transform, weights = modal_transform(rule, degree), rule.weights

    def table(factor: tuple[LagrangeElement, str]) -> npt.NDArray[np.float64]:
        element, kind = factor
        return element.tabulate(rule.points)[kind == "D"].reshape(len(weights), -1)

    for test, direction in pairs:
        one, other = table(test), table(direction)
        wanted = one.T @ (weights[:, None] * other)
        size = np.abs(one).T @ (np.abs(weights)[:, None] * np.abs(other))
        if not np.abs((transform @ one).T @ (transform @ other) - wanted).max() <= _ROUNDING * size.max():
            return False
    return True
