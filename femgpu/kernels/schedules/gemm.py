"""Schedule gemm on products of intervals (paper 003): contractions of all cells of a work-group as matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from femgpu.errors import PlanError
from femgpu.kernels.schedules.gemm_plan import EIGHT, WARP, GemmPlan
from femgpu.kernels.schedules.registers import asked_registers
from femgpu.kernels.step import Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits

# Where matrix instructions are: lines of points of a work-group at least, so that all of four warps have some; how many times as
# many cells; warps. Cells are a power of two, which any number of warps may share.
_LINES, _TIMES, _WARPS = 64, (1, 2, 4), (4, 2, 8)
# Lines of an instruction, and warps of a work-group with one cell, by points per direction, where an H200 takes less time than by
# schedule sumfact (other devices with such instructions were not timed).
_FAST_LINES, _FAST_WARPS = 16, {14: 4, 17: 5}
# Registers without which compilers do not take an instruction of sixteen lines.
_LEAST_REGISTERS = 64
# Lines of an item without them, where loops are unrolled and where not.
_TILES = ((2, 1, 4), (4, 8, 1))


class Gemm:
    """The schedule: residuals and actions over quadrilaterals and hexahedra."""

    name = "gemm"
    targets = ("residual", "action")
    facets = False
    parameters = ("cells", "items", "tile", "mma", "registers")

    def refuses(self, work: Work, limits: Limits) -> str:
        """Facets, other targets, cells and rules, second derivatives, and cells that do not fit local memory."""
        if work.target not in self.targets:
            return f"schedule gemm computes residuals and actions, not a {work.target}; use schedule sumfact or cell"
        if work.tensor is None or not work.tensor.ordered or work.dim == 1:
            return (
                "schedule gemm needs cells, elements and a rule that are products of 1D ones of two or three directions, numbered "
                f"alike, which those of this {work.cell} are not; use schedule cell"
            )
        if not GemmPlan(work).serves:
            return "schedule gemm serves first derivatives over cells; use schedule sumfact or cell"
        plan = GemmPlan(work, geometry="recomputed")
        if plan.needed_bytes > limits.local_bytes:
            return (
                f"schedule gemm needs {plan.needed_bytes} bytes of local memory for one cell; the device has {limits.local_bytes} "
                "per work-group: use -femgpu_schedule sumfact"
            )
        return ""

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Where it was measured to take less time than `sumfact`."""
        return _fast_warps(work, limits, precision) > 0 and not self.refuses(work, limits)

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[GemmPlan]:
        """By matrix instructions where the device has them, then each item by itself."""
        for name, value in wish.parameters:
            if value < 1:
                raise PlanError(f"-femgpu_schedule gemm:{name}={value}: expected at least 1")
        given = dict(wish.parameters)
        if {"tile", "mma"} <= set(given):
            raise PlanError("-femgpu_schedule gemm:tile=N,mma=N: items have lines, or multiply them together; give one of these")
        # Kernels with PTX in them have the instructions written out; others hand numbers from item to item.
        lines = limits.mma or EIGHT * (limits.atomics != "ptx")
        legal: list[GemmPlan | None] = []
        if ("mma" in given or (limits.mma and limits.unroll and "tile" not in given)) and lines and wish.precision == "double":
            fast = _fast_warps(work, limits, wish.precision)
            counts = dict.fromkeys((fast, *_WARPS)) if fast else _WARPS
            legal += [self._together(work, limits, wish, lines, times, warps) for times in _TIMES for warps in counts]
        if "mma" not in given or not any(legal):
            legal += [self._alone(work, limits, wish, tile) for tile in _TILES[not limits.unroll]]
        found = [plan for plan in dict.fromkeys(legal) if plan is not None]
        # Two groups at a time fill each other's waits at barriers.
        yield from sorted(found, key=lambda plan: (not plan.mma, plan.mma > 0 and 2 * plan.local_bytes > limits.local_bytes))

    def _plan(self, work: Work, limits: Limits, wish: Wish, **sizes: int) -> GemmPlan:
        """For one cell in a work-group."""
        return GemmPlan.wished(work, limits, wish, block=1, registers=asked_registers(self.name, limits, wish), **sizes)

    def _together(self, work: Work, limits: Limits, wish: Wish, lines: int, times: int, warps: int) -> GemmPlan | None:
        """By matrix instructions, with as many cells and whole warps as the device allows; None where it allows none.

        Raises:
            PlanError: for a bound on registers that is too low for these.
        """
        plan = self._plan(work, limits, wish, items=WARP, mma=lines, tile=lines // EIGHT)
        if lines > EIGHT and 0 < plan.registers < _LEAST_REGISTERS:
            least = f"at least {_LEAST_REGISTERS} with instructions of {lines} lines"
            raise PlanError(f"-femgpu_schedule gemm:registers={plan.registers}: expected {least}, or tile=N")
        cells = wish.parameter("cells", times << (-(-_LINES // plan.q1d ** (work.dim - 1)) - 1).bit_length())
        items = wish.parameter("items", max(1, WARP * warps // cells))
        while True:
            share = WARP // math.gcd(cells, WARP)
            plan = replace(plan, cells=cells, items=-(-items // share) * share)
            if _fits(plan, limits):
                return plan
            if cells == 1 and items <= WARP:
                return None
            cells, items = (cells // 2, items) if cells > 1 else (1, items // 2)

    def _alone(self, work: Work, limits: Limits, wish: Wish, tile: int) -> GemmPlan:
        """Each item by itself, with as much less of everything as the device allows."""
        plan = self._plan(work, limits, wish, tile=wish.parameter("tile", tile))
        items = wish.parameter("items", max(1, plan.q1d ** (work.dim - 1) // plan.tile) if limits.unroll else 1)
        cells = wish.parameter("cells", max(1, limits.group // items) if limits.unroll else 4)
        plan = replace(plan, items=items, cells=cells)
        while not _fits(plan, limits):
            if plan.cells > 1:
                plan = replace(plan, cells=plan.cells // 2)
            elif plan.items > 1:
                plan = replace(plan, items=plan.items // 2)
            elif plan.tile > 1:
                plan = replace(plan, tile=plan.tile // 2)
            else:
                break
        return plan


def _fits(plan: GemmPlan, limits: Limits) -> bool:
    items = plan.items * plan.cells
    held = items <= limits.abreast(plan.private_bytes) and limits.holds(items, plan.registers)
    return held and plan.local_bytes <= limits.local_bytes


def _fast_warps(work: Work, limits: Limits, precision: str) -> int:
    """Warps with which an H200 takes less time than by `sumfact`, of works like those measured; else 0.

    These are actions between E-vectors on values of a scalar and a number stored at each point, of which lines are split.
    """
    asked = work.target == "action" and work.source == "evector" and work.num_state == 1 and work.tensor is not None
    if not asked or limits.mma != _FAST_LINES or not limits.unroll or precision != "double":
        return 0
    plan = GemmPlan(work, precision=precision, unroll=limits.unroll, items=WARP, mma=_FAST_LINES, tile=_FAST_LINES // EIGHT)
    derives = any(map(plan.derives, (*plan.lattices, *plan.rows)))
    return _FAST_WARPS.get(plan.q1d, 0) if plan.measured and plan.splits and not derives else 0
