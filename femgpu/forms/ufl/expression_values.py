"""Values of expressions on the host: the numpy twin of the pointwise function, at the same reference points of many cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ufl.domain import extract_unique_domain

from femgpu.errors import DataError
from femgpu.forms.graph.arrays import SUFFIXES
from femgpu.forms.records import Expression
from femgpu.forms.ufl.check import check_inputs
from femgpu.forms.ufl.expression import lower_expression
from femgpu.forms.ufl.show import show
from femgpu.mesh import Block, Mesh
from femgpu.mesh.geometry import physical_hessians
from femgpu.spaces import Field, mesh_of

_Floats = npt.NDArray[np.float64]

# Numbers in the arrays of a chunk of cells.
_CHUNK = 1 << 21


class ExpressionValues:
    """An expression on a mesh, lowered once; `read` gives its values as they are at the time.

    Args:
        expression: a UFL expression of any shape; FacetNormal is not supported.
        mesh: the mesh.

    Attributes:
        shape: of its value.
        expression: the lowered expression.

    Raises:
        DataError: when the expression lives on another mesh.
        FormError: for what is not supported, by name and with the expression.
    """

    def __init__(self, expression: Any, mesh: Mesh) -> None:
        self.expression = lower_expression(expression)
        self.shape = self.expression.shape
        domain: Any = extract_unique_domain(expression)
        if domain is not None and mesh_of(domain) is not mesh:
            raise DataError(f"the expression {show(expression)} lives on another mesh; build all spaces and Constants from one DM")
        check_inputs(self.expression)
        self._mesh = mesh

    @property
    def of_points(self) -> bool:
        """Whether it depends on constants and on where a point is, and not on the cell."""
        return all(array == "x" for array, _ in self.expression.pointwise.reads)

    def read(self) -> Snapshot:
        """Takes the present values of Functions and Constants; collective."""
        self._mesh.update()
        return Snapshot(
            self.expression,
            tuple(function.local_array() for function in self.expression.coefficients),
            self.expression.constant_values(),
        )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An expression with values of its Functions and Constants.

    Attributes:
        expression: the expression.
        vectors: L-vector of each coefficient.
        constants: values of the constants.
    """

    expression: Expression
    vectors: tuple[_Floats, ...]
    constants: _Floats

    def at_points(self, points: _Floats) -> _Floats:
        """Values (num_points, num_values) at points of space (num_points, dim), of what is `ExpressionValues.of_points`."""
        values = self.expression.pointwise.evaluate({"x": points, "constants": self.constants})["f0"]  # type: ignore[misc]
        return values.reshape(len(points), self.expression.num_values)

    def at(self, block: Block, points: _Floats, cells: npt.NDArray[np.integer]) -> _Floats:
        """Values at reference points in cells.

        Args:
            block: the cells of one type.
            points: (num_points, dim) points of the reference cell.
            cells: (num_cells,) numbers within the block.

        Returns:
            (num_cells, num_points, num_values).
        """
        out = np.empty((len(cells), len(points), self.expression.num_values))
        tables = _Tables(self.expression, block, points)
        dim = block.dim
        width = self.expression.num_values + self.expression.coefficient_offsets[-1] * (1 + dim + dim * dim) + dim * (dim + 1)
        step = max(1, _CHUNK // max(1, width * len(points)))
        for start in range(0, len(cells), step):
            part = slice(start, start + step)
            data = tables.inputs(self.vectors, cells[part])
            values = self.expression.pointwise.evaluate({**data, "constants": self.constants})["f0"]  # type: ignore[misc]
            out[part] = values.reshape(out[part].shape)
        return out


@dataclass(frozen=True)
class _Read:
    """A field that an expression reads: which coefficient's, its first component in `a`, and the orders of derivatives."""

    coefficient: int
    first: int
    field: Field
    orders: tuple[int, ...]


class _Tables:
    """Inputs of an expression at the same points of cells of one type."""

    def __init__(self, expression: Expression, block: Block, points: _Floats) -> None:
        self._block = block
        self._points = points
        self._size = expression.coefficient_offsets[-1]
        self._reads = _reads(expression)
        self._orders = {order for read in self._reads for order in read.orders}
        self._basis: dict[Any, list[_Floats]] = {}

    def inputs(self, vectors: tuple[_Floats, ...], cells: npt.NDArray[np.integer]) -> dict[str, _Floats]:
        """The arrays x, a, a_x, a_xx, (num_cells * num_points, ...), of those that are read."""
        block, points = self._block, self._points
        shape, dim = (len(cells), len(points)), block.dim
        data = {"x": block.physical_points(points, cells)}
        for order in self._orders:
            data["a" + SUFFIXES[order]] = np.zeros((*shape, self._size, *(dim,) * order))
        inverse: _Floats = np.empty(0)
        if self._orders - {0}:
            inverse = np.linalg.inv(block.jacobians(points, cells)).astype(np.float64, copy=False)
        bend = block.hessians(points, cells) if 2 in self._orders else np.empty(0)
        for read in self._reads:
            first = read.field.offsets[block.index][cells]
            local = vectors[read.coefficient][first[:, :, None] + np.arange(read.field.num_comp)]
            part = slice(read.first, read.first + read.field.num_comp)
            derivatives = self._derivatives(read, local, inverse, bend)
            for order in read.orders:
                data["a" + SUFFIXES[order]][:, :, part] = derivatives[order]
        return {name: array.reshape(shape[0] * shape[1], *array.shape[2:]) for name, array in data.items()}

    def _derivatives(self, read: _Read, local: _Floats, inverse: _Floats, bend: _Floats) -> list[_Floats]:
        """Values (cell, point, comp), gradients (..., dim) and second derivatives (..., dim, dim), up to the highest order."""
        values, gradients, *second = self._tabulate(read.field.elements[self._block.index])
        out = [np.matmul(values, local)]
        if max(read.orders) > 0:
            along = np.einsum("qbk,ebc->eqck", gradients, local, optimize=True)
            out.append(np.matmul(along, inverse))
        if max(read.orders) > 1:
            along = np.einsum("qbkl,ebc->eqckl", second[0], local, optimize=True)
            out.append(physical_hessians(along, out[1], inverse, bend))
        return out

    def _tabulate(self, element: Any) -> list[_Floats]:
        if element not in self._basis:
            second = [element.hessians(self._points)] if 2 in self._orders else []
            self._basis[element] = [*element.tabulate(self._points), *second]
        return self._basis[element]


def _reads(expression: Expression) -> list[_Read]:
    found = []
    known = expression.pointwise.reads
    for number, (function, offset) in enumerate(zip(expression.coefficients, expression.coefficient_offsets[:-1], strict=True)):
        for field in function.space.fields:
            first = offset + field.offset
            components = range(first, first + field.num_comp)
            orders = tuple(
                order
                for order, suffix in enumerate(SUFFIXES)
                if any(("a" + suffix, component) in known for component in components)
            )
            if orders:
                found.append(_Read(number, first, field, orders))
    return found
