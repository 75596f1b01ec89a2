"""A term: one integral on cells of one geometry kind, with everything that its kernels and their numpy twin need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement, Quadrature, basix_rule, petsc_rule
from femgpu.errors import FormError
from femgpu.forms import Form, Integral, Pointwise
from femgpu.mesh import Mesh
from femgpu.options import Settings
from femgpu.spaces import FunctionSpace

# Cells whose geometry is computed in one piece: bounds the memory of set-up.
_CHUNK = 65536


@dataclass(frozen=True)
class FieldData:
    """A field that a pointwise function reads.

    Attributes:
        name: `u`, `w`, or `a0`, `a1`, ...
        array: pointwise array: `u`, `w` or `a`.
        offset: first component within it.
        space: where the field lives.
        value: whether values are read.
        gradient: whether gradients are read.
    """

    name: str
    array: str
    offset: int
    space: FunctionSpace
    value: bool
    gradient: bool


@dataclass(frozen=True, eq=False)
class Term:
    """One integral on some cells, all affine or all not. Terms are compared by identity.

    Attributes:
        form: the form that the integral belongs to.
        integral: the integral.
        mesh: the mesh.
        cells: (num_cells,) cell numbers, or None for all cells in order.
        affine: whether the cells' maps are affine.
        quadrature: the rule.
    """

    form: Form
    integral: Integral
    mesh: Mesh
    cells: npt.NDArray[np.int32] | None
    affine: bool
    quadrature: Quadrature

    @property
    def num_cells(self) -> int:
        """Cells of this rank."""
        return self.mesh.num_cells if self.cells is None else len(self.cells)

    def subset(self, offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Rows of a per-cell array for this term's cells."""
        return offsets if self.cells is None else offsets[self.cells]

    def fields(self, pointwise: Pointwise) -> list[FieldData]:
        """The fields that a pointwise function reads, state first, then direction, then coefficients."""
        reads, form = pointwise.reads, self.form
        found = []
        for name, space in (("u", form.unknown.space if form.unknown is not None else form.space), ("w", form.space)):
            if name in reads or f"{name}_x" in reads:
                found.append(FieldData(name, name, 0, space, name in reads, f"{name}_x" in reads))
        for i, (function, offset) in enumerate(zip(form.coefficients, form.coefficient_offsets[:-1], strict=True)):
            value, gradient = ("a", i) in reads, ("a_x", i) in reads
            if value or gradient:
                found.append(FieldData(f"a{i}", "a", offset, function.space, value, gradient))
        return found

    def elements(self, fields: list[FieldData], needs_coords: bool) -> list[LagrangeElement]:
        """The distinct elements to tabulate: the test space's first."""
        wanted = [self.form.space.element] if self.form.space is not None else []
        wanted += [field.space.element for field in fields]
        if needs_coords or not wanted:
            wanted.append(self.mesh.coord_element)
        return list(dict.fromkeys(wanted))

    def geometry(self) -> npt.NDArray[np.float64]:
        """Inverse Jacobian and determinant per cell (affine) or per cell and point.

        Returns:
            (num_cells, num_points, dim * dim + 1), num_points 1 where affine; dX_k / dx_d row by row, then det J.
        """
        points = self.quadrature.points[:1] if self.affine else self.quadrature.points
        dim = self.mesh.dim
        out = np.empty((self.num_cells, len(points), dim * dim + 1))
        for start in range(0, self.num_cells, _CHUNK):
            part = slice(start, start + _CHUNK)
            jacobians = self.mesh.jacobians(points, part if self.cells is None else self.cells[part])
            out[part, :, -1] = np.linalg.det(jacobians)
            out[part, :, :-1] = np.linalg.inv(jacobians).reshape(*jacobians.shape[:2], dim * dim)
        return out


def make_terms(form: Form, settings: Settings) -> list[Term]:
    """Splits a form's integrals by subdomain and by affine and other cells; collective.

    Args:
        form: the lowered form.
        settings: give the quadrature where the user asked for PETSc's points.

    Returns:
        The terms in the order of the integrals; every rank has the same list, some terms without cells.

    Raises:
        MeshError: for a subdomain that the mesh lacks.
    """
    mesh = form_mesh(form)
    terms = []
    for integral in form.integrals:
        quadrature = _quadrature(form, integral, mesh, settings)
        cells = mesh.cells(integral.subdomain) if integral.subdomain else None
        chosen = mesh.affine if cells is None else mesh.affine[cells]
        num_affine, num_other = mesh.mpi.allreduce(np.array([chosen.sum(), (~chosen).sum()]))
        for affine in (True, False):
            if not (num_affine if affine else num_other):
                continue
            if cells is None and not (num_other if affine else num_affine):
                part = None
            else:
                everything = np.arange(mesh.num_cells, dtype=np.int32) if cells is None else cells
                part = everything[chosen == affine]
            terms.append(Term(form, integral, mesh, part, affine, quadrature))
    return terms


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


def _quadrature(form: Form, integral: Integral, mesh: Mesh, settings: Settings) -> Quadrature:
    if settings.default_quadrature_order < 0 and integral.degree is not None:
        return basix_rule(mesh.cell, integral.degree)
    space: Any = form.space if form.space is not None else form.unknown.space if form.unknown is not None else None
    degree = space.element.degree if space is not None else mesh.coord_element.degree
    order = settings.default_quadrature_order
    return petsc_rule(mesh.cell, degree, None if order < 0 else order)
