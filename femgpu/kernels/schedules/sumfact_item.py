"""Plans of schedule sumfact with one or several cells per work-item, everything private.

Several cells stand side by side in vectors, which the contractions take as they are, and follow each other at the points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from femgpu.errors import PlanError
from femgpu.kernels.array import Layout
from femgpu.kernels.contractions import Contraction, Order, Sizes, collocates, evaluation, integration
from femgpu.kernels.plan import BESIDE_WORDS
from femgpu.kernels.schedules.cell_plan import CellPlan
from femgpu.kernels.step import Step

# Lengths of OpenCL's vectors that cells may stand side by side in.
LANES = (1, 2, 4, 8)
# Bytes of a cell's arrays below which an item takes a cell alone where loops are unrolled: an H200's compiler then keeps them in
# registers (with 3824 bytes it does, 12 GDOF/s where pencils reach 4; with 4992 it does not, 4 against 13).
_REGISTER_BYTES = 4096


@dataclass(frozen=True)
class Sums:
    """What a field, or a field of the test function, has on the lattice.

    Attributes:
        name: of its private arrays: `r_<name>_c`, the coefficients, and `r_<name>_q`, what belongs to the points.
        sizes: its numbers of nodes, points and components.
        orders: its values and derivatives that occur.
        collocates: whether it is differentiated at the points.
    """

    name: str
    sizes: Sizes
    orders: tuple[Order, ...]
    collocates: bool

    @property
    def aliased(self) -> bool:
        """Whether coefficients are values, so that one array serves as both."""
        return self.sizes.collocated and self.collocates

    @property
    def coefficients(self) -> int:
        """Numbers in `r_<name>_c`."""
        return self.sizes.num_comp * self.sizes.p1d**self.sizes.dim

    @property
    def words(self) -> int:
        """Numbers in `r_<name>_q`."""
        return self.sizes.words(self.orders)

    def evaluation(self, abreast: bool = False) -> list[Contraction]:
        """Coefficients to points."""
        return evaluation(self.sizes, self.orders, self.collocates, abreast)

    def integration(self, abreast: bool = False) -> list[Contraction]:
        """Points to rows."""
        return integration(self.sizes, self.orders, self.collocates, abreast)


@dataclass(frozen=True)
class SumfactPlan(CellPlan):
    """A plan of schedule sumfact.

    Attributes:
        group_size: work-items per work-group.
        lanes: cells per item.
        derivatives: 1: of basis functions; 2: of values at the points, where these determine the polynomials; 0: what takes fewer
            operations.
    """

    schedule: ClassVar[str] = "sumfact"
    # Pencils, planes and gemm read offsets themselves, also those of one node per cell.
    counts_cells: ClassVar[bool] = False

    lanes: int = 1
    derivatives: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes not in LANES:
            raise PlanError(f"-femgpu_schedule sumfact:lanes={self.lanes}: expected one of {', '.join(map(str, LANES))}")
        if self.derivatives not in (0, 1, 2):
            raise PlanError(
                f"-femgpu_schedule sumfact:derivatives={self.derivatives}: expected 1 (of basis functions) or 2 (at the points)"
            )

    def steps(self) -> tuple[Step, ...]:
        """One launch."""
        return (
            Step(
                name=self.work.target,
                shell="sumfact",
                arrays=self.arguments(),
                items=self.group_size,
                group_cells=self.group_size * self.lanes,
                macros=(("LANES", self.lanes),),
            ),
        )

    @property
    def shape(self) -> str:
        """The size of a work-group, and what an item does."""
        at_points = any(sums.collocates for sums in (*self.fields, *self.rows))
        return f"{self.group_size} items x {self.lanes} cells{', differentiated at the points' * at_points}"

    @property
    def lines(self) -> bool:
        """1D tabulations."""
        return True

    @property
    def table_space(self) -> str:
        """In the program's text."""
        return "__constant"

    @property
    def sources(self) -> tuple[str, ...]:
        """No functions of a tabulated basis: those of sums at the points are the shell's."""
        return ("geometry.cl", "pull_back.cl") if self.work.target == "diagonal" else ("geometry.cl",)

    @property
    def node_layout(self) -> Layout:
        """On the lattice."""
        return replace(self.layout, lattice=True)

    def place(self, num_basis: int, num_comp: int, b: str, c: str) -> str:
        """Component by component, cells side by side."""
        return f"({c} * {num_basis} + {b}) * LANES"

    @property
    def adjugates(self) -> bool:
        """Where the map differs from point to point, in physical coordinates and without second derivatives."""
        work = self.work
        bent = work.maps and not work.affine and self.geometry == "recomputed"
        return bent and work.target != "diagonal" and not (work.reference or work.second or work.bends)

    @property
    def q1d(self) -> int:
        """Points per direction."""
        assert self.work.tensor is not None
        return self.work.tensor.q1d

    @property
    def symmetric(self) -> bool:
        """Whether points and nodes are."""
        tensor = self.work.tensor
        assert tensor is not None
        matrices = [(tensor.D, -1.0), *((tensor.factors[number].B, 1.0) for number in self.tables)]
        return all(np.allclose(matrix, sign * matrix[::-1, ::-1], atol=1e-13) for matrix, sign in matrices)

    @property
    def weighs_lines(self) -> bool:
        """Whether the 1D matrices that rows are multiplied by have the rule's weights in them, and points have none."""
        return False

    @property
    def backwards(self) -> str:
        """What the names of these matrices begin with."""
        return "WEIGHED" if self.weighs_lines else "LINE"

    @property
    def parts_components(self) -> bool:
        """Whether components stand as cells if they are uncoupled."""
        return False

    @property
    def measured(self) -> bool:
        """Whether the work is like those measured: a scalar in 3D and double precision, a short function at the points."""
        work, comps = self.work, [sums.sizes.num_comp for sums in self.fields if sums.name != "x"]
        # As many operations at a point as seven stored numbers take for a value and a gradient.
        short = comps == [work.num_comp] == [1] and work.pointwise_flops <= 16
        return short and work.dim == 3 and self.precision == "double"

    def tabulates(self, sums: Sums) -> bool:
        """Whether an item has derivatives along its lines from the nodes, not from values at the points."""
        return False

    @property
    def divides_fluxes(self) -> bool:
        """Whether fluxes, not the direction's gradients, are divided by the determinant of an adjugate: actions are linear."""
        values = any(field.value for field in self.work.fields if field.array == "w")
        return self.work.target == "action" and not values

    @cached_property
    def fields(self) -> tuple[Sums, ...]:
        """The fields that are interpolated, the coordinates last."""
        work, bent = self.work, not self.work.affine
        found = [
            self._sums(
                field.name, field.table, field.num_comp, field.value, field.gradient or (field.hessian and bent), field.hessian
            )
            for field in work.fields
        ]
        if self.needs_coords:
            rebuilt = work.maps and bent and self.geometry == "recomputed"
            found.append(self._sums("x", work.coord_table, work.dim, "x" in work.reads, rebuilt, work.bends))
        return tuple(found)

    @cached_property
    def rows(self) -> tuple[Sums, ...]:
        """The fields of the test function; of a diagonal with the squares that its blocks multiply in place of derivatives."""
        rows = enumerate(self.work.rows)
        bends, writes = self.work.bends, self.work.writes
        if self.work.target == "diagonal":
            kinds = "g0" in writes, bool(writes & {"g1", "g2"}), "g3" in writes
            return tuple(self._sums(f"f{i}", row.table, row.num_comp, *kinds, squared=True) for i, row in rows)
        return tuple(
            self._sums(f"f{i}", row.table, row.num_comp, row.value, row.gradient or (row.hessian and bends), row.hessian)
            for i, row in rows
        )

    def _sums(
        self, name: str, table: int, num_comp: int, value: bool, gradient: bool, hessian: bool = False, squared: bool = False
    ) -> Sums:
        tensor = self.work.tensor
        assert tensor is not None
        dim, factors = self.work.dim, tensor.factors[table]
        units = [tuple(int(i == axis) for i in range(dim)) for axis in range(dim)]
        orders = [(0,) * dim] * value + units * gradient
        if hessian:
            pairs = [(one, other) for i, one in enumerate(units) for other in units[i:]]
            orders += [tuple(a + b for a, b in zip(one, other, strict=True)) for one, other in pairs]
        sizes = Sizes(dim, factors.p1d, tensor.q1d, num_comp, table, factors.collocated, tuple(orders) if squared else ())
        possible = factors.p1d <= tensor.q1d and self.derivatives != 1 and not squared
        return Sums(name, sizes, tuple(orders), possible and (self.derivatives == 2 or collocates(sizes, orders)))

    @property
    def scratch(self) -> dict[str, int]:
        """Sizes of the arrays between two directions, by the direction that was contracted last."""
        found: dict[str, int] = {}
        for sums in (*self.fields, *self.rows):
            for step in sums.evaluation():
                if step.target[0] not in "cq":
                    found[step.target[0]] = max(found.get(step.target[0], 0), step.rows * step.above * step.below)
        return found

    @property
    def cell_bytes(self) -> int:
        """Of a cell's private arrays."""
        inputs = sum(sums.words + sums.coefficients * (not sums.aliased) for sums in self.fields)
        outputs = sum(sums.words + sums.coefficients * (not sums.aliased) for sums in self.rows)
        scratch = sum(self.scratch.values())
        return self.itemsize("real") * (inputs + scratch) + self.itemsize("accum") * (outputs + scratch)

    @property
    def fits_registers(self) -> bool:
        """Whether a GPU's item takes a cell alone; never for a diagonal, which has too many numbers at a point."""
        return self.work.target != "diagonal" and self.cell_bytes < _REGISTER_BYTES

    @property
    def private_bytes(self) -> int:
        """Cells side by side, and what belongs to a point of one of them."""
        work = self.work
        point = (1 + work.num_comp + sum(field.num_comp for field in work.fields)) * work.dim**2 * (1 + work.second)
        return self.lanes * (self.cell_bytes + 8 * work.dim**2) + 8 * (BESIDE_WORDS + point + work.diagonal_words + work.num_state)

    @property
    def flops(self) -> int:
        """Floating-point operations of one cell, each of its components that stand as cells counted."""
        work, dim = self.work, self.work.dim
        count = sum(step.flops for sums in self.fields for step in sums.evaluation())
        count += sum(step.flops for sums in self.rows for step in sums.integration())
        push = 0 if work.reference else 2 * dim**2
        point = 1 + work.pointwise_flops + push * sum(row.num_comp * (row.gradient + 2 * dim * row.hessian) for row in work.rows)
        point += push * sum(field.num_comp * (field.gradient + 2 * dim * field.hessian) for field in work.fields)
        inversion = {1: 1, 2: 8, 3: 42}[dim]
        if work.maps and self.geometry == "recomputed":
            count += work.rebuild_flops if work.affine else inversion * work.num_qpts
        return work.parts * (count + work.num_qpts * point)
