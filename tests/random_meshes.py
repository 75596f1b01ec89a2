"""Meshes whose cells, vertices and cell frames are numbered at random, so that every orientation occurs."""

import itertools

import numpy as np
from petsc4py import PETSc

from femgpu.element import reference_cell
from femgpu.mesh.box import kuhn_split

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")


def frames(cell: str) -> np.ndarray:
    """(num_frames, num_vertices) vertex permutations that keep the orientation of the reference cell."""
    reference = reference_cell(cell)
    if reference.is_simplex:
        orders = np.array(list(itertools.permutations(range(reference.num_vertices))))
        edges = np.diff(reference.vertices[orders], axis=1)
        return orders[np.linalg.det(edges) * np.linalg.det(np.diff(reference.vertices, axis=0)) > 0]
    found = []
    for axes in itertools.permutations(range(reference.dim)):
        for signs in itertools.product((-1, 1), repeat=reference.dim):
            rotation = np.eye(reference.dim)[list(axes)] * signs
            if np.linalg.det(rotation) > 0:
                moved = reference.vertices @ rotation
                found.append(np.abs(moved[:, None] - reference.vertices[None]).sum(axis=2).argmin(axis=1))
    return np.array(found)


def grid(cell: str, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and cells of a box in PETSc's vertex order."""
    if cell in ("triangle", "tetrahedron"):
        points, cells = kuhn_split(counts)
        return points / np.array(counts), cells
    dim = len(counts)
    points = np.stack(np.meshgrid(*[np.arange(n + 1) for n in counts], indexing="ij"), -1).reshape(-1, dim)
    strides = np.array([int(np.prod([n + 1 for n in counts[axis + 1 :]])) for axis in range(dim)])
    offsets = ((reference_cell(cell).vertices + 1) / 2 @ strides).astype(int)
    corners = np.indices(counts).reshape(dim, -1).T @ strides
    return points / np.array(counts), corners[:, None] + offsets


def random_mesh(cell: str, counts: tuple[int, ...], seed: int = 0, distort: float = 0.08, comm=PETSc.COMM_WORLD):
    """A distorted box with random numbering, distributed."""
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
    dm = PETSc.DMPlex().createFromCellList(len(counts), cells.astype(np.int32), points, interpolate=True, comm=comm)
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
    return PETSc.DMPlex().createFromCellList(dim, cells.astype(np.int32), points, interpolate=True, comm=PETSc.COMM_SELF)
