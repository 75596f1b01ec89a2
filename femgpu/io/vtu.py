"""Functions to .vtu (one file, gathered on the first rank) and .pvtu (one part per rank)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from femgpu.errors import collective
from femgpu.io import vtk_cells
from femgpu.io.gather import Gathered
from femgpu.io.sampling import Grid, sample
from femgpu.io.vtu_file import Array, replacing, write_pvtu, write_vtu

if TYPE_CHECKING:
    from femgpu.spaces import Function, SubFunction

_INT32_MAX = np.iinfo(np.int32).max
_CHUNK_CELLS = 1 << 20


def write_one_file(path: Path, functions: Sequence[Function | SubFunction]) -> None:
    """Writes one .vtu with the cells of all ranks; collective."""
    grid = sample(functions, shared=True)
    gather_grid(path, grid, functions[0].space.mesh.mpi)


def gather_grid(path: Path, grid: Grid, comm: Any) -> None:
    """Writes a grid whose points are numbered over all ranks; collective.

    Args:
        path: the file; only the first rank needs to see it.
        grid: this rank's part.
        comm: an mpi4py communicator.
    """
    points = [Gathered(comm, grid.points)]
    points_data = [Gathered(comm, entry.values) for entry in grid.point_data]
    cell_data = [Gathered(comm, entry.values) for entry in grid.cell_data]
    kind = np.int32 if points[0].num_rows <= _INT32_MAX else np.int64
    cells = [Gathered(comm, grid.connectivity.astype(kind))]
    streams = [*points_data, *cell_data, *points, *cells]
    with collective(comm):
        if comm.rank > 0:
            for stream in streams:
                stream.send()
            return
        try:
            arrays = _arrays(grid, streams, kind)
            with replacing(path) as file:
                write_vtu(file, points[0].num_rows, cells[0].num_rows, arrays)
        finally:
            for stream in streams:
                stream.drain()


def write_parts(path: Path, functions: Sequence[Function | SubFunction]) -> None:
    """Writes one .vtu per rank and the .pvtu that names them; collective. Every rank must see the folder."""
    comm = functions[0].space.mesh.mpi
    grid = sample(functions, shared=False)
    parts = [f"{path.stem}_{rank:04d}.vtu" for rank in range(comm.size)]
    part = path.with_name(parts[comm.rank])
    streams = [_Whole(entry.values) for entry in (*grid.point_data, *grid.cell_data)]
    streams += [_Whole(grid.points), _Whole(grid.connectivity.astype(np.int32))]
    arrays = _arrays(grid, streams, np.int32)
    try:
        with collective(comm), replacing(part) as file:
            write_vtu(file, len(grid.points), len(grid.connectivity), arrays)
        with collective(comm):
            if comm.rank == 0:
                with replacing(path) as file:
                    write_pvtu(file, arrays, parts)
    except Exception:
        part.unlink(missing_ok=True)
        raise


class _Whole:
    """Rows of this rank alone, in the manner of `Gathered`."""

    def __init__(self, rows: NDArray) -> None:
        self.num_rows = len(rows)
        self.chunks = iter((rows,))


def _arrays(grid: Grid, streams: Sequence[Gathered | _Whole], kind: type[np.signedinteger]) -> list[Array]:
    """The arrays of a file: fields, points and connectivity from the streams, in this order; then offsets and types."""
    fields = [("PointData", entry) for entry in grid.point_data] + [("CellData", entry) for entry in grid.cell_data]
    arrays = [
        Array(section, entry.name, np.float64, entry.values.shape[1], stream.num_rows, stream.chunks)
        for (section, entry), stream in zip(fields, streams[:-2], strict=True)
    ]
    points, cells = streams[-2:]
    num_nodes = grid.connectivity.shape[1]
    types = np.full(cells.num_rows, vtk_cells.cell_type(grid.cell, grid.degree), dtype=np.uint8)
    return [
        *arrays,
        Array("Points", "Points", np.float64, 3, points.num_rows, points.chunks),
        Array("Cells", "connectivity", kind, 1, cells.num_rows * num_nodes, cells.chunks),
        Array("Cells", "offsets", np.int64, 1, cells.num_rows, _counting(cells.num_rows, num_nodes)),
        Array("Cells", "types", np.uint8, 1, cells.num_rows, (types,)),
    ]


def _counting(count: int, step: int) -> Iterator[NDArray[np.int64]]:
    """The numbers step, 2 step, ..., count step."""
    for start in range(0, count, _CHUNK_CELLS):
        yield step * np.arange(start + 1, min(start + _CHUNK_CELLS, count) + 1, dtype=np.int64)
