"""Which dofs the nodes of every cell are, from the first dof on each point of the mesh.

Dofs of one point are ordered along the point's own frame, as PETSc's finite elements order them: where those are right, the
result is bit for bit that of DMPlexGetLocalOffsets, which goes cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement, reference_cell
from femgpu.element.reference import FACET_NAMES
from femgpu.errors import FormError
from femgpu.mesh.closures import Parts, arrangements, parts_of
from femgpu.mesh.geometry import node_vertices
from femgpu.mesh.topology import TYPE_NAMES, Topology

_Ints = npt.NDArray[np.int32]


class PointDofs(NamedTuple):
    """Where the dofs of one field are.

    Attributes:
        element: the field's element on the cells in question.
        num_comp: its components, which stand together.
        first: (num_points,) int32 its first dof on each point of the mesh; anything on points without dofs.
    """

    element: LagrangeElement
    num_comp: int
    first: _Ints


def cell_dofs(
    topology: Topology, cell: str, fields: Sequence[PointDofs], pieces: Iterable[tuple[slice, Parts]] | None = None
) -> list[_Ints]:
    """For each field (num_cells, num_basis) int32: component 0 of the nodes of all cells of a type; `pieces` are `parts_of` it."""
    cells, start = topology.of_type(cell), np.int32(topology.start)
    found = [np.empty((len(cells), field.element.num_basis), np.int32) for field in fields]
    for rows, parts in pieces or parts_of(topology, cell):
        for field, out in zip(fields, found, strict=True):
            columns = np.empty((out.shape[1], len(cells[rows])), np.int32)
            for number, (nodes, ranks) in enumerate(_entity_nodes(field.element)):
                if len(nodes):
                    points, turns = parts(number) if number else (cells[rows], None)
                    first = field.first[points - start]
                    for node, rank in zip(nodes, ranks * field.num_comp, strict=True):
                        # A rank for each way in which the part may lie in the cell, or one for all.
                        columns[node] = first + (rank[turns] if len(rank) > 1 else rank)
            out[rows] = columns.T
    return found


def type_dofs(elements: Sequence[LagrangeElement]) -> npt.NDArray[np.int64]:
    """(num_types,) nodes of a field on a point of each of `TYPE_NAMES`, from its elements on the mesh's cell types."""
    return np.array([_num_inside(name, elements) for name in TYPE_NAMES], np.int64)


def _num_inside(name: str, elements: Sequence[LagrangeElement]) -> int:
    own = next((element for element in elements if element.cell == name), None)
    if not elements[0].continuous:
        return 0 if own is None else own.num_basis
    if name == "point":
        return 1
    if own is None and reference_cell(name).dim == elements[0].reference.dim:
        return 0
    return len(_inside(own or elements[0], name))


@cache
def _inside(element: LagrangeElement, name: str) -> npt.NDArray[np.float64]:
    """(num, dim) nodes inside of a part of a cell, or of all of it, in the order of their dofs on a point of that type."""
    # Nodes that lie elsewhere have the same order.
    part = replace(element, cell=name, custom_nodes=(), bubble=element.bubble and name == element.cell)
    return part.nodes[part.reference.entity_of(part.nodes) == 0]


@cache
def _entity_nodes(element: LagrangeElement) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]], ...]:
    """Which nodes of an element are those of which dofs.

    Returns:
        For each entity of the reference cell its nodes (num,), and their ranks among the dofs of the entity's point, one for
        each of its `arrangements` (num, num_orientations) or, where these agree, one (num, 1).
    """
    if not element.continuous:
        every = np.arange(element.num_basis)
        return ((every, every[:, None].astype(np.int32)),)
    if element.custom_nodes:
        # Nodes that lie elsewhere have the same order.
        element = replace(element, custom_nodes=())
    reference = element.reference
    where = reference.entity_of(element.nodes)
    found = []
    for number, entity in enumerate(reference.entities):
        nodes = np.flatnonzero(where == number)
        turns = arrangements(len(entity)) if number else np.arange(len(entity))[None]
        ranks = np.array([_ranks(element, nodes, np.array(entity)[np.argsort(turn)]) for turn in turns], np.int32).T
        found.append((nodes, ranks[:, :1] if (ranks == ranks[:, :1]).all() else np.ascontiguousarray(ranks)))
    return tuple(found)


def _ranks(element: LagrangeElement, nodes: npt.NDArray[np.int64], own: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(num,) ranks of nodes among the dofs of a point whose own frame is the vertices `own` of the cell."""
    if len(own) == 1 or not len(nodes):
        return np.zeros(len(nodes), np.int64)
    name = element.cell
    if len(own) < element.reference.num_vertices:
        name = FACET_NAMES[len(own)]
    corners = LagrangeElement(name, 1)
    placed = corners.tabulate(_inside(element, name))[0] @ element.reference.vertices[own[node_vertices(corners)]]
    distance = np.abs(placed[None] - element.nodes[nodes][:, None]).max(axis=2)
    ranks = distance.argmin(axis=1)
    if len(placed) != len(nodes) or len(set(ranks)) < len(nodes) or distance.min(axis=1).max() > 1e-9:
        raise FormError(
            f"the nodes of {element.cell} elements of degree {element.degree} are not those of their {name} parts; "
            "expected positions that are symmetric on every part"
        )
    return ranks
