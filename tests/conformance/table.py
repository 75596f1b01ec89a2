"""What each schedule must serve, so that refusing is no way to pass, and the limits of devices that plans are drawn for."""

from dataclasses import dataclass, replace

from random_meshes import ALL_CELLS

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
        parameters: values of its parameters, from and to.
    """

    targets: tuple[str, ...]
    reference: tuple[str, ...]
    cells: tuple[str, ...]
    facets: bool
    degree: int
    parameters: dict[str, tuple[int, int]]

    def must(self, work, degree):
        targets = self.reference if work.reference else self.targets
        return work.target in targets and work.cell in self.cells and degree <= self.degree and (self.facets or not work.facet)


MUST = {
    "cell": Serves(
        tuple(target for target in TARGETS if target != "matrix"),
        ("residual", "action", "functional", "state"),
        ALL_CELLS,
        True,
        8,
        {"group_size": (1, 96)},
    ),
    "transposed": Serves(
        ("residual", "action"), ("residual", "action"), ALL_CELLS, False, 8, {"blocks": (1, 8), "batches": (1, 9)}
    ),
    "matrix": Serves(
        ("matrix",),
        (),
        ALL_CELLS,
        True,
        8,
        {"rows": (1, 12), "columns": (1, 6), "cells": (1, 9), "points": (1, 9)},
    ),
}


def limits_of(runtime, kind):
    """Limits of the device, and those of others whose plans it can do: with blocks of cells, and without PTX what a GPU does."""
    device = runtime.device.limits
    small = replace(device, local_bytes=min(device.local_bytes, 49152), atomics="cas")
    return {
        "device": device if runtime.device.is_gpu else replace(device, local_bytes=small.local_bytes),
        "blocks": replace(small, block=32, unroll=1),
        "unrolled": replace(small, block=32, unroll=100_000, group=128, native_atomics=True),
    }[kind]
