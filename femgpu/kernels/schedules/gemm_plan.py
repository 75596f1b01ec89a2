"""Plans of schedule gemm: a chain of matrix products in local memory, the last of which stay in registers for the points."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from femgpu.errors import PlanError
from femgpu.kernels.array import Array
from femgpu.kernels.banks import odd_four
from femgpu.kernels.contractions import Order
from femgpu.kernels.fragments import LineProduct, splits_lines
from femgpu.kernels.plan import BESIDE_WORDS
from femgpu.kernels.schedules.sumfact_item import Sums
from femgpu.kernels.schedules.sumfact_lattices import SumfactLatticePlan
from femgpu.kernels.step import Step
from femgpu.model.ceilings import SHARE_BYTES, SHARE_FLOPS, Ceiling

# Items of a matrix instruction, and lines that it multiplies at least.
WARP, EIGHT = 32, 8
# A GPU's local memory hands out about a byte for each operation in double precision (H200: 32.8 TB/s, 33 Tflop/s); a matrix
# instruction takes as long as so many operations, of eight lines or of sixteen.
_BYTES_PER_FLOP, _INSTRUCTION = 1.0, 512
# Numbers stored at the points of its lines that an item loads before it multiplies these, at most.
_AHEAD_NUMBERS = 16


@dataclass(frozen=True)
class GemmPlan(SumfactLatticePlan):
    """A plan of schedule gemm.

    The lines of all cells of a work-group are multiplied by values and derivatives of the basis functions: along each direction
    but the last into lattices in local memory, along the last into registers, for the pointwise function.

    Attributes:
        cells: cells per work-group.
        items: work-items per cell.
        tile: lines that an item has in registers side by side.
        mma: lines, 8 or 16, that 32 items multiply together by a GPU's matrix instructions; 0: each item by itself.
    """

    schedule: ClassVar[str] = "gemm"

    derivatives: int = 1
    items: int = 1
    tile: int = 1
    mma: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mma and (self.precision != "double" or self.tile != self.mma // EIGHT or self.items * self.cells % WARP):
            raise PlanError(
                f"gemm by instructions of {self.mma} lines: expected double precision, a multiple of {WARP} items in a group and "
                f"tiles of {self.mma // EIGHT} lines, not {self.precision}, {self.items * self.cells} and {self.tile}"
            )

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        sizes = {"CELLS": self.cells, "ITEMS": self.items, "TILE": self.tile, "SLAB": self.slab, "CELL": self.strides[-1]}
        sizes |= self.register_macro
        return (
            Step(
                name=self.work.target,
                shell="gemm",
                arrays=self.arguments(),
                local=(*(replace(array, words=array.words * self.cells) for array in self.cell_local), *self.group_local),
                items=self.items * self.cells,
                group_cells=self.cells,
                barriers=self.num_barriers,
                macros=(*sizes.items(), *((f"STRIDE{axis}", step) for axis, step in enumerate(self.strides[:-1]))),
            ),
        )

    def arguments(self) -> tuple[Array, ...]:
        """Numbers of 1D matrices besides."""
        found = super().arguments()
        return (*found, Array("d_fragments", "real", ("fragments", self.line_products))) if self.mma else found

    @property
    def num_barriers(self) -> int:
        """Between directions, and around a map in two dimensions."""
        return 2 * (self.work.dim - 1) + (self.work.dim == 2 and self.maps_in_local)

    @property
    def maps_in_local(self) -> bool:
        """Whether items of a cell compute something of its map for all."""
        return self.maps_once or self.multilinear

    @property
    def shape(self) -> str:
        """Cells, items, lines and local memory."""
        lines = f"instructions of {self.mma} lines" if self.mma else f"{self.tile} lines per item"
        return f"{self.cells} cells of {self.items} items, {lines}, {self.local_bytes} B local{self.limited}"

    @property
    def serves(self) -> bool:
        """Residuals and actions in two or three dimensions without second derivatives."""
        work = self.work
        return work.target in ("residual", "action") and work.dim > 1 and not work.second and not work.facet

    @property
    def exchanges(self) -> bool:
        """Whether items hand each other their numbers by way of local memory, where there are no matrix instructions."""
        return bool(self.mma) and self.atomics != "ptx"

    @cached_property
    def splits(self) -> bool:
        """Whether items multiply even and odd parts of lines, of which they have numbers in pairs."""
        return self.mma > 0 and self.symmetric and splits_lines(self.q1d, (sums.sizes.p1d for sums in (*self.lattices, *self.rows)))

    def held(self, count: int) -> int:
        """Numbers of a line of so many that an item has room for; with matrix instructions for all of eight that these give."""
        return 2 * -(-count // EIGHT) if self.mma else count

    @property
    def loads_ahead(self) -> bool:
        """Whether items load what is stored at the points of their lines before they multiply these."""
        return bool(self.unroll) and 0 < self.held(self.q1d) * self.tile * self.work.num_state <= _AHEAD_NUMBERS

    def state_word(self, i: str) -> str:
        """The same as of all schedules (`arguments.state_word`), at point j of an item's line, without a division."""
        plane, others = self.state_plane, self.state_plane * (self.work.num_state - 1)
        return f"q + (NUMBER(j, {self.q1d}) * {others} + {i} * {plane})" if plane else super().state_word(i)

    def state(self, i: str) -> str:
        """As it was loaded before."""
        return f"stored[{i}]" if self.loads_ahead else super().state(i)

    @property
    def abreast(self) -> int:
        """Lines that all items take at a time."""
        return self.items * self.cells * self.tile // (4 if self.mma else 1)

    def turns(self, lines: int) -> int:
        """How often all items take lines, of which a cell has so many."""
        return -(-lines * self.cells // self.abreast)

    def fills(self, lines: int) -> bool:
        """Whether they all have lines then."""
        return lines * self.cells % self.abreast == 0

    def ends(self, axis: int, sums: Sums) -> tuple[int, ...]:
        """Lines of a cell along a direction, by the directions across: those before it are at the points, others at the nodes."""
        return tuple(self.q1d if other < axis else sums.sizes.p1d for other in range(self.work.dim) if other != axis)

    def places(self, sums: Sums) -> dict[Order, int]:
        """The lattices of a component: for the derivatives along the first directions, the first of what one gives in its place."""
        found: dict[Order, int] = {(): 0}
        count = 1
        for axis in range(self.work.dim - 1):
            for start in sorted({order[: axis + 1] for order in sums.orders}):
                taken = any(other[:-1] == start[:-1] for other in found if len(other) == axis + 1)
                found[start] = count if taken else found[start[:-1]]
                count += taken
        return found

    def branches(self, sums: Sums, axis: int) -> list[tuple[int, list[tuple[int, str]]]]:
        """What becomes of lattices along a direction: of each the derivatives that are taken and, in C, where they go.

        Along the last direction these are numbers at the points of component c, else lattices of a component.
        """
        places, found = self.places(sums), []
        for start in sorted({order[:axis] for order in sums.orders}):
            orders = sorted({order[: axis + 1] for order in sums.orders if order[:axis] == start})
            targets = [self.number(sums, order) if axis == self.work.dim - 1 else str(places[order]) for order in orders]
            found.append((places[start], [(order[-1], target) for order, target in zip(orders, targets, strict=True)]))
        return found

    def number(self, sums: Sums, order: Order) -> str:
        """The number at a point of component c, in C."""
        return "c" if not any(order) else f"({sums.sizes.num_comp + order.index(1)} + c * DIM)"

    def slabs(self, sums: Sums) -> int:
        """Lattices of a field or of a row."""
        return sums.sizes.num_comp * (1 + max(self.places(sums).values()))

    def lattice_of(self, sums: Sums, place: int | str) -> str:
        """A lattice of component c, in C."""
        return f"({self.first(sums)} + c * {self.slabs(sums) // sums.sizes.num_comp} + {place})"

    def product(self, sums: Sums, times: int, back: bool) -> LineProduct | None:
        """What a derivative multiplies lines by; None where values at the nodes are those at the points."""
        sizes = sums.sizes
        if times == 0 and sizes.collocated:
            return None
        return LineProduct("BD"[times], sizes.table, sizes.p1d, sizes.q1d, back, self.splits)

    @cached_property
    def line_products(self) -> tuple[LineProduct, ...]:
        """All of them."""
        found = [
            self.product(sums, order[axis], back)
            for back, group in ((False, self.lattices), (True, self.rows))
            for sums in group
            for order in sums.orders
            for axis in range(self.work.dim)
        ]
        return tuple(dict.fromkeys(entry for entry in found if entry is not None))

    def start(self, product: LineProduct) -> int:
        """Where its numbers begin among all."""
        return WARP * sum(entry.instructions for entry in self.line_products[: self.line_products.index(product)])

    @property
    def num_lattices(self) -> int:
        """Of a cell; rows take those of the fields."""
        return max(1, *(sum(map(self.slabs, group)) for group in (self.lattices, self.rows)))

    @property
    def strides(self) -> tuple[int, ...]:
        """Numbers between neighbours along each direction, and between cells.

        Of a matrix instruction four lines are read together, neighbours along the first direction, or along the second where they
        lie along the first, and four neighbouring numbers of each. They are in different banks where one of both is an odd
        distance apart, and the other four times an odd one.
        """
        nodes = max(sums.sizes.p1d for sums in (*self.lattices, *self.rows)) | 1
        inner = (odd_four(nodes * self.width), nodes, 1) if self.work.dim == 3 else (odd_four(nodes), 1)
        return (*inner, self.num_lattices * inner[0] * self.q1d)

    @property
    def slab(self) -> int:
        """Numbers of a lattice."""
        return self.strides[0] * self.q1d

    @cached_property
    def cell_local(self) -> tuple[Array, ...]:
        """Local memory that one cell takes; products of single precision are kept as they are summed up."""
        found = [Array("s_lattices", "accum", ("lattice",), self.strides[-1])]
        if self.needs_coords:
            found.append(Array("s_x", "real", ("nodes",), self.work.num_coord_basis * self.work.dim))
        if self.maps_in_local:
            words = self.work.dim**2 + 1 if self.maps_once else self.work.dim << self.work.dim
            found.append(Array("s_map", "real", ("map",), words))
        return tuple(found)

    @property
    def group_local(self) -> tuple[Array, ...]:
        """Local memory of the group besides."""
        words = self.items * self.cells * self.tile * -(-self.width // 4)
        return (Array("s_exchange", "real", ("exchange",), words),) if self.exchanges else ()

    @cached_property
    def multiplied(self) -> list[tuple[LineProduct, int]]:
        """All products of a cell, and of how many lines."""
        found = [
            (self.product(sums, times, back), sums.sizes.num_comp * math.prod(self.ends(axis, sums)))
            for back, group in ((False, self.lattices), (True, self.rows))
            for sums in group
            for axis in range(self.work.dim)
            for _, branch in self.branches(sums, axis)
            for times, _ in branch
        ]
        return [(product, lines) for product, lines in found if product is not None]

    @property
    def instructions(self) -> float:
        """Matrix instructions of one cell, of all lines of its group."""
        return sum(product.instructions * lines for product, lines in self.multiplied) / self.mma if self.mma else 0.0

    @property
    def point_flops(self) -> int:
        """Operations of one cell but for its products."""
        steps = [step for sums in self.lattices for step in sums.evaluation()]
        steps += [step for sums in self.rows for step in sums.integration()]
        return super().flops - sum(step.flops for step in steps)

    @property
    def flops(self) -> int:
        """Floating-point operations of one cell."""
        return self.point_flops + sum(2 * product.p1d * product.q1d * lines for product, lines in self.multiplied)

    def crossings(self, sums: Sums, rows: bool | int) -> int:
        """Numbers of a component that are read or written in local memory: each lattice once by each of its neighbours."""
        dim, count = self.work.dim, 0
        for axis in range(dim):
            lines = math.prod(self.ends(axis, sums))
            for _, branch in self.branches(sums, axis):
                count += lines * (sums.sizes.p1d * (axis > 0) + sums.sizes.q1d * len(branch) * (axis < dim - 1))
        return count

    def seconds(self, ceiling: Ceiling) -> float:
        """The time that one cell takes by bytes, or by operations, matrix instructions and local memory one after the other."""
        if not self.mma:
            return super().seconds(ceiling)
        products = _INSTRUCTION * self.instructions + sum(product.additions * lines for product, lines in self.multiplied)
        busy = self.point_flops + products + self.local_traffic / _BYTES_PER_FLOP
        return max(self.bytes / (SHARE_BYTES * ceiling.copy), busy / (SHARE_FLOPS * ceiling.double))

    @property
    def private_bytes(self) -> int:
        """Lines of all numbers at the points, those of one product, and what belongs to a point."""
        work, dim, sums = self.work, self.work.dim, (*self.lattices, *self.rows)
        numbers = sum(self.slots(entry) for entry in sums) + 6 * sum(entry.sizes.num_comp for entry in sums)
        words = self.tile * (self.held(self.width) * numbers + self.held(self.q1d) * work.num_state * self.loads_ahead)
        words += (2 * dim**2 * self.width + 8 * self.tile) * (1 + (self.coords_line is not None))
        return 8 * (words + 4 * dim**3 + work.num_state + 2 * work.num_cell_state + BESIDE_WORDS)
