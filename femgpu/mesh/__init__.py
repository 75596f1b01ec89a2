"""Meshes: DMPlex made, read and understood; geometry and regions in bulk arrays."""

from femgpu.mesh.box import box
from femgpu.mesh.create import create
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.read import read
from femgpu.mesh.refine import refine

__all__ = ["Mesh", "box", "create", "read", "refine"]
