"""Functionals: numbers from forms without arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from femgpu import options
from femgpu.errors import DataError, collective
from femgpu.forms import check_inputs, functional
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays, scalar_type
from femgpu.operators.device import choose_runtime
from femgpu.operators.division import form_mesh, make_terms
from femgpu.operators.inputs import Inputs
from femgpu.operators.planner import Planner


class Functional:
    """A form without arguments, made once and integrated often, for example `Functional((u - exact) ** 2 * dx)`; collective.

    Cells and facets are integrated on the device and summed in double precision. The quadrature is exact for polynomials of degree
    30 or less; for other integrands it takes UFL's estimate of their degree, at most 2 k + 2 with k the largest degree of the
    form's Functions and of the coordinates. On cells that are not affine the degree of det J is added. `dx(degree=n)` sets another.
    Make it before a problem is solved: its kernels are then built beside the problem's.

    Args:
        form: ufl.Form without arguments, over dx, ds, dS, and the values of labels: dx(1), ds((2, 3)).
        options_prefix: prefix of the options.

    Raises:
        FormError: for what is not supported.
        MeshError: for values that the mesh's labels lack; lists those that exist.
    """

    def __init__(self, form: Any, options_prefix: str = ""):
        self._form = functional(form)
        check_inputs(self._form)
        self._settings = options.read(options_prefix)
        self._scalar = np.dtype(scalar_type(self._settings.precision))
        self._mesh = form_mesh(self._form)
        self._runtime = choose_runtime(self._settings, [function.vec for function in self._form.coefficients], self._mesh.mpi)
        self._mesh.update()
        self._divide()
        with collective(self._mesh.mpi):
            self._inputs = Inputs(self._form, self._settings.precision, self._runtime, self._mesh)

    def _divide(self) -> None:
        """Divides the form into terms, on the mesh as it is, and begins to build their programs; collective."""
        self._moves, self._bends = self._mesh.motion.moves, self._mesh.motion.bends
        self._arrays, self._applications = CellArrays(self._runtime), dict[Application, Any]()
        self._planner = Planner(make_terms(self._form, self._settings), self._settings, self._runtime, self._mesh.mpi)
        self._planner.start(["functional"])

    def value(self) -> float:
        """The sum over all ranks, with coefficients, constants and coordinates as they are now; collective.

        Raises:
            DataError: when a coefficient or the integral is not finite.
            MeshError: when the mesh has moved so far that cells are inverted.
        """
        self._inputs.update()
        motion = self._mesh.motion
        if self._bends != motion.bends:
            self._divide()
        elif self._moves != motion.moves:
            self._arrays.follow()
        self._moves = motion.moves
        with collective(self._mesh.mpi):
            self._applications = self._applications or dict(self._applied())
            total = sum(self._sum(application, out) for application, out in self._applications.items())
        total = self._mesh.mpi.allreduce(total)
        if not np.isfinite(total):
            raise DataError(
                f"the integral is {total}: the integrand is not finite at a quadrature point; look for divisions and logarithms"
            )
        return total

    def _applied(self) -> Iterator[tuple[Application, Any]]:
        """The kernels of all terms, each with a buffer for the numbers of its cells."""
        for term, integrand, choice in self._planner.plans("functional"):
            out = self._runtime.empty(term.num_cells * self._scalar.itemsize)
            buffers, program = {**self._inputs.buffers, ("out",): out}, self._planner.program(term, choice.plan, integrand)
            yield Application(term, choice.plan, integrand, buffers, self._arrays, program=program), out

    def _sum(self, application: Application, out: Any) -> float:
        """The sum over the cells of a term on this rank."""
        application()
        return float(self._runtime.read(out, np.empty(application.term.num_cells, self._scalar)).sum(dtype=np.float64))


def integrate(form: Any, options_prefix: str = "") -> float:
    """The value of a form without arguments; collective. See `Functional`."""
    return Functional(form, options_prefix).value()
