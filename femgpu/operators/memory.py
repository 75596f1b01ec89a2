"""How much device memory a form needs, known before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from femgpu.forms import Pointwise
from femgpu.operators.application import field_names
from femgpu.operators.arrays import CellArrays, scalar_type
from femgpu.operators.sums import segment_cells
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
    scalar = np.dtype(scalar_type(settings.precision)).itemsize
    storage, *others = (space.storage(form.wide) for space in (form.space, *(function.space for function in form.coefficients)))
    # State, linearisation point, direction and result; two T-vectors to stage PETSc's.
    total = 4 * scalar * storage.num_local + 2 * 8 * storage.numbering.num_owned
    total += sum(scalar * other.num_local for other in others)
    cells: dict = {}
    for term, pointwise, choice in residual:
        cells |= arrays.missing(term, choice.plan, field_names(term, pointwise))
    total += sum(cells.values())
    if any(choice.plan.scatter == "evector" for _, _, choice in residual):
        block = arrays.runtime.device.limits.block
        total += scalar * sum(segment_cells(term, block) * term.num_rows for term in terms)
    return total


def in_chunks(
    chosen: Sequence[tuple[Term, Pointwise, Choice]], settings: Settings
) -> tuple[list[tuple[Term, Pointwise, Choice]], int]:
    """Plans of element matrices for as many cells at a time as `-femgpu_assembly_memory`, and 31 bits, have room for.

    Args:
        chosen: terms, their functions and plans.
        settings: the options.

    Returns:
        The same with such plans; and the bytes of the largest chunk, as they are used up one after the other.
    """
    entries, found, most = min(settings.assembly_memory * 2**17, 2**30), [], 0
    for term, pointwise, choice in chosen:
        size = choice.plan.work.num_rows**2
        plan = replace(choice.plan, chunk_cells=max(entries // size, 1))
        found.append((term, pointwise, replace(choice, plan=plan)))
        most = max(most, 8 * size * min(plan.chunk_cells, term.num_cells))
    return found, most
