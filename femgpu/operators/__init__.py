"""Operators on L-vectors: residual, Jacobian action, diagonal, element matrices, functionals, and their numpy twin."""

from femgpu.operators.assembly import Assembly, MatrixSource
from femgpu.operators.character import (
    Character,
    Saddle,
    character,
    couples_components,
    couples_displacements,
    is_definite,
    is_symmetric,
    saddle,
    uncoupled_fields,
)
from femgpu.operators.coarse_matrices import CoarseMatrices, Shown
from femgpu.operators.columns import Columns, Groups
from femgpu.operators.diagonal_blocks import DiagonalBlocks
from femgpu.operators.division import make_terms
from femgpu.operators.form_operator import FormOperator
from femgpu.operators.functional import Functional, integrate
from femgpu.operators.interpolation import Interpolation, Nesting
from femgpu.operators.norms import ErrorNorm, error_norm, norm
from femgpu.operators.pattern import Pattern
from femgpu.operators.planner import diagonal_target
from femgpu.operators.term import Term

__all__ = [
    "Assembly",
    "Character",
    "CoarseMatrices",
    "Columns",
    "DiagonalBlocks",
    "ErrorNorm",
    "FormOperator",
    "Functional",
    "Groups",
    "Interpolation",
    "MatrixSource",
    "Nesting",
    "Pattern",
    "Saddle",
    "Shown",
    "Term",
    "character",
    "couples_components",
    "couples_displacements",
    "diagonal_target",
    "error_norm",
    "integrate",
    "is_definite",
    "is_symmetric",
    "make_terms",
    "norm",
    "saddle",
    "uncoupled_fields",
]
