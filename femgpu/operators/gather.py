"""E -> L: the owner of a dof sums its cells' entries in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import PlanError
from femgpu.kernels import vector_kernels
from femgpu.operators.term import Term
from femgpu.runtime import Kernel, Runtime


def transpose(positions: npt.NDArray[np.int32]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists for every position the entries that hold it.

    Args:
        positions: (num_entries,) position of each entry.

    Returns:
        The distinct positions, increasing (n,) int32; starts (n + 1,) int32 into the entries; entries (num_entries,) int32,
        increasing within each position.
    """
    order = np.argsort(positions, kind="stable").astype(np.int32)
    counts = np.bincount(positions)
    distinct = np.flatnonzero(counts).astype(np.int32)
    starts = np.zeros(len(distinct) + 1, np.int32)
    np.cumsum(counts[distinct], out=starts[1:])
    return distinct, starts, order


class Segments:
    """One E-vector for all terms of a form, a segment for each.

    Args:
        runtime: the device.
        terms: the terms.
        itemsize: bytes of an entry.

    Attributes:
        buffer: the whole E-vector.
        buffers: each term's part of it.
        starts: first entry of each segment.
    """

    # Sub-buffers start at multiples of the device's alignment, at most 4096 bits on the devices that femgpu meets.
    ALIGNMENT = 512

    def __init__(self, runtime: Runtime, terms: list[Term], itemsize: int):
        self.starts, size = [], 0
        for term in terms:
            self.starts.append(size)
            size += -(-term.num_cells * num_rows(term) // self.ALIGNMENT) * self.ALIGNMENT
        if size >= 2**31:
            raise PlanError(f"an E-vector of {size} entries exceeds 32-bit indices; use more ranks or -femgpu_scatter atomic")
        self.buffer = runtime.empty(size * itemsize)
        ends = [*self.starts[1:], size]
        self.buffers = [
            self.buffer.get_sub_region(start * itemsize, (end - start) * itemsize) if start and end > start else self.buffer
            for start, end in zip(self.starts, ends, strict=True)
        ]


def num_rows(term: Term) -> int:
    """Rows of one of the term's cells."""
    return sum(term.element(field).num_basis * field.num_comp for field in term.rows)


class GatherSum:
    """Sums an E-vector of several terms into an L-vector: one launch for all fields of equally many components.

    Args:
        runtime: the device.
        terms: the terms of the form.
        chosen: number of each term that takes part, and whether its entries have the cell as fastest index.
        segments: the E-vector.
        precision: of the kernels.
        out: device buffer, the L-vector.

    Attributes:
        covers_all: whether every entry of the L-vector is written.
        kernels: the launchable kernels.
    """

    def __init__(
        self,
        runtime: Runtime,
        terms: list[Term],
        chosen: tuple[tuple[int, bool], ...],
        segments: Segments,
        precision: str,
        out: Any,
    ):
        space = terms[0].form.space
        self.kernels = []
        covered = 0
        for num_comp in dict.fromkeys(field.num_comp for field in space.fields):
            pieces = [
                piece
                for number, cell_fastest in chosen
                for piece in _entries(terms[number], segments.starts[number], num_comp, cell_fastest)
            ]
            dofs, places = (np.concatenate(part) if len(part) > 1 else part[0] for part in zip(*pieces, strict=True))
            nodes, starts, order = transpose(dofs)
            covered += len(nodes) * num_comp
            buffers = [runtime.upload(array) for array in (nodes, starts, places[order])]
            arguments = [np.int32(len(nodes)), np.int32(num_comp), *buffers, segments.buffer, out]
            self.kernels.append(Kernel(runtime, vector_kernels(precision), "gather_sum", arguments, len(nodes) * num_comp, 64))
        self.covers_all = covered == space.num_local

    def __call__(self, out: Any) -> None:
        """Enqueues the sums.

        Args:
            out: device buffer that receives them.
        """
        for kernel in self.kernels:
            kernel.set(6, out)
            kernel()


def _entries(term: Term, start: int, num_comp: int, cell_fastest: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each field with `num_comp` components: position of every node in the L-vector, and of its entry in the E-vector."""
    first_row = 0
    for field in term.rows:
        offsets = term.offsets(field)
        if field.num_comp == num_comp:
            first = start + term.num_cells * first_row
            places = np.arange(offsets.size, dtype=np.int32) * np.int32(num_comp) + np.int32(first)
            yield (offsets.T if cell_fastest else offsets).ravel(), places
        first_row += offsets.shape[1] * field.num_comp
