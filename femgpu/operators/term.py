"""A term: one integral on cells or facets of one kind, with everything that its kernels and their numpy twin need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import FacetQuadrature, LagrangeElement, Quadrature, choose_rules
from femgpu.errors import FormError
from femgpu.forms import Form, Integral, Pointwise, check_inputs, transposed_action
from femgpu.mesh import Block, Mesh
from femgpu.options import Settings
from femgpu.spaces import Field, Space

# Cells whose geometry is computed in one piece: bounds the memory of set-up.
_CHUNK = 65536
# Targets with a pointwise function of their own.
_FUNCTIONS = ("residual", "action", "functional")


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
    """

    form: Form
    integral: Integral
    mesh: Mesh
    block: Block
    cells: npt.NDArray[np.int32] | None
    affine: bool
    quadrature: Quadrature | FacetQuadrature
    facets: npt.NDArray[np.int32] | None = None

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
        return self.quadrature.weights.reshape(-1, self.quadrature.num_qpts)

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
        return Term(self.form, self.integral, self.mesh, self.block, cells, self.affine, self.quadrature, facets)

    @property
    def rows(self) -> tuple[Field, ...]:
        """The fields of the test function; none in a functional."""
        return () if self.form.space is None else self.form.space.fields

    @property
    def num_rows(self) -> int:
        """Rows of one of the cells, all fields of the test function together."""
        return sum(self.element(field).num_basis * field.num_comp for field in self.rows)

    def dofs(self) -> npt.NDArray[np.int32]:
        """(num_cells, num_rows) positions in the L-vector of the rows of each cell."""
        return self.form.space.dofs(self.block.index, slice(None) if self.cells is None else self.cells)

    def pointwise(self, target: str) -> Pointwise | None:
        """The integral's function that residual, action, transposed (action), functional, diagonal or matrix need."""
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
        unknown = form.unknown.space if form.unknown is not None else form.space
        found = list(_read("u", "u", unknown, 0, pointwise)) + list(_read("w", "w", form.space, 0, pointwise))
        for i, (function, offset) in enumerate(zip(form.coefficients, form.coefficient_offsets[:-1], strict=True)):
            found += _read(f"a{i}", "a", function.space, offset, pointwise)
        return found

    def element(self, field: Field) -> LagrangeElement:
        """A field's element on this term's cells."""
        return field.elements[self.block.index]

    def offsets(self, field: Field) -> npt.NDArray[np.int32]:
        """(num_cells, num_basis) positions of a field's component 0 in its L-vector."""
        return self.subset(field.offsets[self.block.index])

    def elements(self, fields: list[FieldData]) -> list[LagrangeElement]:
        """The distinct elements to tabulate: the test space's first, that of the coordinates last."""
        wanted = [self.element(field) for field in self.rows]
        wanted += [self.element(data.field) for data in fields]
        return list(dict.fromkeys([*wanted, self.coord_element]))

    def tabulate(self, element: LagrangeElement, second: bool) -> list[npt.NDArray[np.float64]]:
        """Values, gradients and, where asked for, second derivatives of an element at the points, facets first."""
        flat = self.points.reshape(-1, self.dim)
        arrays = [*element.tabulate(flat), *([element.hessians(flat)] if second else [])]
        return [array.reshape(*self.points.shape[:2], *array.shape[1:]) for array in arrays]

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


def _read(vector: str, array: str, space: Space | None, offset: int, pointwise: Pointwise) -> Iterable[FieldData]:
    """The fields of one function of which a pointwise function reads components."""
    for field in () if space is None else space.fields:
        first = offset + field.offset
        components = range(first, first + field.num_comp)
        value, gradient, hessian = (
            any((array + suffix, component) in pointwise.reads for component in components) for suffix in ("", "_x", "_xx")
        )
        if value or gradient or hessian:
            name = vector if len(space.fields) == 1 else f"{vector}_{field.name}"  # type: ignore[union-attr]
            yield FieldData(name, vector, array, first, field, value, gradient, hessian)


def _coefficients_read(form: Form, integral: Integral) -> list[Field]:
    """The fields of coefficients that an integral reads."""
    found = []
    for function, first in zip(form.coefficients, form.coefficient_offsets, strict=False):
        found += [data.field for entry in integral.pointwise for data in _read("a", "a", function.space, first, entry)]
    return found


def make_terms(form: Form, settings: Settings) -> list[Term]:
    """Splits a form's integrals by subdomain, cell type, facet type, and by affine and other cells; collective.

    Args:
        form: the lowered form.
        settings: give the quadrature where the user asked for PETSc's points.

    Returns:
        The terms in the order of the integrals; every rank has the same list, some terms without cells.

    Raises:
        MeshError: for a subdomain that the mesh lacks.
        FormError: for coefficients and constants that have no values.
    """
    check_inputs(form)
    mesh = form_mesh(form)
    terms = [
        term
        for integral in form.integrals
        for block in mesh.blocks
        for term in _terms(form, integral, mesh, block, settings.default_quadrature_order)
    ]
    counts = mesh.mpi.allreduce(np.array([term.num_cells for term in terms]))
    return [term for term, count in zip(terms, counts, strict=True) if count]


def _terms(form: Form, integral: Integral, mesh: Mesh, block: Block, order: int) -> Iterable[Term]:
    """The terms of one integral on the cells of one type: affine cells, the others, and both again for each type of facet."""
    cells, facets = _cells(integral, mesh, block)
    space = form.unknown.space if form.space is None and form.unknown is not None else form.space
    fields = [*(() if space is None else space.fields), *(_coefficients_read(form, integral) if integral.degree is None else ())]
    elements = [field.elements[block.index] for field in fields] or [block.coord_element]
    for affine in (True, False):
        bent = block.coord_element.map_degree if integral.estimated and not affine else 0
        degree = None if integral.degree is None else integral.degree + bent
        fits = (block.affine if cells is None else block.affine[cells]) == affine
        for rule in choose_rules(block.cell, integral.type, degree, integral.scheme, elements, order):
            if isinstance(rule, FacetQuadrature):
                place = np.full(len(block.reference.facets), -1, np.int32)
                place[list(rule.facets)] = np.arange(len(rule.facets))
                mine = fits & (place[facets] >= 0)
                yield Term(form, integral, mesh, block, cells[mine], affine, rule, place[facets[mine]])
            elif cells is None and fits.all():
                yield Term(form, integral, mesh, block, None, affine, rule)
            else:
                part = np.flatnonzero(fits).astype(np.int32) if cells is None else cells[fits]
                yield Term(form, integral, mesh, block, part, affine, rule)


def _cells(integral: Integral, mesh: Mesh, block: Block) -> tuple[Any, Any]:
    """The cells of a block that an integral is over, None for all, and which of their facets, None for integrals over cells."""
    if integral.type != "cell":
        parts = [mesh.facets(region) for region in integral.subdomain] or [mesh.exterior[1:]]
        cells, facets = (np.concatenate(entries) for entries in zip(*parts, strict=True))
        numbers, indices = mesh.locate(cells)
        return indices[numbers == block.index], facets[numbers == block.index]
    if not integral.subdomain:
        return None, None
    # A cell of two regions counts in each.
    numbers, indices = mesh.locate(np.sort(np.concatenate([mesh.cells(region) for region in integral.subdomain])))
    return indices[numbers == block.index], None


def form_mesh(form: Form) -> Mesh:
    """The mesh that a form is integrated on.

    Raises:
        FormError: when nothing in the form knows a mesh.
    """
    if form.space is not None:
        return form.space.mesh
    if form.mesh is not None:
        return form.mesh
    raise FormError(
        "the form does not live on a mesh of femgpu's; give it a Function, a Constant or femgpu.coordinates(dm) of one, for "
        "example femgpu.Constant(dm, 1.0) * dx"
    )
