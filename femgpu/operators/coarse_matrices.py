"""Element matrices on a coarser mesh, from those of the cells that refine its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from femgpu.kernels import children_kernels
from femgpu.mesh.refine import child_values
from femgpu.operators.assembly import MatrixSource
from femgpu.operators.sums import transpose
from femgpu.operators.term import Term
from femgpu.runtime import Kernel
from femgpu.spaces import Space

_GROUP_SIZE = 64
# Position of the finer matrices among the arguments of `add_children`.
_MATRICES = 11


@dataclass(frozen=True, eq=False)
class _AllCells(Term):
    """All integrals together on all cells of a block: what is summed into the values of a matrix.

    Attributes:
        couples: the pairs of fields that any of them couples.
    """

    couples: frozenset[tuple[int, int]] = frozenset()


class Shown:
    """Element matrices in chunks, each of which others get to see, too.

    Args:
        source: the matrices.

    Attributes:
        watchers: called with each chunk.
        runtime: the device.
        assembly_target: what it has, as `FormOperator`.
    """

    assembly_target = "matrix"

    def __init__(self, source: MatrixSource):
        self._source, self.runtime, self.watchers = source, source.runtime, list[Callable[[Term, int, int, Any], None]]()

    @property
    def terms(self) -> list[Term]:
        """As `FormOperator`."""
        return self._source.terms

    @property
    def bends(self) -> int:
        """As `FormOperator`."""
        return self._source.bends

    def prepare(self, target: str) -> Sequence[Any]:
        """As `FormOperator`."""
        return self._source.prepare(target)

    def flops(self, target: str) -> float:
        """As `FormOperator`."""
        return self._source.flops(target)

    def element_matrices(self) -> Iterator[tuple[Term, int, int, Any]]:
        """As those of `FormOperator`."""
        for chunk in self._source.element_matrices():
            for watcher in self.watchers:
                watcher(*chunk)
            yield chunk


class CoarseMatrices:
    """The Galerkin products of the matrices of each cell's children: exact, whatever a form reads on the finer mesh.

    It gets them chunk by chunk, from who goes through them anyway.

    Functions are linear on both meshes, and cells have their children one after the other (`spaces.refined`).

    Args:
        finer: the element matrices on the finer mesh.
        space: on the coarser mesh.

    Attributes:
        runtime: the device.
        terms: one for each block whose cells have matrices.
        assembly_target: what it has, as `FormOperator`.
        bends: never changes: with another one of the finer form's all of this is void.
    """

    assembly_target = "matrix"
    bends = 0

    def __init__(self, finer: MatrixSource, space: Space):
        self.runtime, self.terms = finer.runtime, list[Term]()
        self._matrices: dict[int, Any] = {}
        self._kernels: dict[Term, Kernel] = {}
        for block in space.mesh.blocks:
            theirs = [term for term in finer.terms if term.block.index == block.index and term.couples]
            if theirs:
                first, couples = theirs[0], frozenset(pair for term in theirs for pair in term.couples)
                form = replace(first.form, space=space)
                term = _AllCells(
                    form, first.integral, space.mesh, block, None, False, first.quadrature, facets=None, couples=couples
                )
                self.terms.append(term)
                source = children_kernels(child_values(block.cell).shape[-1])
                self.runtime.build_ahead([(source, "add_children")])
                self._matrices[block.index] = self.runtime.empty(8 * block.num_cells * term.num_rows**2)

    def clear(self) -> None:
        """Makes all matrices zero."""
        for term in self.terms:
            self.runtime.zero(self._matrices[term.block.index], 8 * term.num_cells * term.num_rows**2)

    def add(self, term: Term, first: int, count: int, matrices: Any) -> None:
        """Adds the products of finer matrices: of a term there, its first cell, and a buffer of so many cells' matrices."""
        if term not in self._kernels:
            self._kernels[term] = self._make(term)
        self._kernels[term].bound({0: np.int32(first), 1: np.int32(count), _MATRICES: matrices})()

    def element_matrices(self) -> Iterator[tuple[Term, int, int, Any]]:
        """As those of `FormOperator`."""
        for term in self.terms:
            yield term, 0, term.num_cells, self._matrices[term.block.index]

    def prepare(self, target: str) -> Sequence[Any]:
        """There is nothing to build."""
        return []

    def flops(self, target: str) -> float:
        """None but sums."""
        return 0.0

    def _make(self, term: Term) -> Kernel:
        """What adds the matrices of a term's cells to those of their parents."""
        upload, weights = self.runtime.upload, child_values(term.block.cell)
        if term.cells is None:
            entries = np.arange(term.num_cells, dtype=np.int32)
            parents, starts = entries[: len(entries) // len(weights)], np.append(entries, np.int32(len(entries)))[:: len(weights)]
        else:
            parents, starts, entries = transpose(term.cells // np.int32(len(weights)))
        components, first = [], 0
        for field in term.rows:
            components += [(first + number, field.num_comp) for number in range(field.num_comp)]
            first += field.num_comp * term.element(field).num_basis
        sizes = len(parents), len(components), len(weights)
        given = [np.int32(0), np.int32(0), *map(np.int32, sizes), *map(upload, (parents, starts, entries))]
        given += [None if term.cells is None else upload(term.cells), upload(np.array(components, np.int32)), upload(weights)]
        given += [self._matrices[term.block.index]] * 2
        source = children_kernels(weights.shape[-1])
        return Kernel(self.runtime, source, "add_children", given, len(parents) * term.num_rows, _GROUP_SIZE)
