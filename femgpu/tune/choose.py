"""Plans of all schedules, ranked by the time that models give them, and the fastest of those that compute what they should."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from femgpu.errors import FemgpuError
from femgpu.kernels import SCHEDULES, Plan, Wish, Work
from femgpu.model import Ceiling, Limits

# How far a plan's result may be from the plain kernel's, of its largest entry: roundings of sums in another order, and more where
# a function of the user cancels.
TOLERANCE = {"double": 1e-9, "rounded": 1e-6, "single": 1e-3, "mixed": 1e-3}
# What each place counts that a schedule gives a plan behind its best one, and of how many places schedules are thought that `auto`
# does not take: their bytes and operations tell little of what registers and caches hold.
_PLACE, _OTHERS = 0.05, 3
# Bounds on registers that are tried of the fastest plan; 0: none.
_BOUNDS = (0, 64, 80, 96, 112, 128, 168, 224)


@dataclass(frozen=True)
class Offer:
    """A plan that may be chosen.

    Attributes:
        plan: the plan.
        place: its number among those of its schedule, which offers the one that it takes for the best first; more for schedules
            that `auto` does not take.
        split: tells what else distinguishes it, what is stored at the points say.
        base: name of the offer that it is tried after, if that is the fastest; empty: it is tried by itself.
    """

    plan: Plan
    place: int = 0
    split: str = ""
    base: str = ""

    @property
    def name(self) -> str:
        """The same on all ranks and in all runs: the plan's parameters, but geometry and zeros, which depend on the mesh."""
        left = ("work", "geometry", "zeroes")
        given = {field.name: getattr(self.plan, field.name) for field in fields(self.plan) if field.name not in left}
        return json.dumps([self.split, type(self.plan).__name__, given], sort_keys=True)

    def seconds(self, ceiling: Ceiling) -> float:
        """The time for a cell by which offers are ranked."""
        return self.plan.seconds(ceiling) * (1 + _PLACE * self.place)


def offered(default: Plan, work: Work, limits: Limits, wish: Wish, named: str = "", every: bool = True) -> Iterator[Offer]:
    """The default plan, then all others of the schedules that serve a work.

    Args:
        default: the plan that is taken where nobody tunes.
        work: what is computed.
        limits: of the device.
        wish: what options and mesh ask of the plans.
        named: the only schedule that may be taken; empty: all.
        every: whether those are asked, too, that do not take the work for theirs.
    """
    yield Offer(default)
    for schedule in SCHEDULES:
        if named not in ("", schedule.name) or schedule.refuses(work, limits):
            continue
        if not (every or schedule.volunteers(work, limits, wish.precision)):
            continue
        for place, plan in enumerate(schedule.plans(work, limits, wish)):
            if plan != default:
                yield Offer(plan, place + _OTHERS * (schedule.name != default.schedule))


def bounded(offer: Offer, limits: Limits) -> list[Offer]:
    """The same with other bounds on registers, where compilers can be held to any: no model tells what they do."""
    plan = offer.plan
    if not (limits.registers and hasattr(plan, "registers")):
        return []
    items = max(step.items for step in plan.steps())
    others = [bound for bound in _BOUNDS if bound != plan.registers and limits.holds(items, bound)]
    held = [replace(plan, registers=bound) for bound in others]  # type: ignore[call-arg]
    return [replace(offer, plan=other, base=offer.name) for other in held]


def ranked(offers: Sequence[Offer], ceiling: Ceiling) -> list[Offer]:
    """The fastest by the model first."""
    return sorted(offers, key=lambda offer: offer.seconds(ceiling))


def default_first(order: Sequence[Offer], ceiling: Ceiling) -> list[Offer]:
    """Plans in an order, with the one in front that is taken where nobody tunes."""
    default = min((offer for offer in order if not offer.place), key=lambda offer: offer.plan.seconds(ceiling))
    return list(dict.fromkeys([default, *order]))


def fastest(
    offers: Sequence[Offer],
    trial: Callable[[Offer], tuple[float, Callable[[], float]]],
    advance: Callable[[float], None] = lambda number: None,
) -> dict[Offer, float]:
    """Tries plans one after the other.

    Args:
        offers: the plans.
        trial: how far a plan's result is from the right one, relative, and what measures the seconds that it takes.
        advance: is told how many have been tried.

    Returns:
        Seconds of those that can be built and compute what they should, the fastest first.
    """
    found = {}
    for number, offer in enumerate(offers, 1):
        try:
            error, seconds = trial(offer)
            rounded = offer.plan.work.rounded and offer.plan.precision == "double"
            if error <= TOLERANCE["rounded" if rounded else offer.plan.precision]:
                found[offer] = seconds()
            else:
                warnings.warn(
                    f"a plan computes something else than the plain kernel (by {error:.1e} of its largest entry), and is not "
                    f"taken: {offer.plan}; this is a bug, please report it",
                    stacklevel=2,
                )
        except FemgpuError:
            pass  # what the compiler or the device's memory refuses
        advance(number)
    return dict(sorted(found.items(), key=lambda entry: entry[1]))
