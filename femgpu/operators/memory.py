"""How much device memory a form needs, known before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from femgpu.forms import Pointwise
from femgpu.operators.application import field_names
from femgpu.operators.arrays import CellArrays, scalar_type
from femgpu.operators.term import Term
from femgpu.operators.ways import Choice
from femgpu.options import Settings


def least_bytes(
    terms: Sequence[Term],
    arrays: CellArrays,
    residual: Sequence[tuple[Term, Pointwise, Choice]],
    settings: Settings,
) -> int:
    """Bytes that one residual takes at least: vectors, arrays over the cells, and the E-vector of scatter `gather`.

    Args:
        terms: all terms of one form with a test space.
        arrays: what is there already.
        residual: the terms with their residuals and plans.
        settings: the options.
    """
    form = terms[0].form
    space, scalar = form.space, np.dtype(scalar_type(settings.precision)).itemsize
    # State, linearisation point, direction and result; two T-vectors to stage PETSc's.
    total = 4 * scalar * space.num_local + 2 * 8 * space.numbering.num_owned
    total += sum(scalar * function.space.num_local for function in form.coefficients)
    cells: dict = {}
    for term, pointwise, choice in residual:
        cells |= arrays.missing(term, choice.plan, field_names(term, pointwise))
    total += sum(cells.values())
    if any(choice.plan.scatter == "evector" for _, _, choice in residual):
        total += scalar * sum(term.num_cells * term.num_rows for term in terms)
    return total


def in_chunks(choice: Choice, settings: Settings) -> Choice:
    """A plan of element matrices for as many cells at a time as `-femgpu_assembly_memory`, and 31 bits, have room for."""
    entries = min(settings.assembly_memory * 2**17, 2**30)
    return replace(choice, plan=replace(choice.plan, chunk_cells=max(entries // choice.plan.work.num_rows**2, 1)))


def chunk_bytes(term: Term, choice: Choice) -> int:
    """Bytes of the element matrices of a chunk."""
    return 8 * min(choice.plan.chunk_cells, term.num_cells) * choice.plan.work.num_rows**2
