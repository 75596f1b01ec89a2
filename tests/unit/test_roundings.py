"""Tables whose equal numbers are equal."""

import numpy as np
import pytest

from femgpu.element import LagrangeElement, default_rule, equalised


def test_equal_numbers_become_equal(rng):
    values = rng.uniform(0.1, 1, 7)
    numbers = rng.choice(np.append(values, 0.0), (5, 4, 3)) * rng.choice([-1, 1], (5, 4, 3))
    rough = numbers + rng.uniform(-3e-16, 3e-16, numbers.shape)
    found = equalised(rough)
    assert found.shape == rough.shape and len(np.unique(np.abs(found))) <= 8
    assert np.abs(found - numbers).max() <= 1e-15 and not np.signbit(found[found == 0]).any()
    np.testing.assert_array_equal(found == 0, numbers == 0)
    # What differs by more stays.
    numbers = 1 + 1e-14 * np.arange(9.0)
    np.testing.assert_array_equal(equalised(numbers), numbers)
    assert equalised(np.zeros((0, 2))).shape == (0, 2)
    for wrong in (np.nan, np.inf):
        np.testing.assert_array_equal(equalised(np.array([1.0, wrong, 2.0])), [1.0, wrong, 2.0])


@pytest.mark.parametrize("cell, degree", [("tetrahedron", 1), ("tetrahedron", 2), ("triangle", 2), ("triangle", 3)])
def test_tables_of_symmetric_rules_have_few_magnitudes(cell, degree):
    """About as many as there are by a bound a thousand times as large."""
    points = default_rule(cell, 2 * degree).points
    for table in LagrangeElement(cell, degree).tabulate(points):
        found, sizes = equalised(table), np.sort(np.abs(table).ravel())
        wanted = (np.diff(sizes) > 1e-11 * sizes[-1]).sum() + 1
        assert wanted <= len(np.unique(np.abs(found))) <= 1.3 * wanted + 1 < len(np.unique(sizes))
        assert np.abs(found - table).max() <= 8e-15 * sizes[-1]


def test_large_tables_are_left_alone(rng):
    numbers = 1 + rng.uniform(-1e-16, 1e-16, 10000)
    assert equalised(numbers) is numbers
