"""Schedule sumfact (paper 000): cells that are products of intervals, one direction after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from femgpu.errors import PlanError
from femgpu.kernels.schedules.cell_plan import CellPlan
from femgpu.kernels.schedules.registers import asked_registers
from femgpu.kernels.schedules.sumfact_group import SumfactGroupPlan
from femgpu.kernels.schedules.sumfact_item import LANES, SumfactPlan
from femgpu.kernels.schedules.sumfact_lattices import SumfactLatticePlan
from femgpu.kernels.schedules.sumfact_pencils import SumfactPencilPlan
from femgpu.kernels.schedules.sumfact_planes import SumfactPlanePlan
from femgpu.kernels.schedules.sumfact_slices import SumfactSlicePlan
from femgpu.kernels.step import Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits

# Bytes of private arrays up to which the default plan takes more cells side by side (with 8 of 203 KB an action of degree 8 is two
# to three times faster than with one).
_CACHE_BYTES = 1 << 21
# Share of the operations of schedule cell up to which a GPU's items share cells for a diagonal, of which few fit into local memory:
# an estimate, not a measurement.
_DIAGONAL_SHARE = 1 / 16
# Items that a GPU runs in step, and what is left of a work-group's speed for each such warp that waits for the others at barriers
# (0.93 to 0.98 on an H200).
_WARP, _WARP_SHARE = 32, 0.955
# Warps that the registers of a multiprocessor hold, at the 57 to 93 registers of a pencil's item that keeps no lines. A group is
# there as a whole: in groups of five 20 fit, which are 4 % slower than 24.
_RESIDENT, _RESIDENT_POWER = 24, 0.2
# Groups that should fit into a multiprocessor's local memory: while one waits at a barrier others work (three components with two
# groups took 10 to 20 % longer on an H200).
_GROUPS = 4
# Kinds of plans, with the parameters that may be given together.
_KINDS = {
    "alone": {"group_size", "lanes"},
    "group": {"items", "cells"},
    "pencils": {"pencils", "copies", "shared"},
    "planes": {"planes"},
    "slices": {"slices"},
}
_Shares = TypeVar("_Shares", bound=SumfactLatticePlan)
_SHARES: dict[str, type[SumfactLatticePlan]] = {
    "pencils": SumfactPencilPlan,
    "planes": SumfactPlanePlan,
    "slices": SumfactSlicePlan,
}


class Sumfact:
    """The schedule: residuals, actions, functionals and states over cells that are products of intervals."""

    name = "sumfact"
    targets = ("residual", "action", "diagonal", "functional", "state")
    facets = False
    parameters = ("group_size", "lanes", "items", "cells", *_SHARES, "copies", "shared", "derivatives", "registers")

    def refuses(self, work: Work, limits: Limits) -> str:
        """Facets, other targets, other cells and rules, cells that are larger than a stack, and some diagonals."""
        if work.target not in self.targets:
            return f"schedule sumfact computes no {work.target}; use schedule cell or matrix"
        if work.target == "diagonal" and (work.second or work.reference):
            return "schedule sumfact computes a diagonal of first derivatives in physical coordinates only; use schedule cell"
        if work.facet:
            return "schedule sumfact serves cells, not facets; use schedule cell"
        if work.tensor is None or not work.tensor.ordered:
            return (
                f"schedule sumfact needs cells, elements and a rule that are products of 1D ones, numbered alike, which those of "
                f"this {work.cell} are not; use schedule cell"
            )
        needed = SumfactPlan(work, geometry="recomputed").private_bytes
        if limits.stack_bytes and needed > limits.stack_bytes:
            return f"schedule sumfact needs {needed} bytes for one cell; a stack has {limits.stack_bytes}: use schedule cell"
        return ""

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Where it takes half the operations of schedule cell at most, or fewer operations and registers hold its numbers.

        Where loops are unrolled, items otherwise share a cell in local memory.
        """
        if self.refuses(work, limits):
            return False
        alone = limits.unroll and SumfactPlan(work, geometry="recomputed").fits_registers
        share = SumfactPlan(work).flops / CellPlan(work).flops
        kind = SumfactGroupPlan if work.target == "diagonal" else SumfactPencilPlan
        items = kind(work, geometry="recomputed", derivatives=2)
        shared = not limits.unroll or (items.serves and items.needed_bytes <= limits.local_bytes)
        planes = limits.unroll and SumfactPlanePlan(work.apart, geometry="recomputed", derivatives=2, unroll=limits.unroll).serves
        if alone or planes:
            return share < 1
        return shared and share <= (_DIAGONAL_SHARE if work.target == "diagonal" and limits.unroll else 0.5)

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[SumfactPlan]:
        """Cells of an item, and items that share cells; these first where loops are unrolled and registers do not hold a cell."""
        asked = set(dict(wish.parameters))
        given = {kind: asked & names for kind, names in _KINDS.items() if asked & names}
        if len(given) > 1:
            said = ",".join(f"{name}=N" for names in given.values() for name in sorted(names))
            raise PlanError(
                f"-femgpu_schedule sumfact:{said}: an item has cells, or cells have items, pencils, planes or slices; "
                "give one of these"
            )
        kinds = [*_SHARES, "alone"] if "registers" in asked else list(_KINDS)
        if given:
            # What is asked for first, which may not serve; then a cell for each item, which always does.
            kinds = [*given, "alone"]
            if "registers" in asked and not given.keys() & _SHARES.keys():
                raise PlanError("-femgpu_schedule sumfact:registers=N: expected with pencils, planes or slices, or alone")
        elif limits.unroll and not SumfactPlan.wished(work, limits, wish).fits_registers:
            others = {"planes": SumfactPlanePlan, "slices": SumfactSlicePlan}
            first = [name for name, kind in others.items() if _plan(kind, work, limits, wish).beats_pencils]
            kinds = [*first, "pencils", *others, "group", "alone"]
        for kind in dict.fromkeys(kinds):
            if kind in _SHARES:
                yield from self._of_shares(_SHARES[kind], kind, work, limits, wish)
            else:
                yield from (self._of_items if kind == "alone" else self._of_groups)(work, limits, wish)

    def _of_items(self, work: Work, limits: Limits, wish: Wish) -> Iterator[SumfactPlan]:
        """As many cells side by side as a core's cache holds where items do not run side by side, then fewer."""
        asked, group = wish.parameter("lanes", 0), wish.parameter("group_size", 0)
        if not 0 <= group <= limits.items:
            raise PlanError(f"-femgpu_schedule sumfact:group_size={group}: the device allows 1 to {limits.items} work-items")
        plan = SumfactPlan.wished(work, limits, wish, derivatives=wish.parameter("derivatives", 0))
        if asked:
            sizes = [asked]
        elif limits.unroll:
            sizes = [1]
        else:
            sizes = [lanes for lanes in reversed(LANES) if lanes == 1 or lanes * plan.cell_bytes <= _CACHE_BYTES]
        plans = [replace(plan, lanes=lanes) for lanes in LANES]
        fitting = [plan.lanes for plan in plans if not limits.stack_bytes or plan.private_bytes <= limits.stack_bytes]
        for lanes in dict.fromkeys(min(lanes, max(fitting, default=1)) for lanes in sizes):
            plan, size = replace(plan, lanes=lanes), group or max(1, limits.group // lanes)
            for items in _about(size, limits.abreast(plan.private_bytes), bool(group) or not limits.unroll):
                yield replace(plan, group_size=items)

    def _of_groups(self, work: Work, limits: Limits, wish: Wish) -> Iterator[SumfactGroupPlan]:
        """An item for each line of points, and cells for a work-group of the device's liking; none where one does not fit."""
        plan = SumfactGroupPlan.wished(work, limits, wish, derivatives=wish.parameter("derivatives", 0), block=1)
        if not plan.serves:
            return
        assert work.tensor is not None
        most = limits.abreast(plan.private_bytes)
        items = min(wish.parameter("items", work.tensor.q1d ** (work.dim - 1)), most)
        cells = wish.parameter("cells", max(1, limits.group // items))
        for count in _about(cells, min(most // items, limits.local_bytes // plan.needed_bytes), "cells" in dict(wish.parameters)):
            yield replace(plan, items=items, cells=count)

    def _of_shares(
        self, kind: type[SumfactLatticePlan], name: str, work: Work, limits: Limits, wish: Wish
    ) -> Iterator[SumfactLatticePlan]:
        """An item for each pencil, plane or slice, and cells for a work-group; none where one does not fit."""
        plan = _plan(kind, work, limits, wish)
        if not plan.serves:
            return
        asked = asked_registers(self.name, limits, wish)
        bound = asked or (plan.fast_registers if limits.registers else 0)
        most = min(limits.abreast(plan.private_bytes) // plan.items, limits.local_bytes // plan.needed_bytes)
        while asked and most and not limits.holds(plan.items * most, asked):
            most -= 1
        cells = min(wish.parameter(name, 0) or _cells(plan, limits), most)
        # Strides, which depend on the cells, may take a little more.
        while cells and replace(plan, cells=cells).local_bytes > limits.local_bytes:
            cells -= 1
        for count in _about(cells, most, bool(wish.parameter(name, 0))) if cells else ():
            if (other := replace(plan, cells=count)).local_bytes <= limits.local_bytes:
                # Without room for its registers a group would not start: cells come before a bound that nobody asks for.
                yield replace(other, registers=bound * limits.holds(plan.items * count, bound))


def _plan(kind: type[_Shares], work: Work, limits: Limits, wish: Wish) -> _Shares:
    """The plan for one cell in a work-group, or for one component of it where these stand as cells."""
    plan = kind.wished(work, limits, wish, derivatives=wish.parameter("derivatives", 2), block=1)
    if isinstance(plan, SumfactPencilPlan):
        shared = _shares_points(plan, limits, wish)
        block, copies = (1, False) if shared else _side_by_side(plan, limits, wish)
        plan = replace(plan, block=block, copies=copies, shares_points=shared)
    return replace(plan, work=work.apart) if plan.parts_components else plan


def _shares_points(plan: SumfactPencilPlan, limits: Limits, wish: Wish) -> bool:
    """Whether components share points, where they can: where that is asked for, or takes less time and a work-group has room."""
    given = dict(wish.parameters)
    if given.get("shared") == given.get("copies") == 1:
        raise PlanError(
            "-femgpu_schedule sumfact:copies=1,shared=1: stored numbers are copied, or components share points; give one of these"
        )
    if not (_switch("shared", wish, plan.fast_shared) and plan.can_share):
        return False
    shared = replace(plan, shares_points=True)
    return "shared" in given or (shared.items <= limits.items and shared.needed_bytes <= limits.local_bytes)


def _side_by_side(plan: SumfactPencilPlan, limits: Limits, wish: Wish) -> tuple[int, bool]:
    """Cells in blocks that fill a work-group, and stored numbers copied, where that takes less time, or is asked for."""
    cells, asked = wish.parameter("pencils", 0), _switch("copies", wish, plan.fast_copies)
    # NVIDIA's instructions that copy came with those that multiply matrices.
    able = plan.work.num_state > 0 and (limits.mma > 0 or plan.atomics != "ptx")
    return 1 if cells % plan.fast_block else plan.fast_block, able and asked


def _switch(name: str, wish: Wish, default: bool) -> bool:
    """What a parameter says that is 0 or 1."""
    asked = wish.parameter(name, int(default))
    if asked not in (0, 1):
        raise PlanError(f"-femgpu_schedule sumfact:{name}={asked}: expected 0 or 1")
    return bool(asked)


def _about(count: int, most: int, asked: bool = False) -> list[int]:
    """As many as the default plan has, or the most there may be; then half and twice as many where nobody asks for a number."""
    counts = [min(count, most)] + ([] if asked else [count // 2, 2 * count])
    return [entry for entry in dict.fromkeys(counts) if 1 <= entry <= most]


def _cells(plan: SumfactLatticePlan, limits: Limits) -> int:
    """Cells of a work-group: where items run in step, as many of them as possible have something to do."""
    items = plan.items
    if not limits.unroll:
        return max(1, limits.group // items)
    if isinstance(plan, SumfactSlicePlan):
        return max(1, plan.subgroups * _WARP // items)
    if plan.block > 1:
        return plan.block  # neighbours in memory
    if isinstance(plan, SumfactPencilPlan) and items > _WARP and (plan.loads_next or plan.shares_points):
        return plan.work.parts  # memory bounds what items do, or they are many for a cell

    def share(cells: int) -> float:
        warps = -(-cells * items // _WARP)
        resident = _RESIDENT // warps * warps / _RESIDENT
        return cells * items / (warps * _WARP) * _WARP_SHARE**warps * resident**_RESIDENT_POWER

    most = min(2 * limits.group // items, limits.local_bytes // (_GROUPS * plan.needed_bytes))
    step = plan.work.parts if plan.cells_first else 1  # all components of a cell, which are neighbours in memory
    return max(range(step, max(step, most) + 1, step), key=share)
