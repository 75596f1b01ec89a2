"""Plans of schedule tiled: the items of a work-group share its cells' points, then their rows, by way of local memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from femgpu.errors import PlanError
from femgpu.kernels.array import Array
from femgpu.kernels.plan import BESIDE_WORDS, Plan
from femgpu.kernels.schedules.tiled_cycles import seconds
from femgpu.kernels.step import Step
from femgpu.kernels.tiles import Tile, TileTables, kinds_of, squares_of
from femgpu.model.ceilings import SHARE_BYTES, Ceiling

# Lengths of OpenCL's vectors that cells may stand side by side in.
LANES = (1, 2, 4, 8)
# Bytes that an item reads from a table at a time where items run in step.
_WIDE_BYTES = 16
# Numbers that an item asks for before it waits for the first, and multiply-adds between two reads of tables.
_READS, _SUMS = 8, 64
# How many times as long as by operations it takes at most, whatever registers do not hold.
_SPILLED = 4
# Words by which rows of words are longer where items of four rows read together.
_PAD = 4


@dataclass(frozen=True)
class TiledPlan(Plan):
    """A plan of schedule tiled.

    Parts of a work-group have equally many items, each of which stands for `lanes * vectors` cells. In the first phase a part
    takes `points` points of each pass, in the second one its share of the basis functions.

    Attributes:
        cells: of a work-group.
        lanes: cells of an item side by side in a vector.
        vectors: such vectors of an item.
        parts: of a work-group.
        points: of a part, in each pass.
        mma: rows of tables, 8 or 16, that the items of eight parts, four each, multiply together by a GPU's matrix instructions;
            0: each item by itself.
    """

    schedule: ClassVar[str] = "tiled"

    cells: int = 1
    lanes: int = 1
    vectors: int = 1
    parts: int = 1
    points: int = 1
    mma: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes not in LANES:
            raise PlanError(f"tiled with {self.lanes} lanes: expected one of {', '.join(map(str, LANES))}")
        if min(self.cells, self.vectors, self.parts, self.points) < 1 or self.cells % self.width:
            raise PlanError(
                f"tiled with {self.cells} cells, {self.width} of an item, {self.parts} parts, {self.points} points: expected at "
                "least 1 of each, and full items"
            )
        if self.mma not in (0, 8, 16):
            raise PlanError(f"tiled by matrix instructions of {self.mma} rows: expected 8 or 16")
        if self.mma and (self.precision, self.lanes, self.cells // self.width, self.parts % 8) != ("double", 2, 4, 0):
            raise PlanError(
                f"tiled by matrix instructions with {self.parts} parts of {self.cells // self.width} items, {self.lanes} lanes, "
                f"{self.precision}: expected a multiple of 8 parts of 4 items with 2 lanes in double precision"
            )

    @property
    def width(self) -> int:
        """Cells of an item."""
        return self.lanes * self.vectors

    @property
    def passes(self) -> int:
        """How often the points of all parts are taken."""
        return -(-self.work.num_qpts // (self.parts * self.points))

    @property
    def wide(self) -> int:
        """Words of a table that an item reads at a time: one, or 16 bytes of them."""
        return _WIDE_BYTES // self.itemsize("real") if self.unroll and not self.mma else 1

    @cached_property
    def fields(self) -> tuple[Tile, ...]:
        """What is interpolated: the fields, and the coordinates where points need them."""
        work = self.work
        found = [
            self._tile(
                field.name, field.table, field.num_comp, field.value, field.gradient or self._bends(field.hessian), field.hessian
            )
            for field in work.fields
        ]
        rebuilds = work.maps and self.geometry == "recomputed" and not work.affine
        for side in work.sides:
            value = "x" in work.reads and side.number == 0
            found.append(self._tile(side.name("x"), side.coord_table, work.dim, value, rebuilds, work.bends))
        return tuple(tile for tile in found if tile.kinds)

    @cached_property
    def rows(self) -> tuple[Tile, ...]:
        """What the test functions multiply; of a diagonal what squares of its values and derivatives do."""
        return tuple(
            self._tile(
                f"f{i}", row.table, row.num_comp, row.value, row.gradient or self._bends(row.hessian), row.hessian, rows=True
            )
            for i, row in enumerate(self.work.rows)
        )

    def _bends(self, hessian: bool) -> bool:
        """Second derivatives bring first ones along in cells whose map bends."""
        return hessian and self.work.bends and not self.work.reference

    def _tile(self, name: str, table: int, num_comp: int, value: bool, gradient: bool, hessian: bool, rows: bool = False) -> Tile:
        work, num_basis = self.work, self.work.tables[table].num_basis
        squares = squares_of(work.dim, work.writes) if rows and work.target == "diagonal" else ()
        kinds = tuple(range(len(squares))) or kinds_of(work.dim, value, gradient, hessian)
        size, sizes = -(-num_basis // self.parts) if rows else self.points, (work.num_qpts, self.wide, bool(self.mma))
        side = work.tables[table].side
        return Tile(name, table, num_basis, num_comp, kinds, rows, self.parts, self.passes, size, *sizes, squares, side)

    @property
    def table_tiles(self) -> tuple[Tile, ...]:
        """Those of the fields, then those of the rows."""
        return (*self.fields, *self.rows)

    def tile_tables(self, side: int = 0) -> TileTables:
        """Of a side."""
        work, of = self.work, self.work.sides[side]
        tiles = tuple(tile for tile in self.table_tiles if tile.side == side)
        # An affine map is computed once for all points of a cell.
        map_table = of.coord_table if work.maps and work.affine and self.geometry == "recomputed" else -1
        return TileTables(tiles, work.num_qpts, work.dim * work.facet, map_table, of.num_coord_basis * work.dim, side)

    def words_of(self, side: int = 0) -> int:
        """Numbers in the tables of a side, of one facet."""
        return self.tile_tables(side).starts[""]

    @property
    def flux_words(self) -> int:
        """Numbers that a point of a cell passes to the rows."""
        return sum(len(tile.kinds) * tile.num_comp for tile in self.rows)

    @property
    def value_words(self) -> int:
        """Numbers of the fields at a point."""
        return sum(len(tile.kinds) * tile.num_comp for tile in self.fields)

    @property
    def unrolls_sums(self) -> bool:
        """Whether an item's sums are named one by one, so that they stand in registers."""
        return self.field_numbers + self.row_numbers <= self.unroll

    @property
    def unrolls_points(self) -> bool:
        """Whether the pointwise function is repeated for each of an item's points, which then stay in registers.

        Else they pass through local memory, and it is compiled once.
        """
        inner = self.work.pointwise_size + 2 * self.work.dim**2 * (self.value_words + self.flux_words)
        return not self.unroll or inner * self.points * self.width <= self.unroll

    @property
    def point_words(self) -> int:
        """Local memory of a cell for one point; an odd number where items read four points at a time."""
        return (self.flux_words if self.unrolls_points else max(self.flux_words, self.value_words)) | bool(self.mma)

    @property
    def coefficients(self) -> int:
        """Numbers that a cell's fields are interpolated from."""
        return sum(tile.num_basis * tile.num_comp for tile in self.fields)

    @property
    def cell_numbers(self) -> int:
        """Coefficients, rows, and what belongs to a point: what an item would keep that has the cell for itself."""
        work = self.work
        maps = (work.dim**2 if "f1" in work.writes or any(field.gradient for field in work.fields) else 0) + 1
        point = self.value_words + self.flux_words + maps * work.maps + work.num_cell_state + work.num_state
        return self.coefficients + work.num_rows + point

    @property
    def kept_words(self) -> int:
        """Local memory of a cell for its map and what is stored for it."""
        work = self.work
        return (work.dim**2 + 1) * (work.maps and work.affine) * len(work.sides) + work.num_cell_state

    @property
    def aliased(self) -> bool:
        """Whether the points' numbers take the place of the coefficients, which is so where one pass takes all points."""
        return self.passes == 1

    @property
    def cell_words(self) -> int:
        """Local memory of a cell."""
        points = self.parts * self.points * self.point_words
        return self.kept_words + (max(self.coefficients, points) if self.aliased else self.coefficients + points)

    @property
    def row(self) -> int:
        """Local memory between a word of the cells and the next one: four words of eight cells are in different banks."""
        return self.cells + (_PAD if self.mma else 0)

    @property
    def field_numbers(self) -> int:
        """Numbers that an item sums up in the first phase."""
        return self.width * self.points * self.value_words

    @property
    def row_numbers(self) -> int:
        """Numbers that an item sums up in the second phase, which it keeps from pass to pass."""
        return self.width * sum(tile.size * tile.num_comp for tile in self.rows)

    def reads(self, tile: Tile) -> int:
        """Nodes whose numbers an item asks for before it waits for the first."""
        return max(1, min(_READS // tile.num_comp, -(-tile.num_basis * self.cells // self.items))) if self.unroll else 1

    def abreast(self, tile: Tile) -> int:
        """Basis functions or points of a tile that a loop takes at a time, the next words coming by then; not 3 (docs/notes.md)."""
        count = tile.num_comp * self.width * tile.size * len(tile.kinds)
        return next((turns for turns in (4, 2) if turns * count <= _SUMS), 1)

    @property
    def items(self) -> int:
        """Of a work-group."""
        return self.cells // self.width * self.parts

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="tiled",
                arrays=self.arguments(),
                local=(Array("s_all", "real", ("tile",), self.cell_words * self.row),),
                items=self.items,
                group_cells=self.cells,
                barriers=1 + 2 * self.passes,
                macros=(
                    ("CELLS", self.cells),
                    ("LANES", self.lanes),
                    ("VECTORS", self.vectors),
                    ("PARTS", self.parts),
                    ("POINTS", self.points),
                    ("PASSES", self.passes),
                    ("ABREAST", self.cells // self.width),
                    ("WORDS", self.cell_words),
                    ("ROW", self.row),
                    ("WIDE", self.wide),
                ),
            ),
        )

    @property
    def shape(self) -> str:
        """Cells, items, points and local memory."""
        return (
            f"{self.cells} cells, {self.parts} parts x {self.cells // self.width} items of {self.width} cells, "
            f"{self.points} points, {self.passes} passes, {self.local_bytes} B local{', matrix instructions' * bool(self.mma)}"
        )

    @property
    def private_bytes(self) -> int:
        """Sums of both phases, and what belongs to a point."""
        work = self.work
        comps = sum(field.num_comp for field in work.fields) + work.num_comp
        point = 2 * comps * (1 + work.dim + work.dim**2 * work.second) + 4 * work.dim**3 + work.num_state + work.num_cell_state
        point += work.diagonal_words
        # Without matrix instructions an item reads four times its share of a table.
        tables = (4 if self.mma else 1) * max(tile.width for tile in self.table_tiles)
        return 8 * (self.field_numbers + self.row_numbers + point + tables + 4 * self.width + BESIDE_WORDS)

    def seconds(self, ceiling: Ceiling) -> float:
        """The time that one cell takes by bytes, and in double precision on a GPU by cycles in place of operations."""
        roofline = super().seconds(ceiling)
        if not self.unroll or self.precision != "double":
            return roofline
        return max(self.bytes / (SHARE_BYTES * ceiling.copy), min(seconds(self, ceiling.double), _SPILLED * roofline))

    @property
    def keeps_coefficients(self) -> bool:
        """Points may stand in their place."""
        return False

    @property
    def sums_dots(self) -> bool:
        """Of actions in double precision whose results are added in place."""
        reads = any(field.vector == "w" for field in self.work.fields)
        in_place = self.scatter == "atomic" and self.work.source == "lvector" and self.precision == "double"
        return self.work.target == "action" and reads and in_place

    @property
    def sources(self) -> tuple[str, ...]:
        """Of the cell's map; `points.cl` reads the shell's macros."""
        return ("geometry.cl", "pull_back.cl") if self.work.target == "diagonal" else ("geometry.cl",)
