"""Arrays of numbers with first-order bounds of their rounding errors, and sums of products of them.

Errors are counted in units of the unit roundoff of the arithmetic at the points. Whatever the order in which a kernel multiplies
and adds, a sum of n products of m factors is wrong by at most n + m roundings of the sum of the products' absolute values: that sum
is called the size.
"""

from dataclasses import dataclass

import numpy as np

ROUNDOFF = {"double": 2.0**-53, "single": 2.0**-24, "mixed": 2.0**-24}
# By which share of their errors factors are moved to see how far the product moves; small beside one, large beside 2^-53.
_STEP = 2.0**-24


@dataclass(frozen=True)
class Arithmetic:
    """How a kernel computes.

    Attributes:
        precision: "double", "single" or "mixed".
        geometry: "stored", the host's, rounded once; or "recomputed" from the coordinates, which loses as many digits as cells are
            smaller than their distance from the origin.
        lines: whether it works with 1D tabulations, one direction after the other.
        rounded: whether what is stored at points and in cells is rounded to single precision.
    """

    precision: str
    geometry: str = "stored"
    lines: bool = False
    rounded: bool = False

    @property
    def stored_unit(self):
        """What storing a number loses of it, in units of the roundoff at the points."""
        return ROUNDOFF["single"] / self.unit if self.rounded else 0.0

    @property
    def unit(self):
        """The unit roundoff at the points."""
        return ROUNDOFF[self.precision]

    @property
    def sum_unit(self):
        """The unit roundoff of sums over points and cells."""
        return ROUNDOFF["double" if self.precision == "mixed" else self.precision]

    @property
    def floor(self):
        """What a number may lose where a factor of it underflows: the smallest normal number, times factors of up to 2^26."""
        return 2.0**-996 if self.precision == "double" and not self.rounded else 2.0**-100

    @property
    def both(self):
        """Errors of kernel and twin together, in units of the kernel's: in double precision the twin's count as well."""
        return 2.0 if self.precision == "double" else 1.0

    def given(self, values):
        """Data as a kernel reads it: rounded, unless the arithmetic represents it."""
        values = np.asarray(values)
        if self.precision == "double":
            return Bounded(values, np.zeros(values.shape))
        with np.errstate(over="ignore"):
            return Bounded(values, np.where(values.astype(np.float32) == values, 0.0, np.abs(values)))


@dataclass(frozen=True)
class Bounded:
    """Numbers and bounds of their errors.

    Attributes:
        value: float64; in a condition the truth values.
        error: same shape, in units of the roundoff; in a condition whether it may come out either way.
    """

    value: np.ndarray
    error: np.ndarray

    def __add__(self, other):
        value = self.value + other.value
        return Bounded(value, self.error + other.error + np.abs(value))

    def __sub__(self, other):
        return self + (-other)

    def __neg__(self):
        return Bounded(-self.value, self.error)

    def __mul__(self, other):
        value = self.value * other.value
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error
        return Bounded(value, error + np.abs(value))

    def __getitem__(self, where):
        return Bounded(self.value[where], self.error[where])

    def __abs__(self):
        return Bounded(np.abs(self.value), self.error)

    def reshape(self, *shape):
        return Bounded(self.value.reshape(shape), self.error.reshape(shape))

    def spread(self, *shape):
        """The numbers repeated along new or single axes."""
        return Bounded(np.broadcast_to(self.value, shape), np.broadcast_to(self.error, shape))


def table(values):
    """Entries of a table: rounded, or a product of tables of fewer dimensions."""
    return Bounded(values, np.abs(values))


def size(formula, *factors):
    """The size of a sum of products, and what the errors of its factors make of it.

    Args:
        formula: of `np.einsum`.
        factors: Bounded.

    Returns:
        Bounded: the sum of the products' absolute values; the largest error from those of the factors, without that of the
        products and the sum themselves.
    """
    absolute = [np.abs(factor.value) for factor in factors]
    total = np.einsum(formula, *absolute, optimize=True)
    if not any(factor.error.any() for factor in factors):
        return Bounded(total, np.zeros(total.shape))
    moved = [value + _STEP * factor.error for value, factor in zip(absolute, factors, strict=True)]
    return Bounded(total, np.maximum(np.einsum(formula, *moved, optimize=True) - total, 0) / _STEP)


def contract(formula, *factors, roundings):
    """A sum of products with its error.

    Args:
        formula: of `np.einsum`.
        factors: Bounded.
        roundings: how many of the size the products and the sum contribute.
    """
    value = np.einsum(formula, *(factor.value for factor in factors), optimize=True)
    bound = size(formula, *factors)
    return Bounded(value, bound.error + roundings * bound.value)
