"""What a gmsh file of version 2.2 or 4.1, ASCII or binary, says about nodes and elements, parsed strictly.

PETSc's reader trusts counts and numbers, and crashes on wrong ones. So whatever it reads is read here before, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from femgpu.mesh.gmsh_sections import Bytes, Malformed, Sections, Words, integers, whole
from femgpu.mesh.gmsh_types import TYPES, ElementType

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

# A node's number is an index of tables that PETSc makes: as many entries per node are allowed, and some more.
_SPARSEST, _FEW = 100, 1 << 20


@dataclass
class GmshFile:
    """Nodes and elements.

    Attributes:
        tags: (num_nodes,) their numbers.
        points: (num_nodes, 3) where they are.
        names: dimension, number and name of each physical group that has a name.
        entities: (dimension, number) of each part of the geometry; None where the file does not say.
        elements: runs of elements of one type: the type, and (num_elements, num_nodes) node numbers.
    """

    tags: _Ints = field(default_factory=lambda: np.empty(0, np.int64))
    points: _Floats = field(default_factory=lambda: np.empty((0, 3)))
    names: list[tuple[int, int, str]] = field(default_factory=list)
    entities: set[tuple[int, int]] | None = None
    elements: list[tuple[ElementType, _Ints]] = field(default_factory=list)


def parse(data: bytes) -> GmshFile:
    """Parses a file.

    Args:
        data: its bytes.

    Raises:
        Malformed: when sections are missing, cut or contradict themselves.
    """
    sections = Sections(data)
    version = sections.format()
    four = version == "4.1"
    found = GmshFile()
    readers = {
        "PhysicalNames": lambda: _physical_names(sections, found),
        **({"Entities": lambda: _entities(sections.cursor(), found)} if four else {}),
        "Nodes": lambda: (_nodes4 if four else _nodes2)(sections, found),
        "Elements": lambda: (_elements4 if four else _elements2)(sections, found),
        "Periodic": lambda: (_periodic4 if four else _periodic2)(sections, found.tags),
    }
    while (name := sections.next()) is not None:
        if name in readers:
            readers.pop(name)()
            sections.end(name)
        elif name in _KNOWN and "Elements" not in readers:
            break  # PETSc reads nothing behind the elements and their periods
        elif name in ("Comments", "MeshVersion", "Domain"):
            sections.skip(name)
        else:
            raise Malformed(f"section ${name} stands where none, or another, is expected")
    missing = [name for name in ("Nodes", "Elements") if name in readers]
    if missing:
        raise Malformed(f"it has no section ${missing[0]}")
    return found


# What gmsh writes behind the mesh.
_KNOWN = ("NodeData", "ElementData", "ElementNodeData", "InterpolationScheme", "GhostElements", "Parametrizations")


def _physical_names(sections: Sections, found: GmshFile) -> None:
    for _ in range(whole(sections.line())):
        line = sections.line().strip()
        dim, tag, name = ([*line.split(b" ", 2), b"", b"", b""])[:3]
        if dim not in (b"0", b"1", b"2", b"3") or not tag.lstrip(b"-").isdigit() or abs(int(tag)) >= 2**31:
            raise Malformed(f"{line[:40]!r} stands in $PhysicalNames, expected is a line like '2 1 \"name\"'")
        if len(name) < 2 or name[:1] != b'"' or name[-1:] != b'"' or len(name) > 127 or b'"' in name[1:-1]:
            raise Malformed(f"the physical name {name[:130].decode(errors='replace')} is not one name in quotes")
        found.names.append((int(dim), int(tag), name[1:-1].decode(errors="replace")))


def _entities(cursor: Words | Bytes, found: GmshFile) -> None:
    found.entities = set()
    for dim, count in enumerate(cursor.longs(4)):
        if count < 0:
            raise Malformed(f"there are {count} entities of dimension {dim}")
        for _ in range(count):
            found.entities.add((dim, int(cursor.ints(1)[0])))
            if not np.isfinite(cursor.reals(3 if dim == 0 else 6)).all():
                raise Malformed("the box around an entity is not finite")
            for _ in range(1 if dim == 0 else 2):
                cursor.ints(int(cursor.longs(1)[0]))
    cursor.done()


def _check_entity(found: GmshFile, dim: int, number: int) -> None:
    """PETSc looks up the entity that nodes and elements belong to, and does not notice when there is none."""
    if found.entities is not None and (dim, number) not in found.entities:
        raise Malformed(f"nodes or elements belong to entity {number} of dimension {dim}, which is not there")


def _set_nodes(found: GmshFile, tags: _Ints, points: _Floats) -> None:
    if not len(tags):
        raise Malformed("it has no nodes")
    if not np.isfinite(points).all():
        raise Malformed("it has node coordinates that are not finite")
    if tags.min() < 1 or tags.max() > len(tags) * _SPARSEST + _FEW:
        raise Malformed(
            f"its {len(tags)} nodes have numbers from {tags.min()} to {tags.max()}; expected numbers from 1, without large gaps"
        )
    ordered = np.sort(tags)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise Malformed(f"node {twice[0]} is there twice")
    found.tags, found.points = ordered, points[np.argsort(tags, kind="stable")]


def _nodes2(sections: Sections, found: GmshFile) -> None:
    if sections.binary:
        table = sections.raw([("tag", "i4"), ("x", "f8", 3)], whole(sections.line()))
        _set_nodes(found, table["tag"].astype(np.int64), table["x"].astype(np.float64))
        return
    words = sections.words()
    count = int(words.ints(1)[0])
    rows = words.reals(4 * count).reshape(count, 4)
    words.done()
    _set_nodes(found, integers(rows[:, 0]), rows[:, 1:])


def _nodes4(sections: Sections, found: GmshFile) -> None:
    cursor = sections.cursor()
    blocks, total, least, largest = cursor.longs(4)
    tags, points = [np.empty(0, np.int64)], [np.empty((0, 3))]
    for _ in range(blocks):
        dim, entity, parametric = map(int, cursor.ints(3))
        count = int(cursor.longs(1)[0])
        if not 0 <= dim <= 3 or parametric not in (0, 1):
            raise Malformed(f"nodes of dimension {dim}, parametric {parametric}")
        _check_entity(found, dim, entity)
        tags.append(cursor.longs(count))
        points.append(cursor.reals(count * (width := 3 + dim * parametric)).reshape(count, width)[:, :3])
    cursor.done()
    if sum(map(len, tags)) != total:
        raise Malformed(f"{sum(map(len, tags))} nodes where {total} were announced")
    _set_nodes(found, np.concatenate(tags), np.concatenate(points))
    if (least, largest) != (found.tags[0], found.tags[-1]):
        raise Malformed(
            f"its nodes have numbers from {found.tags[0]} to {found.tags[-1]} where {least} to {largest} were announced"
        )


def _add_elements(found: GmshFile, number: int, nodes: _Ints) -> None:
    """Checks a run of elements of one type, whose nodes are known already."""
    kind = TYPES[number]
    flat = np.unique(nodes)
    place = np.minimum(np.searchsorted(found.tags, flat), len(found.tags) - 1)
    missing = flat[found.tags[place] != flat] if len(found.tags) else flat
    if len(missing):
        raise Malformed(f"it has elements with node {missing[0]}, which is not among its {len(found.tags)} nodes")
    ordered = np.sort(nodes, axis=1)
    twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(twice):
        raise Malformed(f"a {kind.name} has a node twice: {nodes[twice[0]].tolist()}")
    found.elements.append((kind, nodes))


def _num_nodes(number: int) -> int:
    if number not in TYPES:
        what = f"it has elements of type {number}, which PETSc does not read"
        raise Malformed(f"{what}; expected complete ones of order 1 to 10 (Mesh.SecondOrderIncomplete=0)")
    return TYPES[number].num_nodes


def _elements4(sections: Sections, found: GmshFile) -> None:
    cursor = sections.cursor()
    blocks, total, _, _ = cursor.longs(4)
    count = 0
    for _ in range(blocks):
        dim, entity, number = map(int, cursor.ints(3))
        _check_entity(found, dim, entity)
        size, width = int(cursor.longs(1)[0]), 1 + _num_nodes(number)
        if dim != TYPES[number].dim:
            raise Malformed(f"a {TYPES[number].name} stands among elements of dimension {dim}")
        _add_elements(found, number, cursor.longs(size * width).reshape(-1, width)[:, 1:])
        count += size
    cursor.done()
    if count != total:
        raise Malformed(f"{count} elements where {total} were announced")


def _elements2(sections: Sections, found: GmshFile) -> None:
    """In ASCII rows "number type num_tags tags... nodes..." differ in length, in binary runs of equal rows have a header."""
    runs = _binary_runs(sections) if sections.binary else _ascii_runs(sections.words())
    for number, num_tags, rows in runs:
        if not 0 <= num_tags <= 64 or (np.abs(rows) >= 2**31).any():
            raise Malformed(f"an element has {num_tags} tags, or a number too large")
        _add_elements(found, number, rows[:, num_tags:])


def _binary_runs(sections: Sections) -> Iterator[tuple[int, int, _Ints]]:
    left = whole(sections.line())
    while left > 0:
        head = sections.raw("i4", 3)
        number, count, num_tags = map(int, head)
        width = 1 + num_tags + _num_nodes(number)
        if not 0 < count <= left or not 0 <= num_tags <= 64:
            raise Malformed(f"{count} elements with {num_tags} tags where {left} elements are left")
        if count > 1:
            rows = sections.raw("i4", count * width).reshape(count, width)
        else:
            # gmsh writes a header before each element.
            rows = _alike(sections, head, width, left)
        yield number, num_tags, rows[:, 1:].astype(np.int64)
        left -= len(rows)


def _alike(sections: Sections, head: npt.NDArray[np.int32], width: int, most: int) -> npt.NDArray[np.int32]:
    """(count, width) elements that follow each other with equal headers, of which the first was read; `most` at most."""
    size = len(head) + width
    sections.at -= head.nbytes
    count, limit = 0, 64
    while count == limit // 8 or not count:
        rows = sections.peek("i4", min(most, limit) * size)
        rows = rows[: len(rows) // size * size].reshape(-1, size)
        same = (rows[:, : len(head)] == head).all(axis=1)
        count, limit = max(1, len(rows) if same.all() else int(np.argmin(same))), 8 * limit
    return sections.raw("i4", count * size).reshape(count, size)[:, len(head) :]


def _ascii_runs(words: Words) -> Iterator[tuple[int, int, _Ints]]:
    left = int(words.ints(1)[0])
    table = integers(words.numbers)
    at = 1
    while at < len(table) and left > 0:
        if at + 3 > len(table):
            break
        number, num_tags = int(table[at + 1]), int(table[at + 2])
        width = 3 + num_tags + _num_nodes(number)
        if not 0 <= num_tags <= 64:
            break
        run, limit = 0, 64
        while run < limit:
            rows = table[at : at + limit * width]
            rows = rows[: len(rows) // width * width].reshape(-1, width)
            same = (rows[:, 1] == number) & (rows[:, 2] == num_tags)
            run = int(np.argmin(same)) if not same.all() else len(rows)
            if run < limit or run == len(table[at:]) // width:
                break
            limit *= 8
        if run == 0:
            break
        yield number, num_tags, rows[:run, 3:]
        at, left = at + run * width, left - run
    if at != len(table) or left:
        raise Malformed("the elements do not fill their section")


def _check_pairs(pairs: _Ints, tags: _Ints) -> None:
    if not np.isin(pairs, tags).all():
        raise Malformed("section $Periodic names nodes that are not there")


def _periodic4(sections: Sections, tags: _Ints) -> None:
    cursor = sections.cursor()
    for _ in range(int(cursor.longs(1)[0])):
        cursor.ints(3)
        cursor.reals(int(cursor.longs(1)[0]))
        _check_pairs(cursor.longs(2 * int(cursor.longs(1)[0])), tags)
    cursor.done()


def _periodic2(sections: Sections, tags: _Ints) -> None:
    """Text in binary files, too."""
    for _ in range(whole(sections.line())):
        _row(sections.line(), 3)
        line = sections.line()
        if line.startswith(b"Affine"):
            line = sections.line()
        for _ in range(whole(line)):
            _check_pairs(_row(sections.line(), 2), tags)


def _row(line: bytes, count: int) -> _Ints:
    words = line.split()
    if len(words) != count or not all(word.lstrip(b"-").isdigit() for word in words):
        raise Malformed(f"{line[:40]!r} stands where {count} integers are expected")
    return np.array(words, "S").astype(np.int64)
