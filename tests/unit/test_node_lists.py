"""Lists of the nodes of work-groups that the device makes, against numpy."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from plan_works import residual

from femgpu.kernels import Layout, NodeList
from femgpu.kernels.node_lists import MOST_RESULTS, SLICE, SLICE_ROW, SLICE_STEP
from femgpu.mesh.box import kuhn_split
from femgpu.operators.lists import node_lists
from femgpu.runtime import current

TYPES = {"places": np.uint16, "slices": np.int32, "bases": np.uint16, "nodes": np.int32, "counts": np.uint8, "vertices": np.int32}


def twin(entry, block, offsets, cells, mask=None, vertices=None, dim=0):
    """What `node_lists` makes, group by group; places of cells that fill up the last block are zero."""
    first, count = cells
    groups, places = [], np.zeros((count, entry.place_words), np.int64)
    for start in range(0, count, entry.cells):
        part = slice(first + start, first + min(start + entry.cells, count))
        words = offsets[part].ravel()
        order = np.argsort(words, kind="stable")
        different = np.diff(words[order]) != 0
        if vertices is not None:
            different |= np.diff(vertices[part].ravel()[order]) != 0
        runs = np.split(order, np.flatnonzero(different) + 1)
        most = entry.most_results
        nodes = [run[i : i + most] for run in runs for i in range(0, len(run), most)]
        nodes.sort(key=lambda node: 0 if entry.slots else -len(node))
        groups.append((part, words, nodes))
        slots = np.empty(len(words), np.int64)
        for slot, node in enumerate(nodes):
            slots[node] = slot
        own = slots.reshape(-1, entry.num_basis)
        rows = even_rows(nodes, own) if entry.slots else chosen_rows(nodes, own)
        places[start : start + len(own), : entry.num_basis] = rows * entry.most_slots + own
        assert entry.slots or (len(nodes) <= entry.num_slots and SLICE_ROW * sum(map(len, nodes[::SLICE])) <= entry.num_places)
    slices = max((-(-len(nodes) // SLICE) for *_, nodes in groups), default=0)
    if entry.slots and SLICE * slices > entry.slots:
        return {"slices": np.int32(slices)}
    slices = entry.slots // SLICE or slices
    if entry.packed:
        places = places[:, : entry.num_basis] @ entry.place_range ** np.arange(entry.num_basis)[:, None]
    found = {"places": layout_of(entry, block).pack(places), "slices": slices}
    found |= {"bases": [], "nodes": [], "counts": []} | ({} if vertices is None else {"vertices": []})
    for part, words, nodes in groups:
        rows = [len(node) for node in nodes[::SLICE]]
        found["bases"] += [SLICE_ROW * sum(rows[:i]) for i in range(slices)]
        idle = [0] * (SLICE * slices - len(nodes))
        own = words[[node[0] for node in nodes]]
        marked = np.zeros(len(own), bool) if mask is None else np.any([mask[own + c] for c in range(entry.num_comp)], axis=0)
        found["nodes"] += [*np.where(marked, ~own, own), *idle]
        found["counts"] += [*map(len, nodes), *idle]
        if vertices is not None:
            found["vertices"] += [*(dim * vertices[part].ravel()[[node[0] for node in nodes]]), *idle]
    if entry.slots:
        del found["bases"]
    return {name: np.array(values, type_of(entry, name)) for name, values in found.items()}


def type_of(entry, name):
    return np.uint32 if name == "places" and entry.packed else TYPES[name]


def layout_of(entry, block):
    """Where the places of a cell stand."""
    return Layout("block", block, 1 if entry.packed else entry.together) if block > 1 else Layout()


def even_rows(nodes, slots):
    """(cells, num_basis) the row of each result: those of a node follow one another."""
    rows = np.empty(slots.size, np.int64)
    for node in nodes:
        rows[node] = np.arange(len(node))
    return rows.reshape(slots.shape)


def chosen_rows(nodes, slots):
    """(cells, num_basis) the row of each result: of the node's that are free the first whose bank the fewest of 16 items take."""
    begins = np.repeat(np.cumsum([0, *(SLICE_ROW * len(node) for node in nodes[::SLICE])]), SLICE)[: len(nodes)]
    firsts, free = begins + np.arange(len(nodes)) * SLICE_STEP % SLICE, [list(range(len(node))) for node in nodes]
    rows = np.empty_like(slots)
    for b, begin in itertools.product(range(slots.shape[1]), range(0, len(slots), 16)):
        taken = np.zeros(16, int)
        for cell, slot in enumerate(slots[begin : begin + 16, b], begin):
            row = min(free[slot], key=lambda row: taken[(firsts[slot] + SLICE_ROW * row) % 16])
            free[slot].remove(row)
            taken[(firsts[slot] + SLICE_ROW * row) % 16] += 1
            rows[cell, b] = row
    return rows


def made(entry, block, offsets, cells, mask=None, vertices=None, dim=0):
    """The same from the device."""
    runtime = current()
    found = node_lists(runtime, entry, block, offsets, cells, None if mask is None else runtime.upload(mask), vertices, dim)
    for name, buffer in found.items():
        if name != "slices" and buffer is not None:
            kind = np.dtype(type_of(entry, name))
            found[name] = runtime.read(buffer, np.empty(buffer.size // kind.itemsize, kind))
    return {name: values for name, values in found.items() if values is not None}


def assert_same(entry, block, offsets, cells, *given):
    expected, found = twin(entry, block, offsets, cells, *given), made(entry, block, offsets, cells, *given)
    assert found.keys() == expected.keys()
    # What fills up the last block is nobody's, nor is what makes the number of a cell's places even.
    layout, words = layout_of(entry, block), 1 if entry.packed else entry.place_words
    for lists in (expected, found) if "places" in found else ():
        places = layout.unpack(lists["places"][: layout.size(cells[1], words)], cells[1], words)
        lists["places"] = places[:, : entry.num_basis]
    for name, values in expected.items():
        same = np.array_equal(found[name].ravel()[: values.size], values.ravel())
        assert found[name].dtype == type_of(entry, name) and same, name


@pytest.mark.parametrize("num_basis, cells", [(1, 1), (3, 7), (4, 128), (10, 64), (20, 33), (15, 40)])
@pytest.mark.parametrize("block", [1, 32])
def test_lists_are_those_of_numpy(rng, num_basis, cells, block):
    """Of few nodes, which stand in a list many times, and of many; ranges with a last group that is full, or not."""
    for num_nodes in (1, 5, 3 * cells, 10_000):
        for first, count in ((0, 2 * cells), (3, cells + 1), (0, max(cells - 1, 1))):
            offsets = 3 * rng.integers(0, num_nodes, (first + count + 2, num_basis)).astype(np.int32)
            mask = (rng.random(3 * num_nodes) < 0.2).astype(np.uint8)
            comps = int(rng.integers(1, 4))
            assert_same(NodeList(0, cells, num_basis, comps, True), block, offsets, (first, count), mask)
            # Two vertices for a node: next to a seam of a periodic mesh.
            vertices = (offsets // 3 * 2 + (rng.random(offsets.shape) < 0.1)).astype(np.int32)
            assert_same(NodeList(0, cells, num_basis, comps, coords=True), block, offsets, (first, count), None, vertices, 3)
            # As many slots for all, among these as few as most groups need, or fewer.
            even = NodeList(0, cells, num_basis, comps, True, slots=SLICE * int(rng.integers(1, 4 + cells * num_basis // SLICE)))
            assert_same(even, block, offsets, (first, count), mask)
            assert_same(replace(even, masked=False, coords=True), block, offsets, (first, count), None, vertices, 3)


@pytest.mark.parametrize("num_basis, slots, packed", [(3, 256, True), (3, 288, False), (4, 32, True), (4, 64, False)])
def test_places_of_a_cell_are_one_number_where_that_holds_them(num_basis, slots, packed):
    assert NodeList(0, 64, num_basis, 1, slots=slots).packed == packed


def test_groups_with_more_nodes_than_a_row_have_no_lists():
    """Of 33 nodes, and of one that stands twice, for it has seven cells."""
    entry, many = NodeList(0, 40, 1, 1, slots=32), np.array([*range(32), *[31] * 6], np.int32)[:, None]
    for offsets in (np.arange(33, dtype=np.int32)[:, None], many):
        assert made(entry, 1, offsets, (0, len(offsets))) == {"slices": 2}
    assert made(entry, 1, many, (0, len(many) - 1))["counts"].tolist() == 31 * [1] + [6]


_COUNTS = [(300, 300), (129, 97), (250, 77), (17, 900), (62, 62), (9, 1000), (54, 54), (70, 70), (86, 86), (32, 55), (500, 72)]


@pytest.mark.parametrize("counts", _COUNTS)
def test_groups_of_a_boxs_triangles_need_few_slots(counts):
    """384 of them 256, unless the box is a few cells across, where a node of more than six triangles takes two."""
    cells = kuhn_split(counts)[1]
    groups = (np.unique(cells[first : first + 384], return_counts=True)[1] for first in range(0, len(cells), 384))
    assert max(np.sum(-(-count // 6)) for count in groups) <= 256


def test_no_cells_have_no_lists():
    found = made(NodeList(0, 8, 3, 1), 1, np.empty((0, 3), np.int32), (0, 0))
    assert found["slices"] == 0


def test_places_are_enough_for_any_mesh(rng):
    """However results are spread over nodes."""
    for cells, num_basis in ((1, 1), (1, 20), (5, 4), (64, 10), (128, 4)):
        entry = NodeList(0, cells, num_basis, 1)
        for _ in range(200):
            cuts = np.sort(rng.integers(0, entry.num_entries + 1, rng.integers(0, entry.num_entries + 1)))
            runs = np.diff([0, *cuts, entry.num_entries])
            counts = sorted((min(MOST_RESULTS, run - i) for run in runs for i in range(0, run, MOST_RESULTS)), reverse=True)
            assert len(counts) <= entry.num_slots and SLICE_ROW * sum(counts[::SLICE]) <= entry.num_places


@pytest.mark.parametrize(
    "cell, dim, num_basis, num_cells, num_nodes",
    [
        ("triangle", 2, 6, 2 * 8 * 8, 17 * 17),
        ("tetrahedron", 3, 10, 6 * 4, 9 * 3 * 3),
        ("hexahedron", 3, 27, 4, 9 * 3 * 3),
        ("interval", 1, 2, 4, 5),
    ],
)
def test_nodes_per_cell_are_those_of_a_square_of_triangles_and_of_a_row_of_other_cells(cell, dim, num_basis, num_cells, num_nodes):
    found = NodeList(0, num_cells, num_basis, 1).nodes_per_cell(residual(num_basis, cell=cell, dim=dim))
    assert math.isclose(found, num_nodes / num_cells)
