"""The drivers as modules, and their steady problems with exact solutions under one interface."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "drivers"
sys.path.insert(0, str(FOLDER))

import adaptive  # noqa: E402
import advection_diffusion  # noqa: E402
import bratu  # noqa: E402
import common  # noqa: E402
import dg_advection  # noqa: E402
import dg_poisson  # noqa: E402
import elasticity  # noqa: E402
import heat  # noqa: E402
import helmholtz  # noqa: E402
import hyperelasticity  # noqa: E402
import plaplace  # noqa: E402
import poisson  # noqa: E402
import reaction_diffusion  # noqa: E402
import stokes  # noqa: E402

import femgpu  # noqa: E402

__all__ = [
    "FOLDER",
    "NONLINEAR",
    "PROBLEMS",
    "Case",
    "adaptive",
    "advection_diffusion",
    "bratu",
    "common",
    "dg_advection",
    "dg_poisson",
    "elasticity",
    "heat",
    "helmholtz",
    "hyperelasticity",
    "plaplace",
    "poisson",
    "reaction_diffusion",
    "stokes",
]


@dataclass(frozen=True)
class Case:
    """A driver's problem on a mesh.

    Attributes:
        problem: the NonlinearProblem.
        solve: solves it as the driver does.
        errors: errors of the solution, in L2 unless the problem says otherwise.
        orders: the rates at which they shall fall.
    """

    problem: Any
    solve: Callable[[], Any]
    errors: Callable[[], list[float]]
    orders: list[int]


def single(problem, exact, degree, solve=None):
    """The case of one field."""
    return Case(problem, solve or problem.solve, lambda: [femgpu.error_norm(problem.u, exact)], [degree + 1])


def _poisson(dm, degree):
    return single(*poisson.discretise(dm, degree, "nonlinear", "trigonometric"), degree)


def _bratu(dm, degree):
    return single(*bratu.discretise(dm, degree, 3.0), degree)


def _plaplace(dm, degree):
    problem, p, exact = plaplace.discretise(dm, degree, 3.5, 0.1)
    return single(problem, exact, degree, lambda: plaplace.solve(problem, p, 3.5, 1))


def _helmholtz(dm, degree):
    return single(*helmholtz.discretise(dm, degree, 6.0), degree)


def _elasticity(dm, degree):
    problem, exact = elasticity.discretise(dm, degree, (1.0, 1.5), "elas_trig")
    problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    return single(problem, exact, degree)


def _hyperelasticity(dm, degree):
    problem, t, exact = hyperelasticity.discretise(dm, degree, (1.0, 2.0))
    problem.set_near_nullspace(femgpu.rigid_body_modes(problem.u.space))
    return single(problem, exact, degree, lambda: hyperelasticity.solve(problem, t, [1.0]))


def _advection_diffusion(dm, degree):
    dim = dm.getDimension()
    diffusion = 0.05 * np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [1.0, 0.0, 3.0]])[:dim, :dim]
    return single(*advection_diffusion.discretise(dm, degree, diffusion, [1.0, 0.5, 0.25][:dim], 1.0), degree)


def _stokes(dm, degree):
    """The degree is that of the pressure; errors of the velocity, and of both in the norm of the problem."""
    stokes.set_solver(common.PETSc.Options())
    problem, exact = stokes.discretise(dm, degree + 1, 1.0)

    def errors():
        of_velocity, of_pressure = stokes.errors(problem, exact)
        return [of_velocity, math.hypot(femgpu.error_norm(problem.u.sub("velocity"), exact[0], "H10"), of_pressure)]

    return Case(problem, problem.solve, errors, [degree + 2, degree + 1])


# Each makes a Case of a mesh and a degree; the options of the solver have no prefix.
PROBLEMS = {
    "poisson": _poisson,
    "bratu": _bratu,
    "plaplace": _plaplace,
    "helmholtz": _helmholtz,
    "elasticity": _elasticity,
    "hyperelasticity": _hyperelasticity,
    "advection_diffusion": _advection_diffusion,
    "stokes": _stokes,
}
NONLINEAR = ("poisson", "bratu", "plaplace", "hyperelasticity")
