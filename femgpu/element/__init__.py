"""Reference cells, quadrature and tabulation, in PETSc's dof order and on PETSc's reference cells."""

from femgpu.element.facets import FacetQuadrature, facet_rules, petsc_facet_rules
from femgpu.element.lagrange import LagrangeElement
from femgpu.element.quadrature import Quadrature, basix_rule, petsc_rule
from femgpu.element.reference import CELL_NAMES, ReferenceCell, reference_cell

__all__ = [
    "CELL_NAMES",
    "FacetQuadrature",
    "LagrangeElement",
    "Quadrature",
    "ReferenceCell",
    "basix_rule",
    "facet_rules",
    "petsc_facet_rules",
    "petsc_rule",
    "reference_cell",
]
