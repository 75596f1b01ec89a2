"""What a kernel is to be: sizes, schedule and modes in one validated, frozen record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from femgpu.errors import PlanError

TARGETS = ("residual", "action", "diagonal", "matrix", "functional", "state")
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
        array: the pointwise array that receives the values (`u`, `w`, `a`); gradients go to `<array>_x`, Hessians to `<array>_xx`.
        offset: first component within that array.
        table: number of the tabulation it uses.
        num_basis: basis functions per cell.
        num_comp: components.
        value: whether values are needed.
        gradient: whether gradients are needed.
        hessian: whether second derivatives are needed.
    """

    name: str
    array: str
    offset: int
    table: int
    num_basis: int
    num_comp: int
    value: bool
    gradient: bool
    hessian: bool = False

    @property
    def size(self) -> int:
        """Coefficients per cell."""
        return self.num_basis * self.num_comp


@dataclass(frozen=True)
class RowsPlan:
    """Rows of one field of the test function, which are columns of element matrices too.

    Attributes:
        offset: first component among those of the test space.
        table: number of its tabulation.
        num_basis: basis functions per cell.
        num_comp: components.
        first_row: its first row among those of a cell.
        value: whether an output multiplies its values.
        gradient: whether an output multiplies its gradients.
    """

    offset: int
    table: int
    num_basis: int
    num_comp: int
    first_row: int = 0
    value: bool = True
    gradient: bool = True

    @property
    def size(self) -> int:
        """Rows per cell."""
        return self.num_basis * self.num_comp


@dataclass(frozen=True)
class Plan:
    """One kernel.

    Attributes:
        target: what is computed, one of `TARGETS`; `state` are the numbers that an action reads instead of computing them.
        schedule: one of `SCHEDULES`; only residual and action over cells know `transposed`.
        dim: of the cells.
        num_qpts: quadrature points per cell or facet.
        tests: the fields of the test function; none for a functional or a state.
        table_sizes: basis functions of each tabulation.
        coord_table: number of the coordinate element's tabulation.
        fields: the fields to interpolate.
        writes: outputs of the pointwise function.
        geometry: one of `GEOMETRIES`.
        facet: whether the integral is over facets: one facet of a cell takes the place of a cell.
        needs_x: whether the pointwise function reads x.
        needs_n: whether it reads n.
        hessian_tables: numbers of the tabulations that have second derivatives.
        num_state: stored numbers per point that the kernel reads (action) or writes (state).
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
    tests: tuple[RowsPlan, ...]
    table_sizes: tuple[int, ...]
    coord_table: int
    fields: tuple[FieldPlan, ...]
    writes: frozenset[str]
    geometry: str
    facet: bool = False
    needs_x: bool = False
    needs_n: bool = False
    hessian_tables: frozenset[int] = frozenset()
    num_state: int = 0
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
        if self.facet:
            raise PlanError("schedule transposed serves cells, not facets; use schedule cell")
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
    def num_comp(self) -> int:
        """Components of the test function."""
        return sum(test.num_comp for test in self.tests)

    @property
    def num_rows(self) -> int:
        """Basis functions times components of the test function, all fields together."""
        return sum(test.size for test in self.tests)

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
        return self.needs_x or self.geometry.endswith("recomputed") or self.bends

    @property
    def bends(self) -> bool:
        """Whether second derivatives of the cell's map enter: those of fields in cells that are not affine."""
        return bool(self.hessian_tables) and self.geometry.startswith("points")

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
    def flux_words(self) -> int:
        """Numbers per point and component that pass from the points to the basis rows (`transposed`)."""
        return ("f0" in self.writes) + self.dim * ("f1" in self.writes)

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
        words += self.flux_buffers * self.num_qpts * self.num_comp * self.flux_words
        return words * self.real_bytes

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory per work-group."""
        return self.cell_local_bytes * self.batch_cells * self.group_chunks if self.schedule == "transposed" else 0

    @property
    def table_words(self) -> int:
        """Numbers in the weights, the normal and all tabulations, for one facet where there are facets."""
        words = self.num_qpts + self.dim * self.facet
        for number, size in enumerate(self.table_sizes):
            words += self.num_qpts * size * (1 + self.dim + self.dim**2 * (number in self.hessian_tables))
        return words

    @property
    def tables_in_source(self) -> bool:
        """Whether the tabulations are __constant data of the program rather than an argument.

        Items of one work-group of `transposed` read different entries, which constant memory serialises.
        """
        fits = self.table_words * self.real_bytes <= CONSTANT_TABLE_BYTES
        return fits and self.gpu and self.schedule == "cell" and not self.facet

    def global_size(self, num_cells: int) -> int:
        """Work-items to launch for a number of cells."""
        units = num_cells * self.num_rows if self.target == "matrix" else num_cells
        groups = -(-units // self.group_cells)
        return groups * self.num_items

    def cell_bytes(self) -> int:
        """Bytes that one cell moves when each of its words is read or written once; no reuse between cells counted."""
        index = 4 if self.source == "lvector" else 0
        total = sum(field.size * self.scalar_bytes + field.num_basis * index for field in self.fields)
        total += (self.geometry_words + self.num_qpts * self.num_state) * self.real_bytes
        total += 4 * self.facet
        if self.needs_coords:
            total += self.num_coord_basis * (4 + self.dim * self.real_bytes)
        if self.target == "state":
            return total
        if self.target == "functional":
            return total + 8
        if self.target == "matrix":
            return total + self.num_rows**2 * 8
        return total + self.num_rows * self.scalar_bytes * (2 if self.scatter == "atomic" else 1)

    def cell_flops(self, pointwise_flops: int) -> int:
        """Floating-point operations of one cell, counted on the untransformed algorithm."""
        dim, tensor = self.dim, 2 * self.dim**2
        per_point = pointwise_flops + 1 + (tensor + 2 * dim + 3) * self.facet
        for field in self.fields:
            per_point += 2 * field.size * (field.value + dim * field.gradient + dim**2 * field.hessian)
            per_point += tensor * field.num_comp * (field.gradient + 2 * dim * field.hessian)
        rebuild = 2 * self.num_coord_basis * dim**2 + {1: 1, 2: 8, 3: 42}[dim]
        if self.geometry == "points_recomputed":
            per_point += rebuild
        if self.target == "matrix":
            per_point += self.num_rows**2 * 2 * (1 + dim) + self.num_rows * self.num_comp * 2 * (1 + dim) ** 2
        elif self.target == "diagonal":
            per_point += self.num_rows * 2 * (1 + dim) ** 2
        else:
            per_point += sum(2 * test.size * (test.value + dim * test.gradient) for test in self.tests)
            per_point += sum(tensor * test.num_comp * test.gradient for test in self.tests)
        return self.num_qpts * per_point + (rebuild if self.geometry == "affine_recomputed" else 0)

    def __str__(self) -> str:
        """One line for `-femgpu_view`."""
        shape = f"{self.num_items} items"
        if self.schedule == "transposed":
            shape += f", {self.num_blocks} blocks x {self.num_batches} batches of {self.batch_cells} cells"
            shape += f", {self.group_chunks} chunks per group, {self.local_bytes} B local"
        rows = " + ".join(f"{test.num_basis} basis x {test.num_comp} comp" for test in self.tests)
        parts = [f"{self.target}{' on facets' * self.facet}: {self.schedule} ({shape})", rows, f"{self.num_qpts} points"]
        parts += [f"{self.num_state} stored numbers per point"] if self.num_state else []
        parts += [self.precision, f"geometry {self.geometry}"]
        parts += [f"scatter {self.scatter}"] if self.tests else []
        return ", ".join(part for part in parts if part)
