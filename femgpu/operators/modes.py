"""Actions whose points are coefficients of orthonormal polynomials.

Where the same numbers multiply values and derivatives everywhere in a cell, an action is a sum of integrals of products of two
functions: those of the direction and those of the test function. So is a sum over products of their coefficients in orthonormal
polynomials, which are no more, and mostly fewer, than the points of a rule that integrates such products: 10 for 14 with Poisson's
equation on tetrahedra of degree 3, 165 for 304 with a mass of degree 8. Kernels need not know: tabulations are of coefficients in
place of values, and each weighs 1.

Polynomials, and combinations of basis functions, are even or odd under reflections of the cell, so that half of their coefficients
are zeros on triangles and three quarters on tetrahedra (`element/mirrors.py`); schedule `cell` knows, and leaves them out. Of a
mass polynomials are rotated besides, so that half of the others are zeros, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import (
    LagrangeElement,
    Quadrature,
    equalised,
    mirror_of,
    mirrored_derivatives,
    mirrored_polynomials,
    orthonormal,
)
from femgpu.kernels import FieldWork, RowsWork, Symmetry, Work
from femgpu.operators.term import Term

# How far a rule's sums of products may be from those of coefficients, relative to the largest: basix's rules are up to 2e-14.
ROUNDING = 5e-14

# An element, and what of it is multiplied: "B" values, "D" gradients.
Factor = tuple[LagrangeElement, str]


def with_modes(term: Term, work: Work, elements: Sequence[Any]) -> Work:
    """The work with coefficients for points where its integrand allows that and they are no more; else the work itself.

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
    if degree < 0 or comb(degree + dim, dim) > work.num_qpts or not _is_exact(rule, degree, directions, tests):
        return work
    found = replace(work, num_qpts=comb(degree + dim, dim), modes=degree)
    found = replace(found, symmetry=_symmetry(found, elements))
    # As many polynomials as points pay where zeros can be left out.
    return work if found.num_qpts == work.num_qpts and found.symmetry is None else found


def modal_tables(
    term: Term, work: Work, tabulations: dict[int, list[npt.NDArray[np.float64]]], mirrored: bool = False
) -> tuple[npt.NDArray[np.float64], dict[int, list[npt.NDArray[np.float64]]]]:
    """Weights (1, num_modes) and tabulations of coefficients; those of coordinates keep their gradients.

    Args:
        term: the term.
        work: of `with_modes`.
        tabulations: of each table values (1, num_qpts, num_basis) and gradients (1, num_qpts, num_basis, dim) at the points.
        mirrored: whether they are to be those of the combinations that `work.symmetry` has, and of its derivatives.
    """
    assert isinstance(term.quadrature, Quadrature)
    first = work.fields[0].table
    transform = modal_transform(term.quadrature, work, tabulations[first][0][0])
    found = {number: [np.tensordot(transform, array[0], 1) for array in arrays] for number, arrays in tabulations.items()}
    if mirrored:
        assert work.symmetry is not None
        found |= {number: _combined(work, number, *found[number]) for number, _ in work.symmetry.mirrors}
    found = {number: [equalised(array)[None] for array in arrays] for number, arrays in found.items()}
    if work.coord_table in tabulations:
        found[work.coord_table] = [np.repeat(array[:, :1], len(transform), axis=1) for array in tabulations[work.coord_table]]
    return np.ones((1, len(transform))), found


def modal_transform(rule: Quadrature, work: Work, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What makes coefficients of values at the points.

    Args:
        rule: the points.
        work: of `with_modes`.
        values: (num_qpts, num_basis) basis functions of its first field, by which polynomials are rotated where the work's tables
            are `triangular`.

    Returns:
        (num_modes, num_qpts).
    """
    transform, symmetry = _coefficients(rule, work.modes), work.symmetry
    if symmetry is None:
        return transform
    transform = mirrored_polynomials(rule.cell, work.modes)[0] @ transform
    if symmetry.triangular:
        table = work.fields[0].table
        combined = transform @ values @ np.linalg.inv(symmetry.mirror(table).matrix)
        for parity in symmetry.parities:
            polynomials, functions = symmetry.polynomials(parity), symmetry.functions(table, parity)
            turn = np.linalg.qr(combined[np.ix_(polynomials, functions)])[0].T
            transform[polynomials] = turn @ transform[polynomials]
    return transform


def _symmetry(work: Work, elements: Sequence[Any]) -> Symmetry | None:
    """Of a work with coefficients; None where an element's nodes have none."""
    parts: tuple[FieldWork | RowsWork, ...] = (*work.fields, *work.rows)
    mirrors = tuple((number, mirror_of(elements[number])) for number in sorted({part.table for part in parts}))
    if any(mirror is None for _, mirror in mirrors):
        return None
    square = all(part.num_basis == work.num_qpts and not part.gradient for part in parts) and len(mirrors) == 1
    begins, directions = mirrored_polynomials(work.cell, work.modes)[1], mirrored_derivatives(work.cell)[1]
    return Symmetry(mirrors, begins, directions, square)  # type: ignore[arg-type]


def _combined(work: Work, number: int, values: npt.NDArray[np.float64], gradients: npt.NDArray[np.float64]) -> list[np.ndarray]:
    """Coefficients (num_modes, num_basis) and (num_modes, num_basis, dim) of combinations and even or odd derivatives."""
    symmetry = work.symmetry
    assert symmetry is not None
    back = np.linalg.inv(symmetry.mirror(number).matrix)
    parts = np.einsum("kd,qbd->qbk", np.linalg.inv(mirrored_derivatives(work.cell)[0]), gradients)
    found = [values @ back, np.einsum("qbk,bs->qsk", parts, back)]
    for array, classes in ((found[0][..., None], (0,)), (found[1], symmetry.directions)):
        for k, applied in enumerate(classes):
            kept = np.zeros(values.shape, bool)
            for parity in symmetry.parities:
                kept[np.ix_(symmetry.polynomials(parity), symmetry.functions(number, parity, applied))] = True
            array[..., k] *= np.triu(kept) if symmetry.triangular else kept
    return found


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
