"""The launches of conjugate gradients: in one pass where M is a diagonal, and for any M."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np

from femgpu.kernels import CG_STEPS, DOT_WORDS
from femgpu.krylov.operator import Operator
from femgpu.krylov.system import System
from femgpu.krylov.vectors import MERGED, Vectors
from femgpu.runtime import Kernel

# Sums of an iteration: r.z, z.z, r.r, which come with r; z.Az, or q.z for an M that changes; p.q of the step before.
ROWS, _WITH_R, _ZW, _PQ = 5, 3, 3, 4
# Buffers of an action's dots, of which a step has three: a divisor of CG_STEPS, so that steps find their bindings again.
_DOTS = 4


class DiagonalSteps:
    """M is a diagonal, or 1: the operator and one launch (`cl/merged_cg.cl`), and one for z.Az where the operator does not sum it.

    Args:
        vectors: kernels and lengths.
        system: A and M.
        sums: ring of sums.

    Attributes:
        r: takes the first residual.
        kernels: launched between two operators.
    """

    def __init__(self, vectors: Vectors, system: System, sums: list[Any]):
        self._vectors, self._system, self._sums = vectors, system, sums
        self._s, self._p = vectors.empty(), vectors.empty()
        self.r = self._s
        ring, self._z, stride = vectors.parts(CG_STEPS, vectors.num_bytes)
        runtime = vectors.runtime
        self._steps = runtime.upload(np.zeros(3 * CG_STEPS))
        self._dots = [runtime.upload(np.zeros(DOT_WORDS)) for _ in range(_DOTS)]
        place = np.int32(0), np.int64(stride // 8)
        given = (*place, sums[0], sums[1], self._steps, None, None, None, None, None, None, None, self._s, ring)
        self._update = vectors.kernel("cg_update", *given, file=MERGED)
        self._update_all = vectors.kernel("cg_update_all", *given, self._p, self._p, file=MERGED)
        self._finish = vectors.kernel("cg_finish", *place, self._steps, ring, self._p, self._s, file=MERGED)
        self._dot = vectors.kernel("dot_product", np.int32(_ZW), self._z[0], self._s, sums[0])
        self.kernels: tuple[Kernel, ...] = self._update, self._update_all, self._dot

    def begin(self, operator: Operator, x: Any) -> None:
        """Takes the residual for a direction, and makes the sums of iteration 0."""
        runtime, z, sums, dots, add = self._vectors.runtime, self._z, self._sums, self._dots, operator.add
        step, step_of_all, product = self._update, self._update_all, self._dot
        w = None if add is not None else self._w
        given = {9: self._system.diagonal, 10: operator.mask, 11: operator.scale, 12: w}

        @cache
        def update(turn: int, slot: int, first: bool = False) -> Any:
            """A step by its places in both rings; the first one has no step before and makes none, but prepares the others."""
            place = {1: np.int32(turn), 3: sums[slot], 4: sums[(slot + 1) % len(sums)]}
            if add is not None:
                place |= {6 + ahead: dots[(turn + ahead) % _DOTS] for ahead in range(3)}
            if turn == CG_STEPS - 1 and not first:
                return step_of_all.bound({**place, **given, 16: x})
            return step.bound({**place, **given})

        @cache
        def dot(turn: int, slot: int) -> Any:
            return product.bound({2: z[turn], 3: w, 4: sums[slot]})

        self._operator, self._steps_by_place, self._dots_by_place = operator, update, dot
        self._system.precondition(self.r, z[-1])
        for vector in (self._s, self._p, *([] if w is None else [w])):
            runtime.zero(vector, self._vectors.num_bytes)
        runtime.zero(self._steps, self._steps.size)
        for buffer in dots:
            runtime.zero(buffer, buffer.size)
        update(CG_STEPS - 1, len(sums) - 1, first=True)()

    @cached_property
    def _w(self) -> Any:
        """What an operator writes that does not add."""
        return self._vectors.empty()

    def product(self, iteration: int, last: bool) -> None:
        """Applies the operator unless `last`; completes the sums of the iteration."""
        turn, slot = iteration % CG_STEPS, iteration % len(self._sums)
        if not last:
            if self._operator.add is not None:
                self._operator.add(self._z[turn], self._s, self._dots[turn % _DOTS])
            else:
                self._operator.apply(self._z[turn], self._w)
                self._dots_by_place(turn, slot)()
        self._vectors.complete(self._sums[slot], 0, _WITH_R if last else _ZW + 1)

    def update(self, iteration: int) -> None:
        """Makes the step, and the sums of the next iteration."""
        self._steps_by_place(iteration % CG_STEPS, iteration % len(self._sums))()

    def solution(self, iteration: int, x: Any) -> None:
        """Adds to an x, which has seen some of the steps before an iteration, the others."""
        if turn := iteration % CG_STEPS:
            self._finish.bound({1: np.int32(turn), 6: x})()


class AnySteps:
    """M is anything, and may change where it is `flexible`: operator, preconditioner and four launches.

    Args:
        vectors: kernels and lengths.
        system: A and M.
        sums: ring of sums.
        flexible: whether M may change.

    Attributes:
        r: takes the first residual.
        kernels: launched between two operators.
    """

    def __init__(self, vectors: Vectors, system: System, sums: list[Any], flexible: bool):
        self._vectors, self._system, self._sums, self._come = vectors, system, sums, _WITH_R + flexible
        self.r, z, p, q = self._vectors_of_it = tuple(vectors.empty() for _ in range(4))
        self.kernels: tuple[Kernel, ...] = (
            vectors.kernel("residual_products", self.r, z, q if flexible else None, sums[0]),
            vectors.kernel("dot_product", np.int32(_PQ), p, q, sums[1]),
            vectors.kernel("cg_step", sums[0], sums[1], p, q, z, self.r),
            vectors.kernel("cg_direction", np.int32(flexible), sums[0], sums[1], z, p),
        )

    def begin(self, operator: Operator, x: Any) -> None:
        """Takes the residual for a direction, and makes the sums of iteration 0."""
        sums, (_, _, p, q) = self._sums, self._vectors_of_it
        products, product, step, direction = self.kernels

        @cache
        def launches(slot: int) -> tuple[Any, ...]:
            """p.q, the step, the next products, the next direction."""
            now, following = sums[slot], sums[(slot + 1) % len(sums)]
            each = product.bound({4: following}), step.bound({1: now, 2: following, 5: x}), products.bound({4: following})
            return *each, direction.bound({2: now, 3: following})

        self._operator, self._launches = operator, launches
        for vector in (p, q):
            self._vectors.runtime.zero(vector, self._vectors.num_bytes)
        self._turn(len(sums) - 1)  # with sums of zero: p = z

    def product(self, iteration: int, last: bool) -> None:
        """Applies the operator unless `last`."""
        if not last:
            _, _, p, q = self._vectors_of_it
            slot = iteration % len(self._sums)
            self._operator.apply(p, q)
            self._launches(slot)[0]()
            self._vectors.complete(self._sums[(slot + 1) % len(self._sums)], _PQ, _PQ + 1)

    def update(self, iteration: int) -> None:
        """Makes the step, and the sums of the next iteration."""
        slot = iteration % len(self._sums)
        self._launches(slot)[1]()
        self._turn(slot)

    def solution(self, iteration: int, x: Any) -> None:
        """Nothing: x has seen all steps."""

    def _turn(self, slot: int) -> None:
        """The direction and the sums of the iteration after that in a slot."""
        _, _, products, direction = self._launches(slot)
        self._system.precondition(self.r, self._vectors_of_it[1])
        products()
        self._vectors.complete(self._sums[(slot + 1) % len(self._sums)], 0, self._come)
        direction()
