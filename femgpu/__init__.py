"""Finite elements for PETSc on GPUs: weak forms in, OpenCL kernels out, SNES and KSP on top."""

from femgpu import mesh
from femgpu.forms import PointwiseForm
from femgpu.io import write
from femgpu.operators import assemble
from femgpu.solver import AssembledPC, FormMatrix, NonlinearProblem
from femgpu.spaces import Constant, DirichletBC, Function, FunctionSpace, coordinates

__all__ = [
    "AssembledPC",
    "Constant",
    "DirichletBC",
    "FormMatrix",
    "Function",
    "FunctionSpace",
    "NonlinearProblem",
    "PointwiseForm",
    "assemble",
    "coordinates",
    "mesh",
    "write",
]
