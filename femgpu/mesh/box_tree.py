"""A tree of boxes: which boxes hold which points, for many of both at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from femgpu.mesh.locality import along_curve

# Boxes per box of the next level.
_FAN = 4


class BoxTree:
    """Boxes in the order of a space-filling curve, bounded in groups of groups.

    Built by one sort and searched level by level, both in whole arrays; sizes and proportions of boxes may differ widely.

    Args:
        lower: (num_boxes, dim) smallest coordinates.
        upper: (num_boxes, dim) largest coordinates.
    """

    def __init__(self, lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]):
        self._order = np.argsort(along_curve(0.5 * (lower + upper)), kind="stable")
        levels = [(lower[self._order], upper[self._order])]
        while len(levels[-1][0]) > _FAN:
            first = np.arange(0, len(levels[-1][0]), _FAN)
            low, high = levels[-1]
            levels.append((np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)))
        self._levels = levels[::-1]

    def search(self, points: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All pairs of a point and a box that holds it.

        Args:
            points: (num_points, dim).

        Returns:
            Numbers of the points and of the boxes, both (num_pairs,) int64.
        """
        top = len(self._levels[0][0])
        point, box = np.repeat(np.arange(len(points)), top), np.tile(np.arange(top), len(points))
        for depth, (lower, upper) in enumerate(self._levels):
            if depth:
                box = (box[:, None] * _FAN + np.arange(_FAN)).ravel()
                exists = box < len(lower)
                point, box = np.repeat(point, _FAN)[exists], box[exists]
            inside = ((lower[box] <= points[point]) & (points[point] <= upper[box])).all(axis=1)
            point, box = point[inside], box[inside]
        return point, self._order[box]
