"""E -> L: the owner of a dof sums its cells' entries in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import PlanError
from femgpu.kernels import vector_kernels
from femgpu.kernels.node_lists import MOST_CELLS
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


def segment_cells(term: Term, block: int) -> int:
    """How many cells the segments of a term have room for: whole blocks and, of terms over cells, a whole work-group at the end."""
    count = 0 if term.use == "matrices" else term.num_cells
    beyond = MOST_CELLS - 1 if count and term.facets is None else 0
    return -(-(count + beyond) // block) * block


class Segments:
    """One E-vector for all terms of a form: a segment for each field of the rows of each term.

    Args:
        runtime: the device.
        terms: the terms.
        block: cells that a layout may interleave, see `segment_cells`.
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
                sizes[number, i] = segment_cells(term, block) * words
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
        self._known: dict[tuple[Any, ...], GatherSum] = {}
        self.segments: Segments | None = None

    def outputs(self, term: Term) -> dict[tuple, Any]:
        """The segments of a term, see `Segments.outputs`."""
        return self._made().outputs(self._terms.index(term))

    def gather(self, applications: Sequence[Application], alone: bool = False) -> GatherSum:
        """The sums over the segments of what applications have written; `alone`: nothing else is added to the result."""
        lists = [(entry.plan.lists, entry.chunks) if entry.plan.lists else () for entry in applications]
        key = alone, *((entry.term, entry.plan.node_layout, listed) for entry, listed in zip(applications, lists, strict=True))
        if key not in self._known:
            starts = [
                [self._made().starts[self._terms.index(entry.term), i] for i in range(len(entry.term.rows))]
                for entry in applications
            ]
            self._known[key] = GatherSum(applications, starts, self._made().buffer, self._arrays, self._precision, alone)
        return self._known[key]

    def keep(self, gathers: Iterable[GatherSum]) -> None:
        """Forgets all sums but some: those of plans that were compared and not chosen."""
        kept = set(map(id, gathers))
        self._known = {key: found for key, found in self._known.items() if id(found) in kept}

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
        applications: what writes to the E-vector, all of one form.
        starts: where the segments of each begin, by field of its rows.
        segments: buffer of the E-vector.
        arrays: over cells; some entries of the L-vector may be prescribed, and are left alone.
        precision: of the kernels.
        alone: whether nothing else is added to the L-vector.

    Attributes:
        kernels: the launchable kernels.
        whole: whether every entry of the L-vector is one of these sums.
    """

    def __init__(
        self,
        applications: Sequence[Application],
        starts: Sequence[Sequence[int]],
        segments: Any,
        arrays: CellArrays,
        precision: str,
        alone: bool,
    ):
        self.kernels, num_sums, form, runtime = [], 0, applications[0].term.form, arrays.runtime
        source, prescribed = vector_kernels(precision), arrays.prescribed
        for num_comp in dict.fromkeys(field.num_comp for field in form.space.fields):
            pieces = [
                piece for entry, begins in zip(applications, starts, strict=True) for piece in _entries(entry, begins, num_comp)
            ]
            dofs, places = (np.concatenate(part) if len(part) > 1 else part[0] for part in zip(*pieces, strict=True))
            nodes, firsts, order = transpose(dofs)
            if prescribed is not None:
                nodes, firsts, order = _without(nodes, firsts, order, prescribed, num_comp)
            buffers = [runtime.upload(array) for array in (nodes, firsts, places[order])]
            given = [np.int32(len(nodes)), np.int32(num_comp), *buffers]
            # Without prescribed entries no node is marked, and the mask is not read.
            given += [buffers[0] if arrays.mask is None else arrays.mask, segments, segments, np.int32(1)]
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


def _entries(application: Application, starts: Sequence[int], num_comp: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each field with `num_comp` components: position of every node in the L-vector, and of its entry in the E-vector."""
    term, plan = application.term, application.plan
    for i, (start, field) in enumerate(zip(starts, term.rows, strict=True)):
        if field.num_comp != num_comp:
            continue
        if plan.lists:
            # A group has a sum for each slot of its list.
            nodes = application.listed_nodes(i)
            places = np.flatnonzero(nodes >= 0).astype(np.int32)
            offsets = nodes[places]
        else:
            element, offsets, layout = term.element(field), term.offsets(field), plan.node_layout
            if layout.lattice and element.product is not None:
                offsets = offsets[:, element.product[1]]
            # The components of a node stand together: nodes are laid out like single words, but num_comp apart.
            places = layout.positions(*offsets.shape).astype(np.int32, copy=False).ravel()
        if (num_comp, start) != (1, 0):
            places = places * np.int32(num_comp) + np.int32(start)
        yield offsets.ravel(), places
