"""Where the dofs of every cell stand in the local vector: the section of named Lagrange fields, and their offsets.

On meshes of one simplex or tensor type PETSc's finite elements number the dofs. Its sections give all points of a
dimension the same number of dofs, which is wrong on prisms and mixed meshes, silently so on the latter. There the section
is femgpu's own: dofs by the type of each point, ordered along the point's own frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import LagrangeElement, reference_cell
from femgpu.element.reference import FACET_NAMES
from femgpu.errors import FormError
from femgpu.mesh.block import Block
from femgpu.mesh.geometry import node_vertices
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.topology import TYPE_NAMES, arrangements

# One array per block of the mesh, (num_cells, num_basis) int32: positions of component 0, the other components follow it.
Offsets = tuple[npt.NDArray[np.int32], ...]

# DMPlexGetLocalOffsets keeps the fields of a closure in an array of this length.
_MAX_PETSC_FIELDS = 16
_INT32_MAX = np.iinfo(np.int32).max


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

    Raises:
        FormError: for no fields, or two of one name.
        FemgpuError: when the local vector is too long for 32 bits.
    """
    names = [field.name for field in fields]
    if not names or len(set(names)) < len(names):
        raise FormError(f"fields named {', '.join(names) or '(none)'}: expected at least one, and names that differ")
    if mesh.has_petsc_elements and len(fields) <= _MAX_PETSC_FIELDS:
        return _petsc_fields(mesh, dm, fields)
    return own_fields(mesh, dm, fields)


def _petsc_fields(mesh: Mesh, dm: PETSc.DMPlex, fields: Sequence[FieldShape]) -> tuple[list[Offsets], int]:
    for number, field in enumerate(fields):
        fe = field.element(mesh.cell).petsc_fe(field.num_comp, mesh.comm)
        fe.setName(field.name)
        dm.setField(number, fe)
    dm.createDS()
    found = [petsc_c.local_offsets(dm, number) for number in range(len(fields))]
    return [(offsets,) for offsets, _, _ in found], found[0][2]


def own_fields(mesh: Mesh, dm: PETSc.DMPlex, fields: Sequence[FieldShape]) -> tuple[list[Offsets], int]:
    """As `set_fields`, with femgpu's own section, on any mesh."""
    topology = mesh.topology
    # (num_types, num_fields) dofs of each field on a point of each type.
    table = np.array([[field.num_comp * _num_inside(name, field, mesh) for field in fields] for name in TYPE_NAMES])
    dm.setLocalSection(_section(dm, topology.types, table, fields))
    sizes = table.sum(axis=1)[topology.types]
    num_local = int(sizes.sum())
    if num_local > _INT32_MAX:
        raise FormError(f"this rank holds {num_local} dofs; 32-bit offsets reach {_INT32_MAX}: use more ranks")
    starts = (np.cumsum(sizes) - sizes).astype(np.int32)
    before = (np.cumsum(table, axis=1) - table).astype(np.int32)
    offsets = []
    for number, field in enumerate(fields):
        at = starts + before[topology.types, number]
        offsets.append(tuple(_block_offsets(mesh, block, field, at) for block in mesh.blocks))
    return offsets, num_local


def _num_inside(name: str, field: FieldShape, mesh: Mesh) -> int:
    """Nodes of a field that belong to a point of a type."""
    is_cell = name in [block.cell for block in mesh.blocks]
    if not (field.continuous and field.degree):
        return field.element(name).num_basis if is_cell else 0
    if name == "point":
        return 1
    if reference_cell(name).dim == mesh.dim and not is_cell:
        return 0
    return len(_inside(name, field.degree))


def _section(
    dm: PETSc.DMPlex, types: npt.NDArray[np.int8], table: npt.NDArray[np.int64], fields: Sequence[FieldShape]
) -> PETSc.Section:
    """The section over the points of the DM, in one call: each point takes the dofs of its type from a section of types."""
    roots = PETSc.Section().create(PETSc.COMM_SELF)
    roots.setNumFields(len(fields))
    for number, field in enumerate(fields):
        roots.setFieldName(number, field.name)
        roots.setFieldComponents(number, field.num_comp)
    roots.setChart(0, len(table))
    for kind, dofs in enumerate(table):
        roots.setDof(kind, int(dofs.sum()))
        for number, count in enumerate(dofs):
            roots.setFieldDof(kind, number, int(count))
    roots.setUp()
    start, end = dm.getChart()
    points = np.arange(start, end, dtype=PETSc.IntType)
    forest = PETSc.SF().create(PETSc.COMM_SELF)
    forest.setGraph(len(table), points, np.stack([np.zeros_like(points), types.astype(PETSc.IntType)], axis=1))
    section = PETSc.Section().create(dm.comm)
    forest.distributeSection(roots, section)
    return section


def _block_offsets(mesh: Mesh, block: Block, field: FieldShape, at: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """(num_cells, num_basis) offsets of a field in the cells of a block, where `at` is the field's first dof on each point."""
    element, step = field.element(block.cell), np.int32(field.num_comp)
    start, first = mesh.topology.start, mesh.dm.getHeightStratum(0)[0]
    cells = block.ids + np.int32(first - start)
    if not element.continuous:
        return at[cells][:, None] + step * np.arange(element.num_basis, dtype=np.int32)
    offsets = np.empty((block.num_cells, element.num_basis), np.int32)
    closure = mesh.closures[block.index]
    for entity, (nodes, ranks) in enumerate(_entity_nodes(element)):
        if not len(nodes):
            continue
        if entity == 0:
            offsets[:, nodes] = at[cells][:, None] + step * ranks[0].astype(np.int32)
        else:
            turned = ranks.astype(np.int32)[closure.turns[:, entity - 1]]
            offsets[:, nodes] = at[closure.parts[:, entity - 1] - start][:, None] + step * turned
    return offsets


@cache
def _inside(name: str, degree: int) -> npt.NDArray[np.float64]:
    """(num, dim) nodes inside of a reference cell, in the order of their dofs on a point of that type."""
    element = LagrangeElement(name, degree)
    return element.nodes[element.reference.entity_of(element.nodes) == 0]


@cache
def _entity_nodes(element: LagrangeElement) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]:
    """Which nodes of a continuous element are those of which dofs.

    Returns:
        For each entity of the reference cell its nodes (num,), and their ranks among the dofs of the entity's point, one row for
        each of its `arrangements` (num_orientations, num).
    """
    reference = element.reference
    where = reference.entity_of(element.nodes)
    found = []
    for number, entity in enumerate(reference.entities):
        nodes = np.flatnonzero(where == number)
        turns = arrangements(len(entity)) if number else np.arange(len(entity))[None]
        ranks = [_ranks(element, nodes, np.array(entity)[np.argsort(turn)]) for turn in turns]
        found.append((nodes, np.array(ranks, np.int64).reshape(len(turns), len(nodes))))
    return tuple(found)


def _ranks(element: LagrangeElement, nodes: npt.NDArray[np.int64], own: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(num,) ranks of nodes among the dofs of a point whose own frame is the vertices `own` of the cell."""
    if len(own) == 1 or not len(nodes):
        return np.zeros(len(nodes), np.int64)
    name = element.cell
    if len(own) < element.reference.num_vertices:
        name = FACET_NAMES[len(own)]
    corners = LagrangeElement(name, 1)
    placed = corners.tabulate(_inside(name, element.degree))[0] @ element.reference.vertices[own[node_vertices(corners)]]
    distance = np.abs(placed[None] - element.nodes[nodes][:, None]).max(axis=2)
    ranks = distance.argmin(axis=1)
    if len(placed) != len(nodes) or len(set(ranks)) < len(nodes) or distance.min(axis=1).max() > 1e-9:
        raise FormError(
            f"the nodes of {element.cell} elements of degree {element.degree} are not those of their {name} parts; "
            "expected positions that are symmetric on every part"
        )
    return ranks
