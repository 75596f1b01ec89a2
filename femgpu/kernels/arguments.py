"""The arguments of a plan's kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from femgpu.kernels.array import Array, Layout
from femgpu.kernels.node_lists import NodeList
from femgpu.kernels.work import Side, Work

# Items of a GPU that load together, and numbers in double precision that its memory hands out together: of those in single
# precision, which stand in the same order, twice as many.
_WARP, _SECTOR_WORDS = 32, 4


class Layouts(Protocol):
    """What the arguments depend on; attributes are those of `Plan`."""

    @property
    def work(self) -> Work:
        """What is computed."""
        ...

    @property
    def scatter(self) -> str:
        """How results are written."""
        ...

    @property
    def layout(self) -> Layout:
        """Of arrays of cells."""
        ...

    @property
    def node_layout(self) -> Layout:
        """Of arrays of nodes."""
        ...

    @property
    def state_plane(self) -> int:
        """Points of a plane whose stored numbers stand side by side, or 0."""
        ...

    @property
    def lists(self) -> tuple[NodeList, ...]:
        """Lists of the nodes of a work-group's cells."""
        ...

    @property
    def counts_cells(self) -> bool:
        """Whether offsets of what has one node per cell may be null."""
        ...

    @property
    def needs_coords(self) -> bool:
        """Whether coordinates are read."""
        ...

    @property
    def geometry_words(self) -> int:
        """Stored numbers per cell of its map."""
        ...

    @property
    def table_space(self) -> str:
        """Where tabulations stand."""
        ...

    @property
    def sums_dots(self) -> bool:
        """Whether direction times result is summed."""
        ...

    @property
    def passes_lines(self) -> bool:
        """Whether parts of 1D matrices are passed by value."""
        ...

    @property
    def stores_inside(self) -> bool:
        """Whether results inside of cells may be stored."""
        ...


def input_arrays(plan: Layouts) -> list[Array]:
    """The cell's own data: fields, geometry, coordinates, facets."""
    work, layout, arrays = plan.work, plan.layout, []
    listed = {name for entry in plan.lists for name in entry.fields}
    # One argument for each vector, whichever of its fields are read.
    words: dict[str, int] = {}
    for field in work.fields:
        words[field.vector] = words.get(field.vector, 0) + field.size * work.parts * (field.name not in listed)
    for field in work.fields:
        if work.source == "evector":
            own = replace(plan.node_layout, together=field.num_comp)
            arrays.append(Array(f"d_{field.name}", "scalar", ("entries", field.name), field.size, own))
            continue
        if field.vector in words:
            arrays.append(Array(f"d_{field.vector}", "scalar", ("vector", field.vector), words.pop(field.vector)))
        if field.name not in listed:
            kind = "cell_offsets" if plan.counts_cells and field.num_basis == 1 and not field.masked else "offsets"
            arrays.append(_offsets(plan, f"d_{field.name}_offsets", field.name, field.masked, field.num_basis, kind=kind))
    for side in work.sides:
        if plan.geometry_words:
            arrays.append(_of_side(side, "d_geometry", "real", "geometry", plan.geometry_words, layout))
        if plan.needs_coords:
            size = side.num_coord_basis
            joined = any(entry.coords for entry in plan.lists)
            arrays += [Array("d_coords", "real", ("coords",), size * work.dim * (not joined))] if side.number == 0 else []
            if not joined:
                arrays.append(_of_side(side, "d_coord_offsets", "int", "coord_offsets", size, plan.node_layout))
        if work.facet:
            arrays.append(_of_side(side, "d_facets", "int", "facets", 1, Layout()))
    return arrays


def shared_arrays(plan: Layouts) -> list[Array]:
    """What is the same for all cells."""
    arrays = [Array("d_constants", "real", ("constants",))]
    if plan.table_space != "__constant":
        arrays += [Array(side.name("d_tables"), "real", ("tables", "full", side.number)) for side in plan.work.sides]
    if plan.passes_lines:
        arrays.append(Array("d_parts", "real", ("lines",)))
    return arrays


def result_arrays(plan: Layouts) -> list[Array]:
    """Offsets of the rows, what is stored at the points, results."""
    work, layout, arrays = plan.work, plan.layout, []
    for i, row in enumerate(work.rows):
        # The diagonal looks for the nodes that both cells of a facet have.
        if work.sums and not plan.lists and (plan.scatter == "atomic" or (work.target == "diagonal" and row.twin >= 0)):
            arrays.append(_offsets(plan, f"d_test{i}_offsets", f"test{i}", row.masked, row.num_basis, moves=not row.beside))
    for entry in plan.lists:
        arrays += entry.arrays(layout)
    masked = [field.num_comp for field in work.fields if field.masked] + [row.num_comp for row in work.rows if row.masked]
    if any(count * work.parts > 1 for count in masked):
        arrays.append(Array("d_prescribed", "uchar", ("prescribed",)))
    storing, kept = work.target == "state", "float" if work.rounded else "real"
    if work.num_state:
        planes = replace(layout, plane=plan.state_plane, together=work.num_state) if plan.state_plane else layout
        arrays.append(Array("d_state", kept, ("state",), work.num_qpts * work.num_state, planes, written=storing))
    if work.num_cell_state:
        arrays.append(Array("d_cell_state", kept, ("cell_state",), work.num_cell_state, layout, written=storing))
    if work.target == "matrix":
        arrays.append(Array("d_out", "double", ("out",), work.num_rows**2, Layout(), written=True, chunk=True))
    elif work.target == "functional":
        arrays.append(Array("d_out", "accum", ("out",), 1, Layout(), written=True))
    elif work.sums and plan.scatter == "atomic":
        words = 0 if plan.lists else work.num_rows * work.parts
        arrays.append(Array("d_out", "scalar", ("out",), words, moves=2, written=True))
        if plan.sums_dots:
            arrays.append(Array("d_dots", "double", ("dots",), written=True))
        if plan.stores_inside:
            arrays.append(Array("d_stores", "uchar", ("stores",)))
    elif work.sums and plan.lists:
        # A sum for each node of a work-group, in the order of the lists.
        arrays += [Array(f"d_out{entry.number}", "scalar", ("out", entry.number), written=True, chunk=True) for entry in plan.lists]
    elif work.sums:
        for i, row in enumerate(work.rows):
            own = replace(plan.node_layout, together=row.num_comp)
            arrays.append(Array(f"d_out{i}", "scalar", ("out", i), row.size, own, written=True))
    return arrays


def state_plane(work: Work) -> int:
    """Points of a plane across the last direction of a tensor cell, whose stored numbers may stand side by side.

    That is number 0 of all its points, then number 1 and so on: neighbouring items have neighbouring points of a plane. 0 where the
    numbers of a point should follow each other: on other cells, and where planes have more points than a warp has items and do not
    fill sectors of memory, which takes less time on an H200.
    """
    plane = work.tensor.q1d ** (work.dim - 1) if work.tensor is not None else 0
    return 0 if plane > _WARP and plane % _SECTOR_WORDS else plane


def state_word(work: Work, i: str, plane: int) -> str:
    """The word of a cell's `d_state` that is number i at point q, in C, in planes of so many points; 0: point by point."""
    return f"q / {plane} * {plane * work.num_state} + {i} * {plane} + q % {plane}" if plane else f"q * NUM_STATE + {i}"


def _offsets(plan: Layouts, name: str, field: str, masked: bool, words: int, moves: int = 1, kind: str = "offsets") -> Array:
    return Array(name, "int", (kind, field, masked), words, plan.node_layout, moves=int(moves))


def _of_side(side: Side, name: str, ctype: str, role: str, words: int, layout: Layout) -> Array:
    """An argument that each of both cells of a facet has."""
    return Array(side.name(name), ctype, (role,) if side.number == 0 else ("other", role), words, layout)
