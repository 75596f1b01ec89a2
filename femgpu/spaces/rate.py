"""The time derivative of an unknown, as a function of its own."""

from __future__ import annotations

import weakref

from femgpu.spaces.function import Constant, Function

_rates: weakref.WeakKeyDictionary[Function, Function] = weakref.WeakKeyDictionary()
_shifts: weakref.WeakKeyDictionary[Function, Constant] = weakref.WeakKeyDictionary()


def time_derivative(u: Function) -> Function:
    """The Function that stands for du/dt in the forms of a `TimeProblem`: the same object for the same u."""
    if u not in _rates:
        _rates[u] = Function(u.space, f"{u.name}_t")
    return _rates[u]


def time_shift(u: Function) -> Constant:
    """The Constant d(du/dt)/du, which the time integrator sets before each linear solve."""
    if u not in _shifts:
        _shifts[u] = Constant(u.space.dm, 0.0)
    return _shifts[u]
