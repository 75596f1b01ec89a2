"""Runs scripts for the sake of what stays: kernels of the first problem in the kernel cache, plans that are measured.

For kernels a script runs up to its first solve; what it assembles, integrates and projects before that is done, kernels and all.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from mpi4py import MPI

from femgpu import options
from femgpu.caches import cache_folder
from femgpu.errors import DataError, collective
from femgpu.runtime import Runtime, for_comm, process
from femgpu.solver import LinearProblem, NonlinearProblem, TimeProblem, projection
from femgpu.tune import export_winners, import_winners, winners


class _Built(BaseException):
    """Ends the script once the kernels of its first problem are built; no `except Exception` of a script stops it."""


class _Projection(LinearProblem):
    """Is solved, so that the script goes on."""

    solve = LinearProblem.solve


def warm_up(script: str, arguments: Sequence[str]) -> str:
    """Runs a script up to its first `solve` of a problem, where all its kernels are built instead, or to the end.

    Args:
        script: path of the script.
        arguments: its command line, PETSc's options included.

    Returns:
        A line about what was built.

    Raises:
        DataError: when there is no such script, or it ends without using a kernel.
        FemgpuError: what the script raises.
    """
    path = Path(script)
    if not path.is_file():
        raise DataError(f"warmup {script!r}: no such file; expected a Python script that uses femgpu")
    try:
        with running(path, arguments), ExitStack() as patches:
            for kind in (NonlinearProblem, TimeProblem):
                patches.enter_context(mock.patch.object(kind, "solve", _build))
            patches.enter_context(mock.patch.object(projection, "LinearProblem", _Projection))
            runpy.run_path(str(path), run_name="__main__")
        end = "; the script ended without a solve"
    except _Built:
        end = ""
    runtime = process.started()
    if runtime is None or not runtime.programs.num_programs:
        raise DataError(f"warmup {script!r}: the script ended without a solve, an integral or a matrix; nothing is built")
    return _report(runtime) + end


def tune(script: str, arguments: Sequence[str], taken: str = "", export: str = "") -> Iterator[str]:
    """Runs a script, whose options are in PETSc's database already; collective on MPI_COMM_WORLD.

    Args:
        script: path of the script; empty: none.
        arguments: its command line.
        taken: file whose winners are stored before; empty: none.
        export: file that all winners of the device are written to after; empty: none.

    Yields:
        Lines about what was done.

    Raises:
        DataError: when there is no such script, and for files that do not serve.
        FemgpuError: what the script raises.
    """
    comm, path = MPI.COMM_WORLD, Path(script)
    settings = options.read()  # options that nobody has read PETSc would report after an error
    if script and not path.is_file():
        raise DataError(f"tune {script!r}: no such file; expected a Python script that uses femgpu")
    if taken:
        device = for_comm(settings.device, comm).device
        yield f"{_by_first(comm, lambda: import_winners(Path(taken), device.kind))} plans taken from {taken} for {device}"
    if script:
        with running(path, arguments):
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as end:
                if end.code:
                    raise
    device = for_comm(options.read().device, comm).device
    if script:
        count = _by_first(comm, lambda: len(winners(device.kind)))
        yield f"{count} plans are kept for {device} in {cache_folder() or 'no folder, as FEMGPU_CACHE_DIR=0 turns the cache off'}"
    if export:
        yield f"{_by_first(comm, lambda: export_winners(Path(export), device.kind))} plans written to {export}"


def _by_first(comm: Any, do: Callable[[], int]) -> int:
    """What the first rank does, and finds."""
    with collective(comm):
        found = do() if comm.rank == 0 else 0
    return int(comm.bcast(found))


def _build(problem: NonlinearProblem, *args: Any, **kwargs: Any) -> NoReturn:
    problem.build()
    raise _Built


@contextmanager
def running(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """What Python sets up for a script: its command line, and its folder on the search path."""
    with mock.patch.object(sys, "argv", [str(path), *arguments]):
        with mock.patch.object(sys, "path", [str(path.resolve().parent), *sys.path]):
            yield


def _report(runtime: Runtime) -> str:
    folder = cache_folder()
    if runtime.device.caches_programs:
        where = "kept by the driver"
    else:
        where = f"kept in {folder}" if folder else "kept nowhere, because FEMGPU_CACHE_DIR=0 turns the cache off"
    loaded = runtime.programs.num_programs - runtime.programs.num_compiled
    return f"{runtime.programs.num_compiled} programs built, {loaded} found in the cache; {where} for {runtime.device}"
