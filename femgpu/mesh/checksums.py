"""Checksums at the end of a file, behind what its format looks at.

The CRC-32 of each block of the file, then a foot that says what they belong to. Ranks share the blocks.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from femgpu.errors import collective, file_errors

BLOCK_BYTES = 1 << 22
# Bytes before the checksums, bytes of a block, CRC-32 of the checksums and these two, mark.
_FOOT = struct.Struct("<QII8s")
_NUMBERS = struct.Struct("<QI")
_MARK = b"femgpu\x00\x01"

_Table = npt.NDArray[np.uint32]


def append_checksums(path: Path, mpi: Any, name: Path) -> None:
    """Appends checksums to a file; collective.

    Args:
        path: the file; all ranks see it.
        mpi: an mpi4py communicator.
        name: how messages call the file.

    Raises:
        DataError: on all ranks, when the file cannot be read or written.
    """
    size = 0
    with collective(mpi), file_errors(name, "write"):
        if mpi.rank == 0:
            size = path.stat().st_size
    size = mpi.bcast(size)
    table = _checksums(path, size, BLOCK_BYTES, mpi)
    with collective(mpi), file_errors(name, "write"):
        if mpi.rank == 0:
            with open(path, "ab") as stream:
                stream.write(table.tobytes() + _FOOT.pack(size, BLOCK_BYTES, _crc(table, size, BLOCK_BYTES), _MARK))


def damage(path: Path, mpi: Any) -> str | None:
    """Compares a file with the checksums at its end; collective.

    Args:
        path: the file; all ranks see it.
        mpi: an mpi4py communicator.

    Returns:
        What is wrong with it, on all ranks; empty where nothing is, None where the file has no checksums.

    Raises:
        DataError: on all ranks, when the file cannot be read.
    """
    found: tuple[int, int, _Table | None] | None = None
    with collective(mpi), file_errors(path, "read"):
        if mpi.rank == 0:
            with open(path, "rb") as stream:
                found = _read_foot(stream, path.stat().st_size)
    found = mpi.bcast(found)
    if found is None:
        return None
    size, block_bytes, table = found
    if table is None:
        return "the checksums at its end are damaged"
    wrong = np.flatnonzero(_checksums(path, size, block_bytes, mpi) != table)
    if len(wrong) == 0:
        return ""
    first = int(wrong[0]) * block_bytes
    return f"bytes {first} to {min(first + block_bytes, size) - 1} are not those that were written"


def _read_foot(stream: BinaryIO, file_bytes: int) -> tuple[int, int, _Table | None] | None:
    """Bytes before the checksums, bytes of a block, checksums (None if damaged); None for a file without."""
    if file_bytes < _FOOT.size:
        return None
    stream.seek(file_bytes - _FOOT.size)
    size, block_bytes, crc, mark = _FOOT.unpack(stream.read(_FOOT.size))
    if mark != _MARK:
        return None
    if block_bytes == 0 or size + 4 * -(-size // block_bytes) + _FOOT.size != file_bytes:
        return size, block_bytes, None
    stream.seek(size)
    table = np.frombuffer(stream.read(file_bytes - _FOOT.size - size), "<u4")
    return size, block_bytes, table if _crc(table, size, block_bytes) == crc else None


def _crc(table: _Table, size: int, block_bytes: int) -> int:
    return zlib.crc32(_NUMBERS.pack(size, block_bytes), zlib.crc32(table.tobytes()))


def _checksums(path: Path, size: int, block_bytes: int, mpi: Any) -> _Table:
    """(num_blocks,) CRC-32 of each block, on all ranks; each reads every so manyeth."""
    table = np.zeros(-(-size // block_bytes), "<u4")
    mine = table[mpi.rank :: mpi.size].copy()
    with collective(mpi), file_errors(path, "read"), open(path, "rb") as stream:
        for i in range(len(mine)):
            start = (mpi.rank + i * mpi.size) * block_bytes
            stream.seek(start)
            mine[i] = zlib.crc32(stream.read(min(block_bytes, size - start)))
    for rank, part in enumerate(mpi.allgather(mine)):
        table[rank :: mpi.size] = part
    return table
