"""What a kernel is to be: sizes, schedule and modes in one validated, frozen record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from femgpu.errors import PlanError

TARGETS = ("residual", "action", "diagonal", "matrix", "functional")
SCHEDULES = ("cell", "transposed")
GEOMETRIES = ("affine_stored", "affine_recomputed", "points_stored", "points_recomputed")
PRECISIONS = ("double", "single", "mixed")
ATOMICS = ("ptx", "cas")

# Tables up to this size stand in the program as __constant data (a program may hold 64 KB of it).
CONSTANT_TABLE_BYTES = 32768
# Work-groups with fewer items leave most of a GPU idle.
LEAST_ITEMS = 64


@dataclass(frozen=True)
class FieldPlan:
    """One field that the kernel interpolates at the points.

    Attributes:
        name: of its arguments: `d_<name>` (vector) and `d_<name>_offsets`.
        array: the pointwise array that receives the values (`u`, `w`, `a`); gradients go to `<array>_x`.
        offset: first component within that array.
        table: number of the tabulation it uses.
        num_basis: basis functions per cell.
        num_comp: components.
        value: whether values are needed.
        gradient: whether gradients are needed.
    """

    name: str
    array: str
    offset: int
    table: int
    num_basis: int
    num_comp: int
    value: bool
    gradient: bool

    @property
    def size(self) -> int:
        """Coefficients per cell."""
        return self.num_basis * self.num_comp


@dataclass(frozen=True)
class Plan:
    """One kernel.

    Attributes:
        target: what is computed, one of `TARGETS`.
        schedule: one of `SCHEDULES`; only residual and action know `transposed`.
        dim: of the cells.
        num_qpts: quadrature points per cell.
        num_comp: components of the test function (0 for a functional).
        table_sizes: basis functions of each tabulation; table 0 is the test space's (or the first field's).
        coord_table: number of the coordinate element's tabulation.
        fields: the fields to interpolate.
        writes: outputs of the pointwise function.
        geometry: one of `GEOMETRIES`.
        needs_x: whether the pointwise function reads x.
        precision: one of `PRECISIONS`.
        scatter: `atomic` into the L-vector, or `evector`: each cell its own entries.
        source: fields are read from `lvector` or `evector`.
        atomics: how atomic adds are made, one of `ATOMICS`.
        gpu: unroll loops over basis functions, entries of neighbouring cells side by side.
        group_size: work-items per work-group (for `transposed` it follows from the blocks).
        num_blocks: blocks per batch (`transposed`).
        num_batches: batches per chunk (`transposed`).
        staged: whether the inputs of a batch pass through local memory (`transposed`); with one point per cell each input is used
            by one item only, and reading it from global memory at once saves a barrier.
        local_limit: bytes of local memory that a work-group may take.
        group_limit: largest work-group of the device.
    """

    target: str
    schedule: str
    dim: int
    num_qpts: int
    num_comp: int
    table_sizes: tuple[int, ...]
    coord_table: int
    fields: tuple[FieldPlan, ...]
    writes: frozenset[str]
    geometry: str
    needs_x: bool = False
    precision: str = "double"
    scatter: str = "evector"
    source: str = "lvector"
    atomics: str = "cas"
    gpu: bool = False
    group_size: int = 64
    num_blocks: int = 1
    num_batches: int = 1
    staged: bool = True
    local_limit: int = 32768
    group_limit: int = 1024

    def __post_init__(self) -> None:
        for value, legal, what in (
            (self.target, TARGETS, "target"),
            (self.schedule, SCHEDULES, "schedule"),
            (self.geometry, GEOMETRIES, "geometry"),
            (self.precision, PRECISIONS, "precision"),
            (self.scatter, ("atomic", "evector"), "scatter"),
            (self.source, ("lvector", "evector"), "source"),
            (self.atomics, ATOMICS, "atomics"),
        ):
            if value not in legal:
                raise PlanError(f"{what} {value!r}: expected one of {', '.join(legal)}")
        if self.schedule == "transposed":
            self._check_transposed()
        elif not 1 <= self.group_size <= self.group_limit:
            raise PlanError(f"-femgpu_group_size {self.group_size}: the device allows 1 to {self.group_limit} work-items")

    def _check_transposed(self) -> None:
        if self.target not in ("residual", "action"):
            raise PlanError(f"schedule transposed computes residuals and actions, not a {self.target}; use schedule cell")
        for name, value in (("-petscfe_num_blocks", self.num_blocks), ("-petscfe_num_batches", self.num_batches)):
            if value < 1:
                raise PlanError(f"{name} {value}: expected at least 1")
        if self.cell_local_bytes > self.local_limit:
            raise PlanError(
                f"schedule transposed needs {self.cell_local_bytes} bytes of local memory for one cell; the device has "
                f"{self.local_limit} per work-group: use -femgpu_schedule cell"
            )

    @property
    def name(self) -> str:
        """The kernel function's name."""
        return self.target

    @property
    def num_basis(self) -> int:
        """Basis functions of the test space per cell."""
        return self.table_sizes[0]

    @property
    def num_rows(self) -> int:
        """Basis functions times components of the test space."""
        return self.num_basis * self.num_comp

    @property
    def block_size(self) -> int:
        """Items of a block: lcm(N_b N_c, N_q), the least number busy in both phases (paper 004)."""
        return math.lcm(self.num_rows, self.num_qpts)

    @property
    def chunk_items(self) -> int:
        """Work-items that serve one chunk: those of the blocks, folded where the device allows fewer."""
        wanted = self.num_blocks * self.block_size if self.schedule == "transposed" else self.group_size
        return min(wanted, self.group_limit)

    @property
    def group_chunks(self) -> int:
        """Chunks side by side in one work-group, so that it has `LEAST_ITEMS` items where they fit."""
        if self.schedule != "transposed" or self.chunk_items >= LEAST_ITEMS:
            return 1
        fitting = self.local_limit // max(self.cell_local_bytes * self.batch_cells, 1)
        return max(1, min(-(-LEAST_ITEMS // self.chunk_items), fitting, self.group_limit // self.chunk_items))

    @property
    def num_items(self) -> int:
        """Work-items per work-group."""
        return self.chunk_items * self.group_chunks

    @property
    def batch_cells(self) -> int:
        """Cells between two transpositions: the blocks' items over the components, or as many as local memory holds."""
        if self.schedule != "transposed":
            return self.num_items
        return min(self.num_blocks * self.block_size // self.num_comp, self.local_limit // max(self.cell_local_bytes, 1))

    @property
    def group_cells(self) -> int:
        """Cells of one work-group."""
        return self.batch_cells * (self.num_batches * self.group_chunks if self.schedule == "transposed" else 1)

    @property
    def cell_fastest(self) -> bool:
        """Whether entries of neighbouring cells stand side by side: what lanes of a GPU read together."""
        return self.gpu and self.schedule == "cell"

    @property
    def needs_coords(self) -> bool:
        """Whether the coordinates of the cell are read."""
        return self.needs_x or self.geometry.endswith("recomputed")

    @property
    def real_bytes(self) -> int:
        """Bytes of a number in arithmetic."""
        return 8 if self.precision == "double" else 4

    @property
    def scalar_bytes(self) -> int:
        """Bytes of a number in an L- or E-vector."""
        return 4 if self.precision == "single" else 8

    @property
    def num_coord_basis(self) -> int:
        """Basis functions of the coordinate element."""
        return self.table_sizes[self.coord_table]

    @property
    def geometry_words(self) -> int:
        """Stored numbers per cell: inverse Jacobian and determinant, once or at each point."""
        words = self.dim**2 + 1
        return {"affine_stored": words, "points_stored": words * self.num_qpts}.get(self.geometry, 0)

    @property
    def flux_buffers(self) -> int:
        """Buffers for what passes from the points to the basis rows: two where staging has no barrier of its own (`transposed`)."""
        return 1 if self.staged else 2

    @cached_property
    def cell_local_bytes(self) -> int:
        """Bytes of local memory that one cell of a batch takes."""
        words = 0
        if self.staged:
            words += sum(field.size for field in self.fields)
            words += self.num_coord_basis * self.dim if self.needs_coords else 0
            words += self.geometry_words if self.geometry == "affine_stored" else 0
        words += self.flux_buffers * self.num_qpts * self.num_comp * (("f0" in self.writes) + self.dim * ("f1" in self.writes))
        return words * self.real_bytes

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory per work-group."""
        return self.cell_local_bytes * self.batch_cells * self.group_chunks if self.schedule == "transposed" else 0

    @property
    def table_words(self) -> int:
        """Numbers in all tabulations and the weights."""
        return self.num_qpts * (1 + sum(size * (1 + self.dim) for size in self.table_sizes))

    @property
    def tables_in_source(self) -> bool:
        """Whether the tabulations are __constant data of the program rather than an argument.

        Items of one work-group of `transposed` read different entries, which constant memory serialises.
        """
        fits = self.table_words * self.real_bytes <= CONSTANT_TABLE_BYTES
        return fits and self.gpu and self.schedule == "cell"

    def global_size(self, num_cells: int) -> int:
        """Work-items to launch for a number of cells."""
        units = num_cells * self.num_rows if self.target == "matrix" else num_cells
        groups = -(-units // self.group_cells)
        return groups * self.num_items

    def cell_bytes(self) -> int:
        """Bytes that one cell moves when each of its words is read or written once; no reuse between cells counted."""
        index = 4 if self.source == "lvector" else 0
        total = sum(field.size * self.scalar_bytes + field.num_basis * index for field in self.fields)
        total += self.geometry_words * self.real_bytes
        if self.needs_coords:
            total += self.num_coord_basis * (4 + self.dim * self.real_bytes)
        if self.target == "functional":
            return total + 8
        if self.target == "matrix":
            return total + self.num_rows**2 * 8
        return total + self.num_rows * self.scalar_bytes * (2 if self.scatter == "atomic" else 1)

    def cell_flops(self, pointwise_flops: int) -> int:
        """Floating-point operations of one cell, counted on the untransformed algorithm."""
        dim, tensor = self.dim, 2 * self.dim**2
        per_point = pointwise_flops + 1
        for field in self.fields:
            per_point += 2 * field.size * (field.value + dim * field.gradient)
            per_point += tensor * field.num_comp * field.gradient
        rebuild = 2 * self.num_coord_basis * dim**2 + {1: 1, 2: 8, 3: 42}[dim]
        if self.geometry == "points_recomputed":
            per_point += rebuild
        if self.target == "matrix":
            per_point += self.num_rows**2 * 2 * (1 + dim) + self.num_rows * self.num_comp * 2 * (1 + dim) ** 2
        elif self.target == "diagonal":
            per_point += self.num_rows * 2 * (1 + dim) ** 2
        elif self.target != "functional":
            per_point += 2 * self.num_rows * (("f0" in self.writes) + dim * ("f1" in self.writes))
            per_point += tensor * self.num_comp * ("f1" in self.writes)
        return self.num_qpts * per_point + (rebuild if self.geometry == "affine_recomputed" else 0)

    def __str__(self) -> str:
        """One line for `-femgpu_view`."""
        shape = f"{self.num_items} items"
        if self.schedule == "transposed":
            shape += f", {self.num_blocks} blocks x {self.num_batches} batches of {self.batch_cells} cells"
            shape += f", {self.group_chunks} chunks per group, {self.local_bytes} B local"
        return (
            f"{self.target}: {self.schedule} ({shape}), {self.num_basis} basis x {self.num_comp} comp, {self.num_qpts} points, "
            f"{self.precision}, geometry {self.geometry}, scatter {self.scatter}"
        )
