"""Workload petsc: one P2 Poisson residual on bent tetrahedra between local vectors, femgpu's schedules beside PETSc's own.

femgpu's are timed on one rank, as OpenCL takes all cores, PETSc's `DMPlexSNESComputeResidualFEM` on any number, with pointwise
functions that the C compiler `cc` builds for this machine. The norms of all residuals agree.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from ctypes import CDLL, c_double, c_int, c_void_p, cast
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ufl
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.errors import DataError, FemgpuError, collective
from femgpu.mesh.box import box
from femgpu.petsc_c import call, declare
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Function, FunctionSpace, coordinates

CELLS = 1e5
# PETSc's rules: of order 2 are those that it takes for degree 2.
ORDERS = (1, 2)
SCHEDULES = ("cell:lanes=1", "cell", "tiled", "transposed")
# What the calls of a timing take at least; there are at least so many.
_SECONDS, _CALLS = 2.0, 5
# How far norms may be apart.
_TOLERANCE = 1e-9
_PREFIX = "petsc_residual_"
_POINTWISE = """
#define ARGUMENTS int dim, int Nf, int NfAux, const int uOff[], const int uOff_x[], const double u[], const double u_t[], \\
  const double u_x[], const int aOff[], const int aOff_x[], const double a[], const double a_t[], const double a_x[], double t, \\
  const double x[], int numConstants, const double constants[]
void f0(ARGUMENTS, double f0[]) { f0[0] = -(x[0] + x[1]); }
void f1(ARGUMENTS, double f1[]) { for (int d = 0; d < dim; ++d) f1[d] = u_x[d]; }
int state(int dim, double t, const double x[], int Nc, double u[], void *context) { u[0] = x[0] * x[1] - x[2] * x[2]; return 0; }
"""


@dataclass(frozen=True)
class Timing:
    """One way to compute the residual.

    Attributes:
        who: femgpu with its schedule, or PETSc.
        points: of the rule.
        cells: of the mesh.
        best_ms: milliseconds of a call by the host's clock, on the slowest rank.
        median_ms: likewise.
        norm: of the residual.
        kernel_ms: of femgpu's kernel alone.
        flops: of the kernel, per cell.
        bytes: likewise.
        plan: of femgpu.
    """

    who: str
    points: int
    cells: int
    best_ms: float
    median_ms: float
    norm: float
    kernel_ms: float = np.nan
    flops: int = 0
    bytes: int = 0
    plan: str = ""


@dataclass(frozen=True)
class Result:
    """What the workload measured.

    Attributes:
        device: femgpu's, in words.
        ranks: number of processes.
        timings: the timings.
    """

    device: str
    ranks: int
    timings: list[Timing]

    @property
    def stem(self) -> str:
        """Name of the report's files, before device and suffix."""
        return "petsc"

    @property
    def variant(self) -> str:
        """Name of the report's files, after the device."""
        return ranks_in_words(self.ranks).replace(" ", "-")

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per timing."""
        return [{"device": self.device, "ranks": self.ranks} | asdict(timing) for timing in self.timings]

    def record(self) -> dict[str, Any]:
        """What the JSON file holds besides device and versions."""
        return {"workload": "petsc", "timings": self.rows()}

    def text(self) -> str:
        """A line for each timing."""
        lines = [f"petsc: Poisson's residual, P2, {self.timings[0].cells} tetrahedra, {ranks_in_words(self.ranks)}, {self.device}"]
        return "\n".join(lines + [
            f"{t.who:20s}{t.points:4d} points: best {t.best_ms:9.3f} ms, median {t.median_ms:9.3f}, norm {t.norm:.12g}"
            for t in self.timings
        ])  # fmt: skip

    def plot(self, path: Path) -> None:
        """Milliseconds of each, a picture for each rule."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        rules = list(dict.fromkeys(timing.points for timing in self.timings))
        figure = Figure(figsize=(6 * len(rules), 3.5), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, points in zip(figure.subplots(1, len(rules), squeeze=False)[0], rules, strict=True):
            mine = [timing for timing in self.timings if timing.points == points]
            axes.barh([timing.who for timing in mine], [timing.best_ms for timing in mine])
            axes.set(title=f"{points} points", xlabel="ms")
        figure.suptitle(f"petsc, {self.timings[0].cells} tetrahedra, {ranks_in_words(self.ranks)}\n{self.device}", fontsize=8)
        figure.savefig(path, dpi=120)


def ranks_in_words(count: int) -> str:
    """How many processes."""
    return f"{count} rank" + "s" * (count > 1)


def run(device: str, cells: float = CELLS) -> Result:
    """Runs the workload; collective.

    Args:
        device: in words.
        cells: of the mesh, about.

    Returns:
        The timings.

    Raises:
        FemgpuError: where no C compiler builds the pointwise functions.
        DataError: when residuals differ.
    """
    mpi = MPI.COMM_WORLD
    with tempfile.TemporaryDirectory() as folder:
        with collective(mpi):
            library = _compiled(Path(folder))
        dm = _mesh(max(1, round((cells / 6) ** (1 / 3))))
        timings = list[Timing]()
        for order in ORDERS:
            found = [*(_femgpu(dm, order) if mpi.size == 1 else []), _petsc(dm, order, library)]
            norms = [timing.norm for timing in found]
            if not np.ptp(norms) <= _TOLERANCE * max(norms):
                raise DataError(f"norms of one residual are {norms}; this is a bug, please report it")
            timings += found
    return Result(device, mpi.size, timings)


def _compiled(folder: Path) -> CDLL:
    """The pointwise functions, built for this machine."""
    text, built = folder / "pointwise.c", folder / "pointwise.so"
    text.write_text(_POINTWISE)
    try:
        subprocess.run(
            ["cc", "-O3", "-march=native", "-shared", "-fPIC", text, "-o", built], check=True, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise FemgpuError("bench petsc: PETSc's pointwise functions need a C compiler, and there is no `cc`; install one") from None
    except subprocess.CalledProcessError as error:
        raise FemgpuError(f"bench petsc: cc does not build PETSc's pointwise functions: {error.stderr}") from None
    return CDLL(str(built))


def _mesh(faces: int) -> PETSc.DMPlex:
    """A box of 6 faces^3 tetrahedra, a little bent."""
    dm = box((faces,) * 3, "tetrahedron")
    vector = dm.getCoordinatesLocal()
    x = vector.getArray().reshape(-1, 3)
    x += 0.02 * np.sin(3 * x[:, [1, 2, 0]])
    dm.setCoordinatesLocal(vector)
    return dm


def _times(apply: Callable[[], Any]) -> tuple[float, float]:
    """Best and median milliseconds of many calls, on the slowest rank; collective."""
    apply()
    found: list[float] = []
    while sum(found) < _SECONDS or len(found) < _CALLS:
        MPI.COMM_WORLD.Barrier()
        start = time.perf_counter()
        apply()
        found.append(MPI.COMM_WORLD.allreduce(time.perf_counter() - start, MPI.MAX))
    return 1e3 * min(found), 1e3 * float(np.median(found))


def _femgpu(dm: PETSc.DMPlex, order: int) -> list[Timing]:
    """One for each schedule; with the launch that sums over cells."""
    timings = []
    x = coordinates(dm)
    u = Function(FunctionSpace(dm, "Lagrange", 2), "u")
    u.interpolate(x[0] * x[1] - x[2] * x[2])
    v = ufl.TestFunction(u.space)
    residual = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - (x[0] + x[1]) * v * ufl.dx
    for schedule in SCHEDULES:
        options = {"petscfe_default_quadrature_order": order, "femgpu_schedule": schedule}
        operator = NonlinearProblem(residual, u, petsc_options=options).operator.local
        operator.runtime.write(operator.u, u.local_array())

        def apply(operator: Any = operator) -> None:
            operator.residual()
            operator.runtime.finish()

        best, median = _times(apply)
        norm = float(np.linalg.norm(operator.runtime.read(operator.out, np.empty(operator.num_local))))
        (application,) = operator.prepare("residual")
        plan, kernel = application.plan, 1e3 * application.least_seconds(20)
        given = plan.work.num_qpts, application.count, best, median, norm, kernel, plan.flops, plan.bytes
        timings.append(Timing(f"femgpu {schedule}", *given, str(plan)))
    return timings


def _petsc(dm: PETSc.DMPlex, order: int, library: CDLL) -> Timing:
    """PETSc's, zeroing of the result included."""
    declare(
        {
            "PetscDSSetResidual": [c_void_p, c_int, c_void_p, c_void_p],
            "DMProjectFunctionLocal": [c_void_p, c_double, c_void_p, c_void_p, c_int, c_void_p],
            "DMPlexSNESComputeResidualFEM": [c_void_p] * 4,
        }
    )
    f0, f1, state = (cast(getattr(library, name), c_void_p) for name in ("f0", "f1", "state"))
    options, dm = PETSc.Options(_PREFIX), dm.clone()
    options.setValue("petscspace_degree", 2)
    element = PETSc.FE().createDefault(3, 1, True, order, _PREFIX)
    options.delValue("petscspace_degree")
    dm.setField(0, element)
    dm.createDS()
    call("PetscDSSetResidual", dm.getDS().handle, 0, f0, f1)
    u, out, total = dm.createLocalVec(), dm.createLocalVec(), dm.createGlobalVec()
    call("DMProjectFunctionLocal", dm.handle, 0.0, (c_void_p * 1)(state.value), None, PETSc.InsertMode.INSERT_VALUES, u.handle)

    def apply() -> None:
        out.zeroEntries()
        call("DMPlexSNESComputeResidualFEM", dm.handle, u.handle, out.handle, None)

    best, median = _times(apply)
    dm.localToGlobal(out, total, addv=True)
    first, last = dm.getHeightStratum(0)
    cells = MPI.COMM_WORLD.allreduce(last - first)
    points = element.getQuadrature().getData()[0].size // 3
    return Timing(f"PETSc, {ranks_in_words(MPI.COMM_WORLD.size)}", points, cells, best, median, total.norm())
