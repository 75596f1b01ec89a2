"""Schedule cell (paper 001): one cell per work-item, or a few side by side in vectors; sums in local memory, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from femgpu.errors import PlanError
from femgpu.kernels.node_lists import MOST_CELLS, MOST_SLOTS, SLICE
from femgpu.kernels.schedules.cell_lanes import CellLanesPlan, CellLaneSumsPlan
from femgpu.kernels.schedules.cell_plan import CellPlan, has_room
from femgpu.kernels.schedules.cell_sums import CellSumsPlan
from femgpu.kernels.step import Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits

# Lengths of OpenCL's vectors that cells may stand side by side in.
LANES = (1, 2, 4, 8)
# Bytes of a work-group's private arrays there: the nearest cache, for PoCL gives every item arrays of its own.
_CACHE_BYTES = 32768
# Items of work-groups that have several cells each.
_TURNS_GROUP = 128
# Cells of an item that adds up their results: as many as stand in a block where dofs are numbered for locality.
_LANE_CELLS = 128
# Cells of an item where a group's nodes have equally many places.
_SLOTS_TURNS = 3


class Cell:
    """The schedule: it serves everything but element matrices."""

    name = "cell"
    targets = ("residual", "action", "diagonal", "functional", "state")
    facets = True
    parameters = ("group_size", "lanes", "sums", "turns", "slots")

    def refuses(self, work: Work, limits: Limits) -> str:
        """Element matrices, and what no schedule knows yet."""
        if work.target == "matrix":
            return "schedule cell computes no element matrices; use schedule matrix"
        if work.reference and work.target == "diagonal":
            return "schedule cell computes a diagonal in physical coordinates only"
        return ""

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Whatever it serves."""
        return True

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[CellPlan]:
        """Sums of items or work-groups where they are faster; cells side by side, if any; a cell for each item; other sums.

        Those with a cell for each item have work-groups as large as the device likes them, half and twice that, ...; last rolled.
        """
        asked, lanes = wish.parameter("group_size", 0), wish.parameter("lanes", 0)
        if not 0 <= asked <= limits.items:
            raise PlanError(f"-femgpu_schedule cell:group_size={asked}: the device allows 1 to {limits.items} work-items")
        if lanes not in (0, *LANES):
            raise PlanError(f"-femgpu_schedule cell:lanes={lanes}: expected one of {', '.join(map(str, LANES))}")
        served = work.target in ("residual", "action") and not work.facet and wish.precision != "mixed"
        # Vectors of single precision hold twice as many numbers.
        usual = min(limits.lanes * (2 if wish.precision == "single" and limits.lanes > 1 else 1), LANES[-1])
        abreast = (lanes or usual) if served else 1
        if abreast > 1 and (together := self._lane_sums(work, limits, wish, abreast)) is not None:
            yield together
            if wish.parameters:
                return
        sums = [] if abreast > 1 and lanes else list(self._sums(work, limits, wish))
        first = sums[:1] if sums and (sums[0].beats_cells or wish.parameter("sums", 0)) else []
        yield from first
        if wish.parameter("sums", 0) and first:
            return
        if abreast > 1:
            side = CellLanesPlan.wished(work, limits, wish, lanes=abreast)
            size = asked or min(_CACHE_BYTES // side.private_bytes, limits.group)
            yield replace(side, group_size=max(1, min(size, limits.abreast(side.private_bytes))))
            if lanes:
                return
        sizes = (asked,) if asked else (limits.group, limits.group // 2, 2 * limits.group, limits.group // 4, 4 * limits.group)
        plan = CellPlan.wished(work, limits, wish)
        most = limits.abreast(plan.private_bytes)
        legal = list(dict.fromkeys(max(1, min(size, most)) for size in sizes))
        for size in legal:
            yield replace(plan, group_size=size)
        if plan.unrolls_basis:
            yield replace(plan, group_size=legal[0], unroll=1)
        yield from sums[len(first) :]

    def _lane_sums(self, work: Work, limits: Limits, wish: Wish, lanes: int) -> CellLaneSumsPlan | None:
        """Items that add up as many cells as are asked for along with lanes or, where nothing is asked for, a block of them."""
        given = dict(wish.parameters)
        sums, asked = given.pop("sums", 0), _asked(wish)
        if not given.pop("lanes", 0) and (sums or given):
            return None
        if sums and (given or limits.block > 1):
            raise PlanError(
                f"{asked}: cells side by side add up their results on CPUs only, and have no other parameters; expected"
                f" cell:lanes={lanes},sums=N on a CPU, or no lanes"
            )
        if sums % SLICE or not 0 <= sums <= MOST_CELLS:
            raise PlanError(f"{asked}: expected for sums the cells of an item, a multiple of {SLICE} up to {MOST_CELLS}")
        plan = CellLaneSumsPlan.wished(work, limits, wish, lanes=lanes, cells=sums or _LANE_CELLS)
        while plan.cells > SLICE and not plan.fits(limits):
            plan = replace(plan, cells=plan.cells // (2 * SLICE) * SLICE)
        wanted = sums or (not wish.parameters and plan.beats_cells)
        return plan if wanted and plan.serves and plan.fits(limits) else None

    def _sums(self, work: Work, limits: Limits, wish: Wish) -> Iterator[CellSumsPlan]:
        """Plans with sums, of as many items as are asked for, or fewer; where nobody asks, on GPUs that add fast, or do not add."""
        sums = wish.parameter("sums", 0)
        if not 0 <= sums <= limits.items:
            raise PlanError(f"-femgpu_schedule cell:sums={sums}: the device allows work-groups of 1 to {limits.items} items")
        if sums and (why := _no_sums(work, wish)):
            raise PlanError(f"-femgpu_schedule cell:sums={sums}: {why}, or schedule cell without sums")
        turns = wish.parameter("turns", 0)
        if not 0 <= turns <= limits.items or (turns and not sums):
            raise PlanError(
                f"-femgpu_schedule cell:turns={turns}: expected the cells of each item of a group, as in cell:sums=128,turns=2"
            )
        slots = wish.parameter("slots", 0)
        if slots % SLICE or not 0 <= slots <= MOST_SLOTS or (slots and not sums):
            raise PlanError(
                f"-femgpu_schedule cell:slots={slots}: expected slots for the nodes of a group, a multiple of {SLICE} up to"
                f" {MOST_SLOTS}, as in cell:sums=128,turns=3,slots=256"
            )
        adds = wish.scatter == "atomic"
        plan = CellSumsPlan.wished(work, limits, wish, zeroes=limits.in_order and adds, turns=max(turns, 1), slots=slots)
        if sums and plan.serves and not has_room(replace(plan, group_size=sums)):
            raise PlanError(
                f"{_asked(wish)}: groups that write their sums to an E-vector have a multiple of {SLICE} items, up to"
                f" {MOST_CELLS} cells, and no more slots than these have nodes"
            )
        able = limits.native_atomics if adds else limits.unroll > 0
        if plan.serves and (sums or (able and not wish.parameters)):
            usual = plan.usual_size
            wanted = [replace(plan, group_size=size) for size in ((sums,) if sums else (usual, usual // 2, 2 * usual))]
            small = replace(plan, group_size=_TURNS_GROUP)
            if not sums and (most := small.worth_turns) > 1:
                wanted.insert(0, replace(small, turns=most))
            even = replace(small, turns=_SLOTS_TURNS)
            if not sums and wish.whole and (most := even.worth_slots):
                wanted.insert(0, replace(even, slots=most))
            found = dict.fromkeys(self._largest(given, limits) for given in wanted)
            yield from (plan for plan in found if plan is not None)

    def _largest(self, plan: CellSumsPlan, limits: Limits) -> CellSumsPlan | None:
        """A plan with as many items as fit; None where not even one does, or one slice of them where sums are stored."""
        least = 1 if plan.scatter == "atomic" else SLICE
        while plan.group_size > least and not plan.fits(limits):
            plan = replace(plan, group_size=max(plan.group_size // (2 * least), 1) * least)
        return plan if plan.fits(limits) else None


def _asked(wish: Wish) -> str:
    """The option as it was given, for messages."""
    return "-femgpu_schedule cell:" + ",".join(f"{name}={value}" for name, value in wish.parameters)


def _no_sums(work: Work, wish: Wish) -> str:
    """Why nothing can be added up in groups, and what to ask for; of facets, say, where it is for other terms, empty."""
    if not work.sums or work.facet or work.source != "lvector" or wish.precision != "mixed":
        return ""
    return "groups add up results in the type of the arithmetic, with -femgpu_precision mixed vectors have another; use double"
