"""Smoothing polynomials: what each kind is the least of."""

import numpy as np
import pytest

from femgpu.multigrid.polynomials import KINDS, quality, roots

X = np.linspace(0, 1, 20001)[1:]
# Lottes' factors of the corrections, as PETSc's -ksp_chebyshev_kind opt_fourth has them.
BETAS = {
    1: [1.125],
    2: [1.02387287570313, 1.26408905371085],
    3: [1.00842544782028, 1.08867839208730, 1.33753125909618],
    4: [1.00391310427285, 1.04035811188593, 1.14863498546254, 1.38268869241000],
}


def value(kind, degree, x=X):
    return np.prod(1 - x[:, None] / roots(kind, degree), axis=1)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_the_optimal_kind_is_the_published_one(degree):
    x, r, d = np.zeros_like(X), np.ones_like(X), np.full_like(X, 4 / 3)
    for i, beta in enumerate(BETAS[degree], 1):
        x += beta * d
        r = r - X * d
        d = (2 * i - 1) / (2 * i + 3) * d + (8 * i + 4) / (2 * i + 3) * r
    np.testing.assert_allclose(value("opt_fourth", degree), 1 - X * x, atol=1e-10)


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 12])
def test_the_optimal_kind_bounds_a_cycle_best(degree):
    bound = {}
    for kind in KINDS:
        p = value(kind, degree)
        bound[kind] = (X * p**2 / (1 - p**2)).max()
    maxima = quality(np.sort(roots("opt_fourth", degree)))
    np.testing.assert_allclose(maxima, maxima[0], rtol=1e-10)
    assert bound["opt_fourth"] == pytest.approx(maxima[0], rel=1e-3) and bound["opt_fourth"] < min(bound["first"], bound["fourth"])
    # Lottes' bound of the fourth kind, and what he finds for the optimal one.
    assert 1 / bound["fourth"] == pytest.approx(4 / 3 * degree * (degree + 1), rel=1e-2)
    assert 1 / maxima[0] == pytest.approx(4 / np.pi**2 * (2 * degree + 1) ** 2 - 2 / 3, rel=0.01)
    assert max(np.abs(value(kind, degree)).max() for kind in ("fourth", "opt_fourth")) <= 1


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_the_first_kind_is_the_least_above_a_tenth(degree):
    p = np.abs(value("first", degree)[X >= 0.1])
    t = np.polynomial.chebyshev.Chebyshev.basis(degree)
    assert p.max() == pytest.approx(1 / abs(t((1 + 0.1) / (1 - 0.1))), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_between_the_steps_stays_small(kind):
    factors = np.cumprod(1 - X[:, None] / roots(kind, 12), axis=1)
    assert np.abs(factors).max() < 100
