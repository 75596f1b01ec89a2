"""E -> L: the owner of a dof sums its cells' entries in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import PlanError
from femgpu.kernels import Layout, vector_kernels
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays, scalar_type
from femgpu.operators.term import Term
from femgpu.runtime import Kernel, Launch, Runtime

# Segments of an E-vector start at multiples of a device's alignment of sub-buffers, at most 4096 bits where femgpu has run.
_ALIGNMENT = 512
# Positions of the L-vector, and of whether it is added to, among the arguments of gather_sum.
_OUT, _ADDS = 7, 8
# numpy sorts so many values in 30 ms at most; scipy, which counts, takes 1 ms, but 180 to be imported.
_SORTED_BY_NUMPY = 300_000


def transpose(positions: npt.NDArray[np.int32]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists for every position the entries that hold it.

    Args:
        positions: (num_entries,) position of each entry.

    Returns:
        The distinct positions, increasing (n,) int32; starts (n + 1,) int32 into the entries; entries (num_entries,) int32,
        increasing within each position.
    """
    if len(positions) <= _SORTED_BY_NUMPY:
        order = np.argsort(positions, kind="stable").astype(np.int32)
        starts = np.append(0, np.cumsum(np.bincount(positions)))
    else:
        from scipy.sparse import csr_array

        numbers = np.arange(len(positions) + 1, dtype=np.int32)
        columns = csr_array((numbers[:-1], positions, numbers), shape=(len(positions), int(positions.max()) + 1)).tocsc()
        starts, order = columns.indptr, columns.data
    distinct = np.flatnonzero(starts[1:] > starts[:-1]).astype(np.int32)
    return distinct, np.append(starts[distinct], starts[-1]).astype(np.int32, copy=False), order


class Segments:
    """One E-vector for all terms of a form: a segment for each field of the rows of each term.

    Args:
        runtime: the device.
        terms: the terms.
        block: cells that a layout may interleave: room is left for whole blocks.
        precision: of the kernels.

    Attributes:
        buffer: the whole E-vector.
        starts: first entry of each segment, by number of the term and of the field.
    """

    def __init__(self, runtime: Runtime, terms: Sequence[Term], block: int, precision: str):
        self.starts: dict[tuple[int, int], int] = {}
        sizes, size = {}, 0
        for number, term in enumerate(terms):
            for i, field in enumerate(term.rows):
                self.starts[number, i] = size
                words = term.element(field).num_basis * field.num_comp
                count = 0 if term.use == "matrices" else term.num_cells
                sizes[number, i] = -(-count // block) * block * words
                size += -(-sizes[number, i] // _ALIGNMENT) * _ALIGNMENT
        if size >= 2**31:
            raise PlanError(f"an E-vector of {size} entries exceeds 32-bit indices; use more ranks or -femgpu_scatter atomic")
        itemsize = np.dtype(scalar_type(precision)).itemsize
        self.buffer = runtime.empty(size * itemsize)
        self._parts = {
            key: self.buffer.get_sub_region(start * itemsize, sizes[key] * itemsize) if start and sizes[key] else self.buffer
            for key, start in self.starts.items()
        }

    def outputs(self, number: int) -> dict[tuple, Any]:
        """The segments of a term by the roles of the arguments that write them."""
        return {("out", i): part for (term, i), part in self._parts.items() if term == number}


class Sums:
    """The E-vector of a form and the sums over its segments, made on first use; targets with the same terms share them.

    Args:
        terms: the terms.
        arrays: over their cells.
        precision: of the kernels.

    Attributes:
        segments: the E-vector; None until something is written to it.
    """

    def __init__(self, terms: Sequence[Term], arrays: CellArrays, precision: str):
        self._terms, self._arrays, self._precision = terms, arrays, precision
        self._known: dict[tuple[bool, tuple[tuple[int, Layout], ...]], GatherSum] = {}
        self.segments: Segments | None = None

    def outputs(self, term: Term) -> dict[tuple, Any]:
        """The segments of a term, see `Segments.outputs`."""
        return self._made().outputs(self._terms.index(term))

    def gather(self, applications: Sequence[Application], alone: bool = False) -> GatherSum:
        """The sums over the segments of what applications have written; `alone`: nothing else is added to the result."""
        chosen = tuple((self._terms.index(application.term), application.plan.node_layout) for application in applications)
        if (alone, chosen) not in self._known:
            arrays, made = self._arrays, self._made()
            given = made, self._precision, arrays.prescribed, arrays.mask, alone
            self._known[alone, chosen] = GatherSum(arrays.runtime, self._terms, chosen, *given)
        return self._known[alone, chosen]

    def zero(self) -> None:
        """Zeros everywhere."""
        self._arrays.runtime.zero(self._made().buffer, self._made().buffer.size)

    def _made(self) -> Segments:
        if self.segments is None:
            runtime = self._arrays.runtime
            self.segments = Segments(runtime, self._terms, runtime.device.limits.block, self._precision)
        return self.segments


class GatherSum:
    """Adds an E-vector of several terms to an L-vector: one launch for all fields of equally many components.

    Args:
        runtime: the device.
        terms: the terms of the form.
        chosen: numbers of those that take part, and where the words of a cell stand in their segments.
        segments: the E-vector.
        precision: of the kernels.
        prescribed: (num_local,) uint8, the entries that are left alone; None: none.
        mask: device buffer of these.
        alone: whether nothing else is added to the L-vector.

    Attributes:
        kernels: the launchable kernels.
        whole: whether every entry of the L-vector is one of these sums.
    """

    def __init__(
        self,
        runtime: Runtime,
        terms: Sequence[Term],
        chosen: tuple[tuple[int, Layout], ...],
        segments: Segments,
        precision: str,
        prescribed: npt.NDArray[np.uint8] | None,
        mask: Any,
        alone: bool,
    ):
        self.kernels, num_sums, form = [], 0, terms[0].form
        source, fields = vector_kernels(precision), form.space.fields
        for num_comp in dict.fromkeys(field.num_comp for field in fields):
            pieces = [
                piece
                for number, layout in chosen
                for piece in _entries(
                    terms[number], [segments.starts[number, i] for i in range(len(terms[number].rows))], layout, num_comp
                )
            ]
            dofs, places = (np.concatenate(part) if len(part) > 1 else part[0] for part in zip(*pieces, strict=True))
            nodes, starts, order = transpose(dofs)
            if prescribed is not None:
                nodes, starts, order = _without(nodes, starts, order, prescribed, num_comp)
            buffers = [runtime.upload(array) for array in (nodes, starts, places[order])]
            given = [np.int32(len(nodes)), np.int32(num_comp), *buffers]
            # Without prescribed entries no node is marked, and the mask is not read.
            given += [buffers[0] if mask is None else mask, segments.buffer, segments.buffer, np.int32(1)]
            self.kernels.append(Kernel(runtime, source, "gather_sum", given, len(nodes) * num_comp, 64))
            num_sums += len(nodes) * num_comp
        self.whole = alone and prescribed is None and num_sums == form.space.storage(form.wide).num_local

    def bind(self, out: Any, fresh: bool = False) -> list[Launch]:
        """The launches that add to an L-vector.

        Args:
            out: its device buffer.
            fresh: whether it is zero, or anything where sums are `whole`, which are then stored.
        """
        return [kernel.bound({_OUT: out, _ADDS: np.int32(not (fresh and self.whole))}) for kernel in self.kernels]


def _without(
    nodes: np.ndarray, starts: np.ndarray, order: np.ndarray, prescribed: np.ndarray, num_comp: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drops nodes all of whose components are prescribed, and marks those of which some are as ~node."""
    count = sum(prescribed[nodes + np.int32(component)].astype(np.int32) for component in range(num_comp))
    kept = np.flatnonzero(count < num_comp)
    lengths = np.diff(starts)
    entries = np.repeat(count < num_comp, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int32)
    nodes = np.where(count > 0, ~nodes, nodes)[kept].astype(np.int32)
    return nodes, starts, order[entries]


def _entries(term: Term, starts: Sequence[int], layout: Layout, num_comp: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each field with `num_comp` components: position of every node in the L-vector, and of its entry in the E-vector."""
    for start, field in zip(starts, term.rows, strict=True):
        if field.num_comp == num_comp:
            element, offsets = term.element(field), term.offsets(field)
            if layout.lattice and element.product is not None:
                offsets = offsets[:, element.product[1]]
            # The components of a node stand together: nodes are laid out like single words, but num_comp apart.
            places = layout.positions(*offsets.shape).astype(np.int32, copy=False).ravel()
            if (num_comp, start) != (1, 0):
                places = places * np.int32(num_comp) + np.int32(start)
            yield offsets.ravel(), places
