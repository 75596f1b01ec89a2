"""Plans of schedule sumfact whose items share cells, with lattices in local memory and what is contracted in registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from femgpu.errors import PlanError
from femgpu.kernels.array import Array
from femgpu.kernels.banks import lattice_strides
from femgpu.kernels.plan import BESIDE_WORDS
from femgpu.kernels.schedules.sumfact_item import SumfactPlan, Sums
from femgpu.kernels.step import Step

# Points of a line from which on a frame that they share takes fewer operations than an adjugate at each of them.
_FRAMED = 3


@dataclass(frozen=True)
class SumfactLatticePlan(SumfactPlan):
    """A plan of schedule sumfact with some items for each cell, whose lattices stand in local memory.

    A number at the points takes a lattice; the rows take those of the fields.

    Attributes:
        cells: cells per work-group.
        registers: of an item at most, to which compilers are held; 0: as many as they like.
    """

    # The file of the kernel.
    shell: ClassVar[str]

    cells: int = 1
    registers: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes != 1:
            raise PlanError(f"sumfact with {self.items} items for a cell: expected 1 lane, not {self.lanes}")

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        sizes = {"LANES": 1, "ITEMS": self.items, "CELLS": self.cells, "N": self.width}
        sizes |= dict(zip(("ROW", "PLANE"), self.strides, strict=False)) | {"SLAB": self.slab} | self.register_macro
        return (
            Step(
                name=self.work.target,
                shell=self.shell,
                arrays=self.arguments(),
                local=tuple(replace(array, words=array.words * self.cells) for array in self.cell_local),
                items=self.items * self.cells,
                group_cells=self.cells,
                parts=self.work.parts,
                barriers=self.num_barriers,
                macros=tuple(sizes.items()),
            ),
        )

    @property
    def bounds(self) -> dict[int, int]:
        """Bounds on registers that were measured to save time for works of one scalar field, by points per direction."""
        return {}

    @property
    def fast_registers(self) -> int:
        """That of this work, if it is like those measured; 0: none."""
        return self.bounds.get(self.q1d, 0) if self.measured else 0

    @property
    def register_macro(self) -> dict[str, int]:
        """What kernels call the bound on registers, from which the compiler's options come (`program.build_options`)."""
        return {"MAX_REGISTERS": self.registers} if self.registers else {}

    @property
    def limited(self) -> str:
        """The bound on registers in words."""
        return f", {self.registers} registers at most" if self.registers else ""

    @property
    def num_barriers(self) -> int:
        """After loading, around the derivatives, and between the directions of an interpolation."""
        fields, rows = (any(map(self.derives, group)) for group in (self.lattices, self.rows))
        turns, between = self.along < self.work.dim - 1, self.work.dim - 2
        count = 1 + fields * (1 + self.interpolates) + 2 * rows + turns * (1 + between)
        stages = turns and between and self.interpolates
        return count + bool(stages or (self.maps_once or self.multilinear) and not fields)

    @property
    def serves(self) -> bool:
        """Whether the points determine what is differentiated there, once, and there is more than one direction."""
        work, sums = self.work, (*self.lattices, *self.rows)
        collocates = all(entry.sizes.p1d <= self.q1d for entry in sums if self.derives(entry))
        return work.target in ("residual", "action") and work.dim > 1 and not work.second and collocates and self.derivatives != 1

    @property
    def stores_inside(self) -> bool:
        """Where there are nodes inside of a cell."""
        return self.scatter == "atomic" and any(sums.sizes.p1d > 2 for sums in self.rows)

    @property
    def width(self) -> int:
        """Numbers on the longest line."""
        return max(self.q1d, *(sums.sizes.p1d for sums in (*self.lattices, *self.rows)))

    @property
    def shared_axes(self) -> tuple[tuple[int, ...], ...]:
        """Directions along which items count that take lines of a lattice."""
        dim = self.work.dim
        return tuple(tuple(other for other in range(dim) if other != axis) for axis in range(dim))

    @property
    def num_lattices(self) -> int:
        """Lattices of a cell that stand in one array."""
        fields, rows = (sum(map(self.slabs, group)) for group in (self.lattices, self.rows))
        return max(fields, rows) if self.shares_slots else max(fields, 1)

    @property
    def strides(self) -> tuple[int, ...]:
        """Numbers between rows of a lattice, between planes, and between cells; where loops are not unrolled there are no banks."""
        width, dim, lattices = self.width, self.work.dim, (self.num_lattices, self.shared_axes, self.itemsize("real"))
        if not self.unroll:
            return (*(width**axis for axis in range(1, dim)), self.num_lattices * width**dim)
        return lattice_strides(width, dim, self.cells, *lattices, orders=(self.cells_first,))[0]

    @property
    def cells_first(self) -> bool:
        """Whether neighbouring items are those of other cells."""
        return False

    @property
    def slab(self) -> int:
        """Numbers of a lattice."""
        return self.strides[-2] * self.width

    @property
    def items(self) -> int:
        """Work-items per cell."""
        return self.width ** (self.work.dim - 1)

    @property
    def coord_turns(self) -> int:
        """Nodes of the coordinates that an item loads."""
        return -(-self.work.num_coord_basis // self.items)

    @property
    def keeps_coefficients(self) -> bool:
        """Lattices are contracted in place."""
        return False

    @cached_property
    def lattices(self) -> tuple[Sums, ...]:
        """The fields but the coordinates."""
        return tuple(sums for sums in self.fields if sums.name != "x")

    @property
    def coords_line(self) -> Sums | None:
        """The coordinates, where they or their derivatives are needed at each point."""
        return next((sums for sums in self.fields if sums.name == "x" and sums.orders), None)

    @property
    def maps_once(self) -> bool:
        """Whether an affine map is computed from coordinates, once for all items of a cell."""
        return self.work.maps and self.work.affine and self.geometry == "recomputed"

    @property
    def multilinear(self) -> bool:
        """Whether coordinates at the points are those of a cell given by its vertices."""
        sums, tensor = self.coords_line, self.work.tensor
        assert tensor is not None
        vertices = sums is not None and np.array_equal(tensor.factors[sums.sizes.table].nodes, (-1, 1))
        return vertices and not self.maps_once  # whose numbers stand in the same place

    @property
    def line_axis(self) -> int:
        """The direction along which a map is expanded: that of an item's line of points."""
        return self.work.dim - 1

    @property
    def expanded(self) -> str:
        """On hexahedra given by their vertices the determinant, where no physical derivatives are taken, or frames."""
        work = self.work
        if work.dim != 3 or not (self.multilinear and work.maps):
            return ""
        derives = any(field.gradient for field in work.fields) or any(row.gradient for row in work.rows)
        if work.reference or not derives:
            return "determinant" * ("K" not in work.reads)
        return "frame" * (self.adjugates and work.isotropic and self.q1d >= _FRAMED)

    @cached_property
    def along(self) -> int:
        """The direction of the lines of nodes that items load: that of the points where these are the nodes, else another one."""
        return self.work.dim - 1 if self.collocated else self.work.dim - 2

    @cached_property
    def collocated(self) -> bool:
        """Whether the points are the nodes of all fields and rows."""
        return all(sums.sizes.collocated for sums in (*self.lattices, *self.rows))

    def across(self, axis: int) -> list[tuple[str, int]]:
        """The other directions, with the names of an item's places there."""
        return list(zip("gh", (other for other in range(self.work.dim) if other != axis), strict=False))

    def place_of(self, axis: int, p1d: int, n: str = "n") -> str:
        """The number on a lattice of place n of the item's line along a direction, in C."""
        items = " + ".join(f"{item} * {p1d**other}" for item, other in self.across(axis))
        return f"({items}) + ({n}) * {p1d**axis}"

    @property
    def interpolates(self) -> bool:
        """Whether coefficients of a field are not its values."""
        return any(sums.orders and not sums.sizes.collocated for sums in self.lattices)

    def values(self, sums: Sums) -> bool:
        """Whether values of a field occur."""
        return any(sum(order) == 0 for order in sums.orders)

    def derives(self, sums: Sums) -> bool:
        """Whether derivatives of a field occur."""
        return any(sum(order) > 0 for order in sums.orders)

    def slots(self, sums: Sums) -> int:
        """Numbers of a field at a point."""
        return sums.sizes.num_comp * (1 + self.work.dim * self.derives(sums))

    def first(self, sums: Sums) -> int:
        """The first of a field's lattices, among those of all fields, or of a row's."""
        group = self.lattices if sums in self.lattices else self.rows
        return sum(self.slabs(other) for other in group[: group.index(sums)])

    def slabs(self, sums: Sums) -> int:
        """Lattices of a field or of a row."""
        return self.slots(sums)

    @property
    def derived_tables(self) -> tuple[int, ...]:
        """Numbers of the tabulations by which derivatives along lines come from the nodes."""
        return tuple(sorted({sums.sizes.table for sums in (*self.lattices, *self.rows) if self.tabulates(sums)}))

    def written(self, sums: Sums) -> list[tuple[int, int]]:
        """Of a row's numbers at a point, from where to where there are any."""
        comps = sums.sizes.num_comp
        found = [(0, comps)] * self.values(sums) + [(comps, self.slots(sums))] * self.derives(sums)
        return [(0, self.slots(sums))] if len(found) == 2 else found

    @property
    def shares_slots(self) -> bool:
        """Whether the rows' lattices are the fields', whose numbers at a point are read before the rows' are written."""
        return self.ctype("real") == self.ctype("accum")

    @cached_property
    def cell_local(self) -> tuple[Array, ...]:
        """Local memory that one cell takes."""
        found = [Array("s_slots" if self.shares_slots else "s_fields", "real", ("lattice",), self.strides[-1])]
        if not self.shares_slots:
            found.append(Array("s_rows", "accum", ("lattice",), self.slab * sum(map(self.slabs, self.rows))))
        dim, odd = self.work.dim, bool(self.unroll)  # a GPU's cells side by side are in different banks
        if self.needs_coords:
            found.append(Array("s_x", "real", ("nodes",), self.work.num_coord_basis * dim | odd))
        if self.maps_once or self.multilinear:
            found.append(Array("s_map", "real", ("map",), (dim**2 + 1 if self.maps_once else dim << dim) | odd))
        return tuple(found)

    @property
    def needed_bytes(self) -> int:
        """Local memory of one cell."""
        return sum(array.words * self.itemsize(array.ctype) for array in self.cell_local)

    @property
    def local_traffic(self) -> int:
        """Bytes of lattices that one cell reads and writes in local memory."""
        return sum(
            sums.sizes.num_comp * self.crossings(sums, rows) * self.itemsize("accum" if rows else "real")
            for rows, group in enumerate((self.lattices, self.rows))
            for sums in group
        )

    def crossings(self, sums: Sums, rows: bool | int) -> int:
        """Numbers of a component of a field, or of a row, that are read or written in local memory."""
        dim, p, q = self.work.dim, sums.sizes.p1d, self.q1d
        points, derives = q**dim, self.derives(sums)
        stages = 0
        if self.along < dim - 1:
            # A direction at a time: nodes become points.
            stages = p ** (dim - 1) * q + p * q ** (dim - 1) + (dim - 2) * (p**2 * q + p * q**2)
        into_points = points * (self.values(sums) + dim * derives)
        # The values that are differentiated, and the derivative along the last direction; of rows what is summed.
        beside = into_points if rows else points * (1 + derives)
        return stages + into_points + beside + 2 * (dim - 1) * derives * points

    @property
    def private_bytes(self) -> int:
        """Two lines for each contraction, which compilers do not let share them, or three; what belongs to a point."""
        work, dim = self.work, self.work.dim
        lines = (2 + self.splits) * (dim + 2) * self.width
        words = sum(self.slots(sums) + lines for sums in (*self.lattices, *self.rows))
        words += 2 * dim**2 * self.width * (self.coords_line is not None) + (1 + dim) * self.coord_turns * self.needs_coords
        return 8 * (words + 4 * dim**3 + work.num_state + 2 * work.num_cell_state + BESIDE_WORDS)
