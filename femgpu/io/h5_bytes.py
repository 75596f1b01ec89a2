"""The bytes of HDF5 files: groups, attributes, and arrays that stand in one piece.

HDF5's own library crashes after a write that failed, or leaves other ranks waiting; what is written here, anybody may write.
After the HDF5 File Format Specification, version 3.0: superblock of version 0, object headers of version 1, compact links.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

SUPERBLOCK_BYTES = 96
# Messages of an object header are counted in 16 bits; three of a group are not links.
MOST_LINKS = (1 << 16) - 1 - 3
_UNDEFINED = (1 << 64) - 1
_SPACE, _LINKS, _TYPE, _FILL, _LINK, _LAYOUT, _GROUP, _ATTRIBUTE = 1, 2, 3, 5, 6, 8, 10, 12
# Class and version, bits of the class, bytes; then where which bits stand.
_TYPES = {
    "u1": struct.pack("<BBBBIHH", 0x10, 0, 0, 0, 1, 0, 8),
    "i4": struct.pack("<BBBBIHH", 0x10, 8, 0, 0, 4, 0, 32),
    "f8": struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 63, 0, 8, 0, 64, 52, 11, 0, 52, 1023),
}


def superblock(root: int, end: int) -> bytes:
    """The first `SUPERBLOCK_BYTES` of a file.

    Args:
        root: address of the head of the root group.
        end: bytes of the file.
    """
    versions = struct.pack("<8sBBBxBBBxHHI", b"\x89HDF\r\n\x1a\n", 0, 0, 0, 0, 8, 8, 4, 16, 0)
    return versions + struct.pack("<6Q", 0, _UNDEFINED, end, _UNDEFINED, 0, root) + bytes(24)


def array_head(dtype: npt.DTypeLike, shape: tuple[int, ...], address: int) -> bytes:
    """The head of an array.

    Args:
        dtype: int32 or float64.
        shape: its shape.
        address: where it stands, row by row, in little-endian order.
    """
    kind = np.dtype(dtype)
    num_bytes = int(np.prod(shape)) * kind.itemsize
    layout = struct.pack("<BBQQ", 3, 1, address if num_bytes else _UNDEFINED, num_bytes)
    fill = struct.pack("<BBBB", 2, 1, 2, 0)
    return _head([(_SPACE, _space(shape)), (_TYPE, _TYPES[kind.str[1:]]), (_FILL, fill), (_LAYOUT, layout)])


def group_head(links: Mapping[str, int], attributes: Mapping[str, bool | int | str]) -> bytes:
    """The head of a group.

    Args:
        links: addresses of the heads of its members, at most `MOST_LINKS` together with the attributes.
        attributes: numbers of up to 32 bits, and strings.
    """
    messages = [(_LINKS, struct.pack("<BBQQ", 0, 0, _UNDEFINED, _UNDEFINED)), (_GROUP, bytes(2))]
    for name, address in links.items():
        text = name.encode()
        messages.append((_LINK, struct.pack("<BBH", 1, 1, len(text)) + text + struct.pack("<Q", address)))
    return _head(messages + [(_ATTRIBUTE, _attribute(name, value)) for name, value in attributes.items()])


def _attribute(name: str, value: bool | int | str) -> bytes:
    if isinstance(value, str):
        data = value.encode() + b"\0"
        kind = struct.pack("<BBBBI", 0x13, 0, 0, 0, len(data))
    else:
        dtype = np.dtype("u1" if isinstance(value, bool) else "<i4")
        data, kind = np.array(value, dtype).tobytes(), _TYPES[dtype.str[1:]]
    parts = (name.encode() + b"\0", kind, _space(()))
    return struct.pack("<BxHHH", 1, *map(len, parts)) + b"".join(map(_padded, parts)) + data


def _space(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<BB6x{len(shape)}Q", 1, len(shape), *shape)


def _head(messages: list[tuple[int, bytes]]) -> bytes:
    body = b"".join(struct.pack("<HHB3x", kind, len(_padded(data)), 0) + _padded(data) for kind, data in messages)
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
