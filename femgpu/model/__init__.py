"""Performance models and limits of devices: plain numbers, no device, no PETSc."""

from femgpu.model.beta import Beta
from femgpu.model.ceilings import Ceiling, ceiling, measured
from femgpu.model.limits import Limits

__all__ = ["Beta", "Ceiling", "Limits", "ceiling", "measured"]
