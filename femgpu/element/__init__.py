"""Reference cells, quadrature and tabulation, in PETSc's dof order and on PETSc's reference cells."""

from femgpu.element.choice import choose_rules
from femgpu.element.facets import FacetQuadrature, facet_rules, petsc_facet_rules
from femgpu.element.lagrange import LagrangeElement
from femgpu.element.mirrors import Mirror, mirror_of, mirrored_derivatives, mirrored_polynomials, reflected
from femgpu.element.orthonormal import orthonormal
from femgpu.element.quadrature import EXACT_DEGREE, SCHEMES, Quadrature, collocated_degree, default_rule, petsc_rule, scheme_rule
from femgpu.element.reference import CELL_NAMES, ReferenceCell, arrangements, reference_cell, relative_turns
from femgpu.element.roundings import equalised
from femgpu.element.tensor import Factors, Tensor, tensor_factors

__all__ = [
    "CELL_NAMES",
    "EXACT_DEGREE",
    "SCHEMES",
    "FacetQuadrature",
    "Factors",
    "LagrangeElement",
    "Mirror",
    "Quadrature",
    "ReferenceCell",
    "Tensor",
    "arrangements",
    "default_rule",
    "choose_rules",
    "collocated_degree",
    "equalised",
    "facet_rules",
    "mirror_of",
    "mirrored_derivatives",
    "mirrored_polynomials",
    "orthonormal",
    "petsc_facet_rules",
    "petsc_rule",
    "reference_cell",
    "reflected",
    "relative_turns",
    "scheme_rule",
    "tensor_factors",
]
