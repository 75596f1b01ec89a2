"""Workload solve: whole solves as a user waits for them, by phase: mesh, space, problem, set-up of the preconditioner, solve.

Each problem stands on a cube that was refined from a coarse one, hexahedra bent afterwards, or, the bracket, on the mesh that
`-dm_plex_filename` and `-dm_refine` name. It is solved as femgpu does by itself where nobody names a solver, and, as yardsticks, by
PETSc's CG and GAMG on an assembled matrix and by femgpu's CG over the diagonal; Stokes' equations, a saddle point, by fields only.
`-dm_vec_type viennacl` keeps PETSc's vectors on the device.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc
from ufl import div, ds, dx, grad, inner

from femgpu import mesh, runtime
from femgpu.bench.cases import each_case
from femgpu.bench.solve_report import Result, Timing
from femgpu.errors import DataError, SolverError
from femgpu.runtime import Kernel, Runtime
from femgpu.solver import PMG, FieldSplit, NonlinearProblem
from femgpu.spaces import Constant, DirichletBC, Function, FunctionSpace, MixedSpace, Space, rigid_body_modes

PROBLEMS = ("poisson", "elasticity", "hyperelasticity", "stokes")
_PMG = {"ksp_type": "python", "ksp_python_type": "femgpu.CG", "pc_type": "python", "pc_python_type": "femgpu.PMG"}
SOLVERS: dict[str, dict[str, str | None]] = {
    "femgpu": {**_PMG},
    "double": {**_PMG, "pc_femgpu_pmg_precision": "double"},
    "walker": {**_PMG, "snes_ksp_ew": None},
    "gamg": {"ksp_type": "cg", "pc_type": "gamg"},
    "jacobi": {"ksp_type": "python", "ksp_python_type": "femgpu.CG", "pc_type": "jacobi"},
}
# Of `SOLVERS`, those that solve saddle points, where the form chooses GMRES over its fields.
_OF_FIELDS: dict[str, dict[str, str | None]] = {"femgpu": {}, "double": {"fieldsplit_velocity_pc_femgpu_pmg_precision": "double"}}
# The least number of cells along an edge of the coarsest mesh; how far vertices are moved, in edges of the cube.
_COARSE, _BEND = 10, 0.1
# Of the bracket: Lame's parameters and the traction on its bore, in pascals.
_STEEL, _PULL = (1e6, 2e6), -2e3
# Its regions (`meshes/README.md`), and the sides of the cube: x = 0, and all but x = 1.
_CLAMPED, _LOADED = 1, 2
_FIRST_SIDE, _WALLS = 6, (1, 2, 3, 4, 6)
# Solves of the same problem whose coefficients differ: the first builds kernels and patterns, the fastest other one counts.
_SOLVES = 3
_RTOL = "1e-8"
_PRODUCTS = 20


def run(
    cells: Sequence[str], degrees: Sequence[int], sizes: Sequence[float], names: Sequence[str], solvers: Sequence[str]
) -> Result:
    """Runs the workload on this process's device.

    Args:
        cells: types of cells, in 3D.
        degrees: of the spaces.
        sizes: dofs, about.
        names: of `PROBLEMS`, or "bracket", which takes no cells and no sizes.
        solvers: of `SOLVERS`; saddle points take "femgpu" and "double" alone.

    Raises:
        DataError: where solvers differ in their solutions, and for Stokes' equations with velocities of degree 1.
    """
    if "stokes" in names and min(degrees) < 2:
        raise DataError(f"stokes at degree {min(degrees)}: the pressure's degree is one less; give --degrees of 2 and more")
    cases = [
        (name, cell, degree, size)
        for name in names
        for cell in (cells if name in PROBLEMS else ("tetrahedron",))
        for degree in degrees
        for size in (sizes if name in PROBLEMS else sizes[:1])
    ]
    timings: list[Timing] = []
    for name, cell, degree, size in each_case(cases, description="solve"):
        norms = []
        for timing, norm in _case(name, cell, degree, size, solvers):
            timings.append(timing)
            norms.append(norm)
        known = [norm for norm in norms if np.isfinite(norm)]
        if known and not np.ptp(known) <= 1e-5 * max(known):
            raise DataError(
                f"{name} on {cell} cells, degree {degree}: norms of the solutions are {norms}; this is a bug, please report it"
            )
    return Result(str(runtime.current().device), timings)


def _case(name: str, cell: str, degree: int, size: float, solvers: Sequence[str]) -> Iterator[tuple[Timing, float]]:
    """The phases of a problem's solves by each solver, and the norm of its solution; NaN where the solver does not get there."""
    comps = 1 if name == "poisson" else 3
    clock = _Clock()
    dm = mesh.create() if name == "bracket" else _cube(cell, (size / comps) ** (1 / 3) / degree)
    mesh_s = clock.lap()
    V: Space = (space := FunctionSpace(dm, "Lagrange", degree, shape=(comps,) if comps > 1 else ()))
    if name == "stokes":
        V = MixedSpace({"velocity": space, "pressure": FunctionSpace(dm, "Lagrange", degree - 1)})
    space_s = clock.lap()
    for solver in solvers if name != "stokes" else [solver for solver in solvers if solver in _OF_FIELDS]:
        yield _time(Timing(name, cell, degree, V.num_dofs, solver, V.create_vec().getType(), mesh_s, space_s), V)


def _time(timing: Timing, V: Space) -> tuple[Timing, float]:
    """The phases of a problem's solves on a space, and the norm of its solution."""
    clock = _Clock()
    options = (_OF_FIELDS if timing.problem == "stokes" else SOLVERS)[timing.solver]
    problem, load = _problem(timing.problem, V, options)
    if timing.solver == "gamg" and isinstance(V, FunctionSpace) and V.num_comp > 1:
        problem.set_near_nullspace(rigid_body_modes(V))
    timing = replace(timing, problem_s=clock.lap())
    setups, solves, totals, builds = [], [], [], []
    try:
        for number in range(_SOLVES):
            load.value = 1 + 0.1 * number
            problem.u.vec.set(0.0)
            with _events("PCSetUp", "KSPSolve", "FGBuild") as passed:
                clock.lap()
                problem.solve()
                totals.append(clock.lap())
            setups.append(passed["PCSetUp"])
            solves.append(passed["KSPSolve"])
            builds.append(passed["FGBuild"])
    except SolverError:
        return timing, float("nan")
    fastest = min(range(1, _SOLVES), key=lambda number: totals[number])
    snes, norm = problem.snes, problem.u.vec.norm()
    timing = replace(
        timing,
        first_solve_s=totals[0],
        first_setup_s=setups[0],
        build_s=builds[0],
        setup_s=setups[fastest],
        solve_s=solves[fastest],
        total_s=totals[fastest],
        newton=max(snes.getIterationNumber(), 1),
        iterations=snes.getLinearSolveIterations(),
        Mdofs=1e-6 * V.num_dofs * max(snes.getIterationNumber(), 1) / solves[fastest],
        levels=_levels(problem.runtime, snes.getKSP().getPC()),
        kernels=_kernel_share(problem),
    )
    return timing, norm


def _cube(cell: str, parts: float) -> PETSc.DMPlex:
    """A unit cube with about so many cells along an edge, refined from as coarse a one as may be."""
    times = max(0, int(np.log2(max(parts / _COARSE, 1))))
    dm = mesh.box((max(1, round(parts / 2**times)),) * 3, cell=cell)
    for _ in range(times):
        dm = mesh.refine(dm)
    if cell == "hexahedron":
        # Vertices move along each axis by a product in the other two: trilinear cells, none of them affine.
        coords = dm.getCoordinatesLocal()
        x = coords.array.reshape(-1, 3)
        coords.setArray((x + _BEND * np.roll(x, 1, axis=1) * np.roll(x, 2, axis=1)).ravel())
        dm.setCoordinatesLocal(coords)
    if kind := PETSc.Options().getString("dm_vec_type", ""):
        dm.setVecType(kind)
    return dm


def _problem(name: str, V: Space, options: Mapping[str, str | None]) -> tuple[NonlinearProblem, Constant]:
    """A problem, and the coefficient that its solves differ in."""
    u, v, c = Function(V), ufl.TestFunction(V), Constant(V.dm, 1.0)
    points, given = dx(degree=2 * V.degree), {**options, "ksp_rtol": _RTOL}
    # What multiplies derivatives of basis functions is constant on simplices: UFL's own rule is exact, as on bent cells none is.
    stiff = dx if V.mesh.block.cell == "tetrahedron" else points
    linear, newton = {**given, "snes_type": "ksponly"}, {**given, "ksp_rtol": "1e-3", "snes_rtol": "1e-8"}
    waves = np.prod([ufl.sin(np.pi * x) for x in ufl.SpatialCoordinate(V.ufl_domain())])
    if isinstance(V, MixedSpace):
        (velocity, pressure), (w, q) = ufl.split(u), ufl.split(v)
        residual = (c * inner(grad(velocity), grad(w)) - pressure * div(w) - q * div(velocity)) * stiff - waves * w[2] * points
        walls = DirichletBC(V.sub("velocity"), (0.0, 0.0, 0.0), _WALLS)
        return NonlinearProblem(residual, u, walls, petsc_options=linear), c
    assert isinstance(V, FunctionSpace)
    if name == "poisson":
        residual = c * inner(grad(u), grad(v)) * stiff - waves * v * points
        return NonlinearProblem(residual, u, DirichletBC(V, 0.0), petsc_options=linear), c
    clamped, identity = DirichletBC(V, (0.0, 0.0, 0.0), _CLAMPED if name == "bracket" else _FIRST_SIDE), ufl.Identity(3)
    if name == "elasticity":
        strain = ufl.sym(grad(u))
        residual = c * inner(2 * strain + ufl.tr(strain) * identity, grad(v)) * stiff - v[2] * points
        return NonlinearProblem(residual, u, clamped, petsc_options=linear), c
    F = identity + grad(u)
    inverse, bracket = ufl.inv(F).T, name == "bracket"
    mu, la = _STEEL if bracket else (1.0, 2.0)
    load = -c * _PULL * v[2] * ds(_LOADED) if bracket else -0.02 * v[2] * points
    # Of the cube the stiffness changes from solve to solve, of the bracket the load.
    stiffness = 1.0 if bracket else c
    stress = mu * (F - inverse) + la * ufl.ln(ufl.det(F)) * inverse
    return NonlinearProblem(stiffness * inner(stress, grad(v)) * points + load, u, clamped, petsc_options=newton), c


class _Clock:
    """Seconds between laps."""

    def __init__(self) -> None:
        self._last = perf_counter()

    def lap(self) -> float:
        """Seconds since the last one."""
        last, self._last = self._last, perf_counter()
        return self._last - last


@contextmanager
def _events(*names: str) -> Iterator[dict[str, float]]:
    """A dictionary that holds, after the block, the seconds of PETSc's events in it."""
    PETSc.Log.begin()
    before = {name: PETSc.Log.Event(name).getPerfInfo()["time"] for name in names}
    passed: dict[str, float] = {}
    yield passed
    passed |= {name: PETSc.Log.Event(name).getPerfInfo()["time"] - before[name] for name in names}


def _kernel_share(problem: NonlinearProblem) -> float:
    """Device time of all kernels of a linear solve over the time of such a solve; NaN where the queue records no times."""
    chosen = problem.runtime
    ksp = problem.snes.getKSP()
    ksp.setOperators(problem.jacobian, ksp.getOperators()[1])
    b, x = ksp.getRhs().duplicate(), ksp.getRhs().duplicate()
    b.setArray(np.random.default_rng(5).standard_normal(b.getLocalSize()))
    ksp.solve(b, x)
    clock = _Clock()
    ksp.solve(b, x)
    seconds = clock.lap()
    kernels = [found for found in gc.get_objects() if isinstance(found, Kernel) and found.runtime is chosen]
    before = [kernel.launches for kernel in kernels]
    with chosen.profiled():
        for kernel in kernels:
            kernel.timed = True
        ksp.solve(b, x)
        counts = [kernel.launches - count for kernel, count in zip(kernels, before, strict=True)]
        busy = sum(kernel.mean_seconds * count for kernel, count in zip(kernels, counts, strict=True) if count)
        for kernel in kernels:
            kernel.timed = False
    return float(busy) / seconds


def _levels(chosen: Runtime, pc: PETSc.PC) -> list[dict[str, Any]]:
    """What PMG's levels are, those of a velocity too, and what their operators take; empty for other preconditioners."""
    context: Any = pc.getPythonContext() if pc.getType() == PETSc.PC.Type.PYTHON else None
    if isinstance(context, FieldSplit):
        return _levels(chosen, context.inner)
    found = []
    for what, dofs, level in context.levels if isinstance(context, PMG) else []:
        p, q = level.vectors.empty(), level.vectors.empty()
        chosen.zero(p, level.vectors.num_bytes)
        level.operator.apply(p, q)
        chosen.finish()
        clock = _Clock()
        for _ in range(_PRODUCTS):
            level.operator.apply(p, q)
        chosen.finish()
        microseconds = 1e6 * clock.lap() / _PRODUCTS
        found.append({"what": what, "dofs": dofs, "largest": level.largest, "operator_us": microseconds})
    return found
