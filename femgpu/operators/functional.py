"""Functionals: numbers from forms without arguments."""

from __future__ import annotations

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


def integrate(form: Any, options_prefix: str = "") -> float:
    """The value of a form without arguments, for example `integrate((u - exact) ** 2 * dx)`; collective.

    Cells and facets are integrated on the device and summed in double precision. The quadrature is exact for polynomials of degree
    30 or less; for other integrands it takes UFL's estimate of their degree, at most 2 k + 2 with k the largest degree of the
    form's Functions and of the coordinates. On cells that are not affine the degree of det J is added. `dx(degree=n)` sets another.

    Args:
        form: ufl.Form without arguments, over dx, ds, dS, and the values of labels: dx(1), ds((2, 3)).
        options_prefix: prefix of the options.

    Returns:
        The sum over all ranks.

    Raises:
        FormError: for what is not supported.
        MeshError: for values that the mesh's labels lack; lists those that exist.
        DataError: when a coefficient or the integral is not finite.
    """
    lowered = functional(form)
    check_inputs(lowered)
    settings = options.read(options_prefix)
    mesh = form_mesh(lowered)
    runtime = choose_runtime(settings, [function.vec for function in lowered.coefficients], mesh.mpi)
    mesh.update()
    terms = make_terms(lowered, settings)
    with collective(mesh.mpi):
        inputs = Inputs(lowered, settings.precision, runtime, mesh)
    inputs.update()
    arrays, kind = CellArrays(runtime), scalar_type(settings.precision)
    planner = Planner(terms, settings, runtime, mesh.mpi)
    planner.start(["functional"])
    total = 0.0
    with collective(mesh.mpi):
        for term, integrand, choice in planner.plans("functional"):
            out = runtime.empty(term.num_cells * np.dtype(kind).itemsize)
            program = planner.program(term, choice.plan, integrand)
            Application(term, choice.plan, integrand, {**inputs.buffers, ("out",): out}, arrays, program=program)()
            total += float(runtime.read(out, np.empty(term.num_cells, kind)).sum(dtype=np.float64))
    total = mesh.mpi.allreduce(total)
    if not np.isfinite(total):
        raise DataError(
            f"the integral is {total}: the integrand is not finite at a quadrature point; look for divisions and logarithms"
        )
    return total
