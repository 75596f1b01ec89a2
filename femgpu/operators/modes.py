"""Actions whose points are coefficients of orthonormal polynomials.

Where the same numbers multiply values and derivatives everywhere in a cell, an action is a sum of integrals of products of two
functions: those of the direction and those of the test function. So is a sum over products of their coefficients in orthonormal
polynomials, which are fewer than the points of a rule that integrates such products: 10 for 14 with Poisson's equation on
tetrahedra of degree 3, 165 for 304 with a mass of degree 8. Kernels need not know: tabulations are of coefficients in place of
values, and each weighs 1.

Of a mass polynomials are rotated, so that half of the coefficients are zeros, which kernels with unrolled loops leave out:
n (n + 1) products for n functions, about as many as with the element matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement, Quadrature, equalised, orthonormal
from femgpu.kernels import FieldWork, RowsWork, Work, triangular
from femgpu.operators.term import Term

# How far a rule's sums of products may be from those of coefficients, relative to the largest: basix's rules are up to 2e-14.
ROUNDING = 5e-14

# An element, and what of it is multiplied: "B" values, "D" gradients.
Factor = tuple[LagrangeElement, str]


def with_modes(term: Term, work: Work, elements: Sequence[Any]) -> Work:
    """The work with coefficients for points where its integrand allows that and they are fewer; else the work itself.

    Args:
        term: the term.
        work: what it computes.
        elements: those of the work's tables.
    """
    rule, dim, state = term.quadrature, work.dim, any(field.vector != "w" for field in work.fields)
    varies = state or work.num_state > 0 or work.second or bool(work.reads & {"x", "n"})
    simple = work.target == "action" and work.affine and isinstance(rule, Quadrature) and work.cell in ("triangle", "tetrahedron")
    directions, tests = _factors(work.fields, elements), _factors(work.rows, elements)
    # Of coordinates there are gradients, the same everywhere, not coefficients.
    shared = work.coord_table in {*(field.table for field in work.fields), *(row.table for row in work.rows)}
    if varies or shared or not (simple and directions and tests):
        return work
    assert isinstance(rule, Quadrature)
    # Of each product one function has to be among the polynomials.
    degree = min(max(element.polynomial_degree - (kind == "D") for element, kind in group) for group in (directions, tests))
    if degree < 0 or comb(degree + dim, dim) >= work.num_qpts or not _is_exact(rule, degree, directions, tests):
        return work
    return replace(work, num_qpts=comb(degree + dim, dim), modes=degree)


def modal_tables(
    term: Term, work: Work, tabulations: dict[int, list[npt.NDArray[np.float64]]]
) -> tuple[npt.NDArray[np.float64], dict[int, list[npt.NDArray[np.float64]]]]:
    """Weights (1, num_modes) and tabulations of coefficients; those of coordinates keep their gradients.

    Args:
        term: the term.
        work: of `with_modes`.
        tabulations: of each table values (1, num_qpts, num_basis) and gradients (1, num_qpts, num_basis, dim) at the points.
    """
    assert isinstance(term.quadrature, Quadrature)
    first = work.fields[0].table
    transform = modal_transform(term.quadrature, work, tabulations[first][0][0])
    found = {
        number: [equalised(np.tensordot(transform, array[0], 1))[None] for array in arrays]
        for number, arrays in tabulations.items()
    }
    if triangular(work):
        found[first][0] = np.triu(found[first][0])
    if work.coord_table in tabulations:
        found[work.coord_table] = [np.repeat(array[:, :1], len(transform), axis=1) for array in tabulations[work.coord_table]]
    return np.ones((1, len(transform))), found


def modal_transform(rule: Quadrature, work: Work, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What makes coefficients of values at the points.

    Args:
        rule: the points.
        work: of `with_modes`.
        values: (num_qpts, num_basis) basis functions of its first field. Where the work's tables are `triangular`, polynomials are
            so rotated that functions before q have no coefficient of polynomial q.

    Returns:
        (num_modes, num_qpts).
    """
    transform = _coefficients(rule, work.modes)
    return np.linalg.qr(transform @ values)[0].T @ transform if triangular(work) else transform


def _coefficients(rule: Quadrature, degree: int) -> npt.NDArray[np.float64]:
    """(num_modes, num_qpts) the same in basix's polynomials up to a degree."""
    return orthonormal(rule.cell, degree, rule.points).T * rule.weights


def _factors(group: Iterable[FieldWork | RowsWork], elements: Sequence[Any]) -> tuple[Factor, ...]:
    """What is multiplied."""
    found = [(elements[part.table], kind) for part in group for kind, on in (("B", part.value), ("D", part.gradient)) if on]
    return tuple(dict.fromkeys(found))


@cache
def _is_exact(rule: Quadrature, degree: int, directions: tuple[Factor, ...], tests: tuple[Factor, ...]) -> bool:
    """Whether sums over a rule's points of all products are those over coefficients but for roundings."""
    num_qpts, transform = rule.num_qpts, _coefficients(rule, degree)

    def table(factor: Factor) -> npt.NDArray[np.float64]:
        values, gradients = factor[0].tabulate(rule.points)
        return (gradients if factor[1] == "D" else values).reshape(num_qpts, -1)

    for one in map(table, tests):
        for other in map(table, directions):
            wanted = one.T @ (rule.weights[:, None] * other)
            size = np.abs(one).T @ (np.abs(rule.weights)[:, None] * np.abs(other))
            if not np.abs((transform @ one).T @ (transform @ other) - wanted).max() <= ROUNDING * size.max():
                return False
    return True
