"""Schedule transposed (paper 004): items stand for points in the evaluation phase and for basis rows in the integration phase."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from femgpu.errors import PlanError
from femgpu.kernels.array import Array
from femgpu.kernels.plan import GEOMETRIES, Plan
from femgpu.kernels.step import Step, Wish
from femgpu.kernels.work import Work
from femgpu.kernels.work_fields import RowsWork
from femgpu.model import Limits

# Work-groups with fewer items leave most of a GPU idle.
LEAST_ITEMS = 64
# Items that the default plan gives a work-group, and batches that it does in sequence: where cells have one point, three warps of a
# GPU and one batch (docs/benchmarks, "A cell for each item").
_ITEMS, _BATCHES = 128, 4
_POINT_ITEMS, _POINT_BATCHES = 96, 1


@dataclass(frozen=True)
class TransposedPlan(Plan):
    """A plan of schedule transposed, in the words of DESIGN.md, section 6.

    Attributes:
        num_blocks: blocks per batch.
        num_batches: batches per chunk.
        group_limit: largest work-group.
        local_limit: bytes of local memory that a work-group may take.
    """

    schedule: ClassVar[str] = "transposed"

    num_blocks: int = 1
    num_batches: int = 1
    group_limit: int = 1024
    local_limit: int = 32768

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("-petscfe_num_blocks", self.num_blocks), ("-petscfe_num_batches", self.num_batches)):
            if value < 1:
                raise PlanError(f"{name} {value}: expected at least 1")

    @property
    def staged(self) -> bool:
        """Whether the inputs of a batch pass through local memory.

        With one point per cell each input is used by one item only, and reading it from global memory at once saves a barrier.
        """
        return self.work.num_qpts > 1

    @property
    def table_space(self) -> str:
        """With one point per cell all items of a GPU read the same entry at a time, but for what they keep of their rows."""
        known = self.unroll > 0 and not self.staged and all(map(self.keeps_row, self.work.rows))
        return "__constant" if known else "__global"

    def keeps_row(self, row: RowsWork) -> bool:
        """Whether an item has the same row of all its cells, and what tables have of it in registers."""
        return not self.staged and not row.hessian and self.chunk_items % row.size == 0

    @property
    def block_size(self) -> int:
        """Items of a block: lcm(N_b N_c, N_q), the least number busy in both phases (paper 004)."""
        return math.lcm(self.work.num_rows, self.work.num_qpts)

    @property
    def chunk_items(self) -> int:
        """Work-items that serve one chunk: those of the blocks, folded where the device allows fewer."""
        return min(self.num_blocks * self.block_size, self.group_limit)

    @property
    def group_chunks(self) -> int:
        """Chunks side by side in one work-group, so that it has `LEAST_ITEMS` items where they fit."""
        if self.chunk_items >= LEAST_ITEMS:
            return 1
        fitting = self.local_limit // max(self.cell_local_bytes * self.batch_cells, 1)
        return max(1, min(-(-LEAST_ITEMS // self.chunk_items), fitting, self.group_limit // self.chunk_items))

    @property
    def batch_cells(self) -> int:
        """Cells between two transpositions, as many as local memory holds: the blocks' items over the components.

        Where cells have one point as many as items, whatever the components: items without a cell would wait for the others' loads.
        """
        cells = self.num_blocks * self.block_size // self.work.num_comp if self.staged else self.chunk_items
        return min(cells, self.local_limit // max(self.cell_local_bytes, 1))

    @property
    def framed(self) -> bool:
        """Whether stored geometry is four numbers, a vector or two, of which a 2D inverse and its determinant are computed."""
        return super().geometry_words > 0 and self.work.dim == 2 and not self.staged

    @property
    def geometry_words(self) -> int:
        """Four for five where these are enough."""
        return 4 if self.framed else super().geometry_words

    @property
    def flux_words(self) -> int:
        """Numbers per point and component that pass from the points to the basis rows."""
        work = self.work
        return ("f0" in work.writes) + work.dim * self.has_gradient + work.dim**2 * ("f2" in work.writes)

    @property
    def flux_stride(self) -> int:
        """Numbers from a point's to those of the next, whose items write at the same time: an odd number on a GPU, for banks."""
        words = self.work.num_comp * self.flux_words
        return words + (self.unroll > 0 and words % 2 == 0)

    @property
    def has_gradient(self) -> bool:
        """Whether what multiplies gradients is among them: second derivatives bring it along in cells whose map bends."""
        return "f1" in self.work.writes or ("f2" in self.work.writes and self.work.bends)

    @property
    def flux_buffers(self) -> int:
        """Buffers for what passes from the points to the basis rows: two where batches have no other barrier between them."""
        return 1 if self.staged or self.num_batches == 1 else 2

    @cached_property
    def cell_local(self) -> tuple[Array, ...]:
        """Local memory that one cell of a batch takes."""
        work, found = self.work, []
        if self.staged:
            found += [Array(f"s_{field.name}", "real", ("staged",), field.size) for field in work.fields]
            if self.needs_coords:
                found.append(Array("s_x", "real", ("staged",), work.num_coord_basis * work.dim))
            if self.geometry_words and work.affine:
                found.append(Array("s_geometry", "real", ("staged",), self.geometry_words))
        words = self.flux_buffers * work.num_qpts * self.flux_stride
        return (*found, Array("s_f", "real", ("fluxes",), words))

    @property
    def cell_local_bytes(self) -> int:
        """Bytes of `cell_local`."""
        return sum(array.words * self.itemsize(array.ctype) for array in self.cell_local)

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        cells = self.batch_cells * self.group_chunks
        return (
            Step(
                name=self.work.target,
                shell="transposed",
                arrays=self.arguments(),
                local=tuple(replace(array, words=array.words * cells) for array in self.cell_local),
                items=self.chunk_items * self.group_chunks,
                group_cells=cells * self.num_batches,
                barriers=(1 + self.staged) * self.num_batches,
                macros=(
                    ("CELLS", self.batch_cells),
                    ("NUM_BATCHES", self.num_batches),
                    ("CHUNKS", self.group_chunks),
                    ("ITEMS", self.chunk_items),
                    ("HAS_F0", int("f0" in self.work.writes)),
                    ("HAS_F1", int(self.has_gradient)),
                    ("HAS_F2", int("f2" in self.work.writes)),
                    # There is one, whose tables the compiler knows.
                    ("UNROLL_POINTS", int(not self.staged and self.unrolls_basis)),
                ),
            ),
        )

    @property
    def shape(self) -> str:
        """Items, blocks, batches and chunks."""
        return (
            f"{self.chunk_items * self.group_chunks} items, {self.num_blocks} blocks x {self.num_batches} batches of "
            f"{self.batch_cells} cells, {self.group_chunks} chunks per group, {self.local_bytes} B local"
        )


class Transposed:
    """The schedule: residuals and actions over cells."""

    name = "transposed"
    targets = ("residual", "action")
    facets = True
    parameters = ("blocks", "batches")

    def refuses(self, work: Work, limits: Limits) -> str:
        """Facets, other targets, and cells that do not fit local memory."""
        if work.target not in self.targets:
            return f"schedule transposed computes residuals and actions, not a {work.target}"
        if work.facet:
            return "schedule transposed serves cells, not facets; use schedule cell"
        plans = (TransposedPlan(work, geometry=way, unroll=limits.unroll, num_batches=2) for way in GEOMETRIES)
        needed = max(plan.cell_local_bytes for plan in plans)
        if needed > limits.local_bytes:
            return (
                f"schedule transposed needs {needed} bytes of local memory for one cell; the device has {limits.local_bytes} per "
                "work-group: use -femgpu_schedule cell"
            )
        return ""

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Whatever it serves."""
        return True

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[TransposedPlan]:
        """Work-groups of about 96 or 128 items, in one batch or four, then with other numbers of batches and blocks."""
        plan = TransposedPlan.wished(
            work,
            limits,
            wish,
            block=1,
            num_batches=wish.parameter("batches", _BATCHES if work.num_qpts > 1 else _POINT_BATCHES),
            group_limit=limits.items,
            local_limit=limits.local_bytes,
        )
        plan = replace(plan, group_limit=limits.abreast(plan.private_bytes))
        items = _ITEMS if plan.staged else _POINT_ITEMS
        plan = replace(plan, num_blocks=wish.parameter("blocks", max(1, items // plan.block_size)))
        yield plan
        asked = dict(wish.parameters)
        factors = (1, 2, 4) if "blocks" not in asked else (1,)
        for batches in dict.fromkeys((plan.num_batches, *((1, _BATCHES, 16) if "batches" not in asked else ()))):
            for factor in factors:
                if (other := replace(plan, num_blocks=plan.num_blocks * factor, num_batches=batches)) != plan:
                    yield other
