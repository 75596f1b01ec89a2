"""Schedule matrix (after paper 002): element matrices by work-groups that share what all rows of a cell have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from femgpu.kernels.array import Array
from femgpu.kernels.plan import Plan
from femgpu.kernels.products import with_products
from femgpu.kernels.schedules.matrix_slots import Slot, make_slots
from femgpu.kernels.sparse import sparse_arrays
from femgpu.kernels.step import Step, Wish
from femgpu.kernels.work import Work
from femgpu.kernels.work_fields import RowsWork
from femgpu.model import Limits

# Items of the largest work-group: more leave each too few registers for a tile.
_ITEMS = 256
# Basis functions of the test function in the default plan's tiles at most.
_ROWS = 32
# Items that write neighbouring columns, where a memory transaction takes that many numbers.
_NEIGHBOURS = 4
# Places in a sparse matrix that an item reads at a time, beside its tile.
_AHEAD = 27
# Local memory of the default plan: this share of what a work-group may have, so that several groups stay on a unit of the device.
_SHARE = 3


@dataclass(frozen=True)
class MatrixPlan(Plan):
    """A plan of schedule matrix.

    A tile is what an item computes: entries of one component of the test function with one component of the direction.

    Attributes:
        tile_rows: basis functions of the test function in a tile.
        tile_columns: basis functions of the direction in a tile.
        cells: cells of a work-group, where a cell's tiles do not need more than one group.
        points: points between two barriers.
        comps: components of the test function that a work-group serves: all, or one where local memory is short.
        staged: whether the tabulations are copied to local memory.
        group_limit: largest work-group.
    """

    schedule: ClassVar[str] = "matrix"

    tile_rows: int = 1
    tile_columns: int = 1
    cells: int = 1
    points: int = 1
    comps: int = 1
    staged: bool = False
    group_limit: int = _ITEMS

    @property
    def table_space(self) -> str:
        """In the evaluation phase neighbouring items read the same entry at different points, in the other one the same at one."""
        return "__local" if self.staged else "__global"

    @property
    def row_tiles(self) -> int:
        """Tiles below each other for a component: of fields with fewer basis functions some are empty."""
        return max(-(-row.num_basis // self.tile_rows) for row in self.work.rows)

    def stride(self, row: RowsWork) -> int:
        """Basis functions of the direction from one to the next in a tile: neighbouring items have neighbouring columns."""
        return -(-row.num_basis // self.tile_columns)

    @property
    def column_tiles(self) -> int:
        """Tiles beside each other, all components of the direction together."""
        return sum(self.stride(row) * row.num_comp for row in self.work.rows)

    def first_column_tile(self, row: RowsWork) -> int:
        """The first of those of a field."""
        return sum(self.stride(other) * other.num_comp for other in self.work.rows if other.first_row < row.first_row)

    @property
    def tiles(self) -> int:
        """Tiles of a cell for the components that a work-group serves."""
        return self.comps * self.row_tiles * self.column_tiles

    @property
    def tile_parts(self) -> int:
        """Work-groups for these tiles."""
        return -(-self.tiles // self.group_limit)

    @property
    def group_cells(self) -> int:
        """Cells of a work-group."""
        return 1 if self.tile_parts > 1 or self.comps < self.work.num_comp else min(self.cells, self.group_limit // self.tiles)

    @property
    def items(self) -> int:
        """Work-items of a work-group: one per tile."""
        return self.group_cells * self.tiles if self.tile_parts == 1 else -(-self.tiles // self.tile_parts)

    @property
    def passes(self) -> int:
        """Rounds of evaluation and integration."""
        return -(-self.work.num_qpts // self.points)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The slots of values, first and second derivatives of the test function; without words where the form has none."""
        return make_slots(self.work)

    @property
    def block_words(self) -> int:
        """Numbers that a component of the test function and one of the direction have at a point."""
        return sum(self.work.dim**order * slot.words for order, slot in enumerate(self.slots))

    @property
    def letters(self) -> str:
        """What of the tabulations tiles read: values (B), gradients (D), second derivatives (H)."""
        trial = [[getattr(slot, name) for slot in self.slots] for name in ("has_value", "has_gradient", "has_hessian")]
        return "".join(letter for letter, slot, has in zip("BDH", self.slots, trial, strict=True) if slot.words or any(has))

    @property
    def point_words(self) -> int:
        """Numbers of all blocks at a point; odd, so that items with different points use different banks of local memory."""
        return self.comps * self.work.num_comp * self.block_words | 1

    @property
    def point_bytes(self) -> int:
        """Local memory of a work-group per point."""
        return self.group_cells * self.point_words * self.itemsize("real")

    @property
    def table_bytes(self) -> int:
        """Local memory that the tabulations take, and where a cell's entries go in a sparse matrix."""
        tables = self.words_of() * self.itemsize("real") if self.staged else 0
        return tables + self.group_cells * self.dof_words * self.itemsize("int")

    @property
    def dof_words(self) -> int:
        """Numbers for each cell about its dofs in a sparse matrix: those of `places.cl`, and the part of the cell."""
        return 4 * self.work.num_rows if self.work.place else 0

    @property
    def private_bytes(self) -> int:
        """Derivatives of the pointwise function and a tile, too."""
        work = self.work
        words = work.num_comp**2 * self.block_words + self.tile_rows * self.tile_columns
        return super().private_bytes + 8 * (words + 2 * self.tile_columns * (1 + work.dim))

    def results(self) -> list[Array]:
        """Of a sparse matrix where its entries go, and its values."""
        return sparse_arrays(self.work, self.layout) if self.work.place else super().results()

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        parts = self.tile_parts * (self.work.num_comp // self.comps)
        local = [Array("s_blocks", "real", ("blocks",), self.points * self.group_cells * self.point_words)]
        if self.staged:
            local.append(Array("s_tables", "real", ("staged",), self.words_of()))
        if self.work.place:
            local.append(Array("s_dofs", "int", ("staged dofs",), self.group_cells * self.dof_words))
        return (
            Step(
                name="entries" if self.work.place else self.work.target,
                shell="matrix",
                arrays=self.arguments(),
                local=tuple(local),
                items=self.items,
                group_cells=self.group_cells,
                parts=parts,
                barriers=self.staged + (2 * self.passes if self.passes > 1 else 1),
                macros=(
                    ("CELLS", self.group_cells),
                    ("POINTS", self.points),
                    ("ROWS", self.tile_rows),
                    ("COLUMNS", self.tile_columns),
                    ("COMPS", self.comps),
                    ("ROW_TILES", self.row_tiles),
                    ("COLUMN_TILES", self.column_tiles),
                    ("TILES", self.tiles),
                    ("TILE_PARTS", self.tile_parts),
                    ("PARTS", parts),
                    ("BLOCK_WORDS", self.block_words),
                    ("POINT_WORDS", self.point_words),
                    ("TABLE_WORDS", self.words_of()),
                    *([("AHEAD", min(self.tile_rows, max(1, _AHEAD // self.tile_columns)))] if self.work.place else []),
                ),
            ),
        )

    @property
    def shape(self) -> str:
        """Items, cells, tiles and points."""
        points = "points summed beforehand" if self.work.products else f"{self.points} points at a time"
        return (
            f"{self.items} items, {self.group_cells} cells per group, tiles of {self.tile_rows} x {self.tile_columns}, "
            f"{points}, {self.local_bytes} B local"
        )


class Matrix:
    """The schedule: element matrices of all forms, over cells and facets."""

    name = "matrix"
    targets = ("matrix",)
    facets = True
    parameters = ("rows", "columns", "cells", "points")

    def refuses(self, work: Work, limits: Limits) -> str:
        """Other targets, reference coordinates, and so many components that those of a point do not fit local memory."""
        if work.target != "matrix":
            return f"schedule matrix computes element matrices, not a {work.target}"
        if work.reference:
            return "schedule matrix computes in physical coordinates only"
        plan = MatrixPlan(work)
        needed = plan.point_bytes + plan.table_bytes
        if needed > limits.local_bytes:
            return (
                f"element matrices of {work.num_comp} components need {needed} bytes of local memory for one point; the device has "
                f"{limits.local_bytes} per work-group: use -femgpu_jacobian matfree and a preconditioner that asks for no matrix"
            )
        return ""

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Whatever it serves."""
        return True

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[MatrixPlan]:
        """Tiles of all basis functions of the test function where these fit registers, in work-groups of the usual size.

        Points are summed beforehand where that is worth it, unless the wish says how many are to be taken at a time.
        """
        if "points" not in dict(wish.parameters):
            work = with_products(work)
        most = max(row.num_basis for row in work.rows)
        # Without points to loop over, adding an entry is most of its work: small tiles, and more items that add at once.
        tile, tallest = (limits.tile // 3, _ROWS // 2) if work.products else (limits.tile, _ROWS)
        rows = min(wish.parameter("rows", _parts(most, tallest)), most)
        columns = min(wish.parameter("columns", max(1, min(most // _NEIGHBOURS, tile // rows))), most)
        plan = MatrixPlan.wished(work, limits, wish, tile_rows=rows, tile_columns=columns, comps=work.num_comp)
        plan = replace(plan, group_limit=min(limits.abreast(plan.private_bytes), _ITEMS))
        yield _fitted(plan, limits, wish)


def _fitted(plan: MatrixPlan, limits: Limits, wish: Wish) -> MatrixPlan:
    """The plan with the cells and points for which there is room in local memory."""
    work, share = plan.work, limits.local_bytes // _SHARE
    if plan.point_bytes + plan.table_bytes > limits.local_bytes:
        plan = replace(plan, comps=1)
    most = limits.local_bytes // (plan.point_words * plan.itemsize("real") + plan.dof_words * plan.itemsize("int"))
    cells = wish.parameter("cells", max(1, limits.group // plan.tiles))
    plan = replace(plan, cells=max(1, min(cells, most)))
    staged = replace(plan, staged=True)
    if not (work.facet or work.products) and staged.table_bytes + staged.point_bytes <= share:
        plan = staged
    most = limits.local_bytes - plan.table_bytes if "points" in dict(wish.parameters) else share - plan.table_bytes
    points = max(1, min(wish.parameter("points", work.num_qpts), work.num_qpts, most // plan.point_bytes))
    return replace(plan, points=_parts(work.num_qpts, points))


def _parts(count: int, most: int) -> int:
    """The size of the fewest parts, about equal, of at most so many."""
    return -(-count // -(-count // most))
