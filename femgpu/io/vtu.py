"""Functions to .vtu (one file, gathered on the first rank) and .pvtu (one part per rank)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from femgpu.errors import collective
from femgpu.io import vtk_cells
from femgpu.io.files import replace_together, replacing
from femgpu.io.gathered_rows import GatheredRows
from femgpu.io.sampling import Grid, sample
from femgpu.io.vtu_file import DataArray, write_pvtu, write_vtu
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
    num_points = comm.allreduce(len(grid.points))
    kind = np.int32 if num_points <= _INT32_MAX else np.int64
    streams = _Streams(grid, lambda rows: GatheredRows(comm, rows), kind)
    with collective(comm):
        if comm.rank > 0:
            for stream in streams.in_order():
                stream.send()
            return
        try:
            with replacing(path) as file:
                write_vtu(file, num_points, streams.num_cells, streams.arrays())
        finally:
            for stream in streams.in_order():
                stream.drain()


def write_parts(path: Path, functions: Sequence[Function | SubFunction]) -> None:
    """Writes one .vtu per rank and the .pvtu that names them; collective. Every rank must see the folder."""
    comm = functions[0].space.mesh.mpi
    grid = sample(functions, shared=False)
    parts = [f"{path.stem}_{rank:04d}.vtu" for rank in range(comm.size)]
    streams = _Streams(grid, _Whole, np.int32)
    arrays = streams.arrays()
    writers: dict[Path, Callable[[BinaryIO], None]] = {
        path.with_name(parts[comm.rank]): lambda file: write_vtu(file, len(grid.points), streams.num_cells, arrays)
    }
    if comm.rank == 0:
        writers[path] = lambda file: write_pvtu(file, arrays, parts)
    replace_together(writers, comm)


class _Whole:
    """Rows of this rank alone, in the manner of `GatheredRows`."""

    def __init__(self, rows: NDArray) -> None:
        self.num_rows = len(rows)
        self.chunks = iter((rows,))


class _Streams:
    """The rows of a grid on their way to a file: point data, data of the cells, points, cells; cells type by type."""

    def __init__(self, grid: Grid, make: Callable[[NDArray], Any], kind: type[np.signedinteger]) -> None:
        """Counts the rows.

        Args:
            grid: this rank's part.
            make: what a stream is made of: `GatheredRows`, or `_Whole`.
            kind: type of the numbers of points in the file.
        """
        self._grid = grid
        self._kind = kind
        self._point_data = [make(entry.values) for entry in grid.point_data]
        # One list per function: the values in the cells of each type.
        self._cell_data = [
            [make(entry.values) for entry in of_all] for of_all in zip(*(each.data for each in grid.cells), strict=True)
        ]
        self._points = make(grid.points)
        self._cells = [make(each.connectivity.astype(kind)) for each in grid.cells]

    @property
    def num_cells(self) -> int:
        """Cells of the file."""
        return sum(stream.num_rows for stream in self._cells)

    def in_order(self) -> Iterator[Any]:
        """All streams as the file takes them: the last array comes first."""
        return itertools.chain(self._cells, [self._points], *reversed(self._cell_data), reversed(self._point_data))

    def arrays(self) -> list[DataArray]:
        """The arrays of the file."""
        grid = self._grid
        arrays = [
            DataArray("PointData", entry.name, np.float64, entry.values.shape[1], stream.num_rows, stream.chunks)
            for entry, stream in zip(grid.point_data, self._point_data, strict=True)
        ]
        arrays += [
            DataArray("CellData", entry.name, np.float64, entry.values.shape[1], self.num_cells, _chained(streams))
            for entry, streams in zip(grid.cells[0].data, self._cell_data, strict=True)
        ]
        counts = [stream.num_rows for stream in self._cells]
        num_nodes = [each.connectivity.shape[1] for each in grid.cells]
        entries = sum(count * nodes for count, nodes in zip(counts, num_nodes, strict=True))
        types = [
            np.full(count, vtk_cells.cell_type(each.cell, grid.degree), np.uint8)
            for count, each in zip(counts, grid.cells, strict=True)
        ]
        return [
            *arrays,
            DataArray("Points", "Points", np.float64, 3, self._points.num_rows, self._points.chunks),
            DataArray("Cells", "connectivity", self._kind, 1, entries, _chained(self._cells)),
            DataArray("Cells", "offsets", np.int64, 1, self.num_cells, _ends(counts, num_nodes)),
            DataArray("Cells", "types", np.uint8, 1, self.num_cells, types),
        ]


def _chained(streams: Sequence[Any]) -> Iterator[NDArray]:
    return itertools.chain.from_iterable(stream.chunks for stream in streams)


def _ends(counts: Sequence[int], num_nodes: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """Where the nodes of each cell end, for `counts` cells of `num_nodes` nodes each after each other."""
    before = 0
    for count, nodes in zip(counts, num_nodes, strict=True):
        for start in range(0, count, _CHUNK_CELLS):
            yield before + nodes * np.arange(start + 1, min(start + _CHUNK_CELLS, count) + 1, dtype=np.int64)
        before += count * nodes
