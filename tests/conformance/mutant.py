"""A fault that is planted, and the smallest part of the conformance tests that ought to notice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from conformance.faults import replace_text
from petsc4py import PETSc

PLAIN = dict(
    element=("triangle", 2),
    kind="residual",
    num_comp=1,
    form="simple",
    precision="double",
    geometry="stored",
    scatter="evector",
    shape="distorted",
    points="few",
    limits="device",
    masked=False,
    source="lvector",
    shift=0,
)
OPERATOR = PLAIN | dict(schedule="auto", scatter="gather", qdata="recompute", masked=True, matrix=False)


@dataclass(frozen=True)
class Mutant:
    """A fault and who sees it.

    Attributes:
        plant: plants it, given `MonkeyPatch.setattr`; returns a function that says how often it was built in, or None.
        check: runs a part of the tests, given random numbers.
        sample: for `check`.
    """

    plant: Callable[[Any], Any]
    check: Callable[[Any, np.random.Generator], None]
    sample: dict = field(default_factory=dict)


def text(old, new):
    """A fault in the text of kernels."""
    return lambda setattr: replace_text(setattr, old, new)


def guarded():
    """The device, with guard words around buffers."""
    from conformance.guarded import Guarded

    from femgpu.runtime import for_comm

    return Guarded(for_comm("", PETSc.COMM_SELF.tompi4py()))


def plans(sample, rng):
    """A sample of test_conformance."""
    from conformance.checks import check_sample

    check_sample(guarded(), sample, rng)


def sums(sample, rng):
    """A plan with sums of work-groups of test_conformance."""
    from conformance.checks import check_sums

    check_sums(guarded(), sample, rng)


def modes(sample, rng):
    """Coefficients in orthonormal polynomials of test_conformance."""
    from conformance.checks import check_modes

    check_modes(guarded(), sample, rng)


def operators(sample, rng):
    """A sample of test_operators."""
    from conformance.test_operators import check_operator

    check_operator(sample, rng)


def grids(sample, rng):
    """A plan of a bake-off problem of test_operators."""
    from conformance.test_operators import check_grid

    check_grid(sample, rng)


def points(sample, rng):
    """A sum over points of test_accumulation."""
    from conformance.probes import points_probe
    from conformance.test_accumulation import ratios

    found = ratios(points_probe("tetrahedron", "value", 0, rng), "cell", ("residual", "diagonal", "matrix"))
    assert all(ratio <= 1 for ratio in found.values()), found


def cells(sample, rng):
    """A sum over cells of test_accumulation."""
    from conformance.probes import cells_probe
    from conformance.test_accumulation import ratios

    found = ratios(cells_probe(0), "cell", ("residual",))
    assert all(ratio <= 1 for ratio in found.values()), found


def of_plans(plant, **sample):
    return Mutant(plant, plans, PLAIN | sample)


def of_sums(plant, **sample):
    return Mutant(plant, sums, PLAIN | dict(scatter="atomic", kind="action", geometry="recomputed", places="slices") | sample)


def of_modes(plant, **sample):
    given = dict(element=("tetrahedron", 2), kind="action", form="constants", shape="affine", points="many")
    return Mutant(plant, modes, PLAIN | given | sample)


def of_operators(plant, **sample):
    return Mutant(plant, operators, OPERATOR | sample)


def of_grids(plant, schedule, name="bp3", limits="device", degree=2, qdata="recompute"):
    return Mutant(plant, grids, dict(name=name, degree=degree, schedule=schedule, limits=limits, qdata=qdata))
