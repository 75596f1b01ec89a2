"""Combinations of basis functions, polynomials and derivatives that are even or odd under reflections of a simplex."""

import numpy as np
import pytest

from femgpu.element import (
    LagrangeElement,
    default_rule,
    mirror_of,
    mirrored_derivatives,
    mirrored_polynomials,
    orthonormal,
    reflected,
)


def classes(begins):
    """The class of each entry."""
    return np.repeat(np.arange(len(begins) - 1), np.diff(begins))


def signs(one, bit):
    """What a reflection multiplies those of a class with."""
    return np.where(one >> bit & 1, -1.0, 1.0)


ELEMENTS = [(cell, degree, False) for cell in ("triangle", "tetrahedron") for degree in range(7)]
ELEMENTS += [("triangle", 2, True), ("tetrahedron", 2, True)]


@pytest.mark.parametrize(("cell", "degree", "bubble"), ELEMENTS)
def test_combinations_are_even_or_odd(cell, degree, bubble, rng):
    """Of the coefficients of a function, and of the polynomials, at points and at their images."""
    element = LagrangeElement(cell, degree, bubble=bubble)
    mirror, (rows, begins) = mirror_of(element), mirrored_polynomials(cell, degree)
    points = -1 + rng.dirichlet(np.ones(element.reference.dim + 1), 50)[:, 1:] * 2
    function, values = rng.uniform(-1, 1, len(mirror.order)), orthonormal(cell, degree, points) @ rows.T
    for bit, images in enumerate(reflected(cell, points)):
        turned = element.tabulate(reflected(cell, element.nodes)[bit])[0] @ function
        expected = signs(classes(mirror.begins), bit) * (mirror.matrix @ function)
        assert np.abs(mirror.matrix @ turned - expected).max() < 1e-12
        assert np.abs(orthonormal(cell, degree, images) @ rows.T - signs(classes(begins), bit) * values).max() < 1e-12
    assert np.abs(rows @ rows.T - np.eye(len(rows))).max() < 1e-13
    assert len(begins) == len(mirror.begins) == {"triangle": 3, "tetrahedron": 5}[cell]


@pytest.mark.parametrize(("cell", "degree"), [("triangle", 3), ("triangle", 6), ("tetrahedron", 2), ("tetrahedron", 5)])
def test_tables_are_zero_between_classes(cell, degree):
    """Coefficients of combinations and of their even or odd derivatives in the polynomials."""
    element, rule = LagrangeElement(cell, degree), default_rule(cell, 2 * degree)
    mirror, (rows, begins) = mirror_of(element), mirrored_polynomials(cell, degree)
    transform = rows @ (orthonormal(cell, degree, rule.points).T * rule.weights)
    values, gradients = element.tabulate(rule.points)
    sums, directions = mirrored_derivatives(cell)
    parts = np.einsum("kd,qbd->qbk", np.linalg.inv(sums), gradients)
    among = classes(begins)[:, None] ^ classes(mirror.begins)
    for table, change in [(values, 0), *((parts[..., k], change) for k, change in enumerate(directions))]:
        found = transform @ table @ np.linalg.inv(mirror.matrix)
        assert np.abs(found[among != change]).max() < 1e-12 * np.abs(found).max()
        # A half or three quarters of them, about.
        assert (among == change).mean() < {"triangle": 0.6, "tetrahedron": 0.4}[cell]


def test_nodes_that_are_not_symmetric_have_no_combinations():
    nodes = LagrangeElement("triangle", 2).nodes.copy()
    nodes[-1] += 0.01
    assert mirror_of(LagrangeElement("triangle", 2, custom_nodes=tuple(map(tuple, nodes.tolist())))) is None
    assert mirror_of(LagrangeElement("quadrilateral", 2)) is None
