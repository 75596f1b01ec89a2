"""Tables of coefficients in orthonormal polynomials half of which are zeros."""

from __future__ import annotations

from femgpu.kernels.work import FieldWork, RowsWork, Work


def triangular(work: Work) -> bool:
    """Whether polynomials are so rotated that basis functions before q have no coefficient of polynomial q.

    So it is where values of one element alone are multiplied with each other, which has as many basis functions as there are
    polynomials: with a mass.
    """
    parts: tuple[FieldWork | RowsWork, ...] = (*work.fields, *work.rows)
    square = all(part.num_basis == work.num_qpts and not (part.gradient or part.hessian) for part in parts)
    return work.modes >= 0 and square and len({part.table for part in parts}) == 1
