"""What tests of bad input share: problems with nothing wrong with them, and exceptions that all ranks raise together."""

import pytest
import ufl
from mpi4py import MPI
from ufl import dx, grad, inner

from femgpu import DirichletBC, Function, NonlinearProblem, errors

WORLD = MPI.COMM_WORLD
# A rank that waits for the others for ever would otherwise be noticed after ten minutes.
on_ranks = [pytest.mark.parallel([1, 2]), pytest.mark.timeout(120)]


def every_rank(*marks):
    """Decorates a test that must end on all ranks."""

    def decorate(test):
        for mark in (*on_ranks, *marks):
            test = mark(test)
        return test

    return decorate


def poisson(V, kappa=1.0, measure=dx, **arguments):
    """A problem on V that has nothing wrong with it."""
    u, v = Function(V), ufl.TestFunction(V)
    bcs = [DirichletBC(V, arguments.pop("value", 0.0), arguments.pop("region", "boundary"))]
    return NonlinearProblem(kappa * inner(grad(u), grad(v)) * measure - v * measure, u, bcs=bcs, **arguments)


def everywhere(kind, call):
    """The message of the exception that a call raises on this rank; all ranks have met once it returns."""
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, errors.FemgpuError)
    assert WORLD.allreduce(1) == WORLD.size
    return str(caught.value)
