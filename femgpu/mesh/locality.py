"""An order of the points of a mesh in which the dofs of neighbouring cells stand side by side.

PETSc numbers the dofs of all points of one kind after those of another: the dofs of a cell are spread over the whole vector, and
those of neighbouring cells over as many places as there are kinds of points. What a work-group gathers and adds is then in more
cache lines than it needs to be.

On an H200 (docs/benchmarks) this takes a fifth off a multigrid solve on P2 tetrahedra and a tenth off actions of Q2 that memory
bounds, little where arithmetic does, and nothing or less than that from degree 4 on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from femgpu.mesh.topology import TYPE_DIMS, TYPE_NAMES, Topology

# Cells whose dofs stand together: as many as the items of a warp.
BLOCK = 32
# Of elements; a cell of higher degree has enough dofs of one kind to fill cache lines.
_MOST_DEGREE = 3
_NONE = np.iinfo(np.int32).max


def wins(degree: int) -> bool:
    """Whether the order pays for continuous elements of a degree; of degree 1 all points with dofs are of one kind."""
    return 1 < degree <= _MOST_DEGREE


def local_order(topology: Topology, with_dofs: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """The points of a mesh of one cell type in an order of their dofs.

    First come the cells, whose dofs no others share: kernels store them where they add the rest, and need no zeros there. The other
    points follow by the first block of cells that they belong to, in each block by their numbers.

    Args:
        topology: the points of the mesh.
        with_dofs: (num_points,) which of them have dofs.

    Returns:
        (num_points,) the numbers of the points, less that of the first one: those without dofs, then the others.
    """
    block = np.full(len(topology.types), _NONE, np.int32)
    start, dims = np.int32(topology.start), TYPE_DIMS[topology.types]
    for kind in np.argsort(-TYPE_DIMS, kind="stable"):
        points = topology.of_type(TYPE_NAMES[kind]) - start
        if TYPE_DIMS[kind] == dims.max(initial=0):
            block[points] = np.arange(len(points)) // BLOCK
        cones = topology.stratum(TYPE_NAMES[kind]).cones
        np.minimum.at(block, cones.reshape(-1) - start, np.repeat(block[points], cones.shape[1]))
    block[dims == dims.max(initial=0)] = -1
    used = np.flatnonzero(with_dofs)
    return np.concatenate([np.flatnonzero(~with_dofs), used[by_block(block[used])]]).astype(np.int32)


def by_block(block: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The numbers of entries by the block of each (num,), in each block as they were."""
    # Sorting words that hold the number, too, takes a fraction of a stable sort by keys.
    words = block.astype(np.int64) << 32 | np.arange(len(block))
    words.sort()
    return words.astype(np.int32)
