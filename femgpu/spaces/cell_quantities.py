"""Sizes and maps of cells as discontinuous functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
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
    """A size of every cell, or its map, as a DG Function, also after the mesh moved; one object per mesh and name. Collective.

    Args:
        mesh: the mesh.
        name: as UFL calls it. One of `CELL_QUANTITIES`, of degree 0: CellVolume; Circumradius (simplices only); CellDiameter, the
            largest distance between two vertices; MinCellEdgeLength and MaxCellEdgeLength. All but the first see the vertices
            only, also of curved cells. Or one of `CELL_MAPS`: CellCoordinate X on the unit cell [0, 1]^dim (a simplex or prism is
            its corner at 0) with the axes of PETSc's reference cell, and Jacobian, J[i, k] = dx_i / dX_k.

    Raises:
        FormError: for a name that is not known, or the circumradius of cells that have none.
    """
    if name not in (*CELL_QUANTITIES, *CELL_MAPS):
        raise FormError(f"cell quantity {name!r}; expected one of {', '.join((*CELL_QUANTITIES, *CELL_MAPS))}")
    if name not in mesh.kept:
        degree, shape = _map_space(mesh, name) if name in CELL_MAPS else (0, ())
        function = Function(FunctionSpace(mesh.clone_dm(), "DG", degree, shape), name)
        _fill(function)
        mesh.kept[name] = function
        mesh.motion.followers.append(partial(_fill, function))
    return mesh.kept[name]


def _fill(function: Function) -> None:
    """Computes a size of every cell, or its map, by the function's name, from the present coordinates."""
    local, field = np.zeros(function.space.num_local), function.space.field
    for block in function.space.mesh.blocks:
        dofs = field.dofs(block.index)
        if function.name in CELL_MAPS:
            local[dofs] = CELL_MAPS[function.name](block, field.elements[block.index].nodes).reshape(dofs.shape)
        else:
            local[dofs[:, 0]] = CELL_QUANTITIES[function.name](block)
    function.set_local(local)


def _map_space(mesh: Mesh, name: str) -> tuple[int, tuple[int, ...]]:
    """Degree and value shape of what holds the coordinate or the Jacobian of every cell exactly."""
    if name == "CellCoordinate":
        return 1, (mesh.dim,)
    degrees = [0 if block.always_affine else block.coord_element.degree for block in mesh.blocks]
    return max(degrees), (mesh.dim, mesh.dim)


def _coordinate(block: Block, nodes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_cells, num_nodes, dim) the nodes on the unit cell; PETSc's reference cell is twice as large."""
    return np.broadcast_to((nodes + 1) / 2, (block.num_cells, *nodes.shape))


def _jacobian(block: Block, nodes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_cells, num_nodes, dim, dim) with respect to coordinates on the unit cell."""
    return 2 * block.jacobians(nodes)


def _volume(block: Block) -> npt.NDArray[np.float64]:
    rule = basix_rule(block.cell, block.dim * block.coord_element.degree)
    volumes = np.empty(block.num_cells)
    for part in chunks(block.num_cells):
        volumes[part] = np.linalg.det(block.jacobians(rule.points, part)) @ rule.weights
    return volumes


def _diameter(block: Block) -> npt.NDArray[np.float64]:
    return _distances(block, itertools.combinations(range(block.reference.num_vertices), 2)).max(axis=0)


def _shortest_edge(block: Block) -> npt.NDArray[np.float64]:
    return _distances(block, block.reference.edges).min(axis=0)


def _longest_edge(block: Block) -> npt.NDArray[np.float64]:
    return _distances(block, block.reference.edges).max(axis=0)


def _distances(block: Block, pairs: Iterable[tuple[int, int]]) -> npt.NDArray[np.float64]:
    """(num_pairs, num_cells) distances between two vertices."""
    vertices = _vertices(block)
    return np.array([np.linalg.norm(vertices[:, i] - vertices[:, j], axis=1) for i, j in pairs])


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
    "MinCellEdgeLength": _shortest_edge,
    "MaxCellEdgeLength": _longest_edge,
}
CELL_MAPS: dict[str, Callable[[Block, npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    "CellCoordinate": _coordinate,
    "Jacobian": _jacobian,
}
