"""A term, a plan, a range of cells: launches with everything bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.forms import Pointwise
from femgpu.kernels import Plan, Step, pack_tables, render
from femgpu.operators.arrays import CellArrays
from femgpu.operators.modes import modal_tables
from femgpu.operators.term import Term
from femgpu.runtime import Kernel, Launch
from femgpu.spaces import Field

# Words of the counts in front of what work-groups have seen of them (`zeros.cl`); zeros of 16 bytes that an item writes at least.
_COUNT_WORDS, _WRITES = 1024, 2
# Types of integrals in words.
_OVER = {"cell": "cells", "exterior_facet": "facets of the boundary", "interior_facet": "facets between two cells"}


class Application:
    """The launches of one plan over some cells of a term.

    Args:
        term: the term.
        plan: how.
        pointwise: the pointwise function.
        buffers: device buffers by role: ("vector", "u"), ("entries", "u"), ("constants",), ("state",), ("cell_state",), ("out",),
            ("out", 0), ... of those that the plan has.
        arrays: the arrays over cells.
        first: the first cell.
        count: how many; None: up to the last.
        timed: whether device times are kept for the view.
        program: of the plan, where it is rendered already.
        note: how the plan was tuned, for the view.

    Attributes:
        kernels: one per step and chunk of cells, in the order in which they run.
        chunks: the first cell and the number of cells of each chunk.
        roles: the roles of all arguments.
    """

    def __init__(
        self,
        term: Term,
        plan: Plan,
        pointwise: Pointwise,
        buffers: Mapping[tuple, Any],
        arrays: CellArrays,
        first: int = 0,
        count: int | None = None,
        timed: bool = False,
        program: str = "",
        note: str = "",
    ):
        self.term = term
        self._prescribed = arrays.prescribed
        self.first = first
        self.count = term.num_cells - first if count is None else count
        fields = field_names(term, pointwise)
        chunk = plan.chunk_cells or self.count
        starts = range(self.first, self.first + self.count, max(chunk, 1)) or (self.first,)
        self.chunks = tuple((start, min(chunk, self.first + self.count - start)) for start in starts)
        fitted = arrays.fitted(term, plan, fields, self.chunks)
        if fitted is not plan:
            program, note = "", "; ".join([*[note] * bool(note), "in place of a plan in rows: some work-group needs more slots"])
        self.plan, self.note, plan = fitted, note, fitted
        tables = term_tables(term, plan, pointwise)
        steps = plan.steps()
        self.roles = {array.role for step in steps for array in step.arrays}
        self._zeros: dict[int, tuple[int, dict[tuple, Any]]] = {}
        self._runtime = runtime = arrays.runtime
        source = program or render(plan, pointwise.body, tables[0])
        self._work = {role: runtime.empty(size) for role, size in _work_bytes(plan, steps, min(chunk, self.count)).items()}
        known = {**buffers, **self._work}
        self._positions: list[dict[tuple, int]] = []
        kernels = []
        for start, size in self.chunks:
            for step in steps:
                given = [
                    known[array.role] if array.role in known else arrays(term, plan, array, fields, tables, (start, size))
                    for array in step.arrays
                ]
                kernels.append(self._kernel(runtime, source, step, given, start, size))
        for kernel in kernels:
            kernel.timed = timed
        self.kernels = tuple(kernels)

    def _kernel(self, runtime: Any, source: str, step: Step, given: list[Any], start: int, size: int) -> Kernel:
        """One launch, and where its arguments stand that may change."""
        kernel = Kernel(
            runtime,
            source,
            step.name,
            [np.int32(start), np.int32(size), *given],
            step.global_size(size),
            step.items,
            label=label(self.term, self.plan, step),
            about=about(self.term, self.plan),
        )
        # What a compiler refuses is told here, on all ranks.
        kernel.build()
        self._positions.append({array.role: position + 2 for position, array in enumerate(step.arrays)})
        return kernel

    def bind(self, buffers: Mapping[tuple, Any], num_zeros: int = 0) -> list[Launch]:
        """The launches with other buffers in some roles; roles that the kernels do not have are passed over.

        Args:
            buffers: by role.
            num_zeros: entries of the result that the first launch zeroes before it adds, where it can (`zeroes`).
        """
        found, (extra, given) = [], self._zeroing(num_zeros) if num_zeros and self.zeroes else (0, {})
        for kernel, positions in zip(self.kernels, self._positions, strict=True):
            bound = {positions[role]: buffer for role, buffer in {**buffers, **given}.items() if role in positions}
            found.append(kernel.bound(bound, kernel.global_size + extra))
            extra, given = 0, {}
        return found

    @property
    def zeroes(self) -> bool:
        """Whether the first launch can zero its result."""
        return ("zeros",) in self.roles

    def _zeroing(self, count: int) -> tuple[int, dict[tuple, Any]]:
        """Items that the first launch has for so many zeros, and what it is given for them, see `zeros.cl`."""
        if count not in self._zeros:
            kernel, writes = self.kernels[0], count * self.plan.itemsize("scalar") // 16
            runtime, size = self._runtime, kernel.group_size
            words = np.zeros(_COUNT_WORDS + kernel.global_size // size, np.uint32)
            groups = min(max(1, writes // (_WRITES * size)), runtime.device.units)
            given = {("zeros",): runtime.upload(words), ("zeroing",): np.uint32(groups), ("num_zeros",): np.uint32(count)}
            self._zeros[count] = groups * size, given
        return self._zeros[count]

    @cached_property
    def num_stored(self) -> int:
        """How many of the first entries of a result lie inside of the cells, and are stored where the role ("stores",) is bound.

        PETSc and `mesh.locality` number the dofs inside of cells first. Those of some cells only, or next to prescribed ones,
        count as none.
        """
        term = self.term
        if not self.plan.stores_inside or self.count < sum(block.num_cells for block in term.mesh.blocks):
            return 0
        elements = [(field, term.element(field)) for field in term.rows]
        inside = [(field, element.reference.entity_of(element.nodes) == 0) for field, element in elements]
        found = [(term.offsets(field)[:, nodes], field.num_comp) for field, nodes in inside if nodes.any()]
        stop = max(int(offsets.max(initial=-1)) + comps for offsets, comps in found)
        whole = sum(offsets.size * comps for offsets, comps in found) == stop
        return stop if whole and (self._prescribed is None or not self._prescribed[:stop].any()) else 0

    def listed_nodes(self, number: int) -> npt.NDArray[np.int32]:
        """(num_groups * slots,) where the nodes of the work-groups' lists stand in an L-vector; -1 for slots without a node.

        Args:
            number: of the field of the rows.
        """
        if not self.count:
            return np.empty(0, np.int32)
        assert len(self.chunks) == 1, "groups are counted from the first cell of a launch"
        given = {role[1:3]: position for role, position in self._positions[0].items() if role[0] == "list"}
        nodes, counts = (self.kernels[0].arguments[given[part, f"test{number}"]] for part in ("nodes", "counts"))
        read = self._runtime.read
        offsets, used = read(nodes, np.empty(counts.size, np.int32)), read(counts, np.empty(counts.size, np.uint8))
        return np.where(used == 0, np.int32(-1), np.where(offsets < 0, ~offsets, offsets))

    def __call__(self) -> None:
        """Enqueues the launches."""
        for kernel in self.kernels:
            kernel()

    def by_chunks(self) -> Iterator[tuple[int, int]]:
        """Enqueues the launches chunk by chunk: the first cell and the number of cells of each, as it is under way."""
        steps = len(self.kernels) // len(self.chunks)
        for number, chunk in enumerate(self.chunks):
            for kernel in self.kernels[number * steps : (number + 1) * steps]:
                kernel()
            yield chunk

    @property
    def flops(self) -> int:
        """Floating-point operations of one call on this rank."""
        return self.plan.flops * self.count

    @property
    def calls(self) -> int:
        """How often it was applied so far."""
        return self.kernels[0].launches if self.kernels else 0

    @property
    def mean_seconds(self) -> float:
        """Mean device time of a call; NaN where none was timed."""
        return sum(kernel.mean_seconds for kernel in self.kernels)

    def least_seconds(self, calls: int) -> float:
        """The shortest of some calls, which are waited for."""
        return sum(kernel.least_seconds(calls) for kernel in self.kernels)


def label(term: Term, plan: Plan, step: Step) -> str:
    """What the kernel of a step is called in the view, in dumps and messages."""
    cells = [side.block.cell for side in term.sides]
    return "-".join([step.name, *["facets"] * plan.work.facet, *dict.fromkeys(cells), plan.schedule])


def about(term: Term, plan: Plan) -> str:
    """The plan and the form of a kernel, for messages."""
    form, integral = term.form, term.integral
    name = "" if form.unknown is None else f" at {form.unknown.name}"
    where = f" on {integral.subdomain}" if integral.subdomain else ""
    return f"plan {plan}; form{name} in {form.space or 'no space'}, integral over {_OVER[integral.type]}{where}"


def field_names(term: Term, pointwise: Pointwise) -> dict[str, Field]:
    """Fields by the names that roles call them: those that are read, and `test0`, `test1`, ... of the rows."""
    fields = {data.name: data.field for data in term.fields(pointwise)}
    return fields | {f"test{i}": field for i, field in enumerate(term.rows)}


def term_tables(term: Term, plan: Plan, pointwise: Pointwise) -> list[np.ndarray]:
    """Of each side (num_facets or 1, plan.words_of(side)) weights, normals and tabulations; nothing where the plan has 1D ones."""
    if plan.lines:
        return [np.zeros((1, 0))]
    elements, found = term.elements(term.fields(pointwise)), []
    for number, side in enumerate(term.sides):
        weights = side.weights
        tabulations = {i: side.tabulate(elements[i][1], plan.work.tables[i].second) for i in plan.side_tables(number)}
        if plan.work.modes >= 0:
            weights, tabulations = modal_tables(side, plan.work, tabulations, plan.mirrored)
        found.append(pack_tables(plan, weights, side.normals, tabulations, number))
    return found


def _work_bytes(plan: Plan, steps: tuple[Step, ...], count: int) -> dict[tuple, int]:
    """Bytes of the arrays that steps pass on, by role, for a number of cells."""
    sizes: dict[tuple, int] = {}
    for array in (array for step in steps for array in step.arrays if array.role[0] == "work"):
        assert array.layout is not None
        sizes[array.role] = max(sizes.get(array.role, 0), array.layout.size(count, array.words) * plan.itemsize(array.ctype))
    return sizes
