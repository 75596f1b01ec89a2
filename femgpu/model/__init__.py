"""Performance models: plain numbers, no device, no PETSc."""

from femgpu.model.beta import Beta
from femgpu.model.ceilings import Ceiling, ceiling

__all__ = ["Beta", "Ceiling", "ceiling"]
