"""Meshes whose cells, vertices and cell frames are numbered at random, so that every orientation occurs."""

import itertools

import numpy as np
from petsc4py import PETSc

from femgpu.element import reference_cell
from femgpu.mesh.box import from_cell_list, kuhn_split, prism_split

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")
ALL_CELLS = (*CELLS, "prism")
MIXED = ("triangle+quadrilateral", "tetrahedron+prism", "hexahedron+prism", "tetrahedron+hexahedron+prism")


def frames(cell: str) -> np.ndarray:
    """(num_frames, num_vertices) vertex permutations that keep the orientation of the reference cell."""
    reference = reference_cell(cell)
    if reference.is_simplex:
        orders = np.array(list(itertools.permutations(range(reference.num_vertices))))
        edges = np.diff(reference.vertices[orders], axis=1)
        return orders[np.linalg.det(edges) * np.linalg.det(np.diff(reference.vertices, axis=0)) > 0]
    if cell == "prism":
        return prism_frames()
    found = []
    for axes in itertools.permutations(range(reference.dim)):
        for signs in itertools.product((-1, 1), repeat=reference.dim):
            rotation = np.eye(reference.dim)[list(axes)] * signs
            if np.linalg.det(rotation) > 0:
                moved = reference.vertices @ rotation
                found.append(np.abs(moved[:, None] - reference.vertices[None]).sum(axis=2).argmin(axis=1))
    return np.array(found)


def prism_frames() -> np.ndarray:
    """(6, 6) the rotations of the prism: turns about the axis, and half turns that swap top and bottom."""
    vertices = reference_cell("prism").vertices
    corners = vertices[:3, :2]
    found = []
    for order in itertools.permutations(range(3)):
        sign = np.linalg.det(np.diff(corners[list(order)], axis=0)) * np.linalg.det(np.diff(corners, axis=0))
        level = 1 if sign > 0 else -1
        onto = np.linalg.solve(np.c_[np.ones(3), corners], corners[list(order)])
        moved = np.c_[np.c_[np.ones(6), vertices[:, :2]] @ onto, level * vertices[:, 2]]
        found.append(np.abs(moved[:, None] - vertices[None]).sum(axis=2).argmin(axis=1))
    return np.array(found)


def grid(cell: str, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and cells of a box in PETSc's vertex order."""
    if cell in ("triangle", "tetrahedron", "prism"):
        points, cells = prism_split(counts) if cell == "prism" else kuhn_split(counts)
        return points / np.array(counts), cells
    dim = len(counts)
    points = np.stack(np.meshgrid(*[np.arange(n + 1) for n in counts], indexing="ij"), -1).reshape(-1, dim)
    strides = np.array([int(np.prod([n + 1 for n in counts[axis + 1 :]])) for axis in range(dim)])
    offsets = ((reference_cell(cell).vertices + 1) / 2 @ strides).astype(int)
    corners = np.indices(counts).reshape(dim, -1).T @ strides
    return points / np.array(counts), corners[:, None] + offsets


def random_mesh(
    cell: str, counts: tuple[int, ...], seed: int = 0, distort: float = 0.08, comm=PETSc.COMM_WORLD, turned: bool = False
):
    """A distorted box with random numbering, distributed; `turned` turns the frames of edges and faces, too, as PETSc does not."""
    points, cells = grid(cell, counts)
    rng = np.random.default_rng(seed)
    inside = ((points > 1e-9) & (points < 1 - 1e-9)).all(axis=1)
    points[inside] += distort / np.array(counts) * rng.uniform(-1, 1, (inside.sum(), len(counts)))
    choices = frames(cell)
    cells = np.take_along_axis(cells, choices[rng.integers(len(choices), size=len(cells))], axis=1)
    rng.shuffle(cells)
    number = rng.permutation(len(points))
    cells, points = number[cells], points[np.argsort(number)]
    if comm.getRank() > 0:
        cells, points = cells[:0], points[:0]
    dm = from_cell_list(cell, cells.astype(np.int32), points, comm)
    if turned:
        for point in range(dm.getDepthStratum(0)[1], dm.getChart()[1]):
            size = dm.getConeSize(point)
            dm.orientPoint(point, int(rng.integers(-1, 1) if size == 2 else rng.integers(-size, size)))
    if comm.getSize() > 1:
        dm.distribute(0)
    return dm


def random_cells(
    cell: str, num_cells: int, rng: np.random.Generator, shape: str = "distorted", numbering: np.random.Generator | None = None
) -> PETSc.DMPlex:
    """Any number of cells of a box, randomly numbered, on one rank.

    Args:
        cell: type of the cells.
        num_cells: how many.
        rng: random numbers.
        shape: "affine" leaves cells images of the reference cell under an affine map, "distorted" moves all vertices,
            "both" those of one half.
        numbering: random numbers of the numbering, default `rng`.
    """
    dim = reference_cell(cell).dim
    per_side = 1
    while len(grid(cell, (per_side,) * dim)[1]) < num_cells:
        per_side += 1
    points, cells = grid(cell, (per_side,) * dim)
    cells = cells[:num_cells]
    used, cells = np.unique(cells, return_inverse=True)
    points, cells = points[used], cells.reshape(num_cells, -1)
    moved = np.ones(len(points), bool) if shape == "distorted" else points[:, 0] > points[:, 0].mean()
    if shape != "affine":
        points[moved] += 0.1 / per_side * rng.uniform(-1, 1, (moved.sum(), dim))
    points = points @ (np.eye(dim) + rng.uniform(-0.2, 0.2, (dim, dim))).T
    numbering = rng if numbering is None else numbering
    choices = frames(cell)
    cells = np.take_along_axis(cells, choices[numbering.integers(len(choices), size=num_cells)], axis=1)
    number = numbering.permutation(len(points))
    cells, points = numbering.permutation(number[cells]), points[np.argsort(number)]
    return from_cell_list(cell, cells.astype(np.int32), points, PETSc.COMM_SELF)


def mixed_grid(kind: str, counts: tuple[int, ...]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Vertices, and cells of each type in PETSc's vertex order, of a conforming mesh.

    Args:
        kind: one of `MIXED`. Quadrilaterals alternate with pairs of triangles, hexahedra with pairs of prisms; tetrahedra
            lie above prisms, and there is nothing above hexahedra where both occur.
        counts: grid cells per direction.
    """
    names = kind.split("+")
    corner = np.indices(counts).reshape(len(counts), -1)
    upper = corner[-1] >= (counts[-1] + 1) // 2
    right = corner[0] >= (counts[0] + 1) // 2
    odd = (corner[0] + corner[1]) % 2 == 1
    where = {
        "triangle+quadrilateral": {"triangle": ~odd, "quadrilateral": odd},
        "tetrahedron+prism": {"tetrahedron": upper, "prism": ~upper},
        "hexahedron+prism": {"hexahedron": odd, "prism": ~odd},
        "tetrahedron+hexahedron+prism": {"tetrahedron": upper & ~right, "hexahedron": ~upper & right, "prism": ~upper & ~right},
    }[kind]
    cells = {}
    for name in names:
        points, every = grid(name, counts)
        cells[name] = grid_cells(every, name, counts)[where[name]].reshape(-1, every.shape[1])
    used, number = np.unique(np.concatenate([each.ravel() for each in cells.values()]), return_inverse=True)
    bounds = np.cumsum([each.size for each in cells.values()])[:-1]
    split = np.split(number.ravel(), bounds)
    return points[used], {name: part.reshape(cells[name].shape) for name, part in zip(names, split, strict=True)}


def grid_cells(cells: np.ndarray, name: str, counts: tuple[int, ...]) -> np.ndarray:
    """(num_grid_cells, num_per_grid_cell, num_vertices) cells sorted by the grid cell that they are in."""
    total = int(np.prod(counts))
    if name == "prism":
        plane = cells.reshape(counts[0] * counts[1], 2, counts[2], 6)
        return plane.swapaxes(1, 2).reshape(total, 2, 6)
    return cells.reshape(total, -1, cells.shape[1])


def random_mixed(kind: str, counts: tuple[int, ...], seed: int = 0, distort: float = 0.08, comm=PETSc.COMM_WORLD):
    """A distorted mesh of several cell types with random numbering, distributed."""
    points, blocks = mixed_grid(kind, counts)
    rng = np.random.default_rng(seed)
    inside = ((points > 1e-9) & (points < 1 - 1e-9)).all(axis=1)
    if "tetrahedron+hexahedron" in kind:
        edge = [(counts[axis] + 1) // 2 / counts[axis] for axis in (0, 2)]
        inside &= ~((points[:, 0] > edge[0] - 1e-9) & (points[:, 2] > edge[1] - 1e-9))
    points[inside] += distort / np.array(counts) * rng.uniform(-1, 1, (inside.sum(), len(counts)))
    number = rng.permutation(len(points))
    shuffled = {}
    for name, cells in blocks.items():
        choices = frames(name)
        shuffled[name] = number[np.take_along_axis(cells, choices[rng.integers(len(choices), size=len(cells))], axis=1)]
    dm = mixed_plex(shuffled, points[np.argsort(number)], rng, comm)
    if comm.getSize() > 1:
        dm.distribute(0)
    return dm


POLYTOPES = {
    "triangle": "TRIANGLE",
    "quadrilateral": "QUADRILATERAL",
    "tetrahedron": "TETRAHEDRON",
    "hexahedron": "HEXAHEDRON",
    "prism": "TRI_PRISM",
}


def mixed_plex(blocks: dict[str, np.ndarray], points: np.ndarray, rng: np.random.Generator, comm=PETSc.COMM_WORLD):
    """A DMPlex on the first rank, from the vertices of the cells of each type; cell numbers go at random over the types."""
    dim = points.shape[1]
    cells = [(name, cell) for name, block in blocks.items() for cell in block] if comm.getRank() == 0 else []
    cells = [cells[i] for i in rng.permutation(len(cells))]
    points = points if comm.getRank() == 0 else points[:0]
    dm = PETSc.DMPlex().create(comm)
    dm.setDimension(dim)
    dm.createLabel("celltype")
    dm.setChart(0, len(cells) + len(points))
    for number, (name, cell) in enumerate(cells):
        dm.setConeSize(number, len(cell))
        dm.setCellType(number, getattr(PETSc.DM.PolytopeType, POLYTOPES[name]))
    for vertex in range(len(cells), len(cells) + len(points)):
        dm.setCellType(vertex, PETSc.DM.PolytopeType.POINT)
    dm.setUp()
    for number, (_, cell) in enumerate(cells):
        dm.setCone(number, (cell + len(cells)).astype(np.int32))
    dm.symmetrize()
    dm.stratify()
    dm.interpolate()
    dm.setCoordinateDim(dim)
    start, end = len(cells), len(cells) + len(points)
    section = PETSc.Section().create(comm)
    section.setNumFields(1)
    section.setFieldComponents(0, dim)
    section.setChart(start, end)
    for vertex in range(start, end):
        section.setDof(vertex, dim)
        section.setFieldDof(vertex, 0, dim)
    section.setUp()
    dm.getCoordinateDM().setLocalSection(section)
    coordinates = PETSc.Vec().createSeq(points.size, bsize=dim, comm=PETSc.COMM_SELF)
    coordinates.setArray(points.ravel())
    dm.setCoordinatesLocal(coordinates)
    return dm
