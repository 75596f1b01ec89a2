"""HDF5 files that the first rank writes by itself, from rows that all ranks have.

No rank is inside a library that waits for others while the disk fails: an error is one of the first rank's writes, and all ranks
hear of it after the array that was under way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from femgpu.errors import DataError, collective, file_errors
from femgpu.io import h5_bytes
from femgpu.io.gathered_rows import GatheredRows
from femgpu.mesh.checksums import append_checksums


class _Group:
    def __init__(self) -> None:
        self.groups: dict[str, _Group] = {}
        # Addresses of the heads.
        self.arrays: dict[str, int] = {}
        self.attributes: dict[str, bool | int | str] = {}


class H5Writer:
    """Writes arrays, one after the other; groups come at the end. All ranks make the same calls; `replacing` makes one.

    Args:
        path: the file, for messages.
        stream: an empty file open for writing, on the first rank.
        comm: an mpi4py communicator.
    """

    def __init__(self, path: Path, stream: BinaryIO | None, comm: Any) -> None:
        self.comm = comm
        self._path = path
        self._stream = stream
        self._root = _Group()
        with self._errors():
            self._append(bytes(h5_bytes.SUPERBLOCK_BYTES))

    def write(self, name: str, rows: NDArray) -> None:
        """Writes an array as PETSc does: integers as a column, reals flat; collective.

        Args:
            name: groups and name, with slashes between them.
            rows: (num_rows,) int32 or float64, this rank's part.

        Raises:
            DataError: on all ranks, when the system refuses to write.
        """
        rows = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        gathered = GatheredRows(self.comm, rows)
        with self._errors():
            if self.comm.rank:
                gathered.send()
                return
            try:
                start = self._append(b"")
                for chunk in gathered.chunks:
                    self._append(chunk)
            finally:
                gathered.drain()
            shape = (gathered.num_rows, 1) if rows.dtype.kind == "i" else (gathered.num_rows,)
            group, _, last = name.rpartition("/")
            self._group(group).arrays[last] = self._append(h5_bytes.array_head(rows.dtype, shape, start))

    def write_first(self, name: str, rows: NDArray) -> None:
        """As `write`, the rows of the first rank alone."""
        self.write(name, rows if self.comm.rank == 0 else rows[:0])

    def describe(self, group: str, **attributes: bool | int | str) -> None:
        """Gives a group, which is made where there is none, attributes."""
        self._group(group).attributes.update(attributes)

    def finish(self) -> None:
        """Writes the groups, and waits until the disk has all; collective.

        Raises:
            DataError: on all ranks, when the system refuses to write, or a group has too many members.
        """
        with self._errors():
            if self._stream is not None:
                root = self._write_group("/", self._root)
                end = self._stream.tell()
                self._stream.seek(0)
                self._stream.write(h5_bytes.superblock(root, end))
                self._stream.flush()
                os.fsync(self._stream.fileno())

    def _group(self, name: str) -> _Group:
        group = self._root
        for part in filter(None, name.split("/")):
            group = group.groups.setdefault(part, _Group())
        return group

    def _write_group(self, name: str, group: _Group) -> int:
        """Writes a group behind its members; returns the address of its head."""
        links = group.arrays | {last: self._write_group(last, member) for last, member in group.groups.items()}
        if len(links) + len(group.attributes) > h5_bytes.MOST_LINKS:
            raise DataError(
                f"cannot write {str(self._path)!r}: {name!r} has {len(links)} members; an .h5 file takes {h5_bytes.MOST_LINKS}, "
                "so that a label may have as many values: remove the label, dm.removeLabel(name), or give it fewer"
            )
        return self._append(h5_bytes.group_head(links, group.attributes))

    def _append(self, data: bytes | NDArray) -> int:
        """Writes behind what is there; returns where."""
        if self._stream is None:
            return 0
        place = self._stream.tell()
        self._stream.write(np.ascontiguousarray(data).data if isinstance(data, np.ndarray) else data)
        return place

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with collective(self.comm), file_errors(self._path, "write"):
            yield


@contextmanager
def replacing(path: Path, comm: Any) -> Iterator[H5Writer]:
    """A writer of a temporary file beside `path`, which becomes `path` when the block succeeds; collective.

    Args:
        path: the file; all ranks see it.
        comm: an mpi4py communicator.

    Raises:
        DataError: on all ranks, when the system refuses the file.
    """
    temporary = path.with_name(f".{path.name}.part")
    stream: BinaryIO | None = None
    try:
        with collective(comm), file_errors(path, "write"):
            if comm.rank == 0:
                stream = open(temporary, "wb")  # noqa: SIM115
        writer = H5Writer(path, stream, comm)
        yield writer
        writer.finish()
        append_checksums(temporary, comm, path)
        with collective(comm), file_errors(path, "write"):
            if comm.rank == 0:
                os.replace(temporary, path)
    finally:
        if stream is not None:
            # It holds what could not be written.
            with suppress(OSError):
                stream.close()
            temporary.unlink(missing_ok=True)
