"""Plans of schedule cell in which a work-group adds up its cells' results node by node before they go to global memory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from math import ceil

from femgpu.kernels.array import Array
from femgpu.kernels.node_lists import LISTING_ITEMS, MOST_SLOTS, SLICE, NodeList, list_bytes
from femgpu.kernels.schedules.cell_plan import CellPlan
from femgpu.kernels.step import Step
from femgpu.model import Ceiling, Limits

# Where it was measured to take less time, by cells: up to so many basis functions of a field, up to so many operations for each
# result; the first pair with enough basis functions counts. A vertex has some 24 tetrahedra and 6 triangles, whose scalars are fast
# to add one by one.
_MEASURED = {"triangle": ((6, 60),), "tetrahedron": ((10, 128),)}
# The same of actions of scalars, in double precision, and of vectors: by cells and components, where more than directions count as
# these. A St. Venant-Kirchhoff body of degree 2, linearised, has 321 operations for each result.
_ACTIONS = {
    ("triangle", 1): ((3, 50), (6, 30), (10, 135), (15, 90)),
    ("triangle", 2): ((10, 70),),
    ("tetrahedron", 1): ((10, 220), (20, 150)),
    ("tetrahedron", 3): ((10, 350),),
}
# Cells of a group whose items have combinations, at least: mass P4 on tetrahedra takes 1.2 times as long in groups of 32 as of 64.
_LEAST_GROUP = 64
# Most nodes that an item reads at a time: of degree 4 on tetrahedra it has 18.
_READS = 18
# Most local memory that is an argument: drivers promise this much, and NVIDIA's gives kernels' own arrays more.
_ARGUMENT_BYTES = 48 << 10
# How much longer it is taken to be elsewhere.
_BEHIND = 1.2


@dataclass(frozen=True)
class CellSumsPlan(CellPlan):
    """A plan of schedule cell that reads each node of a work-group's cells once, and adds to it once.

    Attributes:
        zeroes: whether the launch zeroes what it adds to, where it is told to; work-groups have to start in order.
    """

    zeroes: bool = False

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="cell_sums",
                arrays=(*self.arguments(), *[Array("s_local", "real", ("local",))] * self.takes_local),
                local=() if self.takes_local else (Array("s_local", "real", ("local",), self._local_words),),
                items=self.group_size,
                group_cells=self.group_size,
                barriers=3,
                macros=(("UNROLL_POINTS", int(self.unrolls_points)),),
            ),
        )

    @property
    def unrolls_results(self) -> bool:
        """Whether some of a node's results are read at a time, on GPUs: a vertex has some 24 tetrahedra, and 6 triangles."""
        return self.unroll > 0 and self.work.dim == 3

    @property
    def serves(self) -> bool:
        """Whether the results are added, in the type of the arithmetic, at nodes of cells."""
        work = self.work
        return work.sums and self.scatter == "atomic" and not work.facet and self.precision != "mixed"

    def fits(self, limits: Limits) -> bool:
        """Whether a device's work-group holds the sums, and the lists that they need."""
        local = max(self.local_bytes, *(entry.listing_bytes for entry in self.lists))
        listed = all(entry.num_slots <= MOST_SLOTS for entry in self.lists) and LISTING_ITEMS <= limits.items
        return listed and local <= limits.local_bytes and self.group_size <= limits.abreast(self.private_bytes)

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
        scalar, key = work.num_comp == 1, (work.cell, min(work.num_comp, work.dim))
        if work.cell in _MEASURED and not (scalar and work.cell == "triangle"):
            found.append(_MEASURED[work.cell])
        if work.target == "action" and key in _ACTIONS and not (scalar and self.precision != "double"):
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
        work, found = self.work, list[NodeList]()
        for number, row in enumerate(work.rows):
            same = [field for field in work.fields if 0 <= row.nodes == field.nodes]
            # Where a field has the element of the coordinates, its nodes are theirs, one by one.
            coords = self.needs_coords and row.table == work.coord_table and not any(entry.coords for entry in found)
            names, words = tuple(field.name for field in same), sum(field.num_comp for field in same) + work.dim * coords
            found.append(NodeList(number, self.group_size, row.num_basis, row.num_comp, row.masked, names, coords, words))
        return tuple(found)

    def reads(self, entry: NodeList) -> int:
        """Nodes of a list that an item reads at a time: as many as it has of them, in slices, up to `_READS`."""
        slices = ceil(entry.nodes_per_cell(self.work) * entry.cells / SLICE)
        return min(ceil(slices * SLICE / entry.cells), _READS)

    @property
    def takes_local(self) -> bool:
        """Whether local memory is an argument, as large as the mesh needs it."""
        return self.local_bytes <= _ARGUMENT_BYTES

    @property
    def _local_words(self) -> int:
        """Numbers that are as long, whatever the mesh."""
        return -(-self.local_bytes // self.itemsize("real"))

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that are enough, whatever the mesh."""
        return list_bytes(self.lists, [entry.num_slots // SLICE for entry in self.lists], self.itemsize("real"))

    @property
    def values(self) -> list[tuple[int, str, int]]:
        """Number of the list, name and components of what is read at its nodes."""
        comps = {field.name: field.num_comp for field in self.work.fields} | {"x": self.work.dim}
        return [(entry.number, f"s_{name}", comps[name]) for entry in self.lists for name in (*entry.fields, *["x"] * entry.coords)]

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
        return f"{self.group_size} items that add up their results, {self.local_bytes} B local at most"

    @property
    def private_bytes(self) -> int:
        """Places, too, and what is read at a time."""
        read = sum(self.reads(entry) * entry.num_values for entry in self.lists)
        return super().private_bytes + 4 * sum(entry.num_basis for entry in self.lists) + 8 * read

    @property
    def shared_bytes(self) -> int:
        """Values and coordinates at the nodes, their offsets and how many results they have, and sums that are added."""
        total = 0
        for entry in self.lists:
            coords = self.work.dim * entry.coords
            words = self.itemsize("scalar") * (entry.num_values - coords + 2 * entry.num_comp) + self.itemsize("real") * coords
            total += round((words + 5 + 4 * entry.coords) * entry.nodes_per_cell(self.work))
        return total
