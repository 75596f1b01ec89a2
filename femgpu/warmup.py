"""Builds the kernels of a script's first problem without solving it; later runs find them in the kernel cache."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from femgpu.caches import cache_folder
from femgpu.errors import DataError
from femgpu.solver import NonlinearProblem


class _Built(BaseException):
    """Ends the script once the kernels of its first problem are built; no `except Exception` of a script stops it."""

    def __init__(self, problem: NonlinearProblem):
        self.problem = problem


def warm_up(script: str, arguments: Sequence[str]) -> str:
    """Runs a script up to its first `solve`, where all kernels of the problem are built instead.

    Args:
        script: path of the script.
        arguments: its command line, PETSc's options included.

    Returns:
        A line about what was built.

    Raises:
        DataError: when there is no such script, or it ends without solving anything.
        FemgpuError: what the script raises.
    """
    path = Path(script)
    if not path.is_file():
        raise DataError(f"warmup {script!r}: no such file; expected a Python script that solves a NonlinearProblem")
    try:
        with running(path, arguments), mock.patch.object(NonlinearProblem, "solve", _build):
            runpy.run_path(str(path), run_name="__main__")
    except _Built as built:
        return _report(built.problem)
    raise DataError(f"warmup {script!r}: the script ended without a call of NonlinearProblem.solve; nothing is built")


def _build(problem: NonlinearProblem, *args: Any, **kwargs: Any) -> NoReturn:
    problem.build()
    raise _Built(problem)


@contextmanager
def running(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """What Python sets up for a script: its command line, and its folder on the search path."""
    with mock.patch.object(sys, "argv", [str(path), *arguments]):
        with mock.patch.object(sys, "path", [str(path.resolve().parent), *sys.path]):
            yield


def _report(problem: NonlinearProblem) -> str:
    runtime, folder = problem.runtime, cache_folder()
    if runtime.device.caches_programs:
        where = "kept by the driver"
    else:
        where = f"kept in {folder}" if folder else "kept nowhere, because FEMGPU_CACHE_DIR=0 turns the cache off"
    loaded = runtime.programs.num_programs - runtime.programs.num_compiled
    return f"{runtime.programs.num_compiled} programs built, {loaded} found in the cache; {where} for {runtime.device}"
