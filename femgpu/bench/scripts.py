"""Runs scripts as they are, but for their mesh and their solves: kernels are built, nothing is solved or printed."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from petsc4py import PETSc

from femgpu import mesh, warmup
from femgpu.solver import NonlinearProblem, TimeProblem


def build_kernels(words: Sequence[str], cell: str, degree: int) -> str:
    """Runs a script on a small box of this rank's own, where its problems build their kernels in place of solving.

    One cell of a box of quadrilaterals or hexahedra is not affine.

    Args:
        words: path of the script and its options.
        cell: type of the box's cells.
        degree: for `-petscspace_degree`; one that the options name is added to it less one.

    Returns:
        What the script said where it ended in an error; empty where it did not.
    """
    path, dm, said = Path(words[0]), _box(cell), io.StringIO()
    managers: list[contextlib.AbstractContextManager[Any]] = [
        mock.patch.object(mesh, "create", lambda *args, **kwargs: dm),
        # Collective over all ranks, each of which may have another number of runs.
        mock.patch("femgpu.start", lambda *args, **kwargs: None),
        mock.patch.object(NonlinearProblem, "solve", _build),
        mock.patch.object(TimeProblem, "solve", _build),
        _options(words[1:], degree),
        warmup.running(path, words[1:]),
        _quiet(),
        contextlib.redirect_stderr(said),
    ]
    try:
        with contextlib.ExitStack() as stack:
            for manager in managers:
                stack.enter_context(manager)
            runpy.run_path(str(path), run_name="__main__")
    except (Exception, SystemExit) as error:
        return said.getvalue().strip() or repr(error)
    finally:
        gc.collect()
    return ""


def _build(problem: NonlinearProblem, *args: Any, **kwargs: Any) -> Any:
    """In place of `solve`: all targets, also those that the script's options leave out."""
    problem.operator.local.build()
    return problem.u


def _box(cell: str) -> PETSc.DMPlex:
    """Two cells in each direction; a moved corner bends one where the map is not affine by itself."""
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    dm = mesh.box((2,) * dim, cell=cell, comm=PETSc.COMM_SELF)
    coordinates = dm.getCoordinatesLocal()
    points = coordinates.getArray(readonly=True).reshape(-1, dim).copy()
    points[np.all(points == 1.0, axis=1)] += 0.125
    coordinates.setArray(points.ravel())
    dm.setCoordinatesLocal(coordinates)
    return dm


@contextlib.contextmanager
def _options(words: Sequence[str], degree: int) -> Iterator[None]:
    """Options for the time of the block; those that a script sets go with them."""
    database = PETSc.Options()
    before = database.getAll()
    database.insertString(" ".join(words))
    database.setValue("petscspace_degree", database.getInt("petscspace_degree", 1) + degree - 1)
    try:
        yield
    finally:
        for name in database.getAll():
            database.delValue(name)
        for name, value in before.items():
            database.setValue(name, value)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing reaches standard output, not even from PETSc."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
