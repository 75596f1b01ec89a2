"""Kernels as text: plans (sizes, validated), and their rendering into OpenCL C. No device, no PETSc."""

from femgpu.kernels.plan import FieldPlan, Plan
from femgpu.kernels.render import render, vector_kernels

__all__ = ["FieldPlan", "Plan", "render", "vector_kernels"]
