"""Plans of schedule cell (paper 001): one cell per work-item, or a few side by side in vectors, everything private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from femgpu.kernels.node_lists import NodeList
from femgpu.kernels.plan import Plan
from femgpu.kernels.step import Step
from femgpu.kernels.work_fields import FieldWork, RowsWork
from femgpu.model import Ceiling

# Tables up to this size stand in the program as __constant data (a program may hold 64 KB of it).
_CONSTANT_TABLE_BYTES = 61440
# How much longer all points of residuals and actions may be, unrolled, than one whose basis functions are: what a GPU's instruction
# cache holds. With combinations what is left may be less: 6063 operations (Helmholtz' equation on tetrahedra of degree 4) took less
# time than tiles, 6884 (Poisson's on triangles of degree 8) took more. Pointwise functions, which gain nothing by it, may be a
# part of that.
_POINTS_UNROLL, _MIRRORED_UNROLL, _POINTWISE_UNROLL = 5, 3, 2
# The same of others, and of tables that are arguments all the same, where points times rows are no more than so many.
_SHORT_UNROLL, _SHORT_POINTS = 1.5, 64
# Operations that combinations have to save on a GPU: on 2e5 tetrahedra of degree 2 Poisson's equation saves 320 and takes a tenth
# longer with them, Helmholtz' saves 1112 and takes a tenth less.
_LEAST_SAVED = 400
# Of an item of a GPU, 255 registers, and numbers that a pointwise function keeps besides what it is given: fitted to two forms
# (docs/benchmarks, qdata).
_REGISTER_BYTES, _POINTWISE_WORDS = 4 * 255, 16


@dataclass(frozen=True)
class CellPlan(Plan):
    """A plan of schedule cell.

    Attributes:
        group_size: work-items per work-group.
    """

    schedule: ClassVar[str] = "cell"
    counts_cells: ClassVar[bool] = True

    group_size: int = 64

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="cell",
                arrays=self.arguments(),
                items=self.group_size,
                group_cells=self.group_size,
                macros=(("UNROLL_POINTS", int(self.unrolls_points)),),
            ),
        )

    @property
    def unrolls_points(self) -> bool:
        """Whether the loop over points is unrolled; of functionals and states, which run once, it never is.

        Tables in constant memory are read at constant addresses then.
        """
        work, points, size = self.work, self.work.num_qpts, self.work.num_qpts * self.point_size
        if not (work.rows and self.unrolls_basis):
            return False
        often = work.target in ("residual", "action") and self.table_space == "__constant"
        if often and points * work.pointwise_size <= _POINTWISE_UNROLL * self.unroll:
            return size <= _POINTS_UNROLL * self.unroll or self._saves
        return points * work.num_rows <= _SHORT_POINTS and size <= _SHORT_UNROLL * self.unroll

    @property
    def mirrored(self) -> bool:
        """Where points are unrolled, and that is worth it."""
        return self.unrolls_points and self._saves

    @property
    def _saves(self) -> bool:
        """Whether combinations save enough operations, and leave few enough to be unrolled."""
        left = self.work.num_qpts * self.point_size - self.savings
        return self.savings >= _LEAST_SAVED and left <= _MIRRORED_UNROLL * self.unroll

    @property
    def points(self) -> list[tuple[int, range]]:
        """Points of the loops over them, all, or polynomials class by class, and the class."""
        symmetry = self.work.symmetry
        if not self.mirrored or symmetry is None:
            return [(0, range(self.work.num_qpts))]
        return [(parity, symmetry.polynomials(parity)) for parity in symmetry.parities]

    @property
    def flops(self) -> int:
        """Without what is multiplied with zeros, which is left out."""
        return super().flops - self.savings * self.mirrored

    @cached_property
    def savings(self) -> int:
        """Operations of whole tables that combinations save: of each pair of basis functions one has a sum and a difference."""
        symmetry, saved = self.work.symmetry, 0
        if symmetry is None:
            return 0
        parts: tuple[FieldWork | RowsWork, ...] = (*self.work.fields, *self.work.rows)
        for part in parts:
            mirror, whole = symmetry.mirror(part.table), self.work.num_qpts * part.num_basis
            kinds = ([0] if part.value else []) + (list(symmetry.directions) if part.gradient else [])
            saved += 2 * part.num_comp * sum(whole - symmetry.count(part.table, applied) for applied in kinds)
            saved -= 2 * part.num_comp * sum(len(pairs) for pairs in mirror.rounds)
        return saved

    @property
    def sources(self) -> tuple[str, ...]:
        """Those of combinations, too."""
        return (*super().sources, *["mirrors.cl"] * self.mirrored)

    def seconds(self, ceiling: Ceiling) -> float:
        """By bytes and operations, of which twice as many are done in a time where points are unrolled."""
        twice = replace(ceiling, double=2 * ceiling.double, single=2 * ceiling.single)
        return super().seconds(twice if self.unrolls_points else ceiling)

    @property
    def shape(self) -> str:
        """The size of a work-group."""
        return f"{self.group_size} items"

    @property
    def private_bytes(self) -> int:
        """Rows, too, and combinations."""
        work, fields = self.work, sum(field.size for field in self.work.fields)
        return super().private_bytes + 8 * (work.num_rows + work.diagonal_words + (work.num_rows + fields) * self.mirrored)

    @property
    def lacking_bytes(self) -> int:
        """What numbers of a cell and a point, on both sides of the map and in pointwise functions, take beyond registers."""
        work = self.work
        parts: tuple[FieldWork | RowsWork, ...] = (*work.fields, *work.rows)
        point = sum(part.num_comp * (part.value + part.gradient * work.dim + part.hessian * work.dim**2) for part in parts)
        point += (work.num_comp * work.dim + work.dim**2 + 1) * work.maps + work.num_state + work.num_cell_state
        return (sum(part.size for part in parts) + point + _POINTWISE_WORDS) * self.itemsize("real") - _REGISTER_BYTES

    @property
    def sums_dots(self) -> bool:
        """Of actions in double precision whose results are added in place."""
        reads = any(field.vector == "w" for field in self.work.fields)
        in_place = self.scatter == "atomic" and self.work.source == "lvector" and self.precision == "double"
        return self.work.target == "action" and reads and in_place

    @property
    def table_space(self) -> str:
        """All items read the same entry at a time, which constant memory hands to all at once."""
        work = self.work
        words = work.num_qpts * (1 + sum(work.tables[number].words(work.dim) for number in self.tables))
        fits = words * self.itemsize("real") <= _CONSTANT_TABLE_BYTES
        return "__constant" if fits and self.unroll > 0 and not work.facet else "__global"


def shared_nodes(plan: CellPlan, cells: int, coords: bool) -> Iterator[NodeList]:
    """Lists of the nodes of each field's rows in so many cells, with what is read there: with `coords` coordinates, too."""
    work, wanted = plan.work, coords and plan.needs_coords
    for number, row in enumerate(work.rows):
        same = [field for field in work.fields if 0 <= row.nodes == field.nodes]
        # Where a field has the element of the coordinates, its nodes are theirs, one by one.
        joined = wanted and row.table == work.coord_table
        wanted = wanted and not joined
        names, words = tuple(field.name for field in same), sum(field.num_comp for field in same) + work.dim * joined
        yield NodeList(number, cells, row.num_basis, row.num_comp, row.masked, names, joined, words)


def adds_at_nodes(plan: CellPlan) -> bool:
    """Whether results are sums at the nodes of cells, in the type of the arithmetic, that a work-group may add up."""
    return plan.work.sums and plan.work.source == "lvector" and not plan.work.facet and plan.precision != "mixed"


def has_room(plan: CellPlan) -> bool:
    """Whether sums of a work-group's nodes are added, or an E-vector has room for them."""
    return plan.scatter == "atomic" or all(entry.stored for entry in plan.lists)
