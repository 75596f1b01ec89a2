"""Errors and Newton histories do not depend on the number of ranks, also where there are more ranks than cells."""

from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("solve.py")
TOLERANCE = 1e-10
KSP_RTOL = 1e-12


@pytest.fixture(scope="module")
def results(run_ranks, seed):
    """Results of all problems by number of ranks."""
    return {num_ranks: run_ranks(num_ranks, SCRIPT, seed) for num_ranks in (1, 3, 4)}


def test_problems_are_spread(results):
    assert results[1].keys() == results[3].keys() > results[4].keys() >= {"tets P2", "2 quads Q2 elasticity", "2 tets P3"}
    for num_ranks, cases in results.items():
        assert all(case["ranks"] == num_ranks for case in cases.values())
        for name, case in cases.items():
            assert (case["least_cells"] == 0) == (case["cells"] < num_ranks), name
    assert {case["cells"] for case in results[1].values()} >= {2, 35, 108}


@pytest.mark.parametrize("num_ranks", [3, 4])
def test_errors_agree(results, num_ranks):
    for name, case in results[num_ranks].items():
        one = results[1][name]
        for key in ("error", "gradient_error", "norm"):
            assert 0 < one[key] < np.inf
            assert abs(case[key] - one[key]) <= TOLERANCE * one[key], (name, key, case[key], one[key])


@pytest.mark.parametrize("num_ranks", [3, 4])
def test_newton_histories_agree(results, num_ranks):
    """Residual norms of Newton's and first residual norms of the linear solvers' iterations."""
    for name, case in results[num_ranks].items():
        one = results[1][name]
        for key in ("newton", "linear"):
            got, expected = np.array(case[key]), np.array(one[key])
            assert got.shape == expected.shape and len(expected) >= 1, (name, key)
            # Below the linear solver's tolerance a norm is what that solver left over.
            allowed = TOLERANCE * expected + KSP_RTOL * expected[0]
            assert (np.abs(got - expected) <= allowed).all(), (name, key, case[key], one[key])


def test_deterministic_runs_are_equal_bit_for_bit(results, run_ranks, seed):
    assert run_ranks(3, SCRIPT, seed) == results[3]
