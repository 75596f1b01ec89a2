"""The .vtu format: an XML head and, behind it, the arrays in binary, zlib-compressed block by block.

Arrays arrive in pieces and are never held whole. The head comes first in the file but knows the place of each array
only at the end, so it is written with blanks that are filled in afterwards; likewise the table of compressed sizes
before each array.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import DTypeLike, NDArray

BLOCK_BYTES = 1 << 20
COMPRESSION_LEVEL = 1
SECTIONS = ("PointData", "CellData", "Points", "Cells")

_VERSION = "1.0"  # what all readers know; the first with header_type, before 2.2 changed the order of nodes in hexahedra
_OFFSET_WIDTH = 20
_TYPES = {"f8": "Float64", "i4": "Int32", "i8": "Int64", "u1": "UInt8"}


@dataclass(frozen=True)
class DataArray:
    """One array of a file.

    Attributes:
        section: one of `SECTIONS`.
        name: what the reader shows.
        dtype: float64, int32, int64 or uint8.
        num_comp: entries per row.
        num_rows: rows of the whole array.
        chunks: the rows in pieces, each C-contiguous; consumed once. Not needed for the head of a .pvtu.
    """

    section: str
    name: str
    dtype: DTypeLike
    num_comp: int
    num_rows: int = 0
    chunks: Iterable[NDArray] = field(default=(), compare=False)

    @property
    def num_bytes(self) -> int:
        """Size before compression."""
        return self.num_rows * self.num_comp * np.dtype(self.dtype).itemsize


def write_vtu(stream: BinaryIO, num_points: int, num_cells: int, arrays: Iterable[DataArray]) -> None:
    """Writes an unstructured grid.

    Args:
        stream: an empty file open for writing, seekable.
        num_points: points of the grid.
        num_cells: cells of the grid.
        arrays: the data, ending with the arrays of `Points` and `Cells`.
    """
    arrays = list(arrays)
    lines = [_head("UnstructuredGrid"), "<UnstructuredGrid>"]
    lines.append(f'<Piece NumberOfPoints="{num_points}" NumberOfCells="{num_cells}">')
    for section in SECTIONS:
        entries = [(i, array) for i, array in enumerate(arrays) if array.section == section]
        lines += [f"<{section}>", *(_data_array(array, _mark(i)) for i, array in entries), f"</{section}>"]
    lines += ["</Piece>", "</UnstructuredGrid>", '<AppendedData encoding="raw">', "_"]
    head = "\n".join(lines).encode()
    stream.write(head)
    start = stream.tell()
    # The last array comes first: meshio renumbers offsets as it goes and takes the first entry of the head with a number.
    for i, array in reversed(list(enumerate(arrays))):
        offset = _offset(str(stream.tell() - start))
        _append(stream, array)
        end = stream.tell()
        stream.seek(head.index(_mark(i).encode()))
        stream.write(offset.encode())
        stream.seek(end)
    stream.write(b"\n</AppendedData>\n</VTKFile>\n")


def write_pvtu(stream: BinaryIO, arrays: Iterable[DataArray], parts: Iterable[str]) -> None:
    """Writes the head of a grid in several files.

    Args:
        stream: an empty file open for writing.
        arrays: the data that every part holds; their rows are not looked at.
        parts: paths of the parts, relative to this file.
    """
    arrays = list(arrays)
    lines = [_head("PUnstructuredGrid"), '<PUnstructuredGrid GhostLevel="0">']
    for section in SECTIONS[:3]:
        entries = [_data_array(array, None) for array in arrays if array.section == section]
        lines += [f"<P{section}>", *entries, f"</P{section}>"]
    lines += [f"<Piece Source={quoteattr(part)}/>" for part in parts]
    lines += ["</PUnstructuredGrid>", "</VTKFile>", ""]
    stream.write("\n".join(lines).encode())


def _head(kind: str) -> str:
    order = "LittleEndian" if sys.byteorder == "little" else "BigEndian"
    return (
        '<?xml version="1.0"?>\n'
        f'<VTKFile type="{kind}" version="{_VERSION}" byte_order="{order}" header_type="UInt64" '
        'compressor="vtkZLibDataCompressor">'
    )


def _mark(index: int) -> str:
    """Room for an offset, unlike anything else in the head (a control character is not legal in a name)."""
    return _offset(f"\x01{index}")


def _offset(text: str) -> str:
    """The attribute and blanks behind it."""
    return f'offset="{text}"'.ljust(len('offset=""') + _OFFSET_WIDTH)


def _data_array(array: DataArray, offset: str | None) -> str:
    place = "" if offset is None else f' format="appended" {offset}'
    kind = _TYPES[np.dtype(array.dtype).str[1:]]
    tag = "PDataArray" if offset is None else "DataArray"
    # As VTK does; meshio gives scalars a second axis where a 1 is written.
    size = f' NumberOfComponents="{array.num_comp}"' if array.num_comp > 1 else ""
    return f'<{tag} type="{kind}" Name={quoteattr(array.name)}{size}{place}/>'


def _append(stream: BinaryIO, array: DataArray) -> None:
    """Writes the blocks, and before them their number, their size, that of a partial last one, their packed sizes."""
    num_blocks = -(-array.num_bytes // BLOCK_BYTES)
    table = np.zeros(3 + num_blocks, dtype=np.uint64)
    table[:3] = num_blocks, BLOCK_BYTES, array.num_bytes % BLOCK_BYTES
    start = stream.tell()
    stream.write(table.tobytes())
    count = 0
    for block in _blocks(array):
        packed = zlib.compress(block, COMPRESSION_LEVEL)
        stream.write(packed)
        table[3 + count] = len(packed)
        count += 1
    if count != num_blocks:
        raise AssertionError(f"array {array.name!r} promised {num_blocks} blocks and gave {count}")
    end = stream.tell()
    stream.seek(start)
    stream.write(table.tobytes())
    stream.seek(end)


def _blocks(array: DataArray) -> Iterator[bytes | memoryview]:
    """The bytes of an array, cut anew into blocks of `BLOCK_BYTES`."""
    rest = b""
    for chunk in array.chunks:
        data = np.ascontiguousarray(chunk, dtype=array.dtype).reshape(-1).data.cast("B")
        position = 0
        if rest:
            position = BLOCK_BYTES - len(rest)
            rest += bytes(data[:position])
            if len(rest) < BLOCK_BYTES:
                continue
            yield rest
        while position + BLOCK_BYTES <= len(data):
            yield data[position : position + BLOCK_BYTES]
            position += BLOCK_BYTES
        rest = bytes(data[position:])
    if rest:
        yield rest
