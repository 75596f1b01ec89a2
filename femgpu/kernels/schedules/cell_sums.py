"""Plans of schedule cell in which a work-group adds up its cells' results node by node before they go to global memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import ceil

from femgpu.kernels.array import Array
from femgpu.kernels.node_lists import LISTING_ITEMS, MOST_SLOTS, SLICE, NodeList, list_bytes
from femgpu.kernels.schedules.cell_plan import CellPlan, adds_at_nodes, has_room, shared_nodes
from femgpu.kernels.step import Step
from femgpu.kernels.work_fields import FieldWork
from femgpu.model import Ceiling, Limits

# Where it was measured to take less time, by cells and components, where more than directions count as these: up to so many basis
# functions of a field, up to so many operations for each result; the first pair with enough basis functions counts.
_MEASURED = {
    ("triangle", 1): ((3, 50),),
    ("triangle", 2): ((6, 60),),
    ("tetrahedron", 1): ((10, 128),),
    ("tetrahedron", 2): ((10, 128),),
    ("tetrahedron", 3): ((10, 128),),
}
# The same of actions of scalars, in double precision, and of vectors. Linearised bodies of degree 2 have 321 operations for each
# result (St. Venant-Kirchhoff's) or 435 (a neo-Hookean one).
_ACTIONS = {
    ("triangle", 1): ((3, 50), (6, 30), (10, 135), (15, 90)),
    ("triangle", 2): ((10, 70),),
    ("tetrahedron", 1): ((10, 220), (20, 150)),
    ("tetrahedron", 3): ((10, 440),),
}
# Cells of a group whose items have combinations, at least: mass P4 on tetrahedra takes 1.2 times as long in groups of 32 as of 64.
_LEAST_GROUP = 64
# Most nodes that an item reads at a time: of degree 4 on tetrahedra it has 18.
_READS = 18
# Most cells of an item by precision and dimension, and local memory of its work-group, of which a multiprocessor of a GPU has room
# for 12. By measurement (docs/benchmarks) more cells for each item lose where it has not, and where nodes are not vertices.
_MOST_TURNS = {("single", 2): 3, ("single", 3): 3, ("double", 2): 2}
_TURNS_BYTES = (227 << 10) // 12
# The same of rows where coordinates are values at the nodes, for 6: elasticity on triangles in double precision takes 17 % less.
_ROWS_BYTES = (227 << 10) // 6
# Nodes of 384 triangles, at most, where these stand in blocks: a power of two, by which places are divided.
_SLOTS = 256
# Behind rows of places: half of the banks of local memory, so that every other row begins in the same one.
_GAP_BYTES = 64
# Numbers in single precision that are read from local memory together, where a node has as many, coordinates among them: vectors of
# three numbers, and of two in double precision, take up to 13 % longer (docs/benchmarks).
_VECTOR = 4
# Most local memory that is an argument: drivers promise this much, and NVIDIA's gives kernels' own arrays more.
_ARGUMENT_BYTES = 48 << 10
# How much longer it is taken to be elsewhere.
_BEHIND = 1.2


@dataclass(frozen=True)
class CellSumsPlan(CellPlan):
    """A plan of schedule cell that reads each node of a work-group's cells once, and adds to it once.

    Attributes:
        zeroes: whether the launch zeroes what it adds to, where it is told to; work-groups have to start in order.
        turns: cells of an item, one after the other, whose loads are under way together.
        slots: of a work-group's nodes, each with as many places for results; 0: as many as the mesh needs, in slices
            (`NodeList`). For meshes where some group has more there is `sliced`.
    """

    zeroes: bool = False
    turns: int = 1
    slots: int = 0

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="cell_sums",
                arrays=(*self.arguments(), *[Array("s_local", self._local_type, ("local",))] * self.takes_local),
                local=() if self.takes_local else (Array("s_local", self._local_type, ("local",), self._local_words),),
                items=self.group_size,
                group_cells=self.group_cells,
                barriers=3 if self.turns == 1 else 2,
                macros=(("UNROLL_POINTS", int(self.unrolls_points)),),
            ),
        )

    @property
    def group_cells(self) -> int:
        """Cells of a work-group."""
        return self.turns * self.group_size

    @property
    def unrolls_results(self) -> bool:
        """Whether some of a node's results are read at a time, on GPUs: a vertex has some 24 tetrahedra, and 6 triangles."""
        return self.unroll > 0 and self.work.dim == 3

    def results_ahead(self, entry: NodeList) -> int:
        """Results of a node that are asked for together, on GPUs: where all nodes are vertices, those of its triangles."""
        return entry.most_results if self.slots else 6 if self.unroll > 0 and self.work.dim == 2 and entry.num_basis == 3 else 0

    @property
    def serves(self) -> bool:
        """Whether there is something to add up."""
        return adds_at_nodes(self)

    def fits(self, limits: Limits) -> bool:
        """Whether a device's work-group holds the sums, and the lists that they need, of any mesh."""
        other = self.sliced()
        entries = (*self.lists, *other.lists)
        local = max(self.local_bytes, other.local_bytes, *(entry.listing_bytes for entry in entries))
        # Who makes lists numbers their entries by as many bits as slots.
        most = max(max(entry.num_slots, entry.num_entries) for entry in entries)
        listed = most <= MOST_SLOTS and LISTING_ITEMS <= limits.items
        held = max(self.group_size, other.group_size) <= limits.abreast(self.private_bytes)
        return has_room(self) and has_room(other) and listed and held and local <= limits.local_bytes

    @property
    def beats_cells(self) -> bool:
        """Whether adding up a work-group's results was measured to take less time than adding those of each cell.

        On affine cells whose fields are continuous, where adding bounds and not arithmetic: with combinations, or of low degree.
        """
        work = self.work
        if not (self.serves and work.affine and all(row.continuous for row in work.rows)):
            return False
        if self.mirrored:
            return self.group_size >= _LEAST_GROUP
        num_basis = max(row.num_basis for row in work.rows)
        found = (next((flops for most, flops in bounds if num_basis <= most), -1) for bounds in self._bounds)
        return any(self.flops <= flops * work.num_rows for flops in found)

    @property
    def _bounds(self) -> list[tuple[tuple[int, int], ...]]:
        """What `_MEASURED` and `_ACTIONS` have about works like this one."""
        work, found = self.work, list[tuple[tuple[int, int], ...]]()
        key = (work.cell, min(work.num_comp, work.dim))
        if key in _MEASURED:
            found.append(_MEASURED[key])
        if work.target == "action" and key in _ACTIONS and (work.num_comp > 1 or self.precision == "double"):
            found.append(_ACTIONS[key])
        return found

    def seconds(self, ceiling: Ceiling) -> float:
        """By bytes and operations; where it was not measured to be faster, longer than cell by cell: these do not bound it."""
        seconds = super().seconds(ceiling)
        if self.beats_cells:
            return seconds
        return _BEHIND * max(
            seconds, CellPlan(**{each.name: getattr(self, each.name) for each in fields(CellPlan)}).seconds(ceiling)
        )

    @cached_property
    def lists(self) -> tuple[NodeList, ...]:
        """One for the rows of each field, with what is read at the same nodes."""
        found, gap = list[NodeList](), _GAP_BYTES // self.itemsize("real") * (self.slots > 0)
        for entry in shared_nodes(self, self.group_cells, coords=True):
            # Where items have the same nodes to read and to add to.
            kept = entry.num_comp == 1 and self.slots in range(self.group_size, _READS * self.group_size + 1, self.group_size)
            widths = self._vector_widths(entry.num_values, entry.coords)
            found.append(replace(entry, apart=self.turns > 1, slots=self.slots, kept=kept, gap=gap, vector_widths=widths))
        return tuple(found)

    def _vector_widths(self, words: int, coords: bool) -> tuple[int, ...]:
        """How many of so many numbers at a node stand in each vector, where it was measured that vectors pay."""
        if self.unroll == 0 or self.precision != "single" or words < _VECTOR or not coords:
            return ()
        whole, rest = divmod(words, _VECTOR)
        return (*[_VECTOR] * whole, *[2] * (rest // 2), *[1] * (rest % 2))

    def reads(self, entry: NodeList) -> int:
        """Nodes of a list that an item reads at a time: as many as it has of them, in slices, up to `_READS`."""
        slots = self.slots or SLICE * ceil(entry.nodes_per_cell(self.work) * entry.cells / SLICE)
        return slots // self.group_size if entry.kept else min(ceil(slots / self.group_size), _READS)

    def reads_all(self, entry: NodeList) -> bool:
        """Whether every item reads as many nodes, and none is left for later."""
        return self.reads(entry) * self.group_size == entry.slots

    @cached_property
    def reread(self) -> tuple[FieldWork, ...]:
        """Fields read from local memory at each point, by items of one cell: the first, until registers hold what is left."""
        found, lacking = list[FieldWork](), self.lacking_bytes + 4 * sum(entry.place_words for entry in self.lists)
        listed = {name for entry in self.lists for name in entry.fields if not entry.vector_widths}
        for field in self.work.fields if self.unroll > 0 and self.turns == 1 and not self.mirrored else ():
            if lacking > 0 and field.name in listed:
                found.append(field)
                lacking -= field.size * self.itemsize("real")
        return tuple(found)

    @property
    def takes_local(self) -> bool:
        """Whether local memory is an argument, as large as the mesh needs it."""
        return not self.slots and self.local_bytes <= _ARGUMENT_BYTES

    @property
    def _local_words(self) -> int:
        """Local memory that is as large, whatever the mesh, in numbers or vectors."""
        return -(-self.local_bytes // self.itemsize(self._local_type))

    @property
    def _local_type(self) -> str:
        """What all that stands there is aligned to."""
        return f"float{_VECTOR}" if any(entry.vector_widths for entry in self.lists) else "real"

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that are enough, whatever the mesh."""
        return self.list_bytes([entry.num_slots // SLICE for entry in self.lists])

    @property
    def worth_turns(self) -> int:
        """How many cells for each item of a work-group of this size were measured to take less time than one."""
        if self.unroll == 0 or any(entry.num_basis != self.work.dim + 1 for entry in self.lists):
            return 1
        most = _MOST_TURNS.get((self.precision, self.work.dim), 1)
        plans = (replace(self, turns=turns) for turns in range(most, 1, -1))
        return next((plan.turns for plan in plans if plan.takes_local and plan.typical_bytes <= _TURNS_BYTES), 1)

    @property
    def worth_slots(self) -> int:
        """How many slots a work-group of this size should have, where it was measured that equally many places for all pay."""
        (entry, *others), even = self.lists, replace(self, slots=_SLOTS)
        served = self.unroll > 0 and self.work.dim == 2 and not others and entry.num_basis == 3 and self.work.rows[0].continuous
        most = _ROWS_BYTES if any(entry.coords for entry in self.lists) else _TURNS_BYTES
        return _SLOTS if served and even.local_bytes <= most else 0

    @property
    def usual_size(self) -> int:
        """Items of a work-group, where each has one cell, as measured: more on simplices of low degree."""
        work, num_basis = self.work, max(row.num_basis for row in self.work.rows)
        small = 6 if work.cell == "triangle" else 4 if work.num_comp > 1 and self.precision == "single" else 0
        return 256 if num_basis <= small and work.cell in ("triangle", "tetrahedron") else 128

    def sliced(self) -> CellSumsPlan:
        """The same for meshes that need more slots, with no more cells of a group, nor more of an item than are worth it there."""
        if not self.slots:
            return self
        plan = replace(self, slots=0, turns=1)
        turns = min(self.turns, plan.worth_turns)
        return replace(plan, turns=turns) if turns > 1 else replace(plan, group_size=min(plan.usual_size, self.group_cells))

    @property
    def typical_bytes(self) -> int:
        """Bytes of local memory that the lists of most meshes need."""
        return self.list_bytes([ceil(entry.nodes_per_cell(self.work) * entry.cells / SLICE) for entry in self.lists])

    def list_bytes(self, slices: Sequence[int]) -> int:
        """Bytes of local memory where each list has so many slices."""
        return list_bytes(self.lists, slices, self.itemsize("real"))

    @property
    def values(self) -> list[tuple[int, str, int]]:
        """The arrays in local memory with what is read at nodes: number of the list, name, and how many numbers of each node."""
        found = list[tuple[int, str, int]]()
        comps = {field.name: field.num_comp for field in self.work.fields} | {"x": self.work.dim}
        for entry in self.lists:
            kinds = [(f"s_{name}", comps[name]) for name in (*entry.fields, *["x"] * entry.coords)]
            vectors = [(array.name, len(array.numbers)) for array in entry.vector_arrays]
            found += [(entry.number, name, count) for name, count in vectors or kinds]
        return found

    @property
    def sources(self) -> tuple[str, ...]:
        """Zeroing, too."""
        return (*super().sources, *(["zeros.cl"] if self.zeroes else []))

    def results(self) -> list[Array]:
        """Last of all how many work-groups write zeros, how many of these, and what they tell others."""
        numbers = [Array(name, "uint", (name,)) for name in ("zeroing", "num_zeros")]
        return super().results() + [*numbers, Array("d_zeros", "uint", ("zeros",), written=True)] * self.zeroes

    @property
    def shape(self) -> str:
        """The size of a work-group, and the local memory of its sums."""
        cells, rows = f" of {self.turns} cells" * (self.turns > 1), f" in rows of {self.slots}" * (self.slots > 0)
        most, again = " at most" * (self.slots == 0), "".join(f", {field.name} read at each point" for field in self.reread)
        return f"{self.group_size} items{cells} that add up their results{rows}, {self.local_bytes} B local{most}{again}"

    @property
    def private_bytes(self) -> int:
        """Places and what is read ahead of each cell, too, and what is read at a time."""
        read = sum(self.reads(entry) * entry.num_values for entry in self.lists)
        listed = {name for entry in self.lists for name in entry.fields}
        read += (self.turns - 1) * sum(field.size for field in self.work.fields if field.name not in listed)
        return super().private_bytes + 4 * self.turns * sum(entry.num_basis for entry in self.lists) + 8 * read

    @property
    def shared_bytes(self) -> int:
        """Values and coordinates at the nodes, their offsets and how many results they have, and sums that are added."""
        total = 0
        for entry in self.lists:
            coords = self.work.dim * entry.coords
            words = self.itemsize("scalar") * (entry.num_values - coords + 2 * entry.num_comp) + self.itemsize("real") * coords
            total += round((words + 5 + 4 * entry.coords) * entry.nodes_per_cell(self.work))
        return total
