"""Functions to files and pictures: .vtu and .pvtu for ParaView, .h5 for restarts, .png."""

from femgpu.io.h5 import read_h5
from femgpu.io.pictures import picture
from femgpu.io.writers import write

__all__ = ["picture", "read_h5", "write"]
