"""Functions to files and pictures: .vtu, .pvtu and .pvd for ParaView, .h5 for restarts, .png."""

from femgpu.io.checkpoint import read_checkpoint, write_checkpoint
from femgpu.io.h5 import read_h5
from femgpu.io.pictures import picture
from femgpu.io.pvd import Collection
from femgpu.io.writers import write

__all__ = ["Collection", "picture", "read_checkpoint", "read_h5", "write", "write_checkpoint"]
