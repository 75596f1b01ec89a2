"""Which plans of schedule tiled come into question, and which of them takes least time by a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

from femgpu.kernels.schedules.tiled_cycles import WARP, cycles
from femgpu.kernels.schedules.tiled_plan import TiledPlan
from femgpu.kernels.step import Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits

# Parts among which the model chooses, and works whose plans are kept.
_PARTS, _KEPT = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16), 256


@lru_cache(_KEPT)
def ranked(work: Work, limits: Limits, wish: Wish) -> tuple[TiledPlan, ...]:
    """Legal plans, the fastest by the model first; where parameters are given, those with these or what of them fits."""
    drawn = list(dict.fromkeys(_drawn(work, limits, wish)))
    found = [plan for plan in drawn if _fits(plan, limits)] or [_fitted(plan, limits) for plan in drawn]
    # A CPU's are few, and in order.
    return tuple(sorted(dict.fromkeys(found), key=cycles) if limits.unroll else dict.fromkeys(found))


def _drawn(work: Work, limits: Limits, wish: Wish) -> Iterator[TiledPlan]:
    """Plans with the parameters that are given, and all values of the others."""
    given = dict(wish.parameters)
    wanted = bool(given.get("mma", limits.mma and limits.unroll > 0)) and wish.precision == "double" and not work.facet
    # Kernels with PTX in them have the instructions written out; others multiply item by item.
    mma = (limits.mma or 8 * (limits.atomics != "ptx")) if wanted else 0
    widths: tuple[int, ...]
    parts: tuple[int, ...] = _PARTS
    points: tuple[int, ...] = (1, 2, 3, 4)
    if not limits.unroll:
        widths, parts, points = (8, 4), (1,), (2, 1, 4)
    elif mma:
        # A scalar's tables serve eight cells alone too seldom.
        scalar = all(tile.num_comp == 1 for tile in TiledPlan(work).table_tiles)
        widths = (4, 6, 8, 12) if scalar else (2, 4, 6, 8)
    else:
        widths, points = (1, 2, 4), (1, 2, 3, 4, 6, 8)
    if work.facet:
        # Each has tables of its own.
        widths = (1,)
        given.pop("width", None)
    values = (
        ((given[name],) if name in given else legal) for name, legal in (("width", widths), ("parts", parts), ("points", points))
    )
    for width, count, each in product(*values):
        cells = given.get("cells", width * (4 if mma else WARP if limits.unroll else 1))
        plan = _plan(work, limits, wish, mma, width, cells, count, each)
        # No part is without points.
        if given or count == 1 or (plan.parts - (8 if mma else 1)) * each < work.num_qpts:
            yield plan


def _plan(work: Work, limits: Limits, wish: Wish, mma: int, width: int, cells: int, parts: int, points: int) -> TiledPlan:
    """One with these parameters, rounded to what there is; by matrix instructions parts are counted in eights."""
    if mma:
        lanes, vectors, parts = 2, max(1, cells // 8), 8 * parts
        cells = 8 * vectors
    else:
        lanes = min(width, 2) if limits.unroll else width
        vectors, cells = width // lanes, -(-cells // width) * width
    return TiledPlan.wished(
        work, limits, wish, cells=cells, lanes=lanes, vectors=vectors, parts=parts, points=points, mma=mma
    )  # fmt: skip


def _fits(plan: TiledPlan, limits: Limits) -> bool:
    return plan.local_bytes <= limits.local_bytes and plan.items <= limits.abreast(plan.private_bytes)


def _fitted(plan: TiledPlan, limits: Limits) -> TiledPlan:
    """The plan with as much less of everything as the device allows."""
    least = 8 if plan.mma else 1
    while not _fits(plan, limits):
        if plan.parts > least:
            plan = replace(plan, parts=max(least, plan.parts // (2 * least) * least))
        elif plan.points > 1:
            plan = replace(plan, points=plan.points // 2)
        elif plan.mma and plan.vectors > 1:
            plan = replace(plan, vectors=plan.vectors // 2, cells=8 * (plan.vectors // 2))
        elif not plan.mma and plan.cells > plan.width:
            plan = replace(plan, cells=plan.cells // plan.width // 2 * plan.width or plan.width)
        elif plan.mma or plan.width > 1:
            plan = replace(plan, lanes=1, vectors=1, cells=1, parts=1, mma=0)
        else:
            break
    return plan
