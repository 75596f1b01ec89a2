"""Arrays over cells that the device makes, against numpy."""

import gc

import numpy as np
import pytest

from femgpu.kernels import Layout
from femgpu.operators import sums
from femgpu.operators.lists import Entries, owned, pack
from femgpu.runtime import current


@pytest.mark.parametrize("layout", [Layout(), Layout(lattice=True), Layout("block", 4), Layout("block", 32, lattice=True)], ids=str)
def test_words_are_packed_as_numpy_packs_them(layout):
    runtime, rng = current(), np.random.default_rng(1)
    words, order = rng.integers(0, 90, (37, 6)).astype(np.int32), np.array([4, 0, 5, 1, 3, 2], np.int32)
    order = order if layout.lattice else None
    mask = (rng.random(200) < 0.1).astype(np.uint8)
    two = mask[:-1] | mask[1:]
    for factor, given, expected in (
        (1, {}, words),
        (2, {}, 2 * words),
        (1, {"mask": runtime.upload(mask), "num_comp": 2}, np.where(two[words], ~words, words)),
        (2, {"mask": runtime.upload(mask)}, np.where(mask[2 * words], ~(2 * words), 2 * words)),
    ):
        found = runtime.read(pack(runtime, layout, words, order, factor, **given), np.full(layout.size(37, 6), -7, np.int32))
        assert np.array_equal(found, layout.pack(expected.astype(np.int32), order))


def test_lists_of_owners():
    runtime, rng = current(), np.random.default_rng(2)
    first, second = rng.integers(0, 50, (40, 3)).astype(np.int32), rng.integers(0, 50, 17).astype(np.int32)
    values = rng.permutation(17).astype(np.int32) + 1000
    parts = [Entries(runtime.upload(first), 120, 7, 3, 5), Entries(runtime.upload(second), 17, values=runtime.upload(values))]
    every = np.concatenate([7 + np.arange(120) // 3 * 5, values])
    owners = np.concatenate([first.ravel(), second])
    for ordered in (True, False):
        starts, begins, found = owned(runtime, parts, 60, ordered)
        lists = np.split(runtime.read(found, np.empty(137, np.int32)), starts[1:-1])
        assert np.array_equal(runtime.read(begins, np.empty(61, np.int32)), starts) and len(lists) == 60
        for owner, entries in enumerate(lists):
            assert np.array_equal(entries if ordered else np.sort(entries), np.sort(every[owners == owner]))


@pytest.mark.parametrize("way", ["numpy", "scipy"])
def test_positions_are_transposed(way, monkeypatch):
    monkeypatch.setattr(sums, "_SORTED_BY_NUMPY", sums._SORTED_BY_NUMPY if way == "numpy" else 0)
    positions = 3 * np.random.default_rng(3).integers(1, 40, 200).astype(np.int32)
    found = distinct, starts, order = sums.transpose(positions)
    assert [array.dtype for array in found] == 3 * [np.int32] and np.array_equal(distinct, np.unique(positions))
    lists = [np.flatnonzero(positions == position) for position in distinct]
    assert np.array_equal(order, np.concatenate(lists)) and np.array_equal(np.diff(starts), [len(entries) for entries in lists])
    assert starts[0] == 0


def test_nothing_is_transposed():
    distinct, starts, order = sums.transpose(np.empty(0, np.int32))
    assert (len(distinct), list(starts), len(order)) == (0, [0], 0)


def test_uploads_are_shared_while_somebody_holds_them():
    runtime, array = current(), np.arange(24, dtype=np.int32).reshape(4, 6)
    buffer = runtime.upload_once(array)
    assert runtime.upload_once(array) is buffer and runtime.upload_once(array.reshape(8, 3)) is buffer
    assert runtime.upload_once(array.copy()) is not buffer and runtime.upload_once(array[:2]) is not buffer
    turned = runtime.upload_once(array.T)
    assert np.array_equal(runtime.read(turned, np.empty((6, 4), np.int32)), array.T)
    before = runtime.allocated_bytes
    del buffer, turned
    gc.collect()
    assert runtime.allocated_bytes <= before - 2 * array.nbytes
    array[0, 0] = -1  # nobody has a copy now
    assert runtime.read(runtime.upload_once(array), np.empty(24, np.int32))[0] == -1
