"""The values of a form's matrix, summed on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from femgpu import log
from femgpu.errors import DataError
from femgpu.kernels import vector_kernels
from femgpu.operators.columns import Columns, Groups
from femgpu.operators.entries import EntrySum
from femgpu.operators.pattern import Pattern, Rows
from femgpu.operators.planner import EVENTS, SUMMED
from femgpu.operators.sums import transpose
from femgpu.operators.term import Term
from femgpu.runtime import Kernel, Runtime, Scalars


class MatrixSource(Protocol):
    """What computes element matrices: a `FormOperator`, whose attributes and methods these are."""

    runtime: Runtime
    assembly_target: str

    @property
    def terms(self) -> list[Term]:
        """What is integrated where."""

    @property
    def bends(self) -> int:
        """With another number the terms are others."""

    def prepare(self, target: str) -> Sequence[Any]:
        """The launches of a target."""

    def element_matrices(self) -> Iterator[tuple[Term, int, int, Any]]:
        """Term, first cell, cells, and their matrices."""

    def flops(self, target: str) -> float:
        """Of a target."""


class Assembly:
    """A form's matrix on this rank: its pattern, made once, and its values at the state of the Jacobian.

    Args:
        operator: the operators of the form.
        groups: the groups of dofs of its space.
        columns: the columns.
        more: what other ranks add to this rank's rows; None: nothing.

    Attributes:
        target: of the operator: "matrix", element matrices in chunks and then their sums, or entries that are added by the kernels
            that compute them.
        pattern: which entries there are.
        values: device buffer (pattern.num_values,) float64.

    Raises:
        PlanError: where there are more entries than 32-bit indices reach.
        DataError: where ranks disagree about prescribed dofs.
    """

    def __init__(self, operator: MatrixSource, groups: Groups, columns: Columns, more: Rows | None = None):
        self._operator, self._runtime = operator, operator.runtime
        runtime, pattern = operator.runtime, Pattern(operator.runtime, operator.terms, groups, columns, more)
        self.pattern = pattern
        self.target = operator.assembly_target
        pattern.find_places(operator.terms, groups, mark=self.target != "matrix")
        if self.target != "matrix":
            self.target = next(target for target, place in SUMMED.items() if place == pattern.place)
        self.values, alone = runtime.empty(8 * pattern.num_values), pattern.alone
        self._sum = EntrySum(runtime, pattern, groups, self.values)
        self._add = None if more is None else self._adding(*more)
        self._diagonal = Scalars(runtime, 1)
        given = [np.int32(len(alone)), runtime.upload(alone), self._diagonal.buffer, self.values]
        self._fill_alone = Kernel(runtime, vector_kernels("double"), "fill_rows", given, len(alone), 64)
        self._bends = operator.bends

    def compute(self, diagonal: float) -> None:
        """Computes all values, without what other ranks add.

        Args:
            diagonal: of the prescribed rows.
        """
        operator = self._operator
        operator.prepare(self.target)
        if self._bends != operator.bends:
            self._sum.forget()
            self._bends = operator.bends
        with log.event(EVENTS[self.target], operator.flops(self.target), self._runtime.finish):
            self._runtime.zero(self.values, 8 * self.pattern.num_values)
            if self.target == "matrix":
                for chunk in operator.element_matrices():
                    self._sum.add(*chunk)
            else:
                self._add_entries()
            self.prescribe(diagonal)

    def prescribe(self, diagonal: float) -> None:
        """Sets the diagonal of the prescribed rows."""
        self._diagonal.set(diagonal)
        self._fill_alone()

    def add(self, received: Any) -> None:
        """Adds what other ranks have computed, a device buffer in the order of `more`."""
        assert self._add is not None
        self._add.set(4, received)
        self._add()

    def _add_entries(self) -> None:
        """Adds the entries of all cells as they are computed."""
        pattern, common = self.pattern, {("dofs",): self.pattern.dofs, ("values",): self.values}
        for application in self._operator.prepare(self.target):
            blocks = application.term.blocks
            places = {("places", *pair): pattern.places[blocks, *pair] for pair in application.term.couples}
            for launch in application.bind(common | places):
                launch()

    def _adding(self, rows: np.ndarray, lengths: np.ndarray, columns: np.ndarray) -> Kernel:
        """The kernel that adds entries of other ranks' shares of rows."""
        pattern, rows = self.pattern, np.repeat(rows, lengths)
        places = np.empty(len(rows), np.int32)
        for part in range(2):
            indices = pattern.indices(part)
            chosen = np.flatnonzero((columns >= pattern.columns.num_owned) == part)
            begins, sizes = pattern.starts[rows[chosen], part], pattern.lengths[rows[chosen], part]
            low = begins - np.int32(pattern.begins[part])
            places[chosen] = pattern.begins[part] + _find(indices, low, low + sizes, columns[chosen])
        distinct, starts, order = transpose(places)
        given = [np.int32(len(distinct)), *map(self._runtime.upload, (distinct, starts, order)), self.values, self.values]
        return Kernel(self._runtime, vector_kernels("double"), "unpack_add", given, len(distinct), 64)


def _find(indices: np.ndarray, low: np.ndarray, high: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Positions of columns between `low` and `high`, where they increase."""
    end = high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        less = (low < high) & (indices[np.minimum(middle, len(indices) - 1)] < wanted)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.maximum(middle, low))
    if (low >= end).any() or (indices[low] != wanted).any():
        raise DataError("an entry of the matrix is missing on its owner: ranks disagree about which dofs are prescribed")
    return low
