"""Kernels as text: plans (sizes, validated), and their rendering into OpenCL C. No device, no PETSc."""

from femgpu.kernels.plan import FieldPlan, Plan, RowsPlan
from femgpu.kernels.render import arguments, pack_tables, render, vector_kernels

__all__ = ["FieldPlan", "Plan", "RowsPlan", "arguments", "pack_tables", "render", "vector_kernels"]
