"""Orthonormal polynomials on PETSc's reference cells, by basix."""

from __future__ import annotations

import itertools

import basix
import numpy as np
import numpy.typing as npt
from basix.polynomials import tabulate_polynomial_set


def orthonormal(cell: str, degree: int, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_points, num_polynomials) polynomials up to a degree, orthonormal on PETSc's reference simplex, at points of it."""
    # basix's are so on its own cell, whose edges are half as long.
    return tabulate_orthonormal(cell, degree, points, 0)[0] * 0.5 ** (0.5 * points.shape[1])


def tabulate_orthonormal(cell: str, degree: int, points: npt.NDArray[np.float64], num_deriv: int) -> npt.NDArray[np.float64]:
    """(num_derivatives, num_points, num_polynomials) basix's orthonormal polynomials and their derivatives on PETSc's cell.

    Derivatives up to the given order come in the order of `basix.index`; norms are those on basix's cell.
    """
    values = tabulate_polynomial_set(basix.CellType[cell], basix.PolysetType.standard, degree, num_deriv, 0.5 * (points + 1.0))
    values = np.swapaxes(values, 1, 2)
    # Each derivative brings a factor: basix lives on [0, 1]^dim.
    for order in itertools.product(range(num_deriv + 1), repeat=points.shape[1]):
        if 0 < sum(order) <= num_deriv:
            values[basix.index(*order)] *= 0.5 ** sum(order)
    return values
