"""Element matrices into the values of a matrix, on the device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from femgpu.kernels import entry_kernels
from femgpu.operators.columns import Groups
from femgpu.operators.lists import Entries, owned
from femgpu.operators.pattern import Pattern
from femgpu.operators.term import Term
from femgpu.runtime import Kernel, Runtime

_GROUP_SIZE = 64
# Position of the element matrices among the arguments.
_MATRICES = 19


class EntrySum:
    """Adds element matrices to the values of a pattern, row by row and block by block of coupled fields.

    Args:
        runtime: the device.
        pattern: where the entries go.
        groups: the groups of dofs that it was made of.
        values: device buffer (pattern.num_values,) float64.
    """

    def __init__(self, runtime: Runtime, pattern: Pattern, groups: Groups, values: Any):
        self._runtime, self._pattern, self._groups, self._values = runtime, pattern, groups, values
        self._uploaded: dict[Any, Any] = {}
        self._kernels: dict[Term, list[Kernel]] = {}

    def forget(self) -> None:
        """Lets go of what belongs to terms: they have been made anew."""
        self._kernels.clear()
        self._uploaded.clear()

    def add(self, term: Term, first: int, count: int, matrices: Any) -> None:
        """Adds the matrices of some cells of a term.

        Args:
            term: the term.
            first: the first cell.
            count: how many.
            matrices: device buffer (count, num_rows, num_rows) float64.
        """
        if term not in self._kernels:
            self._kernels[term] = list(self._make(term))
        for kernel in self._kernels[term]:
            kernel.bound({0: np.int32(first), 1: np.int32(count), _MATRICES: matrices})()

    def _make(self, term: Term) -> Iterator[Kernel]:
        """A kernel for each pair of coupled fields."""
        pattern, blocks, rows = self._pattern, term.blocks, term.rows
        source = entry_kernels(pattern.place)
        sizes = [term.element(field).num_basis * field.num_comp for field in rows]
        firsts = list(accumulate(sizes, initial=0))
        for row, column in sorted(term.couples):
            given: list[Any] = [np.int32(0), np.int32(0), np.int32(firsts[-1] ** 2), np.int32(firsts[-1])]
            fields = [(number, rows[number]) for number in (row, column)]
            parts = [self._groups.parts_of(term, number) for number in (row, column)]
            for (number, field), part in zip(fields, parts, strict=True):
                given += map(np.int32, (firsts[number], term.element(field).num_basis, field.num_comp, int(part.max()) + 1))
            given += [
                self._upload(("offsets", number, blocks), term.of_whole(field.offsets, field.side)) for number, field in fields
            ]
            given += [self._upload(("parts", number, blocks), part) for (number, _), part in zip(fields, parts, strict=True)]
            given.append(None if term.numbers is None else self._upload(term, term.numbers))
            given += [pattern.places[blocks, row, column], pattern.dofs, self._values, self._values]
            offsets = term.offsets(rows[row])
            entries = Entries(self._runtime.upload_once(offsets), offsets.size)
            starts, _, order = owned(self._runtime, [entries], len(pattern.columns.of_local))
            nodes = np.flatnonzero(starts[1:] > starts[:-1]).astype(np.int32)
            given += [
                np.int32(len(nodes)),
                self._runtime.upload(nodes),
                self._runtime.upload(np.append(starts[nodes], starts[-1:])),
            ]
            given.append(order)
            yield Kernel(self._runtime, source, "gather_entries", given, len(nodes) * rows[row].num_comp, _GROUP_SIZE)

    def _upload(self, key: Any, array: np.ndarray) -> Any:
        if key not in self._uploaded:
            self._uploaded[key] = self._runtime.upload_once(array)
        return self._uploaded[key]
