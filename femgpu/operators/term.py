"""A term: one integral on cells or facets of one kind, with everything that its kernels and their numpy twin need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import FacetQuadrature, LagrangeElement, Quadrature, equalised
from femgpu.forms import Form, Integral, Pointwise, transposed_action
from femgpu.mesh import Block, Mesh
from femgpu.operators.trace import Pairs, Trace
from femgpu.spaces import Field, Space

# Cells whose geometry is computed in one piece: bounds the memory of set-up.
_CHUNK = 65536
# Targets with a pointwise function of their own.
_FUNCTIONS = ("residual", "action", "functional")
# Those that are element matrices.
_MATRICES = ("matrix", "entries", "wide entries")


@dataclass(frozen=True)
class FieldData:
    """A field that a pointwise function reads.

    Attributes:
        name: of the kernel's arguments, for example `u`, `w_velocity`, `a0`.
        vector: whose L-vector it is read from: `u`, `w`, or `a0`, `a1`, ...
        array: pointwise array: `u`, `w` or `a`.
        offset: first component within it.
        field: where its dofs are.
        value: whether values are read.
        gradient: whether gradients are read.
        hessian: whether second derivatives are read.
    """

    name: str
    vector: str
    array: str
    offset: int
    field: Field
    value: bool
    gradient: bool
    hessian: bool


@dataclass(frozen=True, eq=False)
class Term:
    """One integral on some cells of one type or on some of their facets, all cells affine or all not. Compared by identity.

    A term on facets between two cells stands for the first cells, and has another one for the second cells.

    Attributes:
        form: the form that the integral belongs to.
        integral: the integral.
        mesh: the mesh.
        block: the cells of one type that the term is about.
        cells: (num_cells,) numbers within the block, or None for all its cells in order; facets name the cell that they belong to,
            which may occur several times.
        affine: whether the cells' maps are affine.
        quadrature: the rule.
        facets: (num_cells,) which facet of the rule's list each is; None for integrals over cells.
        other: on facets between two cells, the same facets as the second cells have them; None: there is one cell.
        pairs: these facets among all between cells of these types.
        use: "traces": all but element matrices, for which the nodes on the facets do; "matrices": these alone; empty: everything.
    """

    form: Form
    integral: Integral
    mesh: Mesh
    block: Block
    cells: npt.NDArray[np.int32] | None
    affine: bool
    quadrature: Quadrature | FacetQuadrature
    facets: npt.NDArray[np.int32] | None = None
    other: Term | None = None
    pairs: Pairs | None = None
    use: str = ""

    @property
    def sides(self) -> tuple[Term, ...]:
        """The term, and where there are two cells that of the second ones."""
        return (self,) if self.other is None else (self, self.other)

    @property
    def num_cells(self) -> int:
        """Cells or facets of this rank."""
        return self.block.num_cells if self.cells is None else len(self.cells)

    @property
    def dim(self) -> int:
        """Dimension of the cells."""
        return self.block.dim

    @property
    def coord_element(self) -> LagrangeElement:
        """The element of the coordinates."""
        return self.block.coord_element

    @property
    def normals(self) -> npt.NDArray[np.float64] | None:
        """(num_facets, dim) reference normals of the rule's facets; None for integrals over cells."""
        return self.quadrature.normals if isinstance(self.quadrature, FacetQuadrature) else None

    @property
    def points(self) -> npt.NDArray[np.float64]:
        """(num_facets, num_qpts, dim) points on the reference cell; one "facet" for integrals over cells."""
        return self.quadrature.points.reshape(-1, self.quadrature.num_qpts, self.dim)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """(num_facets, num_qpts) weights."""
        return equalised(self.quadrature.weights).reshape(-1, self.quadrature.num_qpts)

    @cached_property
    def groups(self) -> list[Any]:
        """For each of the rule's facets the term's entries on it; everything for integrals over cells."""
        if self.facets is None:
            return [slice(None)]
        return [np.flatnonzero(self.facets == number) for number in range(len(self.points))]

    def subset(self, rows: np.ndarray) -> np.ndarray:
        """Rows of an array over the block's cells for this term's cells."""
        return rows if self.cells is None else rows[self.cells]

    def part(self, entries: npt.NDArray[np.int32]) -> Term:
        """The term on some of its entries."""
        cells = entries if self.cells is None else self.cells[entries]
        facets = None if self.facets is None else self.facets[entries]
        other = None if self.other is None else self.other.part(entries)
        pairs = None if self.pairs is None else self.pairs._replace(numbers=self.pairs.numbers[entries])
        return replace(self, cells=cells, facets=facets, other=other, pairs=pairs)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The numbers of the blocks of the cell, or of both cells of a facet."""
        return tuple(side.block.index for side in self.sides)

    @property
    def numbers(self) -> npt.NDArray[np.int32] | None:
        """(num_cells,) its cells among all of the block, None for all in order; its facets among all between two blocks."""
        return self.cells if self.pairs is None else self.pairs.numbers

    @property
    def num_whole(self) -> int:
        """How many cells, or facets between two cells, `numbers` counts."""
        return self.block.num_cells if self.pairs is None else len(self.pairs.first)

    def of_whole(self, arrays: Sequence[np.ndarray], side: int) -> np.ndarray:
        """Rows of an array over cells, given by block, for all that `numbers` counts."""
        rows = arrays[self.blocks[side]]
        return rows[: self.num_whole] if self.pairs is None else rows[self.pairs[side]]

    @property
    def rows(self) -> tuple[Field, ...]:
        """The fields of the test function, where there are two cells those of both; none in a functional."""
        return () if self.form.space is None else self._fields(self.form.space)

    @property
    def num_rows(self) -> int:
        """Rows of one of the cells, all fields of the test function together."""
        return sum(self.element(field).num_basis * field.num_comp for field in self.rows)

    def dofs(self) -> npt.NDArray[np.int32]:
        """(num_cells, num_rows) positions in the L-vector of the rows of each cell."""
        found = []
        for field in self.rows:
            first = self.offsets(field)
            every = first[:, :, None] + np.arange(field.num_comp, dtype=np.int32)
            found.append(every.reshape(len(first), first.shape[1] * field.num_comp))
        return np.concatenate(found, axis=1)

    def pointwise(self, target: str) -> Pointwise | None:
        """The integral's function that residual, action, transposed (action), functional, diagonal or matrix need."""
        if self.use and (target in _MATRICES) != (self.use == "matrices"):
            return None
        if target == "transposed":
            return transposed_action(self.integral, self.dim)
        function: Pointwise | None = getattr(self.integral, target if target in _FUNCTIONS else "jacobian")
        return function

    @cached_property
    def couples(self) -> frozenset[tuple[int, int]]:
        """The pairs of fields (of the test function, of the direction), by their numbers, that the Jacobian couples."""
        function = self.pointwise("matrix")
        of_component = [number for number, field in enumerate(self.rows) for _ in range(field.num_comp)]
        return frozenset((of_component[row], of_component[column]) for row, column in function.couples) if function else frozenset()

    def fields(self, pointwise: Pointwise) -> list[FieldData]:
        """The fields that a pointwise function reads, state first, then direction, then coefficients."""
        form = self.form
        found = list(read_fields("u", "u", self._fields(form.state_space), 0, pointwise)) + list(
            read_fields("w", "w", self._fields(form.space), 0, pointwise)
        )
        for i, (function, offset) in enumerate(zip(form.coefficients, form.coefficient_offsets[:-1], strict=True)):
            # Those of the second cells follow the coefficients of the first ones.
            behind = form.coefficient_offsets[-1] - function.space.num_comp
            found += read_fields(f"a{i}", "a", self._fields(function.space), offset, pointwise, behind)
        return found

    def _fields(self, space: Space | None) -> tuple[Field, ...]:
        if space is None:
            return ()
        return space.fields if self.other is None else space.both_sides

    def side(self, field: Field) -> Term:
        """The term of the cells that a field is of."""
        return self.sides[field.side]

    def element(self, field: Field) -> Any:
        """A field's element on this term's cells, or what there is of it on the facets."""
        side = self.side(field)
        element = field.elements[side.block.index]
        return side.trace(element) if self.use == "traces" else element

    def trace(self, element: LagrangeElement) -> Trace:
        """The functions of an element on the rule's facets: those whose values at the points are not all zero."""
        values = self.tabulate(element, False)[0]
        return Trace(element, tuple(tuple(np.flatnonzero(np.abs(entry).max(axis=0)).tolist()) for entry in values))

    def offsets(self, field: Field) -> npt.NDArray[np.int32]:
        """(num_cells, num_basis) positions of a field's component 0 in its L-vector."""
        side, element = self.side(field), self.element(field)
        offsets = side.subset(field.offsets[side.block.index])
        if isinstance(element, Trace):
            offsets = np.take_along_axis(offsets, np.array(element.nodes)[side.facets], axis=1)
        return offsets

    def elements(self, fields: list[FieldData]) -> list[tuple[int, Any]]:
        """The distinct elements to tabulate, those of the first cells first: the test space's, and that of the coordinates last.

        Each with the number of the side that it is for.
        """
        wanted = [(field.side, self.element(field)) for field in (*self.rows, *(data.field for data in fields))]
        wanted += [(number, side.coord_element) for number, side in enumerate(self.sides)]
        return sorted(dict.fromkeys(wanted), key=lambda entry: entry[0])

    def tabulate(self, element: Any, second: bool) -> list[npt.NDArray[np.float64]]:
        """Values, gradients and, where asked for, second derivatives of an element, or a `Trace`, at the points, facets first."""
        if isinstance(element, Trace):
            every = self.tabulate(element.element, second)
            return [np.stack([part[:, list(nodes)] for part, nodes in zip(array, element.nodes, strict=True)]) for array in every]
        flat = self.points.reshape(-1, self.dim)
        arrays = [*element.tabulate(flat), *([element.hessians(flat)] if second else [])]
        return [equalised(array).reshape(*self.points.shape[:2], *array.shape[1:]) for array in arrays]

    def geometry(self) -> npt.NDArray[np.float64]:
        """Inverse Jacobian and determinant per cell (affine) or per cell and point.

        Returns:
            (num_cells, num_points, dim * dim + 1), num_points 1 where affine; dX_k / dx_d row by row, then det J.
        """
        points = self.points[:, :1] if self.affine else self.points
        dim = self.dim
        out = np.empty((self.num_cells, points.shape[1], dim * dim + 1))
        everything = np.arange(self.num_cells, dtype=np.int32)
        for at, entries in zip(points, self.groups, strict=True):
            chosen = everything[entries]
            for start in range(0, len(chosen), _CHUNK):
                part = chosen[start : start + _CHUNK]
                jacobians = self.block.jacobians(at, part if self.cells is None else self.cells[part])
                out[part, :, -1] = np.linalg.det(jacobians)
                out[part, :, :-1] = np.linalg.inv(jacobians).reshape(*jacobians.shape[:2], dim * dim)
        return out


def read_fields(
    vector: str, array: str, fields: tuple[Field, ...], offset: int, pointwise: Pointwise, behind: int = 0
) -> Iterable[FieldData]:
    """The fields of one function of which a pointwise function reads components; `behind` moves those of second cells back."""
    single = len({field.name for field in fields}) == 1
    for field in fields:
        first = offset + field.offset + field.side * behind
        components = range(first, first + field.num_comp)
        value, gradient, hessian = (
            any((array + suffix, component) in pointwise.reads for component in components) for suffix in ("", "_x", "_xx")
        )
        if value or gradient or hessian:
            name = vector if single else f"{vector}_{field.name}"
            yield FieldData("other_" * field.side + name, vector, array, first, field, value, gradient, hessian)
