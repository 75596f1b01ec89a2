"""The degree of quadrature that an integrand asks for.

Polynomials are integrated exactly. What is none has no degree: UFL's estimate for it grows with every product and function, and is
capped by what the highest degree in the form asks for. A sum is both: its polynomial part counts in full.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

from ufl.algorithms.estimate_degrees import SumDegreeEstimator
from ufl.classes import ScalarValue
from ufl.corealg.map_dag import map_expr_dag

from femgpu.element import EXACT_DEGREE, collocated_degree
from femgpu.errors import FormError, QuadratureWarning, callers
from femgpu.forms.ufl.preprocessing import Constants, Piece
from femgpu.forms.ufl.regions import MEASURES
from femgpu.forms.ufl.show import show
from femgpu.spaces import mesh_of

# By how much UFL's estimate for what is no polynomial may be cut without a warning: it adds as much for each function, sin(x) say.
_SLIGHT = 2
# The degree of what is no polynomial: it takes no part in maxima, and makes products with it none.
_NONE = -math.inf


class _PolynomialPart(SumDegreeEstimator):
    """The degree of what remains of an expression when all terms that are no polynomials are dropped.

    An operand of degree 0 is constant in a cell, and so is any function of it.
    """

    def __init__(self) -> None:
        super().__init__(1, {})

    def sum(self, v: Any, *degrees: float) -> float:
        return max(degrees)

    list_tensor = sum

    def division(self, v: Any, a: float, b: float) -> float:
        return a if b == 0 else _NONE

    def power(self, v: Any, a: float, b: float) -> float:
        exponent = v.ufl_operands[1]
        number = float(exponent) if isinstance(exponent, ScalarValue) else -1.0
        if number >= 0 and number.is_integer():
            return a * int(number) if number else 0
        return self._constant(v, a, b)

    def condition(self, v: Any, *degrees: float) -> float:
        return self._constant(v, *degrees)

    def conditional(self, v: Any, condition: float, a: float, b: float) -> float:
        return max(a, b) if condition == 0 else _NONE

    def _constant(self, v: Any, *degrees: float) -> float:
        return 0 if all(degree == 0 for degree in degrees) else _NONE

    math_function = bessel_function = atan2 = abs = min_value = max_value = _constant


def quadrature_degree(piece: Piece, highest: int, nodal: int | None, notes: list[str], constants: Constants) -> tuple[int, bool]:
    """The degree that the quadrature of a piece integrates exactly.

    Args:
        piece: the piece.
        highest: degree of anything in the form: of what is no polynomial 2 highest + 2 is asked for at most.
        nodal: of the functions in whose nodes "GLL" has its points where the user gives no degree; None: as other rules.
        notes: receives a line when the estimate is capped, or when the user's degree is more than the vertex rule has.
        constants: whose stand-ins are in the piece.

    Returns:
        The degree, and whether it is an estimate: that counts the integrand only, not the map of the cells.

    Raises:
        FormError: if the user's degree is not a whole number.
    """
    given = piece.metadata.get("quadrature_degree", -1)
    if not isinstance(given, int) or given < -1:
        raise FormError(f"quadrature_degree {given!r} in the metadata of a measure; expected an integer of at least 0")
    where = "everywhere" if piece.subdomains == ((),) else f"subdomains {piece.subdomains}"
    kind, measure = "cell" if piece.type == "cell" else "facet", MEASURES[piece.type]
    if piece.scheme == "vertex":
        if given > 1:
            notes.append(f"{kind} integral ({where}): quadrature degree {given} is asked for, the vertex rule is exact to degree 1")
        return 1, False
    if given >= 0:
        return given, False
    if piece.scheme == "GLL" and nodal is not None:
        return collocated_degree(nodal), False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the walk has refused what UFL does not know
        estimate = map_expr_dag(SumDegreeEstimator(1, {}), piece.integrand)
        polynomial = map_expr_dag(_PolynomialPart(), piece.integrand)
    degree = int(max(min(polynomial, EXACT_DEGREE), min(estimate, 2 * highest + 2)))
    if degree < estimate:
        what = "the integrand is a polynomial of degree" if polynomial == estimate else "UFL estimates"
        line = (
            f"{kind} integral ({where}): quadrature of degree {degree}, though {what} {estimate}; "
            f"{measure}(degree=n) sets another: {show(constants.restore(piece.integrand))}"
        )
        notes.append(line)
        mesh = mesh_of(piece.domain)
        cut = estimate - degree
        if (cut > _SLIGHT or polynomial == estimate) and (mesh is None or mesh.mpi.rank == 0):
            _warn(line)
    return degree, True


@cache
def _warn(line: str) -> None:
    """Says the same once. Python's own account of what was said is lost whenever anybody changes a filter."""
    warnings.warn(line, QuadratureWarning, stacklevel=callers())
