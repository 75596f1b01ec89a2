"""Bounds on the registers of an item."""

from __future__ import annotations

from femgpu.errors import PlanError
from femgpu.kernels.step import Wish
from femgpu.model import Limits

# Those that are worth a name: an item of NVIDIA's GPUs has 255.
_LEAST, _MOST = 32, 255


def asked_registers(schedule: str, limits: Limits, wish: Wish) -> int:
    """The bound that is asked for, where compilers can be held to any; else 0.

    Args:
        schedule: its name, for the message.
        limits: of the device.
        wish: what options ask for.

    Raises:
        PlanError: a bound that items do not have.
    """
    asked = wish.parameter("registers", 0)
    if asked and not _LEAST <= asked <= _MOST:
        raise PlanError(f"-femgpu_schedule {schedule}:registers={asked}: expected a bound from {_LEAST} to {_MOST}")
    return asked if limits.registers else 0
