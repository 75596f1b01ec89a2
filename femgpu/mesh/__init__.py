"""Meshes: DMPlex made, read and understood; geometry and regions in bulk arrays."""

from femgpu.mesh.adapt import adapt
from femgpu.mesh.block import Block
from femgpu.mesh.box import box
from femgpu.mesh.create import create
from femgpu.mesh.mark import mark
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.read import read
from femgpu.mesh.refine import refine
from femgpu.mesh.reorder import reorder
from femgpu.mesh.restriction import FieldShape, set_fields

__all__ = ["Block", "FieldShape", "Mesh", "adapt", "box", "create", "mark", "read", "refine", "reorder", "set_fields"]
