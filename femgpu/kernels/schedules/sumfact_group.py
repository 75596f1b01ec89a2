"""Plans of schedule sumfact in which the items of a work-group share cells, whose elements stand in local memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest

from femgpu.errors import PlanError
from femgpu.kernels.array import Array
from femgpu.kernels.contractions import Contraction, phases
from femgpu.kernels.plan import BESIDE_WORDS
from femgpu.kernels.schedules.sumfact_item import SumfactPlan, Sums
from femgpu.kernels.step import Step


@dataclass(frozen=True)
class SumfactGroupPlan(SumfactPlan):
    """A plan of schedule sumfact with some items for a cell.

    Between barriers items take lines of the lattice, each of which a contraction reads and writes as a whole, and points.

    Attributes:
        items: work-items per cell.
        cells: cells per work-group.
    """

    items: int = 1
    cells: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes != 1:
            raise PlanError(f"sumfact with {self.items} items for a cell: expected 1 lane, not {self.lanes}")

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="sumfact_group",
                arrays=self.arguments(),
                local=tuple(replace(array, words=array.words * self.cells) for array in self.cell_local),
                items=self.items * self.cells,
                group_cells=self.cells,
                barriers=2 + len(self.evaluation) + len(self.integration) + self.maps_once,
                macros=(("LANES", 1), ("ITEMS", self.items), ("CELLS", self.cells), ("LINE", self.longest)),
            ),
        )

    @property
    def shape(self) -> str:
        """Items, cells and local memory."""
        return f"{self.items} items per cell x {self.cells} cells, {self.local_bytes} B local"

    @property
    def serves(self) -> bool:
        """Whether results are sums over the points of a cell for its nodes."""
        return self.work.target in ("residual", "action", "diagonal")

    @property
    def longest(self) -> int:
        """Numbers on the longest line."""
        return max(max(sums.sizes.p1d, sums.sizes.q1d) for sums in (*self.fields, *self.rows))

    def each(self, name: str, count: str) -> str:
        """Items take turns, all of them equally many."""
        return f"EACH({name}, {count})"

    @cached_property
    def evaluation(self) -> list[list[tuple[Sums, Contraction]]]:
        """From the coefficients to the points, all fields side by side: what stands between two barriers."""
        return _together((sums, sums.evaluation(abreast=True)) for sums in self.fields)

    @cached_property
    def integration(self) -> list[list[tuple[Sums, Contraction]]]:
        """From the points to the rows."""
        return _together((sums, sums.integration(abreast=True)) for sums in self.rows)

    @cached_property
    def cell_local(self) -> tuple[Array, ...]:
        """Local memory that one cell takes."""
        found = []
        for kind, group in (("real", self.fields), ("accum", self.rows)):
            for sums in group:
                words = {"q": sums.words} | ({} if sums.aliased else {"c": sums.coefficients})
                size = sums.sizes.num_comp * max(sums.sizes.p1d, sums.sizes.q1d) ** sums.sizes.dim
                words |= {step.target[0]: size for step in sums.evaluation() if step.target[0] not in "cq"}
                found += [Array(f"s_{sums.name}_{array}", kind, ("lattice",), count) for array, count in words.items()]
        if self.maps_once:
            found.append(Array("s_map", "real", ("map",), self.work.dim**2 + 1))
        return tuple(found)

    @property
    def needed_bytes(self) -> int:
        """Local memory of one cell."""
        return sum(array.words * self.itemsize(array.ctype) for array in self.cell_local)

    @property
    def maps_once(self) -> bool:
        """Whether an affine map is computed from coordinates, once for all items of a cell."""
        return self.work.maps and self.work.affine and self.geometry == "recomputed"

    @property
    def private_bytes(self) -> int:
        """A line for each contraction, which compilers do not let share their lines; what belongs to a point."""
        work = self.work
        steps = sum(map(len, self.evaluation)) + sum(map(len, self.integration))
        comps = sum(field.num_comp for field in work.fields) + work.num_comp
        point = comps * (1 + work.dim + work.dim**2 * work.second) + 4 * work.dim**3 + work.num_state + work.num_cell_state
        return 8 * (steps * self.longest + point + self.work.diagonal_words + BESIDE_WORDS)


def _together(given: Iterable[tuple[Sums, list[Contraction]]]) -> list[list[tuple[Sums, Contraction]]]:
    """Phases of several fields, which have nothing to do with each other."""
    columns = [[[(sums, step) for step in phase] for phase in phases(steps)] for sums, steps in given]
    return [list(chain.from_iterable(row)) for row in zip_longest(*columns, fillvalue=[])]
