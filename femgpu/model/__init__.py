"""Performance models: plain numbers, no device, no PETSc."""

from femgpu.model.beta import Beta

__all__ = ["Beta"]
