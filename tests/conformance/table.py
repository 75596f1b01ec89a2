"""What each schedule must serve, so that refusing is no way to pass, and the limits of devices that plans are drawn for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from random_meshes import ALL_CELLS

from femgpu.element.reference import TENSOR_CELLS
from femgpu.kernels.schedules.sumfact_item import LANES
from femgpu.kernels.work import TARGETS


@dataclass(frozen=True)
class Serves:
    """What a schedule must serve; what it does beyond that is tested as well.

    Attributes:
        targets: in physical coordinates.
        reference: targets in reference coordinates.
        cells: types of cells.
        facets: whether integrals over facets.
        degree: up to which.
        parameters: values of its parameters, increasing.
        lines: whether its plans work with 1D tabulations.
        squares: whether its plans of a diagonal work with tabulated squares.
        second: whether second derivatives.
        instead: sets of parameters of which one is given.
    """

    targets: tuple[str, ...]
    reference: tuple[str, ...]
    cells: tuple[str, ...]
    facets: bool
    degree: int
    parameters: dict[str, Sequence[int]]
    lines: bool = False
    squares: bool = False
    second: bool = True
    instead: tuple[tuple[str, ...], ...] = ()

    def drawn(self, rng):
        """Random values of all parameters that may be given together."""
        given = self._together()
        return [(name, int(rng.choice(self.parameters[name]))) for name in given[rng.integers(len(given))]]

    def largest(self):
        """The largest values of all parameters that may be given together, for each such choice."""
        return [tuple((name, self.parameters[name][-1]) for name in names) for names in self._together()]

    def _together(self):
        """Names of parameters that may be given together."""
        rest = [name for name in self.parameters if all(name not in names for names in self.instead)]
        return [(*names, *rest) for names in self.instead or ((),)]

    def must(self, work, degree):
        targets = set(self.reference if work.reference else self.targets)
        # Of second derivatives there are no squares, nor of functions on both sides of a facet.
        twins = any(row.twin >= 0 for row in work.rows)
        targets -= {"diagonal"} if self.squares and (work.second or twins) else set()
        served = (self.facets or not work.facet) and (self.second or not work.second)
        return work.target in targets and work.cell in self.cells and degree <= self.degree and served


MUST = {
    "sumfact": Serves(
        ("residual", "action", "diagonal", "functional", "state"),
        ("residual", "action", "functional", "state"),
        TENSOR_CELLS,
        False,
        15,
        {
            "group_size": range(1, 97),
            "lanes": LANES,
            "items": range(1, 65),
            "cells": range(1, 9),
            "pencils": range(1, 9),
            "planes": range(1, 9),
            "slices": range(1, 9),
            "derivatives": (1, 2),
            "registers": range(64, 256),
            "copies": (0, 1),
            "shared": (0, 1),
        },
        lines=True,
        squares=True,
        instead=(
            ("group_size", "lanes"),
            ("items", "cells"),
            ("pencils", "registers", "copies"),
            ("pencils", "registers", "shared"),
            ("planes", "registers"),
            ("slices", "registers"),
        ),
    ),
    "gemm": Serves(
        ("residual", "action"),
        ("residual", "action"),
        ("quadrilateral", "hexahedron"),
        False,
        15,
        {"cells": range(1, 9), "items": range(1, 65), "tile": (1, 2, 4, 8), "mma": (1,), "registers": range(64, 256)},
        lines=True,
        second=False,
        instead=(("tile",), ("mma",)),
    ),
    "cell": Serves(
        tuple(target for target in TARGETS if target != "matrix"),
        ("residual", "action", "functional", "state"),
        ALL_CELLS,
        True,
        8,
        {"group_size": range(1, 97), "lanes": (1, 2, 4, 8), "sums": range(1, 97), "turns": range(1, 4), "slots": (32, 64)},
        instead=(("group_size", "lanes"), ("sums", "turns"), ("sums", "turns", "slots")),
    ),
    "transposed": Serves(
        ("residual", "action"), ("residual", "action"), ALL_CELLS, False, 8, {"blocks": range(1, 9), "batches": range(1, 10)}
    ),
    "tiled": Serves(
        ("residual", "action", "diagonal"),
        ("residual", "action"),
        ALL_CELLS,
        True,
        8,
        {"cells": range(1, 41), "width": (1, 2, 4, 8), "parts": range(1, 10), "points": range(1, 7), "mma": (0, 1)},
        squares=True,
    ),
    "matrix": Serves(
        ("matrix",),
        (),
        ALL_CELLS,
        True,
        8,
        {"rows": range(1, 13), "columns": range(1, 7), "cells": range(1, 10), "points": range(1, 10)},
        instead=(("points",), ()),
    ),
}


def limits_of(runtime, kind):
    """Limits of the device, and those of others whose plans it can do: with blocks of cells, and without PTX what a GPU does."""
    device = runtime.device.limits
    small = replace(device, local_bytes=min(device.local_bytes, 49152), atomics="cas")
    return {
        "device": device if runtime.device.is_gpu else replace(device, local_bytes=small.local_bytes),
        "blocks": replace(small, block=32, unroll=1),
        "unrolled": replace(small, block=32, lanes=1, unroll=100_000, group=128, native_atomics=True, in_order=True, mma=16),
    }[kind]
