"""What a kernel is to compute, whatever the way: one term of a form for one target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from femgpu.element import Tensor
from femgpu.errors import PlanError
from femgpu.kernels.symmetry import Symmetry
from femgpu.kernels.work_fields import FieldWork, RowsWork

# What is computed; `state` are the numbers that an action reads instead of computing them.
TARGETS = ("residual", "action", "diagonal", "matrix", "functional", "state")
# Outputs that multiply second derivatives: of the test function, of the direction, of either.
TEST_SECOND, TRIAL_SECOND = frozenset({"f2", "g6", "g7", "g8"}), frozenset({"g4", "g5", "g8"})
SECOND = TEST_SECOND | TRIAL_SECOND


@dataclass(frozen=True)
class Table:
    """The tabulation of one element at the points.

    Attributes:
        num_basis: basis functions per cell.
        second: whether second derivatives are tabulated beside values and gradients.
        side: 1 for the second cell of a facet, else 0.
    """

    num_basis: int
    second: bool = False
    side: int = 0

    def widths(self, dim: int) -> dict[str, int]:
        """Numbers at one point: values (B), gradients (D) and, where they are tabulated, second derivatives (H)."""
        found = {"B": self.num_basis, "D": self.num_basis * dim}
        return found | ({"H": self.num_basis * dim**2} if self.second else {})

    def words(self, dim: int, odd: bool = False) -> int:
        """All of them; `odd`: each kind filled up to an odd number."""
        return sum(width | odd for width in self.widths(dim).values())


@dataclass(frozen=True)
class Side:
    """A cell, or one of both cells of a facet.

    Attributes:
        number: 0, or 1 for the second cell.
        coord_table: number of the tabulation of its coordinate element.
        num_coord_basis: basis functions of that.
    """

    number: int
    coord_table: int
    num_coord_basis: int

    def name(self, base: str) -> str:
        """What is called `base` in the first cell: `other_...`, of arguments `d_other_...`."""
        if self.number == 0:
            return base
        return base.replace("d_", "d_other_", 1) if base.startswith("d_") else f"other_{base}"


@dataclass(frozen=True)
class Work:
    """One term, one target.

    Attributes:
        target: one of `TARGETS`.
        cell, dim: type and dimension of the cells.
        num_qpts: quadrature points per cell or facet.
        fields, tables: the fields to interpolate; the tabulations.
        rows: the fields of the test function; none for a functional or a state.
        coord_table, other_coord_table: those of the coordinate elements of the cell and of a facet's second cell (-1: none).
        shift: of a diagonal: in the row of a node's component c stands the entry in the column of c + shift, in turns.
        writes, reads: outputs of the pointwise function, and what else it reads: `x`, `n`, `K`, `det`.
        pointwise_flops, pointwise_size: operations of the pointwise function, and instructions that it becomes, about.
        num_aux: components of all coefficients together.
        reference: whether the pointwise function works on reference coordinates and sees to weights and inverse Jacobians itself.
        num_state, num_cell_state: stored numbers per point and per cell that are read (action) or written (state).
        rounded: whether they are kept in single precision, whatever the arithmetic.
        facet: whether the integral is over facets: one facet of a cell takes the place of a cell.
        affine: whether the cells' maps are affine.
        tensor: 1D factors of the elements, in the order of `tables`, and of the rule; None where there are none.
        source: fields are read from `lvector`, or from `evector`, each cell's own coefficients.
        couples: of a sparse matrix, the fields (of the test function, of the direction), by their numbers, that are coupled.
        place: C type of the places within its rows; empty: element matrices are the result.
        modes: degree of the orthonormal polynomials, `num_qpts` of them, that coefficients are of in place of points; -1: points.
        symmetry: where their tables have no zeros; None: anywhere.
        products: the only point stands for all of them: an element matrix whose points are summed beforehand (`products.py`).
        isotropic: whether the pointwise function takes gradients and gives fluxes in any orthonormal coordinates, see `Pointwise`.
        uncoupled: whether there is one field and one row of several components, which are alike and do not mix, see `Pointwise`.
        joined: the work with all components, of which this one computes one at a time, see `apart`; None: it is no such work.
        fresh: nothing has been added to the sparse matrix yet where only one of these cells adds: entries may be stored there.
    """

    target: str
    cell: str
    dim: int
    num_qpts: int
    fields: tuple[FieldWork, ...]
    rows: tuple[RowsWork, ...]
    tables: tuple[Table, ...]
    coord_table: int
    writes: frozenset[str]
    reads: frozenset[str] = frozenset()
    pointwise_flops: int = 0
    pointwise_size: int = 0
    num_aux: int = 0
    reference: bool = False
    num_state: int = 0
    num_cell_state: int = 0
    facet: bool = False
    affine: bool = True
    tensor: Tensor | None = None
    source: str = "lvector"
    couples: frozenset[tuple[int, int]] = frozenset()
    place: str = ""
    products: bool = False
    fresh: bool = False
    other_coord_table: int = -1
    rounded: bool = False
    shift: int = 0
    modes: int = -1
    symmetry: Symmetry | None = None
    isotropic: bool = False
    uncoupled: bool = False
    joined: Work | None = None

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise PlanError(f"target {self.target!r}: expected one of {', '.join(TARGETS)}")

    @property
    def apart(self) -> Work:
        """The same one component at a time, where these are uncoupled; the pointwise function is told all of them."""
        if not self.uncoupled:
            return self
        return replace(
            self,
            fields=tuple(replace(field, num_comp=1) for field in self.fields),
            rows=tuple(replace(row, num_comp=1) for row in self.rows),
            pointwise_flops=self.pointwise_flops // self.num_comp,
            pointwise_size=self.pointwise_size // self.num_comp,
            uncoupled=False,
            joined=self,
        )

    @property
    def whole(self) -> Work:
        """With all components together."""
        return self.joined or self

    @property
    def parts(self) -> int:
        """Components that stand as cells."""
        return self.joined.num_comp if self.joined else 1

    @property
    def num_comp(self) -> int:
        """Components of the test function."""
        return sum(row.num_comp for row in self.rows)

    @property
    def num_rows(self) -> int:
        """Basis functions times components of the test function, all fields together."""
        return sum(row.size for row in self.rows)

    @property
    def num_coord_basis(self) -> int:
        """Basis functions of the coordinate element."""
        return self.tables[self.coord_table].num_basis

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The cell, or both cells of a facet."""
        numbers = (self.coord_table, self.other_coord_table)
        return tuple(Side(i, number, self.tables[number].num_basis) for i, number in enumerate(numbers) if number >= 0)

    @property
    def factors(self) -> list[tuple[str, str]]:
        """Tabulations of test function and direction that blocks but those of `SECOND` multiply, in the order of their words."""
        kinds = {"g0": ("B", "B"), "g1": ("B", "D"), "g2": ("D", "B"), "g3": ("D", "D")}
        return [kinds[name] for name in sorted(kinds) if name in self.writes]

    @property
    def block_words(self) -> int:
        """Numbers of these blocks for one component of the test function and one of the direction."""
        return sum(self.dim ** "".join(pair).count("D") for pair in self.factors)

    @property
    def diagonal_words(self) -> int:
        """Numbers of a diagonal's point: the derivatives of the pointwise function."""
        return (self.num_comp * (1 + self.dim + self.dim**2 * self.second)) ** 2 if self.target == "diagonal" else 0

    @property
    def sums(self) -> bool:
        """Whether the results are sums over cells, entry by entry of a vector."""
        return self.target in ("residual", "action", "diagonal")

    @property
    def second(self) -> bool:
        """Whether second derivatives of fields, the test function or the direction enter."""
        return any(field.hessian for field in self.fields) or bool(self.writes & SECOND)

    @property
    def bends(self) -> bool:
        """Whether second derivatives of the cell's map enter: with any others in cells that are not affine."""
        return self.second and not self.affine

    @property
    def maps(self) -> bool:
        """Whether the cell's inverse Jacobian or determinant enters."""
        return not self.reference or bool(self.reads & {"K", "det", "n"})

    @cached_property
    def rebuild_flops(self) -> int:
        """Operations of an inverse Jacobian and its determinant from coordinates."""
        return sum(2 * side.num_coord_basis * self.dim**2 + {1: 1, 2: 8, 3: 42}[self.dim] for side in self.sides)

    def flops(self) -> int:
        """Floating-point operations of one cell by the untransformed algorithm, point by point, its geometry given."""
        parts = self.num_rows if self.target == "matrix" else 1
        return self.num_qpts * (self.pointwise_flops + self._interpolation + parts * self._integration)

    @property
    def point_size(self) -> int:
        """Instructions for one point, about, when the loops over basis functions are unrolled; one row of an element matrix."""
        place = self.num_coord_basis * self.dim * ("x" in self.reads)
        return self.pointwise_size + 2 * place + self._interpolation + self._integration

    @property
    def _interpolation(self) -> int:
        """Operations at a point for geometry and fields."""
        dim, tensor = self.dim, 2 * self.dim**2
        push, count = 0 if self.reference else tensor, 1 + (tensor + 2 * dim + 3) * self.facet
        for field in self.fields:
            count += 2 * field.size * (field.value + dim * field.gradient + dim**2 * field.hessian)
            count += push * field.num_comp * (field.gradient + 2 * dim * field.hessian)
        return count

    @property
    def _integration(self) -> int:
        """Operations at a point for the rows; of an element matrix for one row."""
        dim = self.dim
        if self.products:
            return self.num_rows * 2 * self.block_words
        if self.target == "matrix":
            size = 1 + dim + dim**2 * bool(self.writes & TEST_SECOND)
            return self.num_rows * 2 * size + self.num_comp * 2 * size**2
        if self.target == "diagonal":
            return self.num_rows * 2 * (1 + dim + dim**2 * bool(self.writes & TEST_SECOND)) ** 2
        push, count = 0 if self.reference else 2 * dim**2, 0
        for row in self.rows:
            count += 2 * row.size * (row.value + dim * row.gradient + dim**2 * row.hessian)
            count += push * row.num_comp * (row.gradient + 2 * dim * row.hessian)
        return count
