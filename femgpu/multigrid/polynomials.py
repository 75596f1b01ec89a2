"""Smoothing polynomials by their roots: a step of Richardson's iteration for each.

A smoother of degree k multiplies errors by a polynomial p(D^-1 A) with p(0) = 1. All kinds here have k simple roots in the range of
eigenvalues, so that the steps x += D^-1 r / root do it, in an order that keeps what is between them small.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

KINDS = ("first", "fourth", "opt_fourth")

# The part of the largest eigenvalue above which polynomials of the first kind are small.
_LOWER = 0.1
# Places at which the maximum between two roots is looked for, in an interval that becomes smaller from pass to pass.
_PLACES, _PASSES = 50, 6


@cache
def roots(kind: str, degree: int) -> npt.NDArray[np.float64]:
    """The roots of a polynomial for eigenvalues in (0, 1], in the order in which to take them.

    | kind | |
    |---|---|
    | first | Chebyshev's own, least above a tenth of the largest eigenvalue |
    | fourth | Chebyshev's of the fourth kind: no lower end, max of x p(x)^2 least (Lottes, 2023) |
    | opt_fourth | max of x p(x)^2 / (1 - p(x)^2) least, which bounds a V-cycle (Lottes, 2023; Phillips and Fischer, 2022) |

    Args:
        kind: one of `KINDS`.
        degree: of the polynomial.
    """
    number = np.arange(1, degree + 1)
    fourth: npt.NDArray[np.float64] = np.sin(np.pi * number / (2 * degree + 1)) ** 2
    if kind == "first":
        return _ordered((1 + _LOWER) / 2 + (1 - _LOWER) / 2 * np.cos((number - 0.5) * np.pi / degree))
    return _ordered(_optimal(fourth) if kind == "opt_fourth" else fourth)


def quality(found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The maxima of x p^2 / (1 - p^2) before, between and after the roots (k,) of p, which ascend; (k + 1,) numbers.

    Equal ones are the least that there are.
    """

    def f(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        squares = np.prod(1 - x[:, None] / found, axis=1) ** 2
        return np.asarray(x * squares / (1 - squares))

    values = [0.5 / (1 / found).sum()]  # the limit at zero
    for first, last in zip(found, np.append(found[1:], 1.0), strict=True):
        for _ in range(_PASSES):
            x = np.linspace(first, last, _PLACES)
            heights = f(x)
            at = int(heights.argmax())
            first, last = x[max(at - 1, 0)], x[min(at + 1, _PLACES - 1)]  # noqa: PLW2901
        values.append(heights[at])
    return np.array(values)


def _optimal(start: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The roots for which all maxima are equal, by Newton's method for their logarithms."""
    # Imported here: a tenth of a second, that other kinds of smoothers spare.
    from scipy.optimize import fsolve

    def differences(logarithms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        maxima = np.log(quality(np.exp(logarithms)))
        return np.asarray(maxima[1:] - maxima[0])

    return np.asarray(np.exp(fsolve(differences, np.log(start), xtol=1e-12)))


def _ordered(found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Leja's order: each root as far as may be, by products of distances, from those before it."""
    left, chosen = list(found), [float(found.max())]
    left.remove(chosen[0])
    while left:
        chosen.append(max(left, key=lambda root: float(np.sum(np.log(np.abs(root - np.array(chosen)))))))
        left.remove(chosen[-1])
    return np.array(chosen)
