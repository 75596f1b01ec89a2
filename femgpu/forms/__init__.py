"""Weak forms to pointwise functions: UFL or C bodies in, records with OpenCL C text out. No petsc4py, no device.

Public: `lower_form`, `bilinear_form`, `functional`, `derivative_reads`, `LinearSystem`, `lower_expression`, `ExpressionValues`,
`pull_back`, `split_states`, `transposed_action`, `field_block`, `schur_form`, `join_parts`, `part_spaces`, `PointwiseForm` and the
records. Functions take UFL expressions once this is imported.

Folders: `ufl` the front end, `c` the user's bodies, `graph` the expression graph that both stand on, `state` the cut of a
Jacobian action between state and direction. `pull_back` takes pointwise functions to reference coordinates, `transpose` turns an
action into that of the transposed Jacobian, `blocks` takes a Jacobian of several fields apart.
"""

from femgpu.forms.blocks import field_block, schur_form
from femgpu.forms.c.pointwise_form import PointwiseForm
from femgpu.forms.pull_back import pull_back
from femgpu.forms.records import Expression, Form, Integral, Pointwise
from femgpu.forms.state.split import StateSplit, split_states
from femgpu.forms.transpose import transposed_action
from femgpu.forms.ufl.check import check_inputs, rank
from femgpu.forms.ufl.expression import lower_expression
from femgpu.forms.ufl.expression_values import ExpressionValues
from femgpu.forms.ufl.form import bilinear_form, derivative_reads, functional, lower_form
from femgpu.forms.ufl.subfunctions import join_parts, part_spaces
from femgpu.forms.ufl.system import LinearSystem, is_equation, residual_form
from femgpu.spaces import expressions

__all__ = [
    "Expression",
    "ExpressionValues",
    "Form",
    "LinearSystem",
    "Integral",
    "Pointwise",
    "PointwiseForm",
    "StateSplit",
    "bilinear_form",
    "check_inputs",
    "derivative_reads",
    "field_block",
    "functional",
    "is_equation",
    "join_parts",
    "lower_expression",
    "lower_form",
    "part_spaces",
    "pull_back",
    "rank",
    "residual_form",
    "schur_form",
    "split_states",
    "transposed_action",
]

expressions.register(ExpressionValues)
