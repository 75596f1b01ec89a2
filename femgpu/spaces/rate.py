"""The time derivative of an unknown, as a function of its own."""

from __future__ import annotations

import weakref
from typing import overload

from femgpu.errors import DataError
from femgpu.spaces.constant import Constant
from femgpu.spaces.function import Function, SubFunction

_rates: weakref.WeakKeyDictionary[Function, Function] = weakref.WeakKeyDictionary()
_shifts: weakref.WeakKeyDictionary[Function, Constant] = weakref.WeakKeyDictionary()


@overload
def time_derivative(u: Function) -> Function: ...
@overload
def time_derivative(u: SubFunction) -> SubFunction: ...
def time_derivative(u: Function | SubFunction) -> Function | SubFunction:
    """The Function that stands for du/dt in the forms of a `TimeProblem`: the same object for the same u.

    A `TimeProblem` gives kernels the integrator's rates and leaves the function's vector alone; in any other problem it is a
    coefficient like others, zero unless set.

    Args:
        u: the unknown, or a field of it, `w.sub("velocity")`.

    Raises:
        DataError: when u is no function, or a time derivative itself.
    """
    if isinstance(u, SubFunction):
        return time_derivative(u.parent).sub(u.space.place.name)
    if not isinstance(u, Function):
        raise DataError(
            f"time_derivative({u}) of type {type(u).__name__}; expected the unknown, a Function, or a field of it, w.sub('name'); "
            "of what ufl.split(w) gives write ufl.split(femgpu.time_derivative(w))"
        )
    if is_rate(u):
        raise DataError(
            f"time_derivative({u.name}) of a time derivative; expected an unknown: make the first derivative a field of its own"
        )
    if u not in _rates:
        _rates[u] = Function(u.space, f"{u.name}_t")
    return _rates[u]


def is_rate(function: object) -> bool:
    """Whether a function is a time derivative."""
    return any(function is rate for rate in _rates.values())


def time_shift(u: Function) -> Constant:
    """The Constant d(du/dt)/du, which the time integrator sets before each linear solve."""
    if u not in _shifts:
        _shifts[u] = Constant(u.space.dm, 0.0)
    return _shifts[u]


def rate_of(u: Function) -> Function | None:
    """The time derivative of u where somebody has asked for it."""
    return _rates.get(u)
