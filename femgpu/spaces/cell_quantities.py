"""Sizes and maps of cells, and sizes of their facets, as discontinuous functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import numpy.typing as npt

from femgpu.element import FacetQuadrature, default_rule, facet_rules
from femgpu.errors import FormError
from femgpu.mesh import Block, Mesh
from femgpu.mesh.geometry import chunks, vertex_nodes
from femgpu.spaces.function import Function
from femgpu.spaces.function_space import FunctionSpace

# The area of a facet that is not flat is integrated with a rule of this degree for each degree of the coordinates.
_BENT = 8


def cell_quantity(mesh: Mesh, name: str) -> Function:
    """A size of every cell, or its map, as a DG Function, also after the mesh moved; one object per mesh and name. Collective.

    Args:
        mesh: the mesh.
        name: as UFL calls it. One of `CELL_QUANTITIES`, of degree 0: CellVolume; Circumradius (simplices only); CellDiameter, the
            largest distance between two vertices; MinCellEdgeLength and MaxCellEdgeLength. All but the first see the vertices
            only, also of curved cells. Or one of `CELL_MAPS`: CellCoordinate X on the unit cell [0, 1]^dim (a simplex or prism is
            its corner at 0) with the axes of PETSc's reference cell, and Jacobian, J[i, k] = dx_i / dX_k. Or one of
            `FACET_QUANTITIES`, with a component for each of the `facet_directions`, the size of the cell's facet there: FacetArea;
            MinFacetEdgeLength and MaxFacetEdgeLength, by the vertices.

    Raises:
        FormError: for a name that is not known, or the circumradius of cells that have none.
    """
    known = (*CELL_QUANTITIES, *CELL_MAPS, *FACET_QUANTITIES)
    if name not in known:
        raise FormError(f"cell quantity {name!r}; expected one of {', '.join(known)}")
    if name not in mesh.kept:
        degree, shape = _space(mesh, name)
        function = Function(FunctionSpace(mesh.clone_dm(), "DG", degree, shape), name)
        _fill(function)
        mesh.kept[name] = function
        mesh.motion.followers.append(partial(_fill, function))
    return mesh.kept[name]


def facet_directions(mesh: Mesh) -> npt.NDArray[np.int64]:
    """(num_directions, dim) outward normals of the facets of the mesh's reference cells, each once, their entries -1, 0 or 1."""
    return np.unique(np.concatenate([normals for block in mesh.blocks for _, normals in _facets(block)]), axis=0)


def _facets(block: Block) -> list[tuple[FacetQuadrature, npt.NDArray[np.int64]]]:
    """A rule for each type of facet, and (num_facets, dim) normals, their entries -1, 0 or 1."""
    rules = facet_rules(block.cell, 0 if block.always_affine else _BENT * block.coord_element.degree)
    return [(rule, np.rint(rule.normals / np.abs(rule.normals).max(axis=1, keepdims=True)).astype(np.int64)) for rule in rules]


def _fill(function: Function) -> None:
    """Computes a size of every cell, or its map, by the function's name, from the present coordinates."""
    local, field = np.zeros(function.space.num_local), function.space.field
    for block in function.space.mesh.blocks:
        dofs = field.dofs(block.index)
        if function.name in CELL_MAPS:
            local[dofs] = CELL_MAPS[function.name](block, field.elements[block.index].nodes).reshape(dofs.shape)
        elif function.name in FACET_QUANTITIES:
            directions = facet_directions(function.space.mesh)
            for rule, normals in _facets(block):
                for i, normal in enumerate(normals):
                    place = np.flatnonzero((directions == normal).all(axis=1))
                    local[dofs[:, place[0]]] = FACET_QUANTITIES[function.name](block, rule, i)
        else:
            local[dofs[:, 0]] = CELL_QUANTITIES[function.name](block)
    function.set_local(local)


def _space(mesh: Mesh, name: str) -> tuple[int, tuple[int, ...]]:
    """Degree and value shape of what holds a quantity exactly."""
    if name in CELL_QUANTITIES:
        return 0, ()
    if name in FACET_QUANTITIES:
        return 0, (len(facet_directions(mesh)),)
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
    rule = default_rule(block.cell, block.dim * block.coord_element.degree)
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


def _area(block: Block, rule: FacetQuadrature, i: int) -> npt.NDArray[np.float64]:
    """(num_cells,) of the i-th facet of a rule."""
    # Two directions along the facet, or one, or none: orthonormal on the reference cell.
    along = np.linalg.svd(rule.normals[i][None])[2][1:]
    areas = np.empty(block.num_cells)
    for part in chunks(block.num_cells):
        tangents = block.jacobians(rule.points[i], part) @ along.T
        areas[part] = np.sqrt(np.linalg.det(tangents.swapaxes(2, 3) @ tangents)) @ rule.weights[i]
    return areas


def _facet_edges(block: Block, rule: FacetQuadrature, i: int) -> npt.NDArray[np.float64]:
    """(num_edges, num_cells) lengths of the edges of the i-th facet of a rule."""
    vertices = set(block.reference.facets[rule.facets[i]])
    return _distances(block, [edge for edge in block.reference.edges if vertices.issuperset(edge)])


def _shortest_of_facet(block: Block, rule: FacetQuadrature, i: int) -> npt.NDArray[np.float64]:
    return _facet_edges(block, rule, i).min(axis=0)


def _longest_of_facet(block: Block, rule: FacetQuadrature, i: int) -> npt.NDArray[np.float64]:
    return _facet_edges(block, rule, i).max(axis=0)


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
FACET_QUANTITIES: dict[str, Callable[[Block, FacetQuadrature, int], npt.NDArray[np.float64]]] = {
    "FacetArea": _area,
    "MinFacetEdgeLength": _shortest_of_facet,
    "MaxFacetEdgeLength": _longest_of_facet,
}
