"""Lagrange spaces on a DMPlex."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import options
from femgpu.element import LagrangeElement
from femgpu.errors import DataError, FormError, agree, collective
from femgpu.mesh import Mesh
from femgpu.mesh.restriction import FieldShape, given_section, set_fields
from femgpu.spaces.field import Field, entry_components
from femgpu.spaces.space import SingleSpace, ufl_cell
from femgpu.spaces.ufl_element import UFLLagrange

_CONTINUOUS = ("Lagrange", "CG", "P", "Q")
_BROKEN = ("Discontinuous Lagrange", "DG", "DP", "DQ")
_ENRICHED = ("Lagrange+Bubble", "CG+B", "P+B")
# Families that UFL's users may name, and what to take instead.
_REMEDIES = {
    ("Real", "R"): (
        "a number that all cells share makes dense rows of the matrix; for a mean that is open take problem.set_nullspace("
        "femgpu.constant_modes(V)), for a Lagrange multiplier of c . u = m two solves, A x = b and A y = c: u = x - y (c . x - "
        "m) / (c . y); for a known number femgpu.Constant"
    ),
    ("Bubble", "bubble", "B", "enriched", "Mini", "MINI"): (
        "bubbles alone are no space of femgpu's: take 'P+B', which has them beside Lagrange functions: FunctionSpace(dm, 'P+B', 1)"
    ),
    ("Quadrature", "QE"): (
        "its functions have no values between the points of a rule: take a DG space, and the same rule by dx(degree=n)"
    ),
}
# PETSc counts the functions of a simplex by binomial coefficients, which end a little later.
_MOST_DEGREE = 24


class FunctionSpace(SingleSpace):
    """A Lagrange space: scalar, vector- or tensor-valued, continuous or not.

    Args:
        dm: the DMPlex of the mesh. With a family the space gets a clone of it with a section of its own; without one, the DM's
            own field 0 and section are the space, and dofs that the section constrains stay out of the T-vector.
        family: `"Lagrange"` (or `"CG"`, `"P"`, `"Q"`), `"DG"` (or `"DP"`, `"DQ"`), or `"P+B"` (or `"CG+B"`, `"Lagrange+Bubble"`):
            continuous on triangles or tetrahedra, in each cell with a bubble, the product of its barycentric coordinates, and a
            node in its middle.
        degree: polynomial degree; of `"P+B"` that of the Lagrange functions, from 1 to the dimension.
        shape: value shape; `()` is scalar, `3` stands for `(3,)`.
        symmetry: whether values of a square shape (n, n) are symmetric tensors, u[i, j] == u[j, i]: vectors then hold n (n + 1) / 2
            components for each node, those of (0, 0), (1, 0), (1, 1), (2, 0) and so on. Everywhere else, in forms, conditions,
            interpolation, values at points and files, the tensors have all of their entries.
        reorder: whether dofs of neighbouring cells stand side by side in vectors, where that pays (continuous functions of degree 2
            and 3); else they stand in the order of the points of the mesh. None: as `-femgpu_reorder` says. Numbers of two spaces
            belong together by `assign` and `interpolate`, not by their places; a field of a MixedSpace has the order of
            `W.sub(name).collapse()`, which is that of the points.

    Attributes:
        mesh: the mesh.
        dm: the DM with this space's section.
        fields: the one field.
        num_local: length of the L-vector.

    Raises:
        FormError: on all ranks, for a family, degree or shape that is not supported or differs between ranks, symmetry of another
            shape than a square one, or a DM without a Lagrange field.
    """

    def __init__(
        self,
        dm: PETSc.DM,
        family: str | None = None,
        degree: int | None = None,
        shape: int | tuple[int, ...] = (),
        symmetry: bool = False,
        reorder: bool | None = None,
    ):
        mesh = Mesh.of(dm)
        if family is None:
            with collective(mesh.mpi):
                if symmetry:
                    raise FormError(
                        "symmetry=True without a family; expected FunctionSpace(dm, 'Lagrange', 1, (2, 2), symmetry=True)"
                    )
            element, shape = _own_element(dm, mesh)
            degree, continuous, bubble = element.degree, element.continuous, False
            offsets, num_local = given_section(mesh, dm, element, int(np.prod(shape, dtype=int)))
        else:
            with collective(mesh.mpi):
                degree, continuous, bubble = _checked(family, degree, mesh)
                shape = _checked_shape(shape, symmetry)
            agree(mesh.mpi, f"a space of {family}, degree {degree}, shape {shape}, symmetry {symmetry}", FormError)
            dm = mesh.clone_dm()
            field_shape = FieldShape("u", degree, continuous, max(entry_components(shape, symmetry)) + 1, bubble)
            reorder = options.flag("femgpu_reorder") if reorder is None else reorder
            (offsets,), num_local = set_fields(mesh, dm, [field_shape], reorder)
        elements = tuple(LagrangeElement(block.cell, degree, continuous, bubble=bubble) for block in mesh.blocks)
        field = Field("u", 0, shape, elements, offsets, symmetric=symmetry)
        ufl_element = UFLLagrange(ufl_cell(mesh), degree, shape, continuous, symmetry, bubble)
        super().__init__(mesh, dm, (field,), num_local, ufl_element, own_section=family is not None)

    def sub(self, index: Any) -> Any:
        """Raises a DataError: only the fields of a MixedSpace have spaces of their own."""
        raise DataError(
            f"sub({index!r}) of {self}, which has no fields; expected the space itself, in conditions on one component "
            "DirichletBC(V, value, region, component=0), or fields of a femgpu.MixedSpace: W.sub('velocity')"
        )

    @cached_property
    def unconstrained(self) -> FunctionSpace:
        """The same space on a section without constraints; the first access is collective."""
        return FunctionSpace(self.dm, self.field.family, self.field.degree, self.value_shape, self.field.symmetric)


def _checked_shape(shape: Any, symmetry: Any) -> tuple[int, ...]:
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    if not all(isinstance(extent, int | np.integer) and extent > 0 for extent in extents):
        raise FormError(f"value shape {shape!r}: expected positive extents, (3,) for example, or () for a scalar")
    if not isinstance(symmetry, bool):
        raise FormError(f"symmetry={symmetry!r}: expected True for symmetric tensors of a shape such as (3, 3), or False")
    if symmetry and (len(extents) != 2 or extents[0] != extents[1]):
        raise FormError(f"value shape {shape!r} with symmetry=True: expected a square one, (3, 3) for example")
    return tuple(map(int, extents))


def _checked(family: str, degree: Any, mesh: Mesh) -> tuple[int, bool, bool]:
    """Degree of a family, whether its functions are continuous, and whether there are bubbles."""
    if family not in _CONTINUOUS + _BROKEN + _ENRICHED:
        for names, remedy in _REMEDIES.items():
            if family in names:
                raise FormError(f"element family {family!r}: {remedy}")
        legal = ", ".join(_CONTINUOUS + _BROKEN + _ENRICHED)
        raise FormError(f"element family {family!r}: expected one of {legal}, then the degree: FunctionSpace(dm, 'Lagrange', 1)")
    if not isinstance(degree, int | np.integer) or not 0 <= degree <= _MOST_DEGREE:
        raise FormError(f"degree {degree!r} of family {family!r}: expected an integer from 0 to {_MOST_DEGREE}")
    if degree == 0 and family not in _BROKEN:
        raise FormError('a continuous Lagrange space needs a degree of at least 1; use family "DG" for degree 0')
    bubble = family in _ENRICHED
    for block in mesh.blocks if bubble else ():
        LagrangeElement(block.cell, int(degree), bubble=True)
    return int(degree), family not in _BROKEN, bubble


def _own_element(dm: PETSc.DM, mesh: Mesh) -> tuple[LagrangeElement, tuple[int, ...]]:
    """Element and value shape of a DM's own field."""
    fields = dm.getNumFields()
    fe = dm.getField(0)[0] if fields else None
    if fields != 1 or not isinstance(fe, PETSc.FE):
        raise FormError(
            f"the DM has {fields} fields; FunctionSpace(dm) without a family takes a DM with one PetscFE field. "
            'Give a family and a degree, for example FunctionSpace(dm, "Lagrange", 1)'
        )
    degree = fe.getBasisSpace().getDegree()[0]
    element = LagrangeElement(mesh.cell, degree, fe.getDualSpace().getLagrangeContinuity())
    num_comp = fe.getNumComponents()
    if fe.getDimension() != element.num_basis * num_comp:
        raise FormError(f"the DM's field 0 has {fe.getDimension()} functions per cell; expected Lagrange of degree {degree}")
    return element, (() if num_comp == 1 else (num_comp,))
