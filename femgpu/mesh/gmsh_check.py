"""A look at a gmsh file before PETSc reads it.

PETSc's reader follows node numbers without checking them, and crashes on wrong ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from femgpu.errors import MeshError

# Nodes per element of gmsh's element types.
_NODES = {
    **{1: 2, 2: 3, 3: 4, 4: 4, 5: 8, 6: 6, 7: 5, 8: 3, 9: 6, 10: 9, 11: 10, 12: 27, 13: 18, 14: 14, 15: 1, 16: 8, 17: 20, 18: 15},
    **{19: 13, 20: 9, 21: 10, 22: 12, 23: 15, 24: 15, 25: 21, 26: 4, 27: 5, 28: 6, 29: 20, 30: 35, 31: 56, 36: 16, 37: 25},
    **{38: 36, 92: 64, 93: 125, 94: 216},
}

# Prisms with nodes between their vertices: PETSc reads the one wrongly and does not know the other.
_CURVED_PRISMS = (13, 18)

_Ints = npt.NDArray[np.int64]


def check_gmsh(path: Path) -> None:
    """Checks that every element of an ASCII file of version 2 or 4.1 uses nodes of the file; other files pass unseen.

    Args:
        path: the file.

    Raises:
        MeshError: when elements use missing nodes, coordinates are not finite, sections are missing or cut, or prisms are of
            second order.
    """
    data = path.read_bytes()
    header = _section(data, b"MeshFormat", path).split()
    if len(header) < 3:
        raise MeshError(f"mesh file '{path}' has no $MeshFormat line; expected a gmsh file")
    version, binary = header[0], header[1]
    if binary != b"0" or not (version.startswith(b"2") or version == b"4.1"):
        return
    try:
        nodes, elements = _section(data, b"Nodes", path), _section(data, b"Elements", path)
        four = version == b"4.1"
        tags, coordinates = _nodes4(nodes) if four else _nodes2(nodes)
        used = _elements4(elements) if four else _elements2(elements)
    except NotImplementedError as error:
        raise MeshError(f"mesh file '{path}' has {error}; save it with first-order cells") from None
    except (ValueError, IndexError) as error:
        raise MeshError(f"mesh file '{path}' is cut or malformed ({error}); write it again") from error
    if not np.isfinite(coordinates).all():
        raise MeshError(f"mesh file '{path}' has node coordinates that are not finite; write it again")
    tags = np.unique(tags)
    for part in used:
        missing = np.setdiff1d(part, tags)
        if len(missing):
            raise MeshError(
                f"mesh file '{path}' has elements with node {missing[0]}, which is not among its {len(tags)} nodes; write it again"
            )


def _num_nodes(kind: int) -> int:
    """Nodes of an element type; NotImplementedError for one that PETSc reads wrongly."""
    if kind not in _NODES:
        raise ValueError(f"element type {kind} is unknown")
    if kind in _CURVED_PRISMS:
        raise NotImplementedError(f"prisms with {_NODES[kind]} nodes, which PETSc cannot read")
    return _NODES[kind]


def _section(data: bytes, name: bytes, path: Path) -> bytes:
    start, end = data.find(b"$" + name + b"\n"), data.find(b"$End" + name)
    if start < 0:
        start = data.find(b"$" + name + b"\r\n")
    if start < 0 or end < start:
        raise MeshError(f"mesh file '{path}' has no complete section ${name.decode()}; expected a gmsh file with a mesh")
    return data[start + len(name) + 1 : end]


def _numbers(text: bytes) -> npt.NDArray[np.float64]:
    # Node numbers below 2^53 are exact in float64, so that one parse serves both numbers and coordinates.
    return np.array(text.split(), dtype="S").astype(np.float64)


def _nodes2(text: bytes) -> tuple[_Ints, npt.NDArray[np.float64]]:
    table = _numbers(text)
    count = int(table[0])
    table = table[1:].reshape(count, 4)
    return table[:, 0].astype(np.int64), table[:, 1:]


def _nodes4(text: bytes) -> tuple[_Ints, npt.NDArray[np.float64]]:
    table = _numbers(text)
    tags, coordinates, at = [np.empty(0, np.int64)], [np.empty((0, 3))], 4
    for _ in range(int(table[0])):
        dim, _entity, parametric, count = table[at : at + 4].astype(np.int64)
        at += 4
        tags.append(table[at : at + count].astype(np.int64))
        width = 3 + (dim if parametric else 0)
        coordinates.append(table[at + count : at + count * (1 + width)].reshape(count, width)[:, :3])
        at += count * (1 + width)
    if at != len(table):
        raise ValueError("the nodes do not fill their section")
    return np.concatenate(tags), np.concatenate(coordinates)


def _elements4(text: bytes) -> Iterator[_Ints]:
    table = _numbers(text).astype(np.int64)
    at = 4
    found = []
    for _ in range(int(table[0])):
        kind, count = int(table[at + 2]), int(table[at + 3])
        width = 1 + _num_nodes(kind)
        at += 4
        found.append(np.unique(table[at : at + count * width].reshape(count, width)[:, 1:]))
        at += count * width
    if at != len(table):
        raise ValueError("the elements do not fill their section")
    return iter(found)


def _elements2(text: bytes) -> Iterator[_Ints]:
    """Rows "number type num_tags tags... nodes..." differ in length: runs of equal type and num_tags are read in one piece."""
    table = _numbers(text).astype(np.int64)
    at, found, count = 1, [], 0
    while at < len(table):
        kind, num_tags = int(table[at + 1]), int(table[at + 2])
        width = 3 + num_tags + _num_nodes(kind)
        limit, run = 64, 0
        while run < limit:
            rows = table[at : at + limit * width]
            rows = rows[: len(rows) // width * width].reshape(-1, width)
            same = (rows[:, 1] == kind) & (rows[:, 2] == num_tags)
            run = int(np.argmin(same)) if not same.all() else len(rows)
            if run < limit or run == 0:
                break
            limit *= 8
        if run == 0:
            raise ValueError("the elements do not fill their section")
        found.append(np.unique(table[at : at + run * width].reshape(run, width)[:, 3 + num_tags :]))
        at += run * width
        count += run
    if count != table[0]:
        raise ValueError(f"{count} elements where {table[0]} were announced")
    return iter(found)
