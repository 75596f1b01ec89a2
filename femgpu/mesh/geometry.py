"""The map from the reference cell to every cell: points, Jacobians, and the tests of both.

Work goes over chunks of cells, so that temporaries stay in cache. In a chunk the nodes come first, (num_basis, num_cells, dim): a
product with a table is then one matrix product for all of its cells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from femgpu.element import LagrangeElement
from femgpu.errors import MeshError

CHUNK = 1 << 12
# How a list of cells for createFromCellList becomes right. PETSc's tetrahedron is a left-handed one.
_REMEDIES = {
    "interval": "In a list of cells, put the smaller coordinate first",
    "triangle": "In a list of cells, swap two vertices of each triangle with det(x1 - x0, x2 - x0) < 0",
    "quadrilateral": "In a list of cells, go around each cell counter-clockwise",
    "tetrahedron": "In a list of cells, swap two vertices of each tetrahedron with det(x1 - x0, x2 - x0, x3 - x0) > 0: all of "
    "VTK's are such, take [0, 2, 1, 3]",
    "hexahedron": "In a list of cells in VTK's order, take [0, 3, 2, 1, 4, 5, 6, 7]",
    "prism": "In a list of cells in VTK's order, take [0, 2, 1, 3, 4, 5]",
}
AFFINE_TOLERANCE = 1e-12


def chunks(num_cells: int) -> Iterator[slice]:
    """Slices that cover range(num_cells) in pieces of `CHUNK` cells."""
    return (slice(start, min(start + CHUNK, num_cells)) for start in range(0, num_cells, CHUNK))


def map_points(
    coords: npt.NDArray[np.float64], dofs: npt.NDArray[np.int32], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Images of reference points.

    Each is its nearest node plus a sum of differences from that node. So the image of a node is that node bit for bit, and a
    coordinate that all nodes of an edge or a face have in common is that of all points on it.

    Args:
        coords: (num_nodes, dim) node coordinates.
        dofs: (num_cells, num_basis) nodes of each cell.
        values: (num_points, num_basis) geometry basis at the points.

    Returns:
        (num_cells, num_points, dim).
    """
    mapped = np.empty((len(dofs), len(values), coords.shape[1]))
    nearest = np.abs(values).argmax(axis=1)
    groups = [(node, np.flatnonzero(nearest == node)) for node in np.unique(nearest)]
    for part in chunks(len(dofs)):
        x = coords[dofs[part].T]
        for node, points in groups:
            mapped[part, points] = (_times(values[points], x - x[node]) + x[node]).swapaxes(0, 1)
    return mapped


def _times(table: npt.NDArray[np.float64], x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_rows, num_cells, dim) product of a table (num_rows, num_basis) with the nodes (num_basis, num_cells, dim) of cells."""
    return (table @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])


def _cells_last(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_basis, dim, num_cells) nodes of cells, so that numbers that are computed with stand side by side."""
    return np.ascontiguousarray(x.swapaxes(1, 2))


def map_jacobians(
    coords: npt.NDArray[np.float64], dofs: npt.NDArray[np.int32], grads: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Jacobians J[i, k] = dx_i / dX_k of the map.

    Args:
        coords: (num_nodes, dim) node coordinates.
        dofs: (num_cells, num_basis) nodes of each cell.
        grads: (num_points, num_basis, dim) gradients of the geometry basis.

    Returns:
        (num_cells, num_points, dim, dim).
    """
    num_points, num_basis, dim = grads.shape
    flat = grads.transpose(0, 2, 1).reshape(num_points * dim, num_basis)
    cell_jac = np.empty((len(dofs), num_points, dim, dim))
    for part in chunks(len(dofs)):
        x = coords[dofs[part].T]
        cell_jac[part] = _times(flat, x).reshape(num_points, dim, -1, dim).transpose(2, 0, 3, 1)
    return cell_jac


def map_hessians(
    coords: npt.NDArray[np.float64], dofs: npt.NDArray[np.int32], hessians: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Second derivatives d2 x_i / dX_k dX_l of the map.

    Args:
        coords: (num_nodes, dim) node coordinates.
        dofs: (num_cells, num_basis) nodes of each cell.
        hessians: (num_points, num_basis, dim, dim) second derivatives of the geometry basis.

    Returns:
        (num_cells, num_points, dim, dim, dim), indices i, k, l.
    """
    return np.einsum("qbkl,ebi->eqikl", hessians, coords[dofs], optimize=True)


def physical_hessians(
    hessians: npt.NDArray[np.float64],
    gradients: npt.NDArray[np.float64],
    inverse: npt.NDArray[np.float64],
    bend: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float64]:
    """Second derivatives of functions with respect to physical coordinates.

    Args:
        hessians: (num_cells, num_points, num_functions, dim, dim) those with respect to reference coordinates.
        gradients: (num_cells, num_points, num_functions, dim) first derivatives with respect to physical coordinates.
        inverse: (num_cells, num_points, dim, dim) inverse Jacobians dX_k / dx_d.
        bend: second derivatives of the map, as `map_hessians` gives them; None for affine cells, where they vanish.

    Returns:
        The shape of `hessians`.
    """
    if bend is not None:
        hessians = hessians - np.einsum("eqci,eqikl->eqckl", gradients, bend, optimize=True)
    return np.einsum("eqki,eqckl,eqlj->eqcij", inverse, hessians, inverse, optimize=True)


def always_affine(element: LagrangeElement) -> bool:
    """Whether cells with this geometry element are affine wherever their nodes are."""
    return element.reference.is_simplex and element.degree == 1


def affine_mask(element: LagrangeElement, coords: npt.NDArray[np.float64], dofs: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Which cells are images of the reference cell under an affine map.

    A cell is affine when its nodes lie within tolerance of the affine map that fits them best. The tolerance is
    `AFFINE_TOLERANCE` times the cell's extent, plus the rounding of the coordinates themselves: a fine mesh far from the
    origin is still affine.

    Args:
        element: the geometry element.
        coords: (num_nodes, dim) node coordinates.
        dofs: (num_cells, num_basis) nodes of each cell.

    Returns:
        (num_cells,) mask.
    """
    if always_affine(element):
        return np.ones(len(dofs), bool)
    linear = np.c_[np.ones(element.num_basis), element.nodes]
    residual = np.eye(element.num_basis) - linear @ np.linalg.pinv(linear)
    rounding = 8 * np.finfo(float).eps
    mask = np.empty(len(dofs), bool)
    for part in chunks(len(dofs)):
        x = _cells_last(coords[dofs[part].T])
        low, high = x.min(axis=0), x.max(axis=0)
        allowed = AFFINE_TOLERANCE * (high - low).max(axis=0) + rounding * np.maximum(-low, high).max(axis=0)
        mask[part] = np.abs(_times(residual, x)).max(axis=(0, 1)) <= allowed
    return mask


def check_finite(coords: npt.NDArray[np.float64]) -> None:
    """Refuses node coordinates (num_nodes, dim) that are not finite with a MeshError."""
    lost = np.flatnonzero(~np.isfinite(coords).all(axis=1))
    if len(lost):
        raise MeshError(f"{len(lost)} of {len(coords)} nodes have coordinates that are not finite; the first is node {lost[0]}")


def check_orientation(
    element: LagrangeElement,
    coords: npt.NDArray[np.float64],
    dofs: npt.NDArray[np.int32],
    affine: npt.NDArray[np.bool_],
    ids: npt.NDArray[np.int32],
    points: npt.NDArray[np.float64],
) -> None:
    """Refuses cells that are inverted or collapsed at any of the points.

    Args:
        element: the geometry element.
        coords: (num_nodes, dim) node coordinates.
        dofs: (num_cells, num_basis) nodes of each cell.
        affine: (num_cells,) mask of affine cells, for which one point is enough.
        ids: (num_cells,) numbers of the cells within the mesh.
        points: (num_points, dim) reference points.

    Raises:
        MeshError: when det J <= 0 somewhere, or a coordinate is not finite; names the first such cell and its vertices.
    """
    check_finite(coords)
    grads = element.tabulate(points)[1]
    bad: list[npt.NDArray] = []
    worst = np.inf
    for part in chunks(len(dofs)):
        at = grads[:1] if affine[part].all() else grads
        det = _determinants(coords[dofs[part].T], at).min(axis=0)
        wrong = np.flatnonzero(det <= 0)
        if len(wrong):
            bad.append(wrong + part.start)
            worst = min(worst, float(det[wrong].min()))
    if bad:
        cells = np.concatenate(bad)
        count = f"{len(cells)} of {len(dofs)}"
        raise MeshError(_inverted(element, coords[dofs[cells[0]]], int(ids[cells[0]]), count, worst))


def _determinants(x: npt.NDArray[np.float64], grads: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_points, num_cells) det J in cells with the nodes x (num_basis, num_cells, dim), for gradients as of `map_jacobians`."""
    num_points, num_basis, dim = grads.shape
    flat = grads.transpose(0, 2, 1).reshape(num_points * dim, num_basis)
    # Row k is dx / dX_k.
    rows = _times(flat, _cells_last(x)).reshape(num_points, dim, dim, -1).transpose(1, 2, 0, 3)
    if dim == 1:
        return rows[0, 0]
    if dim == 2:
        return rows[0, 0] * rows[1, 1] - rows[0, 1] * rows[1, 0]
    (a, b, c), (d, e, f), (g, h, i) = rows
    return g * (b * f - c * e) + h * (c * d - a * f) + i * (a * e - b * d)


def _inverted(element: LagrangeElement, nodes: npt.NDArray, cell: int, count: str, worst: float) -> str:
    """The message about inverted cells, of which `nodes` are the coordinates of the first one's nodes."""
    vertices = nodes[vertex_nodes(element)]
    corners = ", ".join("(" + ", ".join(f"{v:.6g}" for v in vertex) + ")" for vertex in vertices)
    return (
        f"{count} {element.cell} cells have det J <= 0 (inverted or collapsed; smallest det J "
        f"{worst:.3g}); the first is cell {cell} with vertices {corners}. Expected positively oriented cells in PETSc's "
        f"vertex order. {_REMEDIES[element.cell]}. In gmsh, gmsh.model.mesh.reverse() turns a mesh around; a mesh that moved "
        "has moved too far"
    )


def vertex_nodes(element: LagrangeElement) -> npt.NDArray[np.int64]:
    """(num_vertices,) node number at each vertex of the reference cell."""
    distance = np.abs(element.nodes[None, :, :] - element.reference.vertices[:, None, :]).max(axis=2)
    return distance.argmin(axis=1)


def node_vertices(element: LagrangeElement) -> npt.NDArray[np.int64]:
    """(num_basis,) vertex of the reference cell at each node of an element of degree 1."""
    return np.argsort(vertex_nodes(element))
