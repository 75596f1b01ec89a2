"""Plans of schedule sumfact in which an item has a plane of points of a hexahedron in local memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from femgpu.kernels.banks import lattice_strides
from femgpu.kernels.schedules.sumfact_item import Sums
from femgpu.kernels.schedules.sumfact_planes import SumfactPlanePlan

# Numbers at the points of a row that a GPU's registers hold, beside what belongs to one point.
_REGISTER_WORDS = 64
# Numbers between lattices as a share of theirs.
_SPARE = 0.1
# Points per direction with which an H200 takes less time for a scalar field than with pencils.
_WIDTHS = (6, 7)
# Points per direction up to which groups that fill two sub-groups take less time than those of one where points are not the nodes
# (measured for diffusion with five and six).
_TWO_SUBGROUPS = 6
# Points per direction from which on coefficients of the adjugate take fewer operations than the adjugate at each point.
_EXPANDED = 5


@dataclass(frozen=True)
class SumfactSlicePlan(SumfactPlanePlan):
    """A plan of schedule sumfact with an item for each plane of points across the second direction of a hexahedron.

    Rows of a plane pass through registers one after the other, in loops, so that planes may be larger and programs are
    shorter than where registers hold a plane.
    """

    shell: ClassVar[str] = "sumfact_slices"
    measured_bounds: ClassVar[dict[int, int]] = {6: 168}
    split_width: ClassVar[int] = 6

    @property
    def num_barriers(self) -> int:
        """After loading, around the derivatives, and where planes turn."""
        derives = [any(map(self.derives, group)) for group in (self.lattices, self.rows)]
        return 2 + self.multilinear + 2 * sum(derives) * (not self.collocated)

    @property
    def shape(self) -> str:
        """Items, cells and local memory."""
        return f"{self.cells} cells of {self.items} slices, {self.local_bytes} B local{self.limited}"

    @property
    def fits(self) -> bool:
        """Where registers hold the numbers at a row of points."""
        words = self.q1d * sum(map(self.slots, (*self.lattices, *self.rows)))
        return words <= _REGISTER_WORDS and (not self.unroll or self.q1d * self.work.pointwise_size <= self.unroll)

    @property
    def beats_pencils(self) -> bool:
        """Whether it should take less time than pencils, as far as that was measured; not where memory bounds both."""
        return self.scalar and not self.bound_by_memory and self.q1d in _WIDTHS

    @property
    def weighs_lines(self) -> bool:
        """Not without a frame: rows of points share most of a weight."""
        return super().weighs_lines and self.expanded == "frame"

    @property
    def expanded(self) -> str:
        """The adjugate, too, where there is no frame and enough points of a row share what its coefficients take."""
        adjugate = self.adjugates and self.multilinear and self.q1d >= _EXPANDED
        return super().expanded or "adjugate" * adjugate

    @property
    def subgroups(self) -> int:
        """That a work-group fills: local memory bounds how many run side by side."""
        return 2 if not self.collocated and self.q1d <= _TWO_SUBGROUPS else 1

    @property
    def lattice(self) -> tuple[tuple[int, ...], bool]:
        """Strides, in little more than lattices take since local memory bounds how many cells there are at once; `cells_first`."""
        if not self.unroll:
            return super().strides, False
        lattices = self.num_lattices, self.shared_axes, self.itemsize("real")
        return lattice_strides(self.width, self.work.dim, self.cells, *lattices, orders=(False, True), spare=_SPARE)

    @property
    def strides(self) -> tuple[int, ...]:
        """Numbers between rows of a lattice, between planes, and between cells."""
        return self.lattice[0]

    @property
    def cells_first(self) -> bool:
        """Whether neighbouring items are those of other cells."""
        return self.lattice[1]

    @property
    def turns(self) -> bool:
        """Items load planes of nodes across the third direction, points or not."""
        return True

    def slabs(self, sums: Sums) -> int:
        """Lattices of a field or of a row: of each component values and its derivatives along the second and the third axis."""
        return sums.sizes.num_comp * (3 if self.derives(sums) else 1)

    def slab_of(self, sums: Sums, comp: str) -> str:
        """The first lattice of a component, in C."""
        return f"({self.first(sums)} + {3 if self.derives(sums) else 1} * {comp})"

    def derivative(self, sums: Sums, axis: int) -> str:
        """The number, at a point, of the derivative of component c along an axis, in C."""
        return f"({sums.sizes.num_comp + self.axes[axis]} + 3 * c)"

    def crossings(self, sums: Sums, rows: bool | int) -> int:
        """Numbers at the nodes' planes, at the points, and on the way between."""
        p, q, derives = sums.sizes.p1d, self.q1d, self.derives(sums)
        stages = 2 * p * q**2 + (1 + 3 * derives * (not self.collocated)) * q**3
        return stages + (4 if derives else 1) * q**3
