"""Kernels as text: plans (sizes, validated), and their rendering into OpenCL C. No device, no PETSc."""

from femgpu.kernels.plan import FieldPlan, Plan
from femgpu.kernels.render import arguments, pack_tables, render, vector_kernels

__all__ = ["FieldPlan", "Plan", "arguments", "pack_tables", "render", "vector_kernels"]
