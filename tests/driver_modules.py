"""The drivers as modules, and their problems with exact solutions under one interface."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "drivers"
sys.path.insert(0, str(FOLDER))

import advection_diffusion  # noqa: E402
import bratu  # noqa: E402
import common  # noqa: E402
import elasticity  # noqa: E402
import heat  # noqa: E402
import helmholtz  # noqa: E402
import hyperelasticity  # noqa: E402
import plaplace  # noqa: E402
import poisson  # noqa: E402
import reaction_diffusion  # noqa: E402

import femgpu  # noqa: E402

__all__ = [
    "FOLDER",
    "NONLINEAR",
    "PROBLEMS",
    "advection_diffusion",
    "bratu",
    "common",
    "elasticity",
    "heat",
    "helmholtz",
    "hyperelasticity",
    "plaplace",
    "poisson",
    "reaction_diffusion",
]


@dataclass(frozen=True)
class Case:
    """A driver's problem on a mesh.

    Attributes:
        problem: the NonlinearProblem.
        exact: its exact solution.
        solve: solves it as the driver does.
    """

    problem: Any
    exact: Any
    solve: Callable[[], Any]

    def error(self):
        return femgpu.error_norm(self.problem.u, self.exact)


def _poisson(dm, degree):
    problem, exact = poisson.discretise(dm, degree, "nonlinear", "trigonometric")
    return Case(problem, exact, problem.solve)


def _bratu(dm, degree):
    problem, exact = bratu.discretise(dm, degree, 3.0)
    return Case(problem, exact, problem.solve)


def _plaplace(dm, degree):
    problem, p, exact = plaplace.discretise(dm, degree, 3.5, 0.1)
    return Case(problem, exact, lambda: plaplace.solve(problem, p, 3.5, 1))


def _helmholtz(dm, degree):
    problem, exact = helmholtz.discretise(dm, degree, 6.0)
    return Case(problem, exact, problem.solve)


def _elasticity(dm, degree):
    problem, exact = elasticity.discretise(dm, degree, (1.0, 1.5), "elas_trig")
    problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    return Case(problem, exact, problem.solve)


def _hyperelasticity(dm, degree):
    problem, t, exact = hyperelasticity.discretise(dm, degree, (1.0, 2.0))
    problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    return Case(problem, exact, lambda: hyperelasticity.solve(problem, t, [1.0]))


# Each makes a Case of a mesh and a degree; the options of the solver have no prefix.
PROBLEMS = {
    "poisson": _poisson,
    "bratu": _bratu,
    "plaplace": _plaplace,
    "helmholtz": _helmholtz,
    "elasticity": _elasticity,
    "hyperelasticity": _hyperelasticity,
}
NONLINEAR = ("poisson", "bratu", "plaplace", "hyperelasticity")
