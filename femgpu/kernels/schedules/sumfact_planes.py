"""Plans of schedule sumfact in which an item has a plane of points of a hexahedron in its registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from femgpu.kernels.array import Array
from femgpu.kernels.schedules.sumfact_item import Sums
from femgpu.kernels.schedules.sumfact_pencils import SumfactPencilPlan
from femgpu.kernels.step import Step

# Numbers of an item's plane of points that a GPU's registers hold beside what belongs to one point.
_REGISTER_WORDS = 112


@dataclass(frozen=True)
class SumfactPlanePlan(SumfactPencilPlan):
    """A plan of schedule sumfact with an item for each plane of points across the second direction of a hexahedron.

    Two directions are contracted in registers; a component of a field takes one lattice of local memory for the other one.
    """

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        (step,) = super().steps()
        derives = [any(map(self.derives, group)) for group in (self.lattices, self.rows)]
        return (replace(step, shell="sumfact_planes", barriers=2 * sum(derives) + 2 * self.turns),)

    @property
    def shape(self) -> str:
        """Items, cells and local memory."""
        return f"{self.cells} cells of {self.items} planes, {self.local_bytes} B local"

    @property
    def serves(self) -> bool:
        """Where registers hold an item's plane of a hexahedron that is trilinear or whose map is stored."""
        rebuilt = self.coords_line is None or self.multilinear
        sums = (*self.lattices, *self.rows)
        words = self.q1d * sum(entry.sizes.num_comp * entry.sizes.p1d for entry in sums)
        words += self.q1d * max(sum(map(self.slots, group)) for group in (self.lattices, self.rows))
        fits = words <= _REGISTER_WORDS and (not self.unroll or self.q1d * self.work.pointwise_size <= self.unroll)
        return super().serves and self.work.dim == 3 and rebuilt and not self.maps_once and fits

    @property
    def items(self) -> int:
        """Work-items per cell."""
        return self.width

    @property
    def turns(self) -> bool:
        """Whether items load planes of nodes across the third direction, since nodes are not the points."""
        return not all(sums.sizes.collocated for sums in (*self.lattices, *self.rows))

    def slabs(self, sums: Sums) -> int:
        """Lattices of a field: values and, where there are derivatives, those along the second direction."""
        return sums.sizes.num_comp * (1 + self.derives(sums))

    @property
    def shared_axes(self) -> tuple[tuple[int, ...], ...]:
        """Items count along the second or the third direction."""
        return (1,), (2,)

    @property
    def private_bytes(self) -> int:
        """The planes, and two for each contraction."""
        sums = (*self.lattices, *self.rows)
        return super().private_bytes + 8 * self.width**2 * sum(self.slots(entry) + 6 * entry.sizes.num_comp for entry in sums)
