"""Where the dofs of every cell stand in the local vector: the section of named Lagrange fields, and their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import LagrangeElement
from femgpu.mesh.mesh import Mesh

# One array per block of the mesh, (num_cells, num_basis) int32: positions of component 0, the other components follow it.
Offsets = tuple[npt.NDArray[np.int32], ...]


@dataclass(frozen=True)
class FieldShape:
    """A Lagrange field to be numbered.

    Attributes:
        name: name of the field, for PCFieldSplit and output.
        degree: polynomial degree.
        continuous: whether neighbouring cells share nodes.
        num_comp: number of components.
    """

    name: str
    degree: int
    continuous: bool = True
    num_comp: int = 1

    def element(self, cell: str) -> LagrangeElement:
        """The scalar element of the field on a cell type."""
        return LagrangeElement(cell, self.degree, self.continuous)


def set_fields(mesh: Mesh, dm: PETSc.DMPlex, fields: Sequence[FieldShape]) -> tuple[list[Offsets], int]:
    """Gives a DM the section of several fields; collective.

    Args:
        mesh: the mesh.
        dm: a DM made by `mesh.clone_dm`, without fields.
        fields: the fields, in the order of the section's.

    Returns:
        For each field the offsets of its blocks, all into the one local vector; and the length of that vector.
    """
    for number, field in enumerate(fields):
        fe = field.element(mesh.cell).petsc_fe(field.num_comp, mesh.comm)
        fe.setName(field.name)
        dm.setField(number, fe)
    dm.createDS()
    found = [petsc_c.local_offsets(dm, number) for number in range(len(fields))]
    return [(offsets,) for offsets, _, _ in found], found[0][2]
