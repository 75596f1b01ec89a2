"""Plans of schedule sumfact in which an item has a plane of points of a hexahedron in its registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from femgpu.kernels.array import Array
from femgpu.kernels.schedules.sumfact_item import Sums
from femgpu.kernels.schedules.sumfact_lattices import SumfactLatticePlan

# Numbers at an item's points that a GPU's registers hold, beside what belongs to one point.
_REGISTER_WORDS = 112
# Points per direction up to which planes take less time than pencils on an H200, of one component and of several: where the points
# are the nodes, and where not.
_WIDTHS = ((4, 7), (3, 4))
# The same of components that stand as cells, with one number stored at each point, and with several.
_STORED_WIDTHS = ((0, 6), (3, 5))


@dataclass(frozen=True)
class SumfactPlanePlan(SumfactLatticePlan):
    """A plan of schedule sumfact with an item for each plane of points across the second direction of a hexahedron.

    Two directions are contracted in registers; a component of a field takes one lattice of local memory for the other one.
    """

    shell: ClassVar[str] = "sumfact_planes"
    # Bounds on registers with which an H200 takes less time, by points per direction: more groups stand beside one another then.
    measured_bounds: ClassVar[dict[int, int]] = {4: 168}
    # Points per direction from which on even and odd parts of the 1D matrices take fewer operations than whole ones.
    split_width: ClassVar[int] = 5

    @property
    def num_barriers(self) -> int:
        """Around the derivatives, where planes turn, and after loading."""
        derives = [any(map(self.derives, group)) for group in (self.lattices, self.rows)]
        return 2 * sum(derives) + self.turns + (self.turns or self.needs_coords) + (self.multilinear and not derives[0])

    @property
    def shape(self) -> str:
        """Items, cells and local memory."""
        return f"{self.cells} cells of {self.items} planes, {self.local_bytes} B local{self.limited}"

    @property
    def serves(self) -> bool:
        """On hexahedra whose map is given by vertices, stored or not needed, where registers hold what belongs to an item."""
        rebuilt = self.coords_line is None or self.multilinear
        return super().serves and self.work.dim == 3 and rebuilt and not self.maps_once and self.fits

    @property
    def fits(self) -> bool:
        """Whether registers hold the numbers at an item's points."""
        words = self.q1d**2 * max(sum(map(self.slots, group)) for group in (self.lattices, self.rows))
        return words <= _REGISTER_WORDS and (not self.unroll or self.q1d**2 * self.work.pointwise_size <= self.unroll)

    @property
    def beats_pencils(self) -> bool:
        """Whether it should take less time than pencils, which are faster where memory bounds both.

        Memory does so less where components that stand as cells share what is stored.
        """
        if self.reads_points and self.work.parts > 1:
            return self.work.num_state > 0 and self.q1d <= _STORED_WIDTHS[self.work.num_state > 1][self.turns]
        return not self.bound_by_memory and self.q1d <= _WIDTHS[not self.scalar][self.turns]

    @property
    def bound_by_memory(self) -> bool:
        """Whether numbers are stored at the points, or vectors are each cell's own."""
        return self.reads_points or self.work.source == "evector"

    @property
    def scalar(self) -> bool:
        """Whether fields and rows have one component in all."""
        return max(sum(sums.sizes.num_comp for sums in group) for group in (self.lattices, self.rows)) == 1

    @property
    def items(self) -> int:
        """Work-items per cell."""
        return self.width

    @property
    def turns(self) -> bool:
        """Whether items load planes of nodes across the third direction, since nodes are not the points."""
        return not self.collocated

    @property
    def weighs_lines(self) -> bool:
        """Whether the 1D matrices that rows are multiplied by have the rule's weights in them, and points have none.

        Where maps are rebuilt in physical coordinates: what is stored has no weights then. Rows without derivatives were not timed.
        """
        return self.adjugates and all(self.derives(sums) and not sums.sizes.collocated for sums in self.rows)

    @property
    def bounds(self) -> dict[int, int]:
        """Of gradients by a map that is rebuilt, where nodes are not the points and nothing is computed there."""
        gradients = self.adjugates and not (self.collocated or self.work.pointwise_flops or any(map(self.values, self.lattices)))
        return self.measured_bounds if gradients and not self.bound_by_memory else {}

    @property
    def parts_components(self) -> bool:
        """Where results are added to vectors."""
        return self.scatter == "atomic"

    @property
    def axes(self) -> tuple[int, ...]:
        """The direction of each axis of the lattices.

        Items count along the first direction, along which numbers are neighbours: at the points where numbers are stored there,
        else at the nodes, whose dofs are neighbours more often than those of other cells. Both at once where nodes are the points.
        """
        return (1, 2, 0) if self.turns and not self.reads_points else (1, 0, 2)

    @property
    def line_axis(self) -> int:
        """That of rows of points."""
        return self.axes[0]

    @property
    def splits(self) -> bool:
        """Where that takes fewer operations."""
        return self.q1d >= self.split_width and self.symmetric

    def tabulates(self, sums: Sums) -> bool:
        """Whether an item has derivatives along the third axis from the nodes, not from values at the points."""
        return self.derives(sums) and not sums.sizes.collocated

    @property
    def reads_points(self) -> bool:
        """Whether numbers are read that are stored at the points."""
        return self.work.num_state > 0 or (self.geometry == "stored" and not self.work.affine)

    def along_axes(self, width: int, *places: str) -> str:
        """The number, on a lattice of so many places per direction, of places along the axes, in C.

        In 64 bits, so that those of an item share an address, from which they are constants apart.
        """
        return " + ".join(f"(size_t)({place}) * {width**axis}" for place, axis in zip(places, self.axes, strict=True))

    def node(self, p1d: int, item: str = "item") -> str:
        """The number of node l of an item's plane, in C."""
        places = (f"l % {p1d}", f"l / {p1d}", item) if self.turns else (f"l % {p1d}", item, f"l / {p1d}")
        return self.along_axes(p1d, *places)

    def monomial(self, *axes: int) -> str:
        """The coefficient, in the polynomial of a coordinate, of the product of the coordinates along these axes, in C."""
        return f"map[{sum(1 << self.axes[axis] for axis in axes)}]"

    def slabs(self, sums: Sums) -> int:
        """A lattice for each component."""
        return sums.sizes.num_comp

    @property
    def shared_axes(self) -> tuple[tuple[int, ...], ...]:
        """Items count along the second or the third direction."""
        return (1,), (2,)

    @cached_property
    def cell_local(self) -> tuple[Array, ...]:
        """Local memory that one cell takes: coefficients of the map stand in place of the vertices."""
        return tuple(array for array in super().cell_local if array.name != "s_map")

    def crossings(self, sums: Sums, rows: bool | int) -> int:
        """One direction of the derivatives, and of what lies between nodes and points."""
        return 4 * self.derives(sums) * self.q1d**3 + 2 * self.turns * sums.sizes.p1d * self.q1d**2

    @property
    def private_bytes(self) -> int:
        """The points, two planes for each contraction, and the nodes with their offsets."""
        sums = (*self.lattices, *self.rows)
        return super().private_bytes + 8 * self.width**2 * sum(self.slots(entry) + 8 * entry.sizes.num_comp for entry in sums)
