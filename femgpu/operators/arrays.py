"""Role of a kernel's argument -> buffer: arrays over the cells of a mesh, made on first use, kept and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement
from femgpu.errors import PlanError
from femgpu.kernels import TYPES, Array, Layout, NodeList, Plan, list_bytes, pack_fragments, parity_lines
from femgpu.operators.columns import node_parts
from femgpu.operators.lists import node_lists, pack, slot_lists
from femgpu.operators.term import Term
from femgpu.runtime import LocalMemory, Runtime
from femgpu.spaces import Field

_NUMPY = {"double": np.float64, "float": np.float32, "int": np.int32, "uchar": np.uint8}

# Roles of what belongs to those who launch: sums that somebody may want, whether results are new, a sparse matrix.
_BOUND = ("dots", "stores", "zeros", "places", "dofs", "values")
# Roles of what changes when the mesh moves.
_MOVING = ("geometry", "coords")
# Roles of arrays with as many words for each cell.
_OVER_CELLS = ("offsets", "cell_offsets", "geometry", "coord_offsets", "facets", "other")
# Cells that are packed at a time: what is made on the way stays in the processor's cache.
_CHUNK = 8192


def real_type(precision: str) -> Any:
    """Numpy's type of numbers in arithmetic."""
    return _NUMPY[TYPES[precision][0]]


def scalar_type(precision: str) -> Any:
    """Numpy's type of numbers in vectors."""
    return _NUMPY[TYPES[precision][1]]


def list_of(plan: Plan, array: Array) -> NodeList:
    """The list of nodes that an argument with the role "list" is a part of."""
    return next(entry for entry in plan.lists if f"test{entry.number}" == array.role[2])


def is_packed(array: Array, masked: bool) -> bool:
    """Whether the device makes an argument of other words than the host has, with dofs prescribed or not."""
    role, layout = array.role, array.layout
    if layout is None or role[0] not in ("offsets", "cell_offsets", "coord_offsets"):
        return False
    return role[0] == "coord_offsets" or (role[2] and masked) or layout.block > 1 or layout.lattice


class CellArrays:
    """Arrays over the cells of a form's terms on the device, shared between its kernels.

    Args:
        runtime: the device.
        prescribed: (num_local,) uint8, which entries of the L-vectors of the test space are prescribed; None: none is.
    """

    def __init__(self, runtime: Runtime, prescribed: npt.NDArray[np.uint8] | None = None):
        self.runtime = runtime
        self.prescribed = prescribed
        self._kept: dict[Any, Any] = {}
        self._source: CellArrays | None = None
        self._moving: dict[Any, Callable[[], np.ndarray]] = {}

    @property
    def mask(self) -> Any:
        """Device buffer of `prescribed`; None where there is none."""
        if self.prescribed is None:
            return None
        if "mask" not in self._kept:
            self._kept["mask"] = self.runtime.upload(self.prescribed)
        return self._kept["mask"]

    def __call__(
        self,
        term: Term,
        plan: Plan,
        array: Array,
        fields: dict[str, Field],
        tables: Sequence[np.ndarray],
        cells: tuple[int, int] | None = None,
    ) -> Any:
        """The buffer of an argument.

        Args:
            term: the term.
            plan: the plan of the kernel.
            array: the argument.
            fields: fields of the roles ("offsets", name, masked), ("cell_offsets", ...) and ("list", ...) by name.
            tables: what the role ("tables", "full", side) holds, for each side.
            cells: the first cell of a launch, and how many; None: all of the term.
        """
        if array.role[0] == "prescribed":
            return self.mask
        if array.role[0] == "lines":
            parts = np.concatenate([part.ravel() for part in parity_lines(plan).values()])
            return np.void(parts.astype(real_type(plan.precision)).tobytes())
        if array.role[0] in ("zeroing", "num_zeros"):
            return np.uint32(0)
        if array.role[0] in _BOUND or (array.role == ("cells",) and term.numbers is None):
            return None
        if array.role == ("local",):
            counts = [given for step in plan.steps() for given in step.arrays if given.role[:2] == ("list", "slices")]
            slices = [int(self(term, plan, given, fields, tables, cells)) for given in counts]
            return LocalMemory(list_bytes(plan.lists, slices, plan.itemsize("real")))
        if array.role[0] == "list":
            return self._list(term, plan, array, fields, (0, term.num_cells) if cells is None else cells)
        key, make = self._entry(term, plan, array, fields, tables)
        if key not in self._kept:
            moves = array.role[0] in _MOVING or array.role == ("other", "geometry")
            found = None if moves or self._source is None else self._source._kept.get(key)
            if found is None:
                found = make()
                found = self.runtime.upload(found) if isinstance(found, np.ndarray) else found
            self._kept[key] = found
            if moves:
                self._moving[key] = make
        return self._kept[key]

    def fitted(self, term: Term, plan: Plan, fields: dict[str, Field], chunks: Sequence[tuple[int, int]]) -> Plan:
        """A plan, or the one for any mesh where some work-group of these cells needs more slots than it has."""
        if not any(entry.slots for entry in plan.lists):
            return plan
        places = [array for step in plan.steps() for array in step.arrays if array.role[:2] == ("list", "places")]
        fits = all(self._list(term, plan, array, fields, cells) is not None for array in places for cells in chunks)
        return plan if fits else plan.sliced()

    def share(self, source: CellArrays) -> None:
        """Takes from another one what it has of the same mesh, but what moves; dofs of the same space are prescribed in both.

        To be called before anything is made.
        """
        self._source = source

    def keep(self, buffers: Iterable[Any]) -> None:
        """Forgets arrays that are not among some buffers: those of ways that were compared and not chosen.

        Keys have ids of what is alive as long as its buffers are used. That nothing is needed is known anew; of parts of lists, as
        long as the others are kept, with which they would be made again.
        """
        kept = {id(buffer) for buffer in buffers if buffer is not None}
        known = self._kept
        self._kept = {
            key: found
            for key, found in known.items()
            if key == "mask" or id(known.get(("places", *key[1:])) if found is None else found) in kept
        }
        self._moving = {key: make for key, make in self._moving.items() if key in self._kept}

    def follow(self) -> None:
        """Brings the present coordinates, and what is computed from them, to the buffers that hold older ones."""
        for key, make in self._moving.items():
            self.runtime.write(self._kept[key], np.ascontiguousarray(make()))

    def missing(self, term: Term, plan: Plan, fields: dict[str, Field]) -> dict[Any, int]:
        """Bytes of the arrays over cells that a plan needs and lacks, by key, or that may be null; nothing is made."""
        found = {}
        for array in (array for step in plan.steps() for array in step.arrays):
            if array.role[0] in _OVER_CELLS and array.layout is not None:
                key, _ = self._entry(term, plan, array, fields, ())
                if key not in self._kept:
                    found[key] = array.layout.size(term.num_cells, array.words) * plan.itemsize(array.ctype)
            elif array.role[0] == "list":
                key, words = self._list_key(term, plan, array, fields, (0, term.num_cells)), float(array.words)
                if array.role[1] in ("nodes", "counts", "vertices"):
                    words = list_of(plan, array).nodes_per_cell(plan.work)
                if key not in self._kept:
                    found[key] = int(words * term.num_cells) * plan.itemsize(array.ctype)
        return found

    def _list(self, term: Term, plan: Plan, array: Array, fields: dict[str, Field], cells: tuple[int, int]) -> Any:
        """A part of the lists of nodes for a launch over some cells; all parts are made together, and always the same."""
        key = self._list_key(term, plan, array, fields, cells)
        if key not in self._kept and self._source is not None and key in self._source._kept:
            self._kept[key] = self._source._kept[key]
        if key not in self._kept:
            _, _, name, masked = array.role
            entry, offsets, mask = list_of(plan, array), term.offsets(fields[name]), self.mask if masked else None
            vertices = term.subset(term.block.coord_dofs) if entry.coords else None
            if vertices is not None and _are_in_order(entry, offsets, vertices, term.dim):
                vertices = None
            if entry.in_place:
                made = slot_lists(self.runtime, entry, offsets, cells, self.prescribed if masked else None)
            else:
                made = node_lists(self.runtime, entry, plan.layout.block, offsets, cells, mask, vertices, term.dim)
            self._kept |= {(part, *key[1:]): found for part, found in made.items()}
        return self._kept[key]

    def _list_key(self, term: Term, plan: Plan, array: Array, fields: dict[str, Field], cells: tuple[int, int]) -> tuple:
        _, part, name, masked = array.role
        entry, whose = list_of(plan, array), id(term.block) if term.cells is None else id(term)
        return (part, whose, id(fields[name]), masked, entry.cells, entry.coords, entry.slots, entry.in_place, plan.layout, cells)

    def _entry(
        self, term: Term, plan: Plan, array: Array, fields: dict[str, Field], tables: Sequence[np.ndarray]
    ) -> tuple[Any, Callable[[], Any]]:
        """Key and maker of an argument's contents, an array or the buffer itself."""
        if array.role[0] == "other":
            assert term.other is not None
            return self._entry(term.other, plan, replace(array, role=array.role[1:]), fields, tables)
        kind, layout, block = array.role[0], array.layout, term.block
        dtype = _NUMPY[plan.ctype(array.ctype)]
        # Terms on all cells of a block share the arrays of the block.
        cells = id(block) if term.cells is None else id(term)
        if kind == "offsets":
            field, masked = fields[array.role[1]], array.role[2]
            return (cells, id(field), kind, masked, layout), lambda: self._offsets(term, field, masked, layout)
        if kind == "cell_offsets":
            field = fields[array.role[1]]
            return (cells, id(field), kind, layout), lambda: self._cell_offsets(term, field, layout)
        if kind == "coord_offsets":
            nodes = term.subset(block.coord_dofs)
            return (cells, kind, layout), lambda: self._positions(layout, nodes, term.coord_element, factor=term.dim)
        if kind == "geometry":
            # An affine map is the same for every rule.
            whose = cells if term.affine else id(term)
            return (whose, kind, array.words, layout, dtype), lambda: _packed(layout, _geometry(term, array.words), dtype)
        if kind == "coords":
            return (id(block.coords), kind, dtype), lambda: block.coords.astype(dtype)
        if kind == "cells":
            return (id(term), kind), lambda: np.asarray(term.numbers, np.int32)
        if kind == "parts":
            element = term.element(term.rows[array.role[1]])
            return (kind, id(element)), lambda: node_parts(element)
        if kind == "facets":
            return (id(term), kind), lambda: _packed(layout, term.facets[:, None])  # type: ignore[index]
        if kind == "fragments":
            assert plan.work.tensor is not None
            packed = pack_fragments(array.role[1], plan.work.tensor)
            return (kind, dtype, packed.tobytes()), lambda: packed.astype(dtype)
        if array.role[:2] != ("tables", "full"):
            raise PlanError(f"argument {array.name} has the role {array.role}, which nothing fills")
        table = tables[array.role[2]]
        return (kind, dtype, table.tobytes()), lambda: table.astype(dtype)

    def _offsets(self, term: Term, field: Field, masked: bool, layout: Layout | None) -> Any:
        """Offsets of component 0 of a field's nodes, ~offset where a component is prescribed."""
        mask = self.mask if masked else None
        return self._positions(layout, term.offsets(field), term.element(field), mask=mask, num_comp=field.num_comp)

    def _cell_offsets(self, term: Term, field: Field, layout: Layout | None) -> Any:
        """Offsets of a field with one node per cell; None where they are those of cells in order."""
        in_order = np.array_equal(term.offsets(field)[:, 0], field.num_comp * np.arange(term.num_cells, dtype=np.int32))
        return None if in_order else self._offsets(term, field, False, layout)

    def _positions(self, layout: Layout | None, nodes: npt.NDArray[np.int32], element: LagrangeElement, **given: Any) -> Any:
        """The nodes of cells as kernels read them, in the order of their lattice where the layout says so."""
        assert layout is not None and layout.together == 1
        order = element.product[1] if layout.lattice and element.product is not None else None
        return pack(self.runtime, layout, nodes, order, **given)


def _packed(layout: Layout | None, array: np.ndarray, dtype: Any = np.int32) -> np.ndarray:
    """An array (num_cells, words) as kernels read it, of a type."""
    assert layout is not None
    (num_cells, words), step = array.shape, max(_CHUNK // layout.block, 1) * layout.block
    packed = np.empty(layout.size(num_cells, words), dtype)
    for start in range(0, num_cells, step):
        part = layout.pack(array[start : start + step])
        packed[start * words : start * words + len(part)] = part
    return packed


def _are_in_order(entry: NodeList, offsets: npt.NDArray[np.int32], vertices: npt.NDArray[np.int32], dim: int) -> bool:
    """Whether coordinates stand in the order of dofs of one or `dim` components, so that kernels find them by these."""
    return entry.num_comp in (1, dim) and np.array_equal(offsets, entry.num_comp * vertices)


def _geometry(term: Term, words: int) -> np.ndarray:
    """(num_cells, words) inverse Jacobians and determinants; in four words the first row and the second one along and across it."""
    geometry = term.geometry()
    if words == 4 * geometry.shape[1]:
        row, other, det = geometry[..., :2], geometry[..., 2:4], geometry[..., 4:]
        square = (row**2).sum(axis=-1, keepdims=True)
        along = (row * other).sum(axis=-1, keepdims=True) / square
        geometry = np.concatenate([row, along, 1 / (det * square)], axis=-1)
    return geometry.reshape(term.num_cells, words)
