"""Function spaces, functions, constants and boundary conditions: where UFL and petsc4py meet."""

from femgpu.spaces.boundary import DirichletBC
from femgpu.spaces.function import Constant, Function
from femgpu.spaces.function_space import FunctionSpace, coordinates, mesh_of, ufl_mesh
from femgpu.spaces.layout import Layout
from femgpu.spaces.rigid_body import rigid_body_modes

__all__ = [
    "Constant",
    "DirichletBC",
    "Function",
    "FunctionSpace",
    "Layout",
    "coordinates",
    "mesh_of",
    "rigid_body_modes",
    "ufl_mesh",
]
