"""PETSc vectors as device buffers: host vectors through a staging buffer, ViennaCL vectors in place."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import log
from femgpu.errors import DataError
from femgpu.operators.device import on_device
from femgpu.runtime import Runtime


class Staging:
    """Device buffers through which host vectors pass; made once, at the first use.

    Args:
        runtime: the device.
        ranges: (num_ranks + 1,) where each rank's entries of the vectors begin.
        rank: this one.
        copies: whether `copy` is wanted.
    """

    def __init__(self, runtime: Runtime, ranges: npt.NDArray[Any], rank: int, copies: bool = False):
        self.runtime = runtime
        self.num_owned = num_owned = int(ranges[rank + 1] - ranges[rank])
        self._ranges = ranges
        self._copy = runtime.empty(8 * num_owned) if copies else None

    # Levels of multigrid never use theirs.
    @cached_property
    def _input(self) -> Any:
        return self.runtime.empty(8 * self.num_owned)

    @cached_property
    def output(self) -> Any:
        """The buffer that `writing` hands out for vectors of the host; free before and after."""
        return self.runtime.empty(8 * self.num_owned)

    def reading(self, vec: PETSc.Vec) -> Any:
        """A buffer with the vector's values.

        Raises:
            DataError: for what is no vector of this length and distribution; on all ranks.
        """
        self.check(vec)
        if on_device(vec):
            return self.runtime.wrap(vec.getCLMemHandle("r"))
        load(self.runtime, vec, self._input)
        return self._input

    def copy(self, vec: PETSc.Vec) -> Any:
        """A buffer with the vector's values that may be changed, the same at each call; raises as `reading`."""
        self.check(vec)
        load(self.runtime, vec, self._copy)
        return self._copy

    def writing(self, vec: PETSc.Vec) -> Any:
        """A buffer whose values become the vector's by `written`; raises as `reading`."""
        self.check(vec)
        return self.runtime.wrap(vec.getCLMemHandle("w")) if on_device(vec) else self.output

    def written(self, vec: PETSc.Vec) -> None:
        """Makes what the buffer of `writing` holds the vector's values."""
        if on_device(vec):
            vec.restoreCLMemHandle()
        else:
            store(self.runtime, self.output, vec)

    def check(self, vec: Any) -> None:
        """Refuses other vectors than T-vectors, see `check_vector`."""
        check_vector(vec, self._ranges)


def check_vector(vec: Any, expected: npt.NDArray[Any]) -> None:
    """Refuses what is no vector of a distribution; the same verdict on all ranks, which all know how a vector is distributed.

    Args:
        vec: what was given.
        expected: (num_ranks + 1,) where each rank's entries begin.

    Raises:
        DataError: for another type, a vector that was destroyed, and other sizes.
    """
    if not isinstance(vec, PETSc.Vec) or not vec.handle:
        what = "one that was destroyed" if isinstance(vec, PETSc.Vec) else f"of type {type(vec).__name__}"
        raise DataError(f"a vector of dofs is {what}; expected a PETSc.Vec like u.vec: u.vec.duplicate()")
    if len(expected) == 2 and vec.getLocalSize() == expected[1]:
        return
    ranges = vec.getOwnershipRanges() if vec.comm.size > 1 else np.array([0, vec.getSize()])
    if not np.array_equal(ranges, expected):
        raise DataError(
            f"a vector of {vec.getSize()} entries that begin on the ranks at {list(map(int, ranges[:-1]))}; expected "
            f"{int(expected[-1])} at {list(map(int, expected[:-1]))}, like u.vec: u.vec.duplicate()"
        )


def load(runtime: Runtime, vec: PETSc.Vec, buffer: Any) -> None:
    """Copies a vector's values into a buffer."""
    if on_device(vec):
        runtime.copy(runtime.wrap(vec.getCLMemHandle("r")), buffer, 8 * vec.getLocalSize())
        return
    with log.event("FGTransfer"):
        # The values are read without bumping the vector's state: PETSc caches norms by it.
        runtime.write(buffer, np.ascontiguousarray(vec.array_r))


def store(runtime: Runtime, buffer: Any, vec: PETSc.Vec) -> None:
    """Copies a buffer into a vector."""
    if on_device(vec):
        runtime.copy(buffer, runtime.wrap(vec.getCLMemHandle("w")), 8 * vec.getLocalSize())
        vec.restoreCLMemHandle()
        return
    with log.event("FGTransfer"):
        runtime.read(buffer, vec.array_w)
