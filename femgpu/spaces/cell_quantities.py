"""Sizes of cells as functions that are constant on each cell."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from femgpu.element import basix_rule
from femgpu.errors import FormError
from femgpu.mesh import Block, Mesh
from femgpu.mesh.geometry import chunks, vertex_nodes
from femgpu.spaces.function import Function
from femgpu.spaces.function_space import FunctionSpace


def cell_quantity(mesh: Mesh, name: str) -> Function:
    """A size of every cell as a DG Function of degree 0, also after the mesh moved; one object per mesh and name. Collective.

    Args:
        mesh: the mesh.
        name: one of `CELL_QUANTITIES`, as UFL calls it: CellVolume; Circumradius (simplices only); CellDiameter, the largest
            distance between two vertices. The latter two see the vertices only, also of curved cells.

    Raises:
        FormError: for a name that is not known, or the circumradius of cells that have none.
    """
    if name not in CELL_QUANTITIES:
        raise FormError(f"cell quantity {name!r}; expected one of {', '.join(CELL_QUANTITIES)}")
    if name not in mesh.kept:
        function = Function(FunctionSpace(mesh.clone_dm(), "DG", 0), name)
        _fill(function)
        mesh.kept[name] = function
        mesh.motion.followers.append(partial(_fill, function))
    return mesh.kept[name]


def _fill(function: Function) -> None:
    """Computes a size of every cell, by the function's name, from the present coordinates."""
    local = np.zeros(function.space.num_local)
    for block, offsets in zip(function.space.mesh.blocks, function.space.field.offsets, strict=True):
        local[offsets[:, 0]] = CELL_QUANTITIES[function.name](block)
    function.set_local(local)


def _volume(block: Block) -> npt.NDArray[np.float64]:
    rule = basix_rule(block.cell, block.dim * block.coord_element.degree)
    volumes = np.empty(block.num_cells)
    for part in chunks(block.num_cells):
        volumes[part] = np.linalg.det(block.jacobians(rule.points, part)) @ rule.weights
    return volumes


def _diameter(block: Block) -> npt.NDArray[np.float64]:
    vertices = _vertices(block)
    pairs = itertools.combinations(range(vertices.shape[1]), 2)
    return np.array([np.linalg.norm(vertices[:, i] - vertices[:, j], axis=1) for i, j in pairs]).max(axis=0)


def _circumradius(block: Block) -> npt.NDArray[np.float64]:
    if not block.reference.is_simplex:
        raise FormError(f"Circumradius of {block.cell} cells; expected simplices: CellDiameter is known for every cell")
    vertices = _vertices(block)
    edges = vertices[:, 1:] - vertices[:, :1]
    # The centre c, from the first vertex: 2 edge . c = |edge|^2 for every edge.
    centre = np.linalg.solve(2 * edges, (edges**2).sum(axis=2)[..., None])
    return np.linalg.norm(centre[..., 0], axis=1)


def _vertices(block: Block) -> npt.NDArray[np.float64]:
    """(num_cells, num_vertices, dim)."""
    return block.coords[block.coord_dofs[:, vertex_nodes(block.coord_element)]]


CELL_QUANTITIES: dict[str, Callable[[Block], npt.NDArray[np.float64]]] = {
    "CellVolume": _volume,
    "Circumradius": _circumradius,
    "CellDiameter": _diameter,
}
