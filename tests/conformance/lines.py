"""Roundings of tabulations that are products of 1D ones, and of contractions that take one direction after the other."""

import itertools
from functools import reduce

import numpy as np
from conformance.roundoff import ROUNDOFF, Bounded

from femgpu.element import tensor_factors


def line_tables(term, element, arrays, unit):
    """Tables of an element at a term's points with the errors of sums that a kernel makes of their 1D factors.

    A sum over the basis is wrong by a rounding for each term of each direction's sum, each 1D number and each product, of the
    product of the 1D sizes; where derivatives are taken of the values at the points, of that of their matrix and the values'. What
    the products of the 1D numbers are away from the table, in double precision, counts too.

    Args:
        term: the term, over cells.
        element: the element.
        arrays: values (1, num_qpts, num_basis), gradients (..., dim) and maybe second derivatives (..., dim, dim).
        unit: roundoff of the kernel's arithmetic.

    Returns:
        Bounded tables of the same shapes.
    """
    tensor = tensor_factors(term.quadrature, (element,))
    factors, dim, points = tensor.factors[0], term.dim, tensor.lattice[0]
    lines = (factors.B, factors.D, factors.H)
    at_points = [np.abs(factors.B)]
    for _ in range(2):
        at_points.append(np.abs(tensor.D) @ at_points[-1])
    sizes = [np.abs(line) for line in lines]
    if tensor.q1d >= factors.p1d:
        sizes = [np.maximum(one, other) for one, other in zip(sizes, at_points, strict=True)]
    found = []
    for level, array in enumerate(arrays):
        flat = array[0].reshape(*array.shape[1:3], -1)
        error = np.empty_like(flat)
        roundings = dim * (factors.p1d + 2) + level * (tensor.q1d + 2)
        for column, derivatives in enumerate(itertools.product(range(dim), repeat=level)):
            orders = [derivatives.count(axis) for axis in reversed(range(dim))]
            product, size = (reduce(np.kron, [entry[order] for order in orders]) for entry in (lines, sizes))
            where = np.ix_(points, factors.lattice)
            away = np.abs(flat[..., column][where] - product) + ROUNDOFF["double"] * size
            error[(*where, column)] = away / unit + roundings * size
        found.append(Bounded(array, error.reshape(array.shape) + np.abs(array)))
    return found


def line_weights(term, weights, unit):
    """Weights (..., num_qpts) of a term's rule with the errors of products of 1D ones."""
    tensor, dim = tensor_factors(term.quadrature, ()), term.dim
    product = np.empty_like(tensor.weights, shape=weights.shape[-1])
    product[tensor.lattice[0]] = reduce(np.kron, [tensor.weights] * dim)
    return Bounded(weights, 2 * dim * np.abs(weights) + (np.abs(weights - product) + ROUNDOFF["double"] * weights) / unit)
