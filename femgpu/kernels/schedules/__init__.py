"""The schedules: ways to lay work out on a device. Nothing outside this folder asks for one by its name."""

from __future__ import annotations

from femgpu.errors import PlanError
from femgpu.kernels.schedules.cell import Cell
from femgpu.kernels.schedules.cell_lanes import CellLanesPlan, CellLaneSumsPlan
from femgpu.kernels.schedules.cell_plan import CellPlan
from femgpu.kernels.schedules.cell_sums import CellSumsPlan
from femgpu.kernels.schedules.gemm import Gemm
from femgpu.kernels.schedules.gemm_plan import GemmPlan
from femgpu.kernels.schedules.matrix import Matrix, MatrixPlan
from femgpu.kernels.schedules.schedule import Schedule
from femgpu.kernels.schedules.sumfact import Sumfact
from femgpu.kernels.schedules.sumfact_group import SumfactGroupPlan
from femgpu.kernels.schedules.sumfact_item import SumfactPlan
from femgpu.kernels.schedules.sumfact_pencils import SumfactPencilPlan
from femgpu.kernels.schedules.sumfact_planes import SumfactPlanePlan
from femgpu.kernels.schedules.sumfact_slices import SumfactSlicePlan
from femgpu.kernels.schedules.tiled import Tiled
from femgpu.kernels.schedules.tiled_plan import TiledPlan
from femgpu.kernels.schedules.transposed import Transposed, TransposedPlan

# In the order in which `auto` asks them.
SCHEDULES: tuple[Schedule, ...] = (Gemm(), Sumfact(), Tiled(), Cell(), Transposed(), Matrix())


def schedule_named(name: str) -> Schedule:
    """The schedule with a name.

    Raises:
        PlanError: listing the names, when there is none.
    """
    for entry in SCHEDULES:
        if entry.name == name:
            return entry
    raise PlanError(f"schedule {name!r}: expected one of {', '.join(entry.name for entry in SCHEDULES)}")


__all__ = [
    "SCHEDULES",
    "Cell",
    "CellLaneSumsPlan",
    "CellLanesPlan",
    "CellPlan",
    "CellSumsPlan",
    "Gemm",
    "GemmPlan",
    "Matrix",
    "MatrixPlan",
    "Schedule",
    "Sumfact",
    "SumfactGroupPlan",
    "SumfactPencilPlan",
    "SumfactPlanePlan",
    "SumfactSlicePlan",
    "SumfactPlan",
    "Tiled",
    "TiledPlan",
    "Transposed",
    "TransposedPlan",
    "schedule_named",
]
