"""Function spaces, functions, constants and boundary conditions: where UFL and petsc4py meet."""

from femgpu.spaces.boundary import DirichletBC
from femgpu.spaces.function import Constant, Function, SubFunction, cell_quantity, time_derivative, time_shift
from femgpu.spaces.function_space import FunctionSpace, coordinates, mesh_of, ufl_mesh
from femgpu.spaces.layout import Layout

__all__ = [
    "Constant",
    "DirichletBC",
    "Function",
    "FunctionSpace",
    "Layout",
    "SubFunction",
    "cell_quantity",
    "coordinates",
    "mesh_of",
    "time_derivative",
    "time_shift",
    "ufl_mesh",
]
