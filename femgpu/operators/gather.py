"""E -> L: the owner of a dof sums its cells' entries in a fixed order."""

from __future__ import annotations

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
        starts: first node of each segment; node i has the entries i * num_comp to (i + 1) * num_comp - 1.
    """

    # Sub-buffers start at multiples of the device's alignment, at most 4096 bits on the devices that femgpu meets.
    ALIGNMENT = 512

    def __init__(self, runtime: Runtime, terms: list[Term], itemsize: int):
        space = terms[0].form.space
        self.starts, nodes = [], 0
        for term in terms:
            self.starts.append(nodes)
            nodes += -(-term.num_cells * space.element.num_basis // self.ALIGNMENT) * self.ALIGNMENT
        if nodes * space.num_comp >= 2**31:
            raise PlanError(
                f"an E-vector of {nodes * space.num_comp} entries exceeds 32-bit indices; use more ranks or -femgpu_scatter atomic"
            )
        width = space.num_comp * itemsize
        self.buffer = runtime.empty(nodes * width)
        ends = [*self.starts[1:], nodes]
        self.buffers = [
            self.buffer.get_sub_region(start * width, (end - start) * width) if start and end > start else self.buffer
            for start, end in zip(self.starts, ends, strict=True)
        ]


class GatherSum:
    """Sums an E-vector of several terms into an L-vector.

    Args:
        runtime: the device.
        terms: the terms of the form.
        chosen: number of each term that takes part, and whether its entries have the cell as fastest index.
        segments: the E-vector.
        precision: of the kernels.
        out: device buffer, the L-vector.

    Attributes:
        covers_all: whether every entry of the L-vector is written.
        kernel: the launchable kernel.
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
        pieces = []
        for number, cell_fastest in chosen:
            offsets = terms[number].subset(space.offsets)
            pieces.append((offsets.T if cell_fastest else offsets).ravel())
        nodes, starts, entries = transpose(pieces[0] if len(pieces) == 1 else np.concatenate(pieces))
        # Where each segment starts in the E-vector, less where it starts in the concatenation.
        begins = np.cumsum([0, *(len(piece) for piece in pieces)])
        for (number, _), begin, end in zip(reversed(chosen), reversed(begins[:-1]), reversed(begins[1:]), strict=True):
            inside = (entries >= begin) & (entries < end) if begin or segments.starts[number] else slice(0)
            entries[inside] += np.int32(segments.starts[number] - begin)
        self.covers_all = len(nodes) * space.num_comp == space.num_local
        self.kernel = Kernel(
            runtime,
            vector_kernels(precision),
            "gather_sum",
            [
                np.int32(len(nodes)),
                np.int32(space.num_comp),
                runtime.upload(nodes),
                runtime.upload(starts),
                runtime.upload(entries),
                segments.buffer,
                out,
            ],
            len(nodes) * space.num_comp,
            64,
        )

    def bind(self, out: Any) -> None:
        """Makes another buffer the result."""
        self.kernel.set(6, out)
