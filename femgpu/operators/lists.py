"""Arrays over cells that the device makes: packed words, and lists of the entries that each owner has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from femgpu.kernels import Layout, NodeList, list_kernels, node_list_kernels
from femgpu.kernels.node_lists import LISTING_ITEMS, SLICE
from femgpu.runtime import Kernel, Runtime

_GROUP_SIZE = 64


class Entries(NamedTuple):
    """Entries that have owners, by their numbers.

    Attributes:
        owners: device buffer (size,) int32.
        size: how many.
        first: entry i is `first + i // each * step`.
        each: see there.
        step: see there.
        values: device buffer (size,) int32 of the entries themselves; None: as above.
    """

    owners: Any
    size: int
    first: int = 0
    each: int = 1
    step: int = 1
    values: Any = None


def owned(
    runtime: Runtime, parts: Sequence[Entries], num_owners: int, ordered: bool = True
) -> tuple[npt.NDArray[np.int32], Any, Any]:
    """Lists of the entries of each owner.

    Args:
        runtime: the device.
        parts: the entries.
        num_owners: owners that there may be.
        ordered: whether those of an owner are to increase; else they stand in any order.

    Returns:
        (num_owners + 1,) int32 where each owner's entries begin, also as a device buffer; device buffer of the entries.
    """
    counts = runtime.empty(4 * num_owners)
    runtime.zero(counts, 4 * num_owners)
    for part in parts:
        run(runtime, "count_owned", part.size, np.uint64(part.size), part.owners, counts)
    starts = np.zeros(num_owners + 1, np.int32)
    np.cumsum(runtime.read(counts, np.empty(num_owners, np.int32)), out=starts[1:])
    begins, found = runtime.upload(starts), runtime.empty(4 * int(starts[-1]))
    runtime.copy(begins, counts, 4 * num_owners)
    for part in parts:
        numbers = map(np.int32, (part.first, part.each, part.step))
        run(runtime, "place_owned", part.size, np.uint64(part.size), part.owners, part.values, *numbers, counts, found)
    if ordered:
        run(runtime, "sort_owned", num_owners, np.int32(num_owners), begins, found)
    runtime.finish()
    return starts, begins, found


def pack(
    runtime: Runtime,
    layout: Layout,
    words: npt.NDArray[np.int32],
    order: npt.NDArray[np.int32] | None = None,
    factor: int = 1,
    mask: Any = None,
    num_comp: int = 1,
) -> Any:
    """Device buffer of an array (num_cells, num_words) as kernels read it.

    Args:
        runtime: the device.
        layout: where words stand, each by itself.
        words: the words.
        order: which word stands at each place; None: in their order.
        factor: that words are multiplied with.
        mask: device buffer of uint8: a word w is ~w where one of `num_comp` entries from w on is not zero; None: nowhere.
        num_comp: see there.
    """
    given = runtime.upload_once(words)
    if layout.block == 1 and order is None and mask is None and factor == 1:
        return given
    size = layout.size(*words.shape)
    packed = runtime.empty(4 * size)
    numbers, place = map(np.int32, (*words.shape, layout.block, factor)), None if order is None else runtime.upload(order)
    run(runtime, "pack_words", size, np.uint64(size), *numbers, given, place, np.int32(num_comp), mask, packed)
    runtime.finish()
    return packed


def node_lists(
    runtime: Runtime,
    entry: NodeList,
    block: int,
    offsets: npt.NDArray[np.int32],
    cells: tuple[int, int],
    mask: Any = None,
    vertices: npt.NDArray[np.int32] | None = None,
    dim: int = 0,
) -> dict[str, Any]:
    """Device buffers of the lists of all work-groups.

    Args:
        runtime: the device.
        entry: the lists.
        block: cells whose places are interleaved.
        offsets: (num_cells, num_basis) of component 0 in an L-vector.
        cells: the first cell, and how many.
        mask: device buffer (num_local,) uint8 of the entries that are marked; None: none is.
        vertices: (num_cells, num_basis) the vertex that each node is; None: not wanted, or nodes stand in their order.
        dim: numbers of a vertex.

    Returns:
        Those of `NodeList.arrays`, by part: "places", uint16, cell by cell; "slices", the number of each list, as int32; "bases"
        (num_groups, slices) uint16; by slot "nodes" int32, "counts" uint8, and "vertices" int32, None where these are not wanted.
        In rows of an equal length, which have no bases, places are uint32 where one holds a cell's (`NodeList.packed`); all but
        "slices" are None where a work-group has more nodes than a row.
    """
    first, count = cells
    groups, source = -(-count // entry.cells), node_list_kernels(entry, block)
    numbers = list(map(np.int32, cells))
    given = [runtime.upload_once(offsets), None if vertices is None else runtime.upload_once(vertices)]

    def make(name: str, *arguments: Any) -> None:
        Kernel(runtime, source, name, [*numbers, *given, *arguments], groups * LISTING_ITEMS, LISTING_ITEMS)()

    counts = runtime.empty(4 * groups)
    make("count_slices", counts)
    slices = runtime.read(counts, np.empty(groups, np.int32)).max(initial=0)
    if entry.slots:
        if slices > entry.slots // SLICE:
            return {"slices": slices} | dict.fromkeys(("places", "bases", "nodes", "counts", "vertices"))
        slices = np.int32(entry.slots // SLICE)
    num_slices = int(slices) * groups
    sizes = {"places": -(-count // block) * block * (4 if entry.packed else 2 * entry.place_words)}
    sizes |= {"nodes": 4 * SLICE * num_slices, "counts": SLICE * num_slices}
    sizes |= {} if entry.slots else {"bases": 2 * num_slices}
    sizes |= {} if vertices is None else {"vertices": 4 * SLICE * num_slices}
    found = {"vertices": None, "bases": None, "slices": slices}
    found |= {part: runtime.empty(num_bytes) for part, num_bytes in sizes.items()}
    order = ("slices", "places", "bases", "nodes", "counts", "vertices")
    make("list_nodes", np.int32(dim), np.int32(entry.num_comp), mask, *map(found.get, order))
    runtime.finish()
    return found


def slot_lists(
    runtime: Runtime,
    entry: NodeList,
    offsets: npt.NDArray[np.int32],
    cells: tuple[int, int],
    prescribed: npt.NDArray[np.uint8] | None = None,
) -> dict[str, Any]:
    """Device buffers of the lists of all work-groups where results are added up in place (`NodeList.in_place`); made by numpy.

    Args:
        runtime: the device.
        entry: the lists.
        offsets: (num_cells, num_basis) of component 0 in an L-vector.
        cells: the first cell, and how many.
        prescribed: (num_local,) the entries that are marked; None: none is.

    Returns:
        Those of `NodeList.arrays`, by part: "places", uint16, cell by cell; "slices", the number of each list, as int32; by slot
        "nodes" int32, 0 where there is none, and "counts" uint8, whether there is one.
    """
    first, count = cells
    groups, pairs = -(-count // entry.cells), entry.num_entries
    # Cells past the last one have its nodes.
    numbers = np.minimum(np.arange(first, first + groups * entry.cells), first + count - 1)
    keys = offsets[numbers].reshape(groups, pairs).astype(np.int64) << 32
    keys |= np.arange(pairs)
    keys.sort(axis=1)
    nodes, pair = (keys >> 32).astype(np.int32), keys & 0xFFFFFFFF
    fresh = np.diff(nodes, axis=1, prepend=-1) > 0
    slots = np.cumsum(fresh, axis=1) - 1
    slices = np.int32(slots[:, -1].max(initial=0) // SLICE + 1)
    places = np.zeros((groups * entry.cells, entry.place_words), np.uint16)
    np.put_along_axis(own := np.empty((groups, pairs), np.uint16), pair, slots.astype(np.uint16), axis=1)
    places[:, : entry.num_basis] = own.reshape(-1, entry.num_basis)
    listed, counts = np.zeros((groups, slices * SLICE), np.int32), np.zeros((groups, slices * SLICE), np.uint8)
    where = np.nonzero(fresh)[0], slots[fresh]
    found = nodes[fresh]
    if prescribed is not None:
        found = np.where(sum(prescribed[found + c] for c in range(entry.num_comp)), ~found, found)
    listed[where], counts[where] = found, 1
    return {"slices": slices} | {
        part: runtime.upload(array) for part, array in (("places", places[:count]), ("nodes", listed), ("counts", counts))
    }


def run(runtime: Runtime, name: str, items: int, *arguments: Any) -> None:
    """Launches a kernel of `cl/lists.cl` once."""
    Kernel(runtime, list_kernels(), name, list(arguments), items, _GROUP_SIZE)()
