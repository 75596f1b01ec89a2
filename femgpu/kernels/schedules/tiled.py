"""Schedule tiled (paper 001): tiles of points and of basis functions, shared by the items of a work-group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from femgpu.errors import PlanError
from femgpu.kernels.plan import GEOMETRIES
from femgpu.kernels.schedules.cell_plan import CellPlan
from femgpu.kernels.schedules.cell_sums import CellSumsPlan
from femgpu.kernels.schedules.tiled_choice import ranked
from femgpu.kernels.schedules.tiled_plan import LANES, TiledPlan
from femgpu.kernels.step import Wish
from femgpu.kernels.work import Work
from femgpu.model import Limits

# Basis functions of an element (of a diagonal these alone) and numbers of a cell from which on it is faster than schedule cell on a
# GPU: by matrix instructions (triangles of degree 5 have 49 and more but for a mass), and without (tetrahedra of degree 4: 73 and
# 86); with fewer basis functions (hyperelasticity of degree 2: 97), and where groups of cell add up combinations (elasticity: of
# degree 3 on tetrahedra 148, of degree 6 on triangles 125), only where registers lack room.
_BASIS, _NUMBERS, _NUMBERS_ALONE, _REGISTERS = 15, 48, 80, 160
# Numbers from which on it is faster where cell unrolls its points, up to so many basis functions: scalars on tetrahedra of degree 3
# have 52 to 58, elasticity 148, on triangles of degree 4 73. Of a mass on tetrahedra, degree 4 has 73, and 35 basis functions.
_UNROLLED_BASIS, _UNROLLED_NUMBERS = 20, 60
_MASS_BASIS, _MASS_NUMBERS = 35, 75
# Plans that are offered, the default first, and after those by matrix instructions without them.
_PLANS, _ALONE = 8, 4


class Tiled:
    """The schedule: residuals, actions and diagonals."""

    name = "tiled"
    targets = ("residual", "action", "diagonal")
    facets = True
    parameters = ("cells", "width", "parts", "points", "mma")

    def refuses(self, work: Work, limits: Limits) -> str:
        """Other targets, some diagonals, and cells that do not fit local memory."""
        if work.target not in self.targets:
            return f"schedule tiled computes residuals, actions and diagonals, not a {work.target}; use schedule cell"
        if work.target == "diagonal" and (work.second or work.reference or any(row.twin >= 0 for row in work.rows)):
            return (
                "schedule tiled computes a diagonal of first derivatives in physical coordinates, of functions that do not go on "
                "beyond a facet; use schedule cell"
            )
        needed = max(TiledPlan(work, geometry=geometry, unroll=limits.unroll).local_bytes for geometry in GEOMETRIES)
        if needed > limits.local_bytes:
            return (
                f"schedule tiled needs {needed} bytes of local memory for one cell; the device has {limits.local_bytes} per "
                "work-group: use -femgpu_schedule cell"
            )
        return ""

    def volunteers(self, work: Work, limits: Limits, precision: str = "double") -> bool:
        """Where an item of schedule cell has more numbers than it keeps in registers; on a CPU its cells side by side win.

        Diagonals have none there, and here take fewer operations.
        """
        if self.refuses(work, limits):
            return False
        held = TiledPlan(work, geometry="recomputed").cell_numbers
        # On a GPU where it was timed: diagonals over simplices, and facets of these with gradients.
        timed = not limits.unroll or work.cell in ("triangle", "tetrahedron")
        if work.target == "diagonal":
            own = max(row.num_basis for row in work.rows)
            return timed and own >= _BASIS and not (limits.unroll and work.facet)
        if not limits.unroll:
            return False
        if work.facet:
            return timed and held >= _REGISTERS and any(field.gradient for field in work.fields)
        num_basis = max(table.num_basis for table in work.tables)
        least = _NUMBERS if limits.mma else _NUMBERS_ALONE
        if num_basis < _BASIS or self._groups_add(work, limits):
            least = _REGISTERS
        elif CellPlan(work, geometry="recomputed", unroll=limits.unroll).unrolls_points:
            gradients = any(field.gradient for field in work.fields) or any(row.gradient for row in work.rows)
            mass = work.cell == "tetrahedron" and not gradients
            most, numbers = (_MASS_BASIS, _MASS_NUMBERS) if mass else (_UNROLLED_BASIS, _UNROLLED_NUMBERS)
            least = max(least, numbers) if num_basis <= most else least
        return held >= least

    def _groups_add(self, work: Work, limits: Limits) -> bool:
        """Whether groups of schedule cell add up results, by combinations."""
        groups = CellSumsPlan(work, geometry="recomputed", scatter="atomic", unroll=limits.unroll)
        return limits.native_atomics and groups.mirrored and groups.beats_cells and groups.fits(limits)

    def plans(self, work: Work, limits: Limits, wish: Wish) -> Iterator[TiledPlan]:
        """The fastest by the model first, then some without matrix instructions."""
        for name, value in wish.parameters:
            if name == "width" and value not in LANES:
                raise PlanError(f"-femgpu_schedule tiled:width={value}: expected one of {', '.join(map(str, LANES))}")
            if value < (name != "mma"):
                raise PlanError(f"-femgpu_schedule tiled:{name}={value}: expected at least 1")
        found = ranked(work, limits, wish)
        yield from islice(found, _PLANS)
        if found[0].mma and "mma" not in dict(wish.parameters):
            yield from islice(ranked(work, limits, replace(wish, parameters=(*wish.parameters, ("mma", 0)))), _ALONE)
