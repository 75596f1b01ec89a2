"""Builds the kernels of a script's first problem without solving it; later runs find them in the kernel cache.

What the script assembles, integrates and projects before that is done, kernels and all.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from femgpu.caches import cache_folder
from femgpu.errors import DataError
from femgpu.runtime import Runtime, process
from femgpu.solver import LinearProblem, NonlinearProblem, TimeProblem, projection


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
