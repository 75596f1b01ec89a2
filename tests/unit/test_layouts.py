"""Layouts: OpenCL C and numpy agree on where a word stands."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from femgpu.errors import PlanError
from femgpu.kernels import Layout

layouts = st.one_of(
    st.just(("cell", 1)),
    st.tuples(st.just("block"), st.sampled_from([2, 3, 32])),
)


@given(layouts, st.integers(1, 3), st.integers(1, 7), st.integers(0, 70))
def test_macro_equals_positions(kind, together, nodes, num_cells):
    """The macro, read as Python (its operands are not negative), gives the positions; pack and unpack go there and back."""
    layout, words = Layout(*kind, together=together), nodes * together
    name, expression = re.fullmatch(r"#define (\w+)\(cell, i\) (.*)", layout.macro("AT_x", words)).groups()
    text = re.sub(r"\((size_t|uint)\)", "", expression).replace("/", "//")
    cell, i = np.meshgrid(np.arange(num_cells), np.arange(words), indexing="ij")
    found = eval(text, {"cell": cell, "i": i})
    positions = layout.positions(num_cells, words)
    assert name == "AT_x" and np.array_equal(np.broadcast_to(found, positions.shape), positions)
    size = layout.size(num_cells, words)
    assert len(np.unique(positions)) == positions.size and positions.max(initial=-1) < size
    values = np.random.default_rng(0).random((num_cells, words))
    flat = layout.pack(values)
    assert flat.shape == (size,) and np.array_equal(flat[positions], values)
    assert np.array_equal(layout.unpack(flat, num_cells, words), values)


def test_lattice_orders_the_words():
    values = np.arange(12).reshape(3, 4)
    order = np.array([0, 1, 3, 2], np.int32)
    for layout in (Layout(lattice=True), Layout("block", 2, lattice=True)):
        flat = layout.pack(values, order)
        assert np.array_equal(layout.unpack(flat, 3, 4), values[:, order])
        assert np.array_equal(layout.unpack(flat, 3, 4, order), values)
    assert np.array_equal(Layout().pack(values, order), values.ravel())


@pytest.mark.parametrize("order, block", [("fastest", 1), ("cell", 2), ("block", 0)])
def test_layouts_that_there_are_not(order, block):
    with pytest.raises(PlanError, match="layout"):
        Layout(order, block)
