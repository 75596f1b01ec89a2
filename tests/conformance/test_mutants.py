"""The script that plants faults works: those that earlier tests passed over, and one more, are caught."""

import numpy as np
import pytest
from conformance import mutants
from conformance.mutants import MUTANTS, caught

KNOWN = ["mixed accumulates in float", "last batch that is full lacks a cell"]


@pytest.mark.parametrize("name", [*KNOWN, "any other one"])
def test_a_fault_is_caught(name, seed):
    others = [other for other in MUTANTS if other not in KNOWN]
    name = name if name in MUTANTS else others[np.random.default_rng([seed, 5]).integers(len(others))]
    seen, why = caught(name, seed)
    assert seen, f"{name}: {why}"


def test_a_fault_that_changes_nothing_is_not_caught(monkeypatch, seed):
    name = "weight of the last point"
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutants, "DRAWS", 3)
    monkeypatch.setitem(MUTANTS, name, type(mutant)(lambda setattr: lambda: 0, mutant.check, mutant.sample))
    assert caught(name, seed) == (False, "the fault was never built in")
