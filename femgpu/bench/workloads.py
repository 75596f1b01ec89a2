"""The workloads by the names that the command line has for them, with what each takes where nothing is given."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import Any

from mpi4py import MPI

from femgpu import options, runtime
from femgpu.bench import (
    assembly,
    bakeoff,
    build,
    cg,
    evector,
    ex12,
    launch,
    petsc_residual,
    qdata,
    qdata_report,
    solve,
    tets,
    ufl_forms,
)
from femgpu.bench.report import Result, check_folder, write_report
from femgpu.errors import FemgpuError
from femgpu.model.bakeoff import PROBLEMS
from femgpu.model.ufl_forms import UFL_FORMS
from femgpu.runtime import Device, Runtime

# On a CPU and on a GPU: numbers of cells, lengths of vectors.
CELLS = {"qdata": (2e3, 2e5), "assembly": (2e4, 1e6)}
DOFS = ((1e4,), (1e6, 1e7))
_CG_DOFS = (1e5, 4e6)
# Cells of a mesh of the workloads ufl and ex12 on a CPU.
_UFL_CELLS, _EX12_CELLS = 1e3, 1e4
# What each workload takes besides --out; the bake-off problems have two kinds.
_BAKEOFF, _EVECTOR = "degrees dofs schedules plans ways precision", "degrees cells schedules plans precision"
_TAKES = {
    "ex12": "cell cells problems precision blocks",
    "qdata": "cells schedules precision exhaustive",
    "assembly": "cells precision",
    "launch": "",
    "build": "scripts cell degrees",
    "cg": "cell degrees dofs problems",
    "solve": "cell degrees dofs problems solvers",
    "tets": _BAKEOFF,
    "ufl": "cell cells degrees problems precision tuned exhaustive",
    "petsc": "cells",
} | {name: _EVECTOR if problem.evector else _BAKEOFF for name, problem in PROBLEMS.items()}
# Degrees of kernels that a CPU runs in seconds.
_CPU_DEGREES = (1, 2, 3)


def run(arguments: Namespace) -> tuple[Result, Device]:
    """Runs the workload that the command line names.

    Args:
        arguments: of `femgpu bench`; None stands for a default.

    Returns:
        What was measured, and on which device.

    Raises:
        FemgpuError: as the workloads do, and on several ranks where it takes one.
    """
    name = arguments.workload
    if MPI.COMM_WORLD.size > 1 and name not in ("build", "petsc"):
        raise FemgpuError(f"bench {name} on {MPI.COMM_WORLD.size} ranks: expected one; it times single kernels")
    takes = _TAKES[name].split()
    for word in sorted({word for words in _TAKES.values() for word in words.split()} - {*takes}):
        if getattr(arguments, word, None):
            expected = ", ".join(f"--{known}" for known in ("out", *takes))
            raise FemgpuError(f"bench {name} takes no --{word}; expected {expected}")
    if name == "launch":
        # Vectors of the type that -dm_vec_type names come before anything else makes a context of its own.
        problems = launch.problems()
        chosen = _runtime()
        return launch.run(chosen, problems), chosen.device
    if name == "cg":
        cells, degrees = arguments.cell or ("hexahedron", "tetrahedron"), arguments.degrees or (1, 2, 3)
        result = cg.run(cells, degrees, arguments.dofs or _CG_DOFS, arguments.problems or tuple(cg.PROBLEMS))
        return result, _runtime().device
    if name == "solve":
        return _solve(arguments), _runtime().device
    chosen = _runtime()
    if name in PROBLEMS:
        return (_evector if PROBLEMS[name].evector else _bakeoff)(chosen, arguments), chosen.device
    workloads: dict[str, Callable[[Runtime, Namespace], Any]] = {
        "build": _build, "qdata": _qdata, "assembly": _assembly, "ex12": _ex12, "petsc": _petsc, "tets": _tets, "ufl": _ufl,
    }  # fmt: skip
    return workloads[name](chosen, arguments), chosen.device


def _runtime() -> Runtime:
    """The device that the options name, whose kernels go to the folder that they name."""
    settings = options.read()
    chosen = runtime.for_comm(settings.device, MPI.COMM_WORLD)
    chosen.programs.dump_folder = settings.kernel_dump
    return chosen


def _cells(chosen: Runtime, arguments: Namespace) -> float:
    return float(arguments.cells or CELLS[arguments.workload][chosen.device.is_gpu])


def _check_words(workload: str, **given: tuple[Iterable[str], Iterable[str]]) -> None:
    """Refuses words of arguments that the workload does not know."""
    for name, (words, known) in given.items():
        if wrong := [word for word in words if word not in known]:
            raise FemgpuError(f"bench {workload} --{name} {wrong[0]}: expected {', '.join(known)}")


def _build(chosen: Runtime, arguments: Namespace) -> build.Result:
    cells, degrees = arguments.cell or build.CELLS, arguments.degrees or build.DEGREES
    return build.run(chosen, MPI.COMM_WORLD, arguments.scripts or (), cells, degrees)


def _qdata(chosen: Runtime, arguments: Namespace) -> qdata_report.Result:
    given = arguments.schedules or ("auto",), arguments.precision or "double", arguments.exhaustive
    return qdata.run(chosen, _cells(chosen, arguments), *given)


def _solve(arguments: Namespace) -> solve.Result:
    gpu = _runtime().device.is_gpu
    cells, degrees = arguments.cell or ("hexahedron", "tetrahedron"), arguments.degrees or (2, 4)
    sizes, solvers = arguments.dofs or ((1e6, 1e7) if gpu else (1e4,)), arguments.solvers or ("femgpu",)
    return solve.run(cells, degrees, sizes, arguments.problems or solve.PROBLEMS, solvers)


def _assembly(chosen: Runtime, arguments: Namespace) -> assembly.Result:
    return assembly.run(chosen, _cells(chosen, arguments), arguments.precision or "double")


def _ex12(chosen: Runtime, arguments: Namespace) -> ex12.Result:
    cells, problems = arguments.cell or tuple(ex12.CELLS), arguments.problems or tuple(ex12.PROBLEMS)
    _check_words("ex12", cell=(cells, ex12.CELLS), problems=(problems, ex12.PROBLEMS))
    precisions = (arguments.precision,) if arguments.precision else ex12.PRECISIONS
    count = arguments.cells or (None if chosen.device.is_gpu else _EX12_CELLS)
    return ex12.run(chosen, cells, problems, precisions, count, arguments.blocks or ex12.BLOCKS)


def _petsc(chosen: Runtime, arguments: Namespace) -> petsc_residual.Result:
    return petsc_residual.run(str(chosen.device), arguments.cells or petsc_residual.CELLS)


def _bakeoff(chosen: Runtime, arguments: Namespace) -> bakeoff.Result:
    gpu = chosen.device.is_gpu
    degrees, sizes = arguments.degrees or (bakeoff.DEGREES if gpu else _CPU_DEGREES), arguments.dofs or DOFS[gpu]
    given = arguments.schedules or ("auto",), arguments.ways or bakeoff.USUAL, arguments.precision or "double"
    return bakeoff.run(chosen, arguments.workload, degrees, sizes, *given, plans=int(arguments.plans or 0))


def _evector(chosen: Runtime, arguments: Namespace) -> evector.Result:
    gpu = chosen.device.is_gpu
    degrees = arguments.degrees or (evector.DEGREES if gpu else _CPU_DEGREES)
    cells = (arguments.cells,) if arguments.cells else evector.CELLS[: None if gpu else 1]
    given = arguments.schedules or ("auto",), arguments.precision or "double"
    return evector.run(chosen, arguments.workload, degrees, cells, *given, plans=int(arguments.plans or 0))


def _tets(chosen: Runtime, arguments: Namespace) -> tets.Results:
    gpu = chosen.device.is_gpu
    degrees, sizes = arguments.degrees or (tets.DEGREES if gpu else _CPU_DEGREES), arguments.dofs or DOFS[gpu][-1:]
    if len(sizes) > 1:
        raise FemgpuError(f"bench tets --dofs {' '.join(f'{size:g}' for size in sizes)}: expected one number")
    given = arguments.schedules or ("auto",), arguments.ways or ("default",), arguments.precision or "double"
    return tets.run(chosen, degrees, sizes[0], *given, plans=int(arguments.plans or 0))


def _ufl(chosen: Runtime, arguments: Namespace) -> ufl_forms.Result:
    gpu, cells, problems = chosen.device.is_gpu, arguments.cell or tuple(ufl_forms.CELLS), arguments.problems or tuple(UFL_FORMS)
    _check_words("ufl", cell=(cells, ufl_forms.CELLS), problems=(problems, UFL_FORMS))
    degrees, count = arguments.degrees or (None if gpu else _CPU_DEGREES), arguments.cells or (None if gpu else _UFL_CELLS)
    given = problems, arguments.precision or "double", arguments.tuned, arguments.exhaustive
    # Of a run that is stopped there is what it measured so far.
    folder = check_folder(arguments.out)
    return ufl_forms.run(
        chosen, cells, degrees, count, *given, keep=lambda result: write_report(result, chosen.device, folder, picture=False)
    )
