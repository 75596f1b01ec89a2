"""Kernels as text and numbers: what is computed (`Work`), how (`Plan`), and its rendering into OpenCL C. No device, no mesh."""

from femgpu.kernels.array import DOT_SLOTS, DOT_WORDS, TYPES, Array, Layout
from femgpu.kernels.fragments import pack_fragments
from femgpu.kernels.node_lists import NodeList, list_bytes
from femgpu.kernels.plan import Plan
from femgpu.kernels.render import render
from femgpu.kernels.schedules import SCHEDULES, Schedule, schedule_named
from femgpu.kernels.step import Step, Wish
from femgpu.kernels.symmetry import Symmetry
from femgpu.kernels.tables import pack_tables, parity_lines
from femgpu.kernels.transfers import (
    CG_STEPS,
    MAD_VECTORS,
    block_kernels,
    children_kernels,
    entry_kernels,
    interpolation_kernels,
    krylov_kernels,
    list_kernels,
    nesting_kernels,
    node_list_kernels,
    roofline_kernels,
    sparse_kernels,
    vector_kernels,
)
from femgpu.kernels.work import SECOND, Table, Work
from femgpu.kernels.work_fields import FieldWork, RowsWork

__all__ = [
    "CG_STEPS",
    "DOT_SLOTS",
    "DOT_WORDS",
    "MAD_VECTORS",
    "SCHEDULES",
    "SECOND",
    "TYPES",
    "Array",
    "FieldWork",
    "Layout",
    "NodeList",
    "Plan",
    "RowsWork",
    "Schedule",
    "Step",
    "Symmetry",
    "Table",
    "Wish",
    "Work",
    "block_kernels",
    "children_kernels",
    "entry_kernels",
    "interpolation_kernels",
    "krylov_kernels",
    "list_bytes",
    "list_kernels",
    "nesting_kernels",
    "pack_fragments",
    "node_list_kernels",
    "pack_tables",
    "parity_lines",
    "render",
    "roofline_kernels",
    "schedule_named",
    "sparse_kernels",
    "vector_kernels",
]
