"""Actions of forms that workloads time: what they give beside the numpy twin, how long they take, other plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from femgpu.errors import BuildError, DeviceError, PlanError
from femgpu.operators import FormOperator, twin
from femgpu.operators.planner import Planner
from femgpu.operators.ways import Candidate
from femgpu.runtime.rates import launch_seconds

# How far an action may be from the numpy twin's, relative to its largest entry.
TOLERANCE = {"double": 1e-12, "rounded": 1e-6, "single": 1e-4, "mixed": 1e-4}


@contextmanager
def noted(refusals: list[str], what: Any) -> Iterator[None]:
    """Plans that the device or its compiler refuses end the block, with a line among the refusals, and nothing else."""
    try:
        yield
    except (PlanError, BuildError, DeviceError) as refusal:
        refusals.append(f"{what}: {refusal}")


def result(operator: FormOperator, direction: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_local,) the action on an L-vector, in float64."""
    operator.update()
    operator.runtime.write(operator.w, direction.astype(operator.scalar))
    operator.action()
    return operator.runtime.read(operator.out, np.empty(operator.num_local, operator.scalar)).astype(float)


def cell_error(
    operator: FormOperator,
    cell: int,
    near: npt.NDArray[np.int32],
    vectors: Mapping[str, npt.NDArray[np.float64]],
    found: npt.NDArray[np.float64],
) -> float:
    """The largest difference to the twin at the dofs of a cell, to which its neighbours add.

    Args:
        operator: of a form with one term.
        cell: the cell.
        near: all cells that share a dof with it, itself among them.
        vectors: L-vectors of direction `w` and state `u`.
        found: (num_local,) the action.
    """
    (term,) = operator.terms
    assert term.integral.action is not None
    part = term.part(near)
    values = twin.element_vectors(part, term.integral.action, vectors, operator.form.constant_values())
    dofs, mine = part.dofs(), term.part(np.array([cell], np.int32)).dofs()[0]
    places, entries = np.unique(dofs, return_inverse=True)
    sums = np.bincount(entries.ravel(), values.ravel(), minlength=len(places))
    return float(np.abs(sums[np.searchsorted(places, mine)] - found[mine]).max())


def seconds(operator: FormOperator) -> npt.NDArray[np.float64]:
    """Times of the action, once computed: zeroing, kernels, sums; see `launch_seconds`."""
    runtime, (application, *_) = operator.runtime, operator.prepare("action")
    first = operator.vector_bytes if application.zeroes else operator.num_stored("action") * operator.scalar.itemsize
    zeroing = runtime.zeroing(operator.out, operator.vector_bytes, first)
    launches = operator.bind("action", operator.w, operator.out, fresh=True, zeroes=application.zeroes)
    return launch_seconds(runtime, [*zeroing, *launches])


def resources(operator: FormOperator) -> dict[str, Any]:
    """By the names of a report's columns what an item of the action's kernels takes, the most of any of them.

    None where the device's compiler says nothing of it, and of programs from a cache that keeps no logs.
    """
    found = [kernel.resources for application in operator.prepare("action") for kernel in application.kernels]
    columns = ("registers", "spill_store_bytes", "spill_load_bytes")
    return {column: max((getattr(each, column) for each in found), default=None) if all(found) else None for column in columns}


def take(operator: FormOperator, candidate: Candidate) -> None:
    """Lets the operator launch a plan in place of the one that it has chosen."""
    (term,) = operator.terms
    with mock.patch.object(Planner, "ways", return_value=[(term, term.integral.action, [candidate])]):
        choose_again(operator)


def choose_again(operator: FormOperator) -> None:
    """Lets the operator choose its plan for the action anew."""
    operator.applications.pop("action", None)
    operator.base_changed()
    operator.prepare("action")
