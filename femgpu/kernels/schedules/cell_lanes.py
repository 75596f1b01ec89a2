"""Plans of schedule cell for the vector units of CPUs: a few cells per work-item, side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from femgpu.kernels.array import Array
from femgpu.kernels.node_lists import NodeList
from femgpu.kernels.schedules.cell_plan import CellPlan, adds_at_nodes, has_room, shared_nodes
from femgpu.kernels.step import Step
from femgpu.model import Limits

# How long all points may be, unrolled, and their pointwise functions: works take 0.6 to 1.0 of the time, and compilers up to 2.5
# seconds, or 3.5; what is longer gains a tenth, or loses (docs/benchmarks).
_UNROLL, _POINTWISE_UNROLL = 2800, 600
# Slots that a place, of 16 bits, can name.
_MOST_SLOTS = 1 << 16
# Numbers of a cell's results from which items add them up (docs/benchmarks).
_LEAST_ROWS = 6


@dataclass(frozen=True)
class CellLanesPlan(CellPlan):
    """A plan of schedule cell for the vector units of CPUs.

    Attributes:
        group_size: work-items per work-group.
        lanes: cells of an item, side by side in vectors.
    """

    pointwise: ClassVar[str] = "pointwise_lanes"

    lanes: int = 4

    @property
    def unrolls_points(self) -> bool:
        """Whether all loops are unrolled."""
        left = self.work.num_qpts * self.point_size - self.savings
        return left <= _UNROLL and self.work.num_qpts * self.work.pointwise_size <= _POINTWISE_UNROLL

    @property
    def unrolls_basis(self) -> bool:
        """With the points, or not at all."""
        return self.unrolls_points

    @property
    def mirrored(self) -> bool:
        """Wherever there are combinations: loops have the bounds of a class."""
        return self.work.symmetry is not None

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="cell_lanes",
                arrays=self.arguments(),
                items=self.group_size,
                group_cells=self.group_size * self.lanes,
                macros=(("LANES", self.lanes), ("UNROLL_POINTS", int(self.unrolls_points))),
            ),
        )

    @property
    def shape(self) -> str:
        """The size of a work-group, and what an item does."""
        return f"{self.group_size} items x {self.lanes} cells"

    @property
    def private_bytes(self) -> int:
        """Of all cells of an item."""
        return self.lanes * super().private_bytes

    @property
    def table_space(self) -> str:
        """Literals where all loops are unrolled, which leaves out what is multiplied by zero."""
        return "__constant" if self.unrolls_points else "__global"

    @property
    def sources(self) -> tuple[str, ...]:
        """Without warnings of what `unrolled` asks for too early."""
        return ("quiet.cl", *super().sources)

    def place(self, num_basis: int, num_comp: int, b: str, c: str) -> str:
        """Cells side by side."""
        return f"({super().place(num_basis, num_comp, b, c)}) * LANES"

    def word(self, array: str, i: str) -> str:
        """Of all cells of the item, `cell0`, `cell1`, ..."""
        words = ", ".join(f"{array}[AT_{array}(cell{lane}, {i})]" for lane in range(self.lanes))
        return f"({self.vector('real')})({words})"

    def vector(self, kind: str) -> str:
        """The type of numbers side by side."""
        return f"{self.ctype(kind)}{self.lanes}"

    def adapted(self, text: str) -> str:
        """Numbers but those of tables become vectors: `real` and `accum` are types in one place and vectors in the next."""
        text = re.sub(r"(?<!TABLE const )\b(real|accum)\b", lambda found: self.vector(found[1]), text)
        return self.unrolled(text)

    def unrolled(self, text: str) -> str:
        """Loops over components and directions are unrolled once their lengths are known, over basis functions with the points.

        PoCL unrolls none by itself, and only in part those that it is asked to before functions stand in place of their calls.
        """

        def marked(found: re.Match[str]) -> str:
            mark, index = found.groups()
            rolled = (mark or index in "bq") and not self.unrolls_basis
            return f'_Pragma("{"unroll 1" if rolled else "clang loop unroll(full)"}") for (int {index} '

        return re.sub(r"(\bUNROLL\s+)?\bfor \(int (?!lane)(\w+) ", marked, text)


@dataclass(frozen=True)
class CellLaneSumsPlan(CellLanesPlan):
    """The same, where an item adds up the results of many cells in local memory, node by node, before they leave.

    An item is a work-group of its own: it reads each node of its cells once, and needs no barrier.

    Attributes:
        cells: of an item, one vector of them after the other.
    """

    group_size: int = 1
    cells: int = 128

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        (step,) = super().steps()
        words = sum((entry.num_values + entry.num_comp) * entry.num_slots for entry in self.lists)
        local = (Array("s_local", "real", ("local",), words),)
        return (replace(step, local=local, group_cells=self.cells, macros=(*step.macros, ("CELLS", self.cells))),)

    @cached_property
    def lists(self) -> tuple[NodeList, ...]:
        """One for the rows of each field, with the fields that are read at the same nodes; coordinates are read by cell."""
        return tuple(replace(entry, in_place=True) for entry in shared_nodes(self, self.cells, coords=False))

    @property
    def serves(self) -> bool:
        """Whether there is something to add up, and words of a cell follow each other."""
        return adds_at_nodes(self) and self.block == 1

    @property
    def beats_cells(self) -> bool:
        """Whether that was measured to take less time: stored sums of cells that share nodes, and more than a simplex' vertices."""
        rows = self.work.rows
        shared = all(row.continuous for row in rows) and sum(row.size for row in rows) >= _LEAST_ROWS
        return shared and self.scatter == "evector"

    def fits(self, limits: Limits) -> bool:
        """Whether an item has room for the nodes of its cells, of any mesh, and places have numbers for them."""
        named = all(entry.num_slots <= _MOST_SLOTS for entry in self.lists)
        return has_room(self) and named and self.local_bytes <= limits.local_bytes

    @property
    def sums_dots(self) -> bool:
        """Never; where sums are added, and not stored, plans that have dots are the default."""
        return False

    @property
    def shape(self) -> str:
        """What an item does."""
        return f"{self.cells} cells, {self.lanes} at a time, that add up their results"

    @property
    def shared_bytes(self) -> int:
        """Values at the nodes, their offsets twice, to read and to add to, and their sums, which are added or written and read."""
        total = 0.0
        for entry in self.lists:
            total += (8 + self.itemsize("real") * (entry.num_values + 2 * entry.num_comp)) * entry.nodes_per_cell(self.work)
        return round(total)
