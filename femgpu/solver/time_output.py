"""What a problem in time leaves on disk while it runs: a series of states, and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femgpu.errors import DataError, collective, file_path
from femgpu.spaces import Function, SubFunction, fields_of

# `femgpu.io` is imported where something is written: all programs would wait 0.03 s for it, most of it for Python's own XML.
if TYPE_CHECKING:
    from femgpu.io import Collection


@dataclass
class Writer:
    """Something that is written every so many steps.

    Attributes:
        every: the number of steps.
        write: called with the step and the time; collective.
        last: the step and the time that were written last.
    """

    every: int
    write: Callable[[int, float], None]
    last: tuple[int, float] | None = field(default=None)

    def __call__(self, step: int, time: float, is_last: bool) -> None:
        """Writes where it is due and was not done before; collective."""
        if (step % self.every == 0 or is_last) and self.last != (step, time):
            self.write(step, time)
            self.last = (step, time)


class Recorder:
    """The writers of one problem.

    Args:
        u: the unknown.
    """

    def __init__(self, u: Function):
        self.u = u
        self.writers: list[Writer] = []
        self._collections: list[Collection] = []
        self._restarted_at: float | None = None

    @property
    def parts(self) -> list[Function | SubFunction]:
        """The unknown, or its fields."""
        return fields_of(self.u)

    def record(self, step: int, time: float, is_last: bool) -> None:
        """Writes what is due; collective."""
        for writer in self.writers:
            writer(step, time, is_last)

    def output(self, path: str | os.PathLike[str], every: int, functions: Any) -> None:
        """Adds a series; see `TimeProblem.output`."""
        from femgpu.io import Collection
        from femgpu.io.sampling import check_functions, name_apart

        if isinstance(functions, Function | SubFunction):
            functions = [functions]
        chosen = self.parts if functions is None else [part for u in functions for part in fields_of(u)]
        name_apart(chosen)
        check_functions(chosen)
        with collective(self.u.space.mesh.mpi):
            _check_every(path, every)
            collection = Collection(file_path(path), self.u.space.mesh.mpi)
        if self._restarted_at is not None:
            collection.resume(self._restarted_at)
        self._collections.append(collection)
        self.writers.append(Writer(every, lambda step, time: collection.write(step, time, chosen)))

    def checkpoint(self, path: str | os.PathLike[str], every: int, numbers: Callable[[], dict[str, float]]) -> Writer:
        """A writer of checkpoints; see `TimeProblem.checkpoint`.

        Args:
            path: the file.
            every: the number of steps.
            numbers: gives what is kept beside u.
        """
        from femgpu.io import write_checkpoint

        with collective(self.u.space.mesh.mpi):
            _check_every(path, every)
            if file_path(path).suffix != ".h5" or not Path(path).parent.is_dir():
                raise DataError(f"checkpoint {str(path)!r}: expected a file that ends in .h5, in a folder that exists")
        return Writer(every, lambda step, time: write_checkpoint(Path(path), self.parts, numbers()))

    def restart(self, path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, float]:
        """Fills u from a checkpoint and returns its numbers; series go on from there; collective."""
        from femgpu.io import read_checkpoint

        numbers = read_checkpoint(file_path(path), self.parts, names)
        self._restarted_at = numbers["time"]
        for collection in self._collections:
            collection.resume(numbers["time"])
        return numbers


def _check_every(path: str | os.PathLike[str], every: int) -> None:
    if not isinstance(every, int) or every < 1:
        raise DataError(f"{str(file_path(path))!r} every {every!r} steps; expected an integer of at least 1")
