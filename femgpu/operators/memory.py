"""How much device memory a form needs, known before anything is allocated."""

from __future__ import annotations

import numpy as np

from femgpu.operators.cell_kernel import REAL, SCALAR, geometry_mode, scatter_mode
from femgpu.operators.gather import num_rows
from femgpu.operators.term import Term
from femgpu.options import Settings
from femgpu.runtime import Device


def least_bytes(terms: list[Term], settings: Settings, device: Device) -> int:
    """Bytes that one residual takes at least: vectors, offsets, stored geometry, and the E-vector of scatter `gather`.

    Args:
        terms: all terms of one form with a test space.
        settings: the options.
        device: the device.
    """
    form = terms[0].form
    space, scalar = form.space, np.dtype(SCALAR[settings.precision]).itemsize
    # State, linearisation point, direction and result; two T-vectors to stage PETSc's.
    total = 4 * scalar * space.num_local + 2 * 8 * space.numbering.num_owned
    total += sum(scalar * function.space.num_local for function in form.coefficients)
    spaces = dict.fromkeys([space, *(function.space for function in form.coefficients)])
    fields = [field for entry in spaces for field in entry.fields]
    for term in terms:
        total += sum(4 * term.element(field).num_basis * term.num_cells for field in fields)
        total += _geometry_bytes(term, settings)
        if scatter_mode(settings, device) == "gather":
            total += scalar * num_rows(term) * term.num_cells
    return total


def _geometry_bytes(term: Term, settings: Settings) -> int:
    kind, mode = geometry_mode(term, settings).split("_")
    if mode != "stored":
        return 0
    words = (term.dim**2 + 1) * (1 if kind == "affine" else term.quadrature.num_qpts)
    return words * np.dtype(REAL[settings.precision]).itemsize * term.num_cells
