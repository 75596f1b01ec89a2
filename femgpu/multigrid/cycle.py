"""The V-cycle: smoothing by polynomials on each level, and whatever solves the coarsest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from femgpu.krylov import PRECONDITIONERS, Operator, Spectrum, Vectors, block_diagonal, programs
from femgpu.multigrid.polynomials import roots
from femgpu.runtime import Kernel, Scalars

# What a cycle calls one after the other, and what makes it of two buffers.
Calls = list[Callable[[], None]]
Bind = Callable[[Any, Any], Calls]
# Fills a buffer with the diagonal of a matrix or, of blocks of successive rows on it, with what stands so many columns further than
# the diagonal, in turns; collective.
Diagonal = Callable[[Any, int], None]

FILE = "multigrid.cl"
# How much larger than its estimate, which is one from below, the largest eigenvalue is taken.
_MARGIN = 1.1
# What a step does besides, as the kernels name it.
_SUBTRACT, _START, _CORRECTED = 1, 2, 4


class Level:
    """A level that is smoothed.

    Polynomials in D^-1 A, D the diagonal or blocks on it. The same one stands before and after the coarse correction, so that the
    cycle is symmetric where A is.

    Args:
        vectors: kernels and lengths.
        operator: A.
        diagonal: fills buffers with what D is made of.
        size: rows of its blocks, which divides the lengths of all ranks; 1: it is the diagonal.
        kind: of the polynomials, see `polynomials.roots`.
        steps: products with A before the coarse correction, and as many after it.
        first: number of the first entry on this rank, of which noise is made.
        estimate: steps of the estimate.

    Attributes:
        files: with the kernels, in `kernels/cl`.
        vectors: kernels and lengths.
        operator: A.
        size: rows of the blocks of D.
        r: the residual: what is restricted, and what a finer level restricts into.
        x: the approximation.
        p: the correction of the coarser level, the caller's to fill between `down` and `up`.
        largest: the largest eigenvalue of D^-1 A as it was estimated.
    """

    files: ClassVar[tuple[str, ...]] = (*Spectrum.files, FILE)

    def __init__(
        self,
        vectors: Vectors,
        operator: Operator,
        diagonal: Diagonal,
        size: int,
        kind: str,
        steps: int,
        first: int,
        estimate: int,
    ):
        self.vectors, self.operator, self.size = vectors, operator, size
        if size > 1:
            # Those of `files` are under way where it was known that there would be levels; blocks were not known then.
            device, single = vectors.runtime.device, vectors.dtype == np.float32
            own = programs(device, (FILE,), single, size) + programs(device, (PRECONDITIONERS,), single)
            vectors.runtime.build_ahead(own)
        self._roots, self._first, self._estimate = roots(kind, steps), first, estimate
        self.r, self.x, self.p, self._q = (vectors.empty() for _ in range(4))
        self._inverse = vectors.runtime.empty(size * vectors.num_bytes)
        vectors.runtime.zero(self._inverse, size * vectors.num_bytes)
        self.largest = 0.0
        self._omega = Scalars(vectors.runtime, steps)
        self._parts, zero = vectors.sums(1), np.int32(0)
        given = self._inverse, operator.mask, operator.scale, self._omega.buffer
        self._smooth = self._kernel("smooth", *given, zero, zero, self.r, self.x, self.p, self._q)
        self._subtract = self._kernel("subtract", self.r, self._q)
        self._fill = diagonal
        # A product is not needed while a diagonal is.
        whole, self._diagonals, stride = (self._q, [self._q], 0) if size == 1 else vectors.parts(size, vectors.num_bytes)
        self._take = self._kernel("take_diagonal", np.int32(stride // vectors.dtype.itemsize), whole, self._inverse, self._parts)

    @property
    def about(self) -> str:
        """What the view says of it."""
        return f"largest eigenvalue {self.largest:.4g}" + (f", blocks of {self.size} rows" if self.size > 1 else "")

    def follow(self) -> bool:
        """Takes D over, and says whether the largest eigenvalue is to be estimated: a row has changed much; collective."""
        vectors = self.vectors
        for shift, diagonal in enumerate(self._diagonals):
            self._fill(diagonal, shift)
        self._take()
        changed = vectors.mpi.allreduce(vectors.runtime.read(self._parts, np.zeros(vectors.num_groups)).sum())
        return bool(changed) or not self.largest

    def estimate(self) -> str:
        """Finds the largest eigenvalue; collective.

        Returns:
            What is wrong with it, empty if nothing.
        """
        vectors = self.vectors
        # The correction is free between cycles.
        vectors.fill_noise(self.p, self._first)
        preconditioner = block_diagonal(vectors, self._inverse, self.size)
        ends = Spectrum(vectors, self._estimate).estimate(self.operator, self.p, preconditioner)
        if isinstance(ends, str):
            return ends
        self.largest = ends[1]
        self._omega.set(*(1 / (_MARGIN * self.largest * self._roots)))
        return ""

    def enter(self, parts: Any) -> Any:
        """The kernel that begins `down` on the finest level; its argument 2 is the right-hand side, in double precision.

        Args:
            parts: sums of the square of the right-hand side, which is divided by its norm; None: it is not.
        """
        given = parts, self.r, self._inverse, self.operator.mask, self.operator.scale, self._omega.buffer
        return self._kernel("enter", *given, self.r, self.x, self.p, self._q)

    def leave(self, parts: Any) -> Any:
        """The kernel that ends `up` on the finest level; its argument 10 is the result, in double precision."""
        last, what = len(self._roots) - 1, _SUBTRACT | (_CORRECTED if len(self._roots) == 1 else 0)
        given = parts, self._inverse, self._omega.buffer, np.int32(last), np.int32(what)
        return self._kernel("leave", *given, self.r, self.x, self.p, self._q, self.r)

    def down(self, entered: bool) -> Calls:
        """Makes x of the right-hand side in r, and leaves the residual there.

        Args:
            entered: whether the first step is that of `enter`.
        """
        calls: Calls = [] if entered else [self._step(0, _START)]
        for step in range(1, len(self._roots)):
            calls += [*self._product(), self._step(step, _SUBTRACT)]
        return [*calls, *self._product(), self._subtract]

    def up(self, leaves: bool) -> Calls:
        """Adds the correction in p to x, and improves x.

        Args:
            leaves: whether the last step is that of `leave`.
        """
        calls: Calls = []
        for step in range(len(self._roots)):
            calls += [*self._product(), self._step(step, _SUBTRACT | (0 if step else _CORRECTED))]
        return calls[:-1] if leaves else calls

    def _kernel(self, name: str, *arguments: Any) -> Kernel:
        return self.vectors.kernel(name, *arguments, file=FILE, block=self.size)

    def _step(self, step: int, what: int) -> Callable[[], None]:
        return self._smooth.bound({5: np.int32(step), 6: np.int32(what)})

    def _product(self) -> Calls:
        operator = self.operator
        if operator.bind is None:
            return [partial(operator.apply, self.p, self._q)]
        return list(operator.bind(self.p, self._q))


# Of vectors, operator, diagonal, rows of its blocks, and the number of the first entry on this rank.
MakeLevel = Callable[[Vectors, Operator, Diagonal, int, int], Level]


class Cycle:
    """z = M r by one V-cycle: a list of launches, which is made once.

    Args:
        levels: those that are smoothed, the finest first.
        restrict: for each of them, from its residual to the right-hand side of the next one.
        prolong: for each of them, from the next one's approximation to the correction of its own.
        solve: from right-hand side to approximation on the coarsest level, which comes after the last of `levels`.
        coarsest: its vectors.
    """

    def __init__(self, levels: Sequence[Level], restrict: Sequence[Bind], prolong: Sequence[Bind], solve: Bind, coarsest: Vectors):
        self._vectors = vectors = levels[0].vectors if levels else coarsest
        b, x = coarsest.empty(), coarsest.empty()
        # Single precision has room for what is near 1.
        self._parts = vectors.sums(1) if vectors.dtype == np.float32 else None
        self._square = vectors.kernel("square", x, self._parts, file=FILE)
        self._calls: Calls = []
        for number, level in enumerate(levels):
            below = levels[number + 1].r if number + 1 < len(levels) else b
            self._calls += [*level.down(entered=number == 0), *restrict[number](level.r, below)]
        self._calls += solve(b, x)
        for number in reversed(range(len(levels))):
            below = levels[number + 1].x if number + 1 < len(levels) else x
            self._calls += [*prolong[number](below, levels[number].p), *levels[number].up(leaves=number == 0)]
        if levels:
            self._enter, self._leave, self._target = levels[0].enter(self._parts), levels[0].leave(self._parts), 10
        else:
            self._enter = vectors.kernel("take", self._parts, b, b, file=FILE)
            self._leave, self._target = vectors.kernel("give", self._parts, x, x, file=FILE), 3

    def apply(self, r: Any, z: Any) -> None:
        """Makes z = M r, both in double precision."""
        if self._parts is not None:
            self._square.bound({1: r})()
            self._vectors.complete(self._parts, 0, 1)
        self._enter.bound({2: r})()
        for call in self._calls:
            call()
        self._leave.bound({self._target: z})()
