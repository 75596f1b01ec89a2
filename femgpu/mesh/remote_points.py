"""Values at points whose cells may be on other ranks, each rank with points of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from femgpu.errors import collective
from femgpu.mesh.box_tree import BoxTree
from femgpu.mesh.locate_points import FoundPoints, PointFinder

Evaluate = Callable[[FoundPoints], npt.NDArray[np.float64]]


def values_at(
    finder: PointFinder, points: npt.NDArray[np.float64], num_comp: int, evaluate: Evaluate
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Asks the ranks in whose boxes points lie; collective.

    Args:
        finder: knows the cells of this rank, and the ranks that have cells.
        points: (num_points, dim) finite; those of other ranks may differ.
        num_comp: numbers per point.
        evaluate: values (n, num_comp) at n points, zero where they are in no cell of this rank.

    Returns:
        (num_points, num_comp) values; of a point that several ranks hold those of the first of them; and (num_points,) whether a
        rank holds it.
    """
    mpi, search = finder.mpi, finder.here
    # Pairs of a point and a rank, by rank.
    point, rank = _candidates(np.array(mpi.allgather(search.box)), points)
    ends = np.searchsorted(rank, np.arange(1, mpi.size))
    asked = mpi.alltoall(np.split(points[point], ends))
    with collective(mpi):
        cells, reference = search.find(np.concatenate(asked))
        here = FoundPoints(cells, reference, cells >= 0)
        values = evaluate(here)
    parts = np.cumsum([len(part) for part in asked])[:-1]
    answers = mpi.alltoall(list(zip(np.split(here.inside, parts), np.split(values, parts), strict=True)))
    held, given = (np.concatenate(column) for column in zip(*answers, strict=True))
    result, inside = np.zeros((len(points), num_comp)), np.zeros(len(points), bool)
    # The first rank is written last.
    order = np.flatnonzero(held)[::-1]
    result[point[order]] = given[order]
    inside[point[order]] = True
    return result, inside


def _candidates(
    boxes: npt.NDArray[np.float64], points: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of points and of the ranks in whose boxes (num_ranks, 2, dim) they lie, by rank."""
    ranks = np.flatnonzero((boxes[:, 0] <= boxes[:, 1]).all(axis=1))
    point, box = BoxTree(boxes[ranks, 0], boxes[ranks, 1]).search(points)
    order = np.lexsort((point, ranks[box]))
    return point[order], ranks[box][order]
