"""The nodes of a work-group's cells, each once: what kernels read lists of, which add up a node's results before they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import comb, gcd

from femgpu.element.reference import TENSOR_CELLS
from femgpu.kernels.array import Array, Layout
from femgpu.kernels.work import Work

# Most cells of a work-group whose sums are stored and not added: what E-vectors have room for behind the last cell.
MOST_CELLS = 512
# Most results that are added up in one place: a node with more stands in its list more than once. A slot takes the lower bits of a
# place's 16, which of the node's results it is the upper ones.
MOST_RESULTS, MOST_SLOTS = 16, 4096
# The same where all nodes of a group have as many places: most vertices of triangles have six.
MOST_EVEN = 6
# Nodes of a slice, whose results stand row by row: the first of each node, the second of each node, and so on. Rows are a word
# longer, so that the results of one node are in different banks, and neighbouring nodes so many words apart, as their results are
# stored together.
SLICE, SLICE_ROW, SLICE_STEP = 32, 33, 11
# Of local memory, as numbers of double precision see them.
BANKS = 16
# The same as kernels know them.
LIST_CONSTANTS = {
    "MOST_RESULTS": MOST_RESULTS,
    "MOST_SLOTS": MOST_SLOTS,
    "SLICE": SLICE,
    "SLICE_ROW": SLICE_ROW,
    "SLICE_STEP": SLICE_STEP,
    "BANKS": BANKS,
}
# Work-items that make the list of a work-group.
LISTING_ITEMS = 256


def list_bytes(lists: Sequence[NodeList], slices: Sequence[int], itemsize: int) -> int:
    """Local memory of a work-group for lists of so many slices each.

    For each slot what `NodeList.slot_bytes` counts; then values at the nodes, and results, which take
    their place or stand behind them.

    Args:
        lists: of a plan.
        slices: of each list.
        itemsize: bytes of a value or a result.
    """
    slots = [SLICE * count for count in slices]
    values = sum(entry.num_values * count for entry, count in zip(lists, slots, strict=True))
    sums = sum(entry.num_sums for entry in lists)
    listed = sum(entry.slot_bytes * count for entry, count in zip(lists, slots, strict=True))
    return listed + itemsize * (values + sums if lists[0].apart else max(values, sums))


@dataclass(frozen=True)
class VectorArray:
    """An array in local memory with some of the numbers that are read at a node, for each slot.

    Attributes:
        name: of the array.
        ctype: what a slot has: a vector in single precision, or a number that is left.
        numbers: what these are: `x` or the name of a field, how many components that has, and which of them.
    """

    name: str
    ctype: str
    numbers: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class NodeList:
    """The nodes of the rows of one field in the cells of a work-group, by falling number of cells that have them (or `in_place`).

    Those of equally many stand by their offsets. Each stands in a slot, `SLICE` of which are a slice; all lists have as many as
    the longest, filled up by slots of no node. A node's results stand in its slice in steps of `SLICE_ROW`, so that neighbouring
    items add up neighbouring nodes in equal steps. Where a group is known to need no more than so many slots they stand in rows as
    long as that, by their offsets alone, and compilers know where.

    Attributes:
        number: of the rows among those of the work.
        cells: of a work-group.
        num_basis: nodes of a cell.
        num_comp: components of each.
        masked: whether some may be prescribed: their offsets are marked.
        fields: names of the fields that are read at the same nodes.
        coords: whether these are the nodes of the coordinates, too.
        num_values: numbers that are read at a node.
        apart: whether results stand behind the values, of all lists, and not in their place.
        slots: of the list, each with `MOST_EVEN` places of results; 0: as many as the mesh needs, in slices.
        kept: whether the items that read nodes keep their numbers, and add to the same ones.
        gap: words behind each row: a node's results, and components, are in different banks.
        vector_widths: how many of a node's numbers, in single precision, stand in each of its vectors; empty: each kind by itself.
        in_place: whether an item adds up a node's results one after the other, in its slot: places are slots, by their offsets, and
            nothing is known of how many results a node has.
    """

    number: int
    cells: int
    num_basis: int
    num_comp: int
    masked: bool = False
    fields: tuple[str, ...] = ()
    coords: bool = False
    num_values: int = 0
    apart: bool = False
    slots: int = 0
    kept: bool = False
    gap: int = 0
    vector_widths: tuple[int, ...] = ()
    in_place: bool = False

    @property
    def slot_bytes(self) -> int:
        """Local memory of a slot: its node, how many results it has and, in slices, where its first one stands."""
        return 0 if self.kept else 4 + 1 + 2 * (self.slots == 0)

    @property
    def most_results(self) -> int:
        """Most results that are added up in one slot."""
        return MOST_EVEN if self.slots else MOST_RESULTS

    @property
    def most_slots(self) -> int:
        """Slots that a place can name."""
        return self.slots or MOST_SLOTS

    @property
    def place_range(self) -> int:
        """Places that differ: a node's slot, and which of its results it is."""
        return self.most_results * self.most_slots

    @property
    def row(self) -> int:
        """Words from one of a node's results to the next."""
        return self.slots + self.gap if self.slots else SLICE_ROW

    @property
    def vector_arrays(self) -> tuple[VectorArray, ...]:
        """Where vectors stand: coordinates first, then the fields, which have the rows' nodes and so as many components."""
        comps = dict.fromkeys(self.fields, self.num_comp)
        kinds = {"x": self.num_values - sum(comps.values())} | comps
        numbers = iter([(name, count, c) for name, count in kinds.items() for c in range(count)])
        return tuple(
            VectorArray(f"s_values{self.number}_{i}", f"float{width}" if width > 1 else "float", tuple(islice(numbers, width)))
            for i, width in enumerate(self.vector_widths)
        )

    @property
    def num_entries(self) -> int:
        """Pairs of a cell and one of its nodes."""
        return self.cells * self.num_basis

    @property
    def place_words(self) -> int:
        """Places of a cell, an even number: an item loads some of them at a time."""
        return self.num_basis + self.num_basis % 2

    @property
    def packed(self) -> bool:
        """Whether a cell's places are the digits of one number of 32 bits."""
        return self.slots > 0 and self.place_range**self.num_basis <= 1 << 32

    @property
    def together(self) -> int:
        """Places that are loaded at a time, up to 16 bytes."""
        return gcd(self.place_words, 8)

    @property
    def num_slots(self) -> int:
        """Slots that are enough, whatever the mesh."""
        return self.slots or -(-self.num_entries // SLICE) * SLICE

    @property
    def stored(self) -> bool:
        """Whether an E-vector has room for a sum for each slot: no more than these cells have entries, and behind the last cell."""
        return self.cells % SLICE == 0 and self.cells <= MOST_CELLS and self.num_slots <= self.num_entries

    @property
    def num_places(self) -> int:
        """Places of results that are enough for one component, whatever the mesh.

        With k_s rows in slice s its idle places are no more than 31 (k_s - k_(s+1)), for all of its nodes have at least k_(s+1)
        results: 31 k_0 in sum.
        """
        if self.slots:
            return self.row * self.most_results
        return SLICE_ROW * ((self.num_entries + (SLICE - 1) * min(MOST_RESULTS, self.num_entries)) // SLICE)

    @property
    def comp_step(self) -> int:
        """Words from a component's results to those of the next.

        Items add up components of `BANKS // num_comp` nodes at a time, side by side: a step of as many nodes backwards takes each
        component to banks of its own. In rows a gap does.
        """
        if self.num_comp == 1:
            return self.num_places
        return self.num_places + (self.gap if self.slots else (-SLICE_STEP * (BANKS // self.num_comp) - self.num_places) % BANKS)

    @property
    def num_sums(self) -> int:
        """Places of all components; behind the last row there is no gap."""
        return (self.num_comp - 1) * self.comp_step + self.num_places - self.gap

    @property
    def num_keys(self) -> int:
        """The entries, filled up to a power of two, in which order they are sorted."""
        return max(2, 1 << (self.num_entries - 1).bit_length())

    @property
    def listing_bytes(self) -> int:
        """Local memory of the work-group that makes the list."""
        return 12 * self.num_keys + 4

    def arrays(self, layout: Layout) -> list[Array]:
        """The arguments: `slices`, a number, of each list; `d_bases` says where the results of a slice begin."""

        def role(part: str) -> tuple:
            return ("list", part, f"test{self.number}", self.masked)

        where = replace(layout, together=self.together)
        words = ("uint", role("places"), 1, layout) if self.packed else ("ushort", role("places"), self.place_words, where)
        found = [Array(f"d_places{self.number}", *words, chunk=True)]
        if not self.slots:
            found.append(Array(f"slices{self.number}", "int", role("slices")))
        if not self.slots and not self.in_place:
            found.append(Array(f"d_bases{self.number}", "ushort", role("bases")))
        parts = {"nodes": "int", "counts": "uchar"} | ({"vertices": "int"} if self.coords else {})
        return found + [Array(f"d_{part}{self.number}", ctype, role(part)) for part, ctype in parts.items()]

    def nodes_per_cell(self, work: Work) -> float:
        """Nodes for each cell of a work-group, about: of triangles that fill a square of boxes, of others in a row of boxes."""
        if not work.rows[self.number].continuous:
            return self.num_basis
        dim, split = work.dim, 1
        degree = round(self.num_basis ** (1 / dim)) - 1
        if work.cell not in TENSOR_CELLS:
            degree, split = next(p for p in range(self.num_basis) if comb(p + dim, dim) >= self.num_basis), (1, 1, 2, 6)[dim]
        boxes = self.cells / split
        nodes = (boxes**0.5 * degree + 1) ** 2 if work.cell == "triangle" else (boxes * degree + 1) * (degree + 1) ** (dim - 1)
        return min(nodes / self.cells, self.num_basis)
