"""The arguments of kernels that add the entries of element matrices to a sparse matrix."""

from __future__ import annotations

from femgpu.kernels.array import Array, Layout
from femgpu.kernels.work import Work


def sparse_arrays(work: Work, layout: Layout) -> list[Array]:
    """Where the entries of a cell go, and the values.

    Args:
        work: with `place`.
        layout: of what neighbouring items read together.
    """
    arrays = []
    for i, row in enumerate(work.rows):
        arrays.append(Array(f"d_test{i}_offsets", "int", ("offsets", f"test{i}", False), row.num_basis, layout))
        arrays.append(Array(f"d_parts{i}", "int", ("parts", i)))
    arrays.append(Array("d_cells", "int", ("cells",)))
    for i, j in sorted(work.couples):
        size = work.rows[i].num_parts * work.rows[j].num_parts
        arrays.append(Array(f"d_places_{i}_{j}", work.place, ("places", i, j), size, Layout()))
    entries = sum(work.rows[i].size * work.rows[j].size for i, j in work.couples)
    values = Array("d_values", "double", ("values",), entries, moves=2, written=True)
    return [*arrays, Array("d_dofs", "int4", ("dofs",), work.num_rows), values]
