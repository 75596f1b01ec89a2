"""How a work is done: launches with their arguments and sizes, validated, as frozen records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from femgpu.errors import PlanError
from femgpu.kernels.arguments import input_arrays, result_arrays, shared_arrays, state_plane, state_word
from femgpu.kernels.array import CTYPE_BYTES, TYPES, Array, Layout
from femgpu.kernels.node_lists import NodeList
from femgpu.kernels.plan_words import in_words
from femgpu.kernels.products import product_words
from femgpu.kernels.step import Step, Wish
from femgpu.kernels.tiles import TileTables
from femgpu.kernels.work import Work
from femgpu.model import Ceiling, Limits

PRECISIONS = ("double", "single", "mixed")
GEOMETRIES, SCATTERS = ("stored", "recomputed"), ("atomic", "evector")
# Numbers that compilers keep for an item between two loops over the items of a work-group: places, ends of loops, sums.
BESIDE_WORDS = 64


@dataclass(frozen=True)
class Plan(ABC):
    """One way to do a work; a subclass for each schedule adds its own parameters.

    Attributes:
        work: what is computed.
        precision: one of `PRECISIONS`.
        geometry: one of `GEOMETRIES`.
        scatter: one of `SCATTERS`.
        atomics: how atomic adds are made, `ptx` or `cas`.
        unroll: instructions of a point up to which its loops over basis functions are unrolled; 0: never.
        block: cells whose words are interleaved in arrays that neighbouring items read together.
        chunk_cells: cells that are launched at a time, which bounds workspaces; 0: all at once.
    """

    schedule: ClassVar[str]
    # The function that kernels call at a point; whether they do without offsets of what has one node in each cell.
    pointwise: ClassVar[str] = "pointwise"
    counts_cells: ClassVar[bool] = False

    work: Work
    precision: str = "double"
    geometry: str = "stored"
    scatter: str = "evector"
    atomics: str = "cas"
    unroll: int = 0
    block: int = 1
    chunk_cells: int = 0

    def __post_init__(self) -> None:
        for what, legal in {"precision": PRECISIONS, "geometry": GEOMETRIES, "scatter": SCATTERS}.items():
            if (value := getattr(self, what)) not in legal:
                raise PlanError(f"{what} {value!r}: expected one of {', '.join(legal)}")

    @classmethod
    def wished(cls, work: Work, limits: Limits, wish: Wish, **parameters: int) -> Self:
        """The plan that a wish asks for on a device; `block` may be given among the schedule's own parameters."""
        common = {"atomics": limits.atomics, "unroll": limits.unroll, "block": limits.block}
        return cls(work, wish.precision, wish.geometry, wish.scatter, **common | parameters)  # type: ignore[arg-type]

    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The launches, in order."""

    @property
    @abstractmethod
    def shape(self) -> str:
        """Items, blocks and the like in words."""

    @property
    def private_bytes(self) -> int:
        """Bytes of an item's arrays and of what compilers keep beside them, about; PoCL has a group's on one thread's stack."""
        work = self.work
        words = sum(field.size + field.num_comp * (1 + work.dim + work.dim**2 * field.hessian) for field in work.fields)
        words += 2 * work.num_comp * (1 + work.dim + work.dim**2 * work.second)
        coords = sum(side.num_coord_basis for side in work.sides) * self.needs_coords
        words += 4 * work.dim**3 * len(work.sides) + work.num_state + 2 * work.num_cell_state + coords * work.dim
        return 8 * (words + BESIDE_WORDS)

    @property
    def table_space(self) -> str:
        """Where tabulations stand: `__global`, an argument; `__constant`, in the program's text; `__local`, a copy, `s_tables`."""
        return "__global"

    @property
    def lines(self) -> bool:
        """Whether kernels work with 1D tabulations, in the program's text, in place of full ones."""
        return False

    def tile_tables(self, side: int = 0) -> TileTables | None:
        """The tabulations of a side cut into tiles, which kernels read in place of them; None: they do not."""
        return None

    @property
    def sums_dots(self) -> bool:
        """Whether the kernel sums direction times result, too, where it is given a buffer for that (role ("dots",))."""
        return False

    @property
    def lists(self) -> tuple[NodeList, ...]:
        """Lists of the nodes of a work-group's cells, for the rows of each field; empty: each cell goes to the vectors itself."""
        return ()

    def sliced(self) -> Plan:
        """What takes its place on meshes that need more slots than its lists have."""
        return self

    @property
    def passes_lines(self) -> bool:
        """Whether parts of 1D matrices are an argument, by value, and not literals."""
        return False

    @property
    def stores_inside(self) -> bool:
        """Whether the kernel stores what no other cell adds to, where it is told to (role ("stores",)), in place of adding it."""
        return False

    @property
    def layout(self) -> Layout:
        """Of arrays that neighbouring items read together."""
        return Layout("block", self.block) if self.block > 1 else Layout()

    @property
    def node_layout(self) -> Layout:
        """Of such arrays whose words belong to nodes: basis functions may stand in the order of the tensor product."""
        return self.layout

    def place(self, num_basis: int, num_comp: int, b: str, c: str) -> str:
        """Where component c of basis function b stands among a cell's private coefficients, in C."""
        return b if (num_comp, c) == (1, "0") else f"{b} * {num_comp} + {c}"

    def word(self, array: str, i: str) -> str:
        """Word i of the cell, or of each of an item's cells, in an array over cells, in C."""
        return f"{array}[AT_{array}(cell, {i})]"

    @property
    def state_plane(self) -> int:
        """Points of the planes that what is stored at points stands in, for a GPU's items that share a cell; 0: it does not."""
        return state_plane(self.work) if self.block == 1 and self.unroll else 0

    def state_word(self, i: str) -> str:
        """Number i of what is stored at point q, as a word of its cell, in C."""
        return state_word(self.work, i, self.state_plane)

    def state(self, i: str) -> str:
        """The same, as a kernel reads it."""
        return self.word("d_state", self.state_word(i))

    @property
    def keeps_coefficients(self) -> bool:
        """Whether coefficients still stand there when the results are written."""
        return True

    @property
    def mirrored(self) -> bool:
        """Whether tables are of combinations of basis functions that are even or odd, as `Work.symmetry` says."""
        return False

    def each(self, name: str, count: str) -> str:
        """The head of a loop over nodes of a cell, in C."""
        return f"for (int {name} = 0; {name} < {count}; ++{name})"

    @property
    def sources(self) -> tuple[str, ...]:
        """Files of functions that the shells use: of the cell's map, and of a tabulated basis."""
        return ("geometry.cl", "basis.cl")

    def adapted(self, text: str) -> str:
        """The text of these functions as the shell uses them."""
        return text

    @property
    def splits(self) -> bool:
        """Whether lines are multiplied by even and odd parts of their 1D matrices."""
        return False

    @property
    def adjugates(self) -> bool:
        """Whether maps are rebuilt as adjugates of the Jacobian, in place of its inverse, which takes fewer operations."""
        return False

    @property
    def expanded(self) -> str:
        """What of a rebuilt map is polynomials along an item's points: `determinant`, `adjugate`, or columns of J in a `frame`."""
        return ""

    @property
    def needs_coords(self) -> bool:
        """Whether the coordinates of the cell are read."""
        return (self.work.maps and self.geometry == "recomputed") or "x" in self.work.reads or self.work.bends

    @property
    def geometry_words(self) -> int:
        """Stored numbers per cell: inverse Jacobian and determinant, once or at each point."""
        if not self.work.maps or self.geometry != "stored":
            return 0
        return (self.work.dim**2 + 1) * (1 if self.work.affine else self.work.num_qpts)

    @property
    def tables(self) -> tuple[int, ...]:
        """Numbers of the tabulations in use: that of the coordinates, where it is nobody else's, only where they are read."""
        used = {field.table for field in self.work.fields} | {row.table for row in self.work.rows}
        if self.needs_coords or not used:
            used |= {side.coord_table for side in self.work.sides}
        return tuple(sorted(used))

    def side_tables(self, side: int) -> tuple[int, ...]:
        """Those of one of both cells of a facet."""
        return tuple(number for number in self.tables if self.work.tables[number].side == side)

    def words_of(self, side: int = 0) -> int:
        """Numbers in the weights, the normal, all tabulations of a side and their products, for one facet if there are facets."""
        work, odd = self.work, self.table_space == "__local"
        words = work.num_qpts + work.dim * work.facet + sum(count for *_, count in product_words(work))
        # In local memory points stand an odd number of words apart, which are then in different banks.
        return words + work.num_qpts * sum(work.tables[number].words(work.dim, odd) for number in self.side_tables(side))

    @cached_property
    def point_size(self) -> int:
        """Instructions for one point, about, when the loops over basis functions are unrolled."""
        rebuilds = self.work.maps and not self.work.affine and self.geometry == "recomputed"
        return self.work.point_size + rebuilds * self.work.rebuild_flops

    @property
    def unrolls_basis(self) -> bool:
        """Whether loops over basis functions are unrolled."""
        return self.point_size <= self._longest

    @property
    def rolls_basis(self) -> bool:
        """Whether the compiler is told to leave loops over basis functions and points alone: by itself it unrolls short ones."""
        return 0 < self._longest < self.point_size

    @property
    def _longest(self) -> int:
        """Instructions of a point that is unrolled; half as many in functionals, which no solver repeats."""
        return self.unroll // 2 if self.work.target == "functional" else self.unroll

    @property
    def flops(self) -> int:
        """Floating-point operations of one cell."""
        work = self.work
        rebuilds = (1 if work.affine else work.num_qpts) if work.maps and self.geometry == "recomputed" else 0
        return work.flops() + rebuilds * work.rebuild_flops

    @cached_property
    def bytes(self) -> int:
        """Bytes that one cell moves when each of its words is read or written once; no reuse between cells counted."""
        own = sum(array.words * array.moves * self.itemsize(array.ctype) for step in self.steps() for array in step.arrays)
        return own + self.shared_bytes

    @property
    def shared_bytes(self) -> int:
        """A cell's share of what a work-group reads or writes once for all its cells."""
        return 0

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that a work-group takes at most."""
        return max(sum(array.words * self.itemsize(array.ctype) for array in step.local) for step in self.steps())

    def itemsize(self, ctype: str) -> int:
        """Bytes of a C type."""
        return CTYPE_BYTES[self.ctype(ctype)]

    def ctype(self, name: str) -> str:
        """What `real`, `scalar` and `accum` stand for; other types stand for themselves."""
        return dict(zip(("real", "scalar", "accum"), TYPES[self.precision], strict=True)).get(name, name)

    def seconds(self, ceiling: Ceiling) -> float:
        """The time that one cell takes by bytes and operations."""
        return ceiling.seconds(self.bytes, self.flops, self.precision)

    def arguments(self) -> tuple[Array, ...]:
        """What a kernel reads and writes, in order: fields, geometry, constants, tables, offsets of the rows, results."""
        return (*input_arrays(self), *shared_arrays(self), *self.results())

    def results(self) -> list[Array]:
        """The last of them: offsets of the rows, what is stored at the points, results."""
        return result_arrays(self)

    def __str__(self) -> str:
        """One line for `-femgpu_view`."""
        return in_words(self.work, f"{self.schedule} ({self.shape})", self.precision, self.geometry, self.scatter)
