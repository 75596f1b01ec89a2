"""Reflections of the reference simplices: combinations of basis functions, polynomials and derivatives that are even or odd.

A reflection swaps two vertices. Triangles have one here, tetrahedra two that commute; what is even or odd under each has one of two
or four classes, a bit for each reflection under which it is odd. Integrals of products are zero but where the classes of all
factors cancel, so that a table of such combinations has a half or three quarters of zeros, in places that are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from femgpu.element.lagrange import LagrangeElement
from femgpu.element.orthonormal import orthonormal

# The vertices that each reflection swaps.
_SWAPS = {"triangle": ((1, 2),), "tetrahedron": ((1, 2), (0, 3))}
# Derivatives along X, Y and Z as sums of those that are even or odd, and the classes of these; kernels have them in `mirrors.cl`.
_DERIVATIVES = {
    "triangle": (((1.0, 1.0), (-1.0, 1.0)), (1, 0)),
    "tetrahedron": (((1.0, 1.0, 1.0), (-1.0, 1.0, 1.0), (0.0, 0.0, 2.0)), (1, 0, 2)),
}
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Mirror:
    """Combinations of numbers, each of which is even or odd under every reflection.

    Attributes:
        order: which number comes to each place, class by class.
        rounds: pairs of these places for each reflection: at the first place comes the sum of both numbers, at the second their
            difference, first minus second.
        begins: (num_classes + 1,) where each class begins.
    """

    order: tuple[int, ...]
    rounds: tuple[tuple[tuple[int, int], ...], ...]
    begins: tuple[int, ...]

    @property
    def matrix(self) -> npt.NDArray[np.float64]:
        """(size, size) what makes the combinations, class by class."""
        found = np.eye(len(self.order))[list(self.order)]
        for pairs in self.rounds:
            found = _round(len(found), pairs) @ found
        return found


@cache
def mirror_of(element: LagrangeElement) -> Mirror | None:
    """Combinations of an element's basis functions; None where its nodes are not symmetric, and on other cells."""
    nodes = element.nodes
    images = [_nearest(nodes, points) for points in reflected(element.cell, nodes)]
    if not images or any(image is None for image in images):
        return None
    matrix, rounds = np.eye(len(nodes)), []
    turned = [np.eye(len(nodes))[image] for image in images]
    for turn in turned:
        # What the reflection makes of the combinations so far: each becomes one of them, or its negative.
        partners = np.abs(matrix @ turn @ np.linalg.inv(matrix)).argmax(axis=1)
        rounds.append(tuple((i, int(j)) for i, j in enumerate(partners) if i < j))
        matrix = _round(len(nodes), rounds[-1]) @ matrix
    signs = [np.diag(matrix @ turn @ np.linalg.inv(matrix)) for turn in turned]
    classes = sum((1 << bit) * (sign < 0) for bit, sign in enumerate(signs))
    order = np.argsort(classes, kind="stable")
    places = np.argsort(order).tolist()
    moved = tuple(tuple((places[i], places[j]) for i, j in pairs) for pairs in rounds)
    return Mirror(tuple(order.tolist()), moved, _begins(np.bincount(classes, minlength=1 << len(turned))))


@cache
def mirrored_polynomials(cell: str, degree: int) -> tuple[npt.NDArray[np.float64], tuple[int, ...]]:
    """Orthonormal polynomials that are even or odd.

    Args:
        cell: triangle or tetrahedron.
        degree: of the polynomials.

    Returns:
        (size, size) each as a sum of those of `orthonormal`, row by row, class by class; (num_classes + 1,) where classes begin.
    """
    points = LagrangeElement(cell, max(degree, 1)).nodes
    values = orthonormal(cell, degree, points)
    size, found = values.shape[1], []
    turned = [np.linalg.lstsq(values, orthonormal(cell, degree, image), rcond=None)[0] for image in reflected(cell, points)]
    for one in range(1 << len(turned)):
        onto = np.eye(size)
        for bit, turn in enumerate(turned):
            onto = onto @ (np.eye(size) + (1 - 2 * (one >> bit & 1)) * turn.T) / 2
        kept, vectors = np.linalg.eigh((onto + onto.T) / 2)
        found.append(vectors[:, kept > 0.5].T)
    # As orthonormal as can be: roundings of the projections add up at high degrees.
    left, _, right = np.linalg.svd(np.concatenate(found))
    return left @ right, _begins(np.array([len(rows) for rows in found]))


def mirrored_derivatives(cell: str) -> tuple[npt.NDArray[np.float64], tuple[int, ...]]:
    """(dim, dim) derivatives along X, Y and Z as sums of those that are even or odd, row by row; the classes of these."""
    rows, classes = _DERIVATIVES[cell]
    return np.array(rows), classes


def reflected(cell: str, points: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """Points (num_points, dim) of a reference simplex as each reflection has them; nothing on other cells."""
    shares = 0.5 * (points + 1)
    shares = np.column_stack([1 - shares.sum(axis=1), shares])
    found = []
    for i, j in _SWAPS.get(cell, ()):
        image = shares.copy()
        image[:, [i, j]] = shares[:, [j, i]]
        found.append(2 * image[:, 1:] - 1)
    return found


def _round(size: int, pairs: tuple[tuple[int, int], ...]) -> npt.NDArray[np.float64]:
    found = np.eye(size)
    for i, j in pairs:
        found[i, j] = found[j, i] = 1
        found[j, j] = -1
    return found


def _nearest(nodes: npt.NDArray[np.float64], points: npt.NDArray[np.float64]) -> npt.NDArray[np.intp] | None:
    """The node that each point is; None where one is no node."""
    distances = np.abs(points[:, None] - nodes).max(axis=2)
    return None if (distances.min(axis=1) > _ROUNDING).any() else distances.argmin(axis=1)


def _begins(counts: npt.NDArray[np.intp]) -> tuple[int, ...]:
    return (0, *np.cumsum(counts).tolist())
