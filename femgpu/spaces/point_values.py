"""Values of functions at points anywhere in the mesh."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu.errors import DataError
from femgpu.mesh.geometry import chunks
from femgpu.mesh.locate_points import FoundPoints
from femgpu.spaces.space import Space


def point_values(space: Space, local: npt.NDArray[np.float64], points: npt.ArrayLike, outside: str) -> npt.NDArray[np.float64]:
    """Values at points; collective.

    Args:
        space: of the function.
        local: (num_local,) its L-vector.
        points: (num_points, dim), the same on all ranks.
        outside: what to do with points outside of the mesh: "raise", or "nan" as their value.

    Returns:
        (num_points, *value_shape) on all ranks.

    Raises:
        DataError: on all ranks, for points outside of the mesh, of another shape, not finite, or not the same on all ranks.
    """
    if outside not in ("raise", "nan"):
        raise DataError(f"outside={outside!r}: expected 'raise' or 'nan'")
    mesh = space.mesh
    found = mesh.find_points(points)
    missing = np.flatnonzero(~found.inside)
    if len(missing) and outside == "raise":
        first = np.asarray(points, np.float64)[missing[0]].tolist()
        raise DataError(
            f"point {missing[0]}, {first}, lies outside of the mesh ({len(missing)} of {len(found.inside)} do); expected points "
            "inside, or outside='nan'"
        )
    values = _values_here(space, local, found)
    mesh.mpi.Allreduce(MPI.IN_PLACE, values, op=MPI.SUM)
    values[missing] = np.nan
    return values.reshape(len(values), *space.value_shape)


def _values_here(space: Space, local: npt.NDArray[np.float64], found: FoundPoints) -> npt.NDArray[np.float64]:
    """(num_points, num_comp) values at the points in this rank's cells, zero at the others."""
    values = np.zeros((len(found.cells), space.num_comp))
    here = np.flatnonzero(found.cells >= 0)
    numbers, indices = space.mesh.locate(found.cells[here])
    for block in space.mesh.blocks:
        mine = np.flatnonzero(numbers == block.index)
        for part in chunks(len(mine)):
            rows, cells = here[mine[part]], indices[mine[part]]
            for field in space.fields:
                basis = field.elements[block.index].tabulate(found.reference[rows])[0]
                coefficients = local[field.dofs(block.index, cells)].reshape(*basis.shape, field.num_comp)
                components = slice(field.offset, field.offset + field.num_comp)
                values[rows, components] = np.matmul(basis[:, None], coefficients)[:, 0]
    return values
