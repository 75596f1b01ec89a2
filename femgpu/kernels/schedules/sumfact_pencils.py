"""Plans of schedule sumfact in which an item has a line of points of a cell in its registers, beside lattices in local memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from femgpu.kernels.array import Array
from femgpu.kernels.banks import lattice_strides
from femgpu.kernels.schedules.sumfact_item import Sums
from femgpu.kernels.schedules.sumfact_lattices import SumfactLatticePlan

# Numbers of 1D matrices for all components up to which the loops over components are unrolled (measured up to 600 for three
# components, to 578 for one).
_UNROLLED_NUMBERS = 1000
# Points per direction, where these are the nodes, up to which it takes less time on an H200 to keep lines in registers: without
# numbers stored at the points, and with some. Where values only are interpolated it always does.
_KEPT_WIDTHS = (7, 5)
# Points per direction from which on components that stand as cells take less time, by `kind`, without numbers that are loaded point
# by point, and with some; items of a work-group with all components of a cell up to which that was measured, and which registers
# have room for.
_APART_WIDTHS, _APART_ITEMS = ((7, 8, 9), (7, 6, 6)), 320
# Points per direction at which components that share points take less time on an H200, and numbers stored at a point up to which
# that was measured. Without such numbers it is where points are not the nodes.
_SHARED_WIDTHS: dict[str, tuple[int, ...]] = {"stored": (6, 7, 8, 9, 10), "mixing": (6, 7, 9, 10), "apart": (10,)}
_SHARED_NUMBERS = 10
# Bounds on registers with which an H200 takes less time for E-vectors and numbers stored at the points, by `kind` and points per
# direction.
_REGISTERS: tuple[dict[int, int], ...] = ({12: 88, 13: 112, 15: 112, 16: 128}, {7: 64, 9: 80, 13: 96}, {7: 64})
# Points per direction at which an H200 takes less time for E-vectors, where values only are interpolated, if numbers stored at the
# points are copied to local memory, and with which bounds on registers. (At 14 and 17 schedule gemm is taken.)
_COPIED = {12: 88, 13: 96}
# Cells that should be neighbours in a work-group and in memory, where an H200 takes less time for E-vectors and numbers stored at
# the points, by `kind` and points per direction.
_BLOCKS: tuple[dict[int, int], ...] = ({**dict.fromkeys(range(5, 11), 4), 11: 2}, {9: 2, 11: 2}, dict.fromkeys(range(5, 8), 4))
# Numbers of the 1D matrices' parts that fit into a kernel's arguments, of which CUDA has 4 KB.
_ARGUMENT_NUMBERS = 480
# Numbers stored at points of a line that should be under way at once, of as many points as an item takes together; points per
# direction from which on that is so (with nine, of seven numbers each, one at a time took less time on an H200).
_TOGETHER, _TOGETHER_WIDTH = 28, 11
# Bytes that cells read between an item's and the one whose numbers it asks for; points per direction from which on it does so for
# values between E-vectors, since few groups stand on an H200's multiprocessor then (10 % less time).
_ASKED_BYTES, _ASKING_WIDTH = 8_000_000, 15
# Points per direction at which an H200 takes less time if places of numbers stored at the points are counted in 32 bits.
_NARROW_PLACES = (14,)
# Numbers stored at the points of a line that registers hold beside all else.
_AHEAD_NUMBERS = 40


@dataclass(frozen=True)
class SumfactPencilPlan(SumfactLatticePlan):
    """A plan of schedule sumfact with an item for each line of points along the last direction.

    Between barriers items take lines of lattices in local memory, along one direction after the other: values at the points, then
    their derivatives, then points, and back.

    Attributes:
        copies: whether numbers stored at the points are copied to local memory before anything else.
        shares_points: whether an item has a line of one component, and as many items as there are components share a line's points.
    """

    shell: ClassVar[str] = "sumfact_pencils"

    copies: bool = False
    shares_points: bool = False

    @property
    def shape(self) -> str:
        """Items, cells and local memory."""
        more = ", stored numbers copied" * self.copies + ", points shared" * self.shares_points
        return f"{self.cells} cells of {self.items} pencils, {self.local_bytes} B local{more}{self.limited}"

    @property
    def can_share(self) -> bool:
        """Whether there are several components, not more than points on a line, and derivatives, around which barriers stand."""
        several = 1 < max(sums.sizes.num_comp for sums in (*self.lattices, *self.rows)) <= self.q1d
        return several and all(any(map(self.derives, group)) for group in (self.lattices, self.rows))

    @property
    def fast_shared(self) -> bool:
        """Whether it takes less time that components share points, if this work is like those measured."""
        work, case = self.work, "stored" if self.work.num_state else "apart" if self.work.uncoupled else "mixing"
        vector = work.dim == 3 and [sums.sizes.num_comp for sums in (*self.lattices, *self.rows)] == [3, 3]
        known = work.target == "action" and self.unroll > 0 and self.scatter == "atomic" and self.precision == "double"
        fast = self.q1d in _SHARED_WIDTHS[case] and work.num_state <= _SHARED_NUMBERS and (self.kind == 2 or case == "stored")
        return vector and known and fast

    @property
    def sharers(self) -> int:
        """Items that share a line's points, one for each component; 1 where they do not."""
        return max(sums.sizes.num_comp for sums in (*self.lattices, *self.rows)) if self.shares_points else 1

    @property
    def items(self) -> int:
        """Work-items per cell."""
        return self.sharers * super().items

    @property
    def strides(self) -> tuple[int, ...]:
        """Numbers between rows of a lattice, between planes, and between cells, or components that share points."""
        if not (self.shares_points and self.unroll):
            return super().strides
        lattices = (self.num_lattices, self.shared_axes, self.itemsize("real"))
        return lattice_strides(self.width, self.work.dim, self.sharers, *lattices, orders=(True,))[0]

    @property
    def num_lattices(self) -> int:
        """Lattices of a cell in one array; of a component that shares points, as many for its fields as for its rows."""
        return max(super().num_lattices, sum(map(self.slabs, self.rows)) * self.shares_points)

    def slabs(self, sums: Sums) -> int:
        """Lattices of a field or of a row; of a component of it where these share points."""
        return super().slabs(sums) // (sums.sizes.num_comp if self.shares_points else 1)

    @property
    def expanded(self) -> str:
        """No frame where loops over points are unrolled, and points share columns of their maps with others."""
        return "" if self.keeps_lines and super().expanded == "frame" else super().expanded

    @property
    def kind(self) -> int:
        """0 where only values are interpolated, 1 where the points are the nodes, else 2."""
        return 1 if self.collocated else 2 if any(map(self.derives, self.lattices)) else 0

    @property
    def parts_components(self) -> bool:
        """On hexahedra, where results are added to vectors, from as many points per direction on as it takes less time."""
        if self.shares_points or not (self.work.uncoupled and self.scatter == "atomic" and self.work.dim == 3):
            return False
        return self.q1d >= _APART_WIDTHS[self.loads_next][self.kind] and self.items * self.work.num_comp <= _APART_ITEMS

    @property
    def cells_first(self) -> bool:
        """Where components stand as cells, or cells in blocks: neighbouring items load and add neighbouring numbers."""
        return self.work.parts > 1 or self.block > 1

    @property
    def fast_block(self) -> int:
        """Cells of a block of this work's E-vectors and stored numbers, if it is like those measured; 1: they follow each other."""
        return _BLOCKS[self.kind].get(self.q1d, 1) if self.measured and self.streams else 1

    @property
    def fast_copies(self) -> bool:
        """Whether it takes less time to copy this work's stored numbers to local memory, if it is like those measured."""
        return self.measured and self.streams and self.kind == 0 and self.q1d in _COPIED

    @property
    def streams(self) -> bool:
        """Whether a GPU's items read what is their cell's alone: E-vectors, and numbers stored at the points."""
        return bool(self.unroll) and self.work.source == "evector" and self.work.num_state > 0

    @cached_property
    def cell_local(self) -> tuple[Array, ...]:
        """Lattices of all components that share points, and what is copied."""
        copies = (Array("s_state", array.ctype, ("state",), array.words) for array in self.arguments() if array.name == "d_state")
        found = (*super().cell_local, *(copies if self.copies else ()))
        shared = [replace(each, words=self.sharers * self.strides[-1]) if each.role == ("lattice",) else each for each in found]
        return tuple(shared) if self.shares_points else found

    @property
    def splits(self) -> bool:
        """Whether lines are multiplied by even and odd parts of the 1D matrices."""
        return self.symmetric

    @property
    def passes_lines(self) -> bool:
        """Where loops are unrolled: a literal takes two instructions, a number of an argument one. As long as they fit."""
        assert self.work.tensor is not None
        columns = self.q1d + sum(self.work.tensor.factors[number].p1d for number in (*self.tables, *self.derived_tables))
        return self.splits and bool(self.unroll) and (self.q1d + 1) // 2 * columns <= _ARGUMENT_NUMBERS

    def tabulates(self, sums: Sums) -> bool:
        """Along the last direction, where it is not that of the lines of nodes."""
        return self.derives(sums) and not (sums.sizes.collocated or self.keeps_lines) and self.along < self.work.dim - 1

    @property
    def unrolls_components(self) -> bool:
        """Whether components follow each other in the program's text, by the numbers of the 1D matrices in it."""
        comps = sum(sums.sizes.num_comp for sums in (*self.lattices, *self.rows))
        return bool(self.unroll) and comps * self.width**2 <= _UNROLLED_NUMBERS

    @cached_property
    def keeps_lines(self) -> bool:
        """Whether items keep in registers what belongs to their lines at the points, whose loop is unrolled."""
        widest = _KEPT_WIDTHS[self.work.num_state > 0] if self.collocated else 0
        derives = any(map(self.derives, (*self.lattices, *self.rows)))
        short = self.unrolls_components and self.q1d * self.work.pointwise_size <= self.unroll
        return not self.shares_points and short and (not derives or self.q1d <= widest)

    def kept(self, sums: Sums) -> list[str]:
        """What of a field or a row is kept along an item's line."""
        return (["value"] * self.values(sums) + ["slope"] * self.derives(sums)) * self.keeps_lines

    def kept_line(self, sums: Sums, what: str) -> str:
        """Where that begins for component c, in C."""
        return f"({what}_{sums.name} + c * {self.q1d})"

    def slot(self, sums: Sums, comp: str, axis: int | None = None) -> str:
        """The lattice of a component's values or derivatives, in C; among the item's own component's where these share points."""
        first, comps = self.first(sums), sums.sizes.num_comp
        if self.shares_points:
            return str(first if axis is None else first + 1 + axis)
        return f"({first} + {comp})" if axis is None else f"({first + comps + axis} + {comp} * {self.work.dim})"

    def at_point(self, sums: Sums, lattices: str) -> list[tuple[int, str]]:
        """The numbers of a field or a row at point n of an item's line that occur, and where they stand, in C.

        Args:
            sums: the field or the row.
            lattices: the array that its lattices are in.
        """
        comps, dim, found = sums.sizes.num_comp, self.work.dim, list[tuple[int, str, int]]()
        for c in range(comps):
            found += [(c, "value", c)] * self.values(sums)
            found += [(comps + c * dim + axis, "slope" * (axis == dim - 1), c) for axis in range(dim * self.derives(sums))]
        kept, at = self.kept(sums), f"SLAB + at + n * {('1', 'ROW', 'PLANE')[dim - 1]}"
        if self.shares_points:
            slots = [f"{c * self.strides[-1]} + {self.first(sums) + (1 + (i - comps) % dim) * (i >= comps)}" for i, _, c in found]
        else:
            slots = [str(self.first(sums) + i) for i, *_ in found]
        return [
            (i, f"{what}_{sums.name}[{c * self.q1d} + n]" if what in kept else f"{lattices}[{slot} * {at}]")
            for (i, what, c), slot in zip(found, slots, strict=True)
        ]

    @property
    def bounds(self) -> dict[int, int]:
        """Between E-vectors: compilers use fewer registers by themselves, or as many as leave fewer groups."""
        if not self.streams:
            return {}
        return _COPIED if self.copies else _REGISTERS[self.kind]

    @property
    def loads_ahead(self) -> bool:
        """Whether items load what is stored at all points of their lines before anything else."""
        return not self.copies and self.keeps_lines and 0 < self.q1d * self.work.num_state <= _AHEAD_NUMBERS

    @property
    def loads_next(self) -> bool:
        """Whether items load what is stored at the next point of their lines while they are at one."""
        return bool(self.unroll) and self.work.num_state > 0 and not (self.loads_ahead or self.copies)

    @property
    def asked(self) -> tuple[Array, ...]:
        """What items ask for that a later cell reads, to have it in the device's cache by then."""
        derives = any(map(self.derives, self.lattices))
        if self.atomics != "ptx" or self.work.source != "evector" or derives or self.q1d < _ASKING_WIDTH:
            return ()
        return tuple(array for array in self.arguments() if array.layout is not None and not array.written)

    @property
    def cells_ahead(self) -> int:
        """How far on that cell is."""
        return _ASKED_BYTES // sum(array.words * self.itemsize(array.ctype) for array in self.asked)

    @property
    def points_together(self) -> int:
        """Points of a line that an item takes together, if not all: as many as leave no rest, where there are any."""
        if not self.loads_next or self.shares_points or self.q1d < _TOGETHER_WIDTH:
            return 1
        most = max(1, _TOGETHER // self.work.num_state)
        return max((count for count in range(2, most + 1) if self.q1d % count == 0), default=min(most, 3))

    def crossings(self, sums: Sums, rows: bool | int) -> int:
        """Without what is kept, which else is written and read: but values that are differentiated are written."""
        kept = len(self.kept(sums))
        spared = 2 * kept - (kept == 2 and not rows)
        return super().crossings(sums, rows) - self.q1d**self.work.dim * spared

    @property
    def private_bytes(self) -> int:
        """Lines that are kept, and what is loaded ahead, too."""
        words = sum(len(self.kept(sums)) * sums.sizes.num_comp * self.q1d for sums in (*self.lattices, *self.rows))
        stored = self.work.num_state * (self.q1d if self.loads_ahead else 2 if self.loads_next else 0)
        return super().private_bytes + 8 * (words + stored)

    def place_of(self, axis: int, p1d: int, n: str = "n") -> str:
        """In 64 bits where places of a line should share an address, from which they are constants apart.

        Where lines of vectors' numbers are kept, an H200 takes up to 0.6 % less time without.
        """
        place = super().place_of(axis, p1d, n)
        return place if self.keeps_lines and self.work.source == "lvector" else f"(size_t){place}"

    def state_word(self, i: str, n: str = "n") -> str:
        """The same as of all schedules (`arguments.state_word`), at point n of the item's line."""
        given, plane = (self.work.dim - 1, self.q1d, n), self.state_plane
        place = super().place_of(*given) if self.q1d in _NARROW_PLACES else self.place_of(*given)
        return f"({n}) * {plane * (self.work.num_state - 1)} + {i} * {plane} + {place}" if plane else f"({place}) * NUM_STATE + {i}"

    def state(self, i: str) -> str:
        """As it was loaded or copied before."""
        if self.copies:
            return f"l_state[{self.state_word(i)}]"
        if self.loads_ahead:
            return f"ahead[n * NUM_STATE + {i}]"
        return f"stored[{i}]" if self.loads_next else super().state(i)
