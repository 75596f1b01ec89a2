"""Function spaces, functions, constants and boundary conditions: where UFL and petsc4py meet."""

from femgpu.spaces.boundary import DirichletBC
from femgpu.spaces.cell_quantities import CELL_MAPS, CELL_QUANTITIES, FACET_QUANTITIES, cell_quantity, facet_directions
from femgpu.spaces.constant import Constant
from femgpu.spaces.field import Field
from femgpu.spaces.function import Function, SubFunction, fields_of
from femgpu.spaces.function_space import FunctionSpace
from femgpu.spaces.mixed_space import MixedSpace, SubSpace
from femgpu.spaces.modes import constant_modes, rigid_body_modes
from femgpu.spaces.nesting import NestedCells, injection, nested, refined
from femgpu.spaces.numbering import Numbering
from femgpu.spaces.rate import is_rate, rate_of, time_derivative, time_shift
from femgpu.spaces.space import SingleSpace, Space, coordinates, mesh_of, ufl_mesh
from femgpu.spaces.storage import Storage
from femgpu.spaces.vector_state import vector_state

__all__ = [
    "CELL_MAPS",
    "CELL_QUANTITIES",
    "Constant",
    "DirichletBC",
    "FACET_QUANTITIES",
    "Field",
    "Function",
    "FunctionSpace",
    "Numbering",
    "MixedSpace",
    "NestedCells",
    "SingleSpace",
    "Space",
    "Storage",
    "SubFunction",
    "SubSpace",
    "cell_quantity",
    "constant_modes",
    "coordinates",
    "facet_directions",
    "fields_of",
    "injection",
    "is_rate",
    "mesh_of",
    "nested",
    "rate_of",
    "refined",
    "rigid_body_modes",
    "time_derivative",
    "time_shift",
    "ufl_mesh",
    "vector_state",
]
