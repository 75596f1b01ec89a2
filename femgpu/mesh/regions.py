"""Parts of a mesh: cells by label, exterior facets by label, as bulk arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import MeshError
from femgpu.mesh.shared_points import shared_points
from femgpu.mesh.topology import cone_offsets, point_types

Region = str | int | tuple[int, ...] | tuple[str, Any]

CELL_LABEL = "Cell Sets"
FACET_LABEL = "Face Sets"
_INTERNAL_LABELS = {"depth", "celltype", "dim"}


class ExteriorFacets(NamedTuple):
    """The facets on the boundary of the whole mesh that this rank integrates over, by increasing point number.

    Attributes:
        points: (num,) DMPlex points, int32.
        cells: (num,) the cell of each, int32.
        local_facets: (num,) its number within the cone of the cell, int32.
    """

    points: npt.NDArray[np.int32]
    cells: npt.NDArray[np.int32]
    local_facets: npt.NDArray[np.int32]


def exterior_facets(dm: PETSc.DMPlex) -> ExteriorFacets:
    """Finds the facets that belong to one cell only, counting the cells of all ranks; collective."""
    start, end = dm.getHeightStratum(0)
    first, last = dm.getHeightStratum(1)
    shared = shared_points(dm)
    if end <= start:
        empty = np.empty(0, np.int32)
        return ExteriorFacets(empty, empty, empty)
    facet = petsc_c.cones(dm, start, end) - np.int32(first)
    offsets = cone_offsets(point_types(dm, start, end))
    single = np.bincount(facet, minlength=last - first) == 1
    chart = dm.getChart()[0]
    single &= ~shared[first - chart : last - chart]
    where = np.flatnonzero(single[facet])
    where = where[np.argsort(facet[where], kind="stable")]
    cells = np.searchsorted(offsets, where, side="right") - 1
    return ExteriorFacets(facet[where] + np.int32(first), cells.astype(np.int32), (where - offsets[cells]).astype(np.int32))


def labels(dm: PETSc.DMPlex, mpi: Any) -> dict[str, list[int]]:
    """The labels of the mesh and their values over all ranks; collective."""
    here = {}
    for i in range(dm.getNumLabels()):
        name = dm.getLabelName(i)
        if name not in _INTERNAL_LABELS:
            here[name] = [int(value) for value in dm.getLabelIdIS(name).getIndices() if dm.getStratumSize(name, value)]
    merged: dict[str, set[int]] = {}
    for table in mpi.allgather(here):
        for name, values in table.items():
            merged.setdefault(name, set()).update(values)
    return {name: sorted(values) for name, values in merged.items()}


def labelled_points(dm: PETSc.DMPlex, mpi: Any, label: str, values: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Points of this rank with any of the values; collective.

    Args:
        dm: the DMPlex.
        mpi: its mpi4py communicator.
        label: name of the label.
        values: the values.

    Returns:
        (num,) sorted unique points, int32.

    Raises:
        MeshError: on all ranks, when no rank has the label or one of the values.
    """
    known = labels(dm, mpi)
    missing = [value for value in values if value not in known.get(label, ())]
    if label not in known or missing:
        what = f"label {label!r}" if label not in known else f"value {', '.join(map(str, missing))} in label {label!r}"
        listing = "; ".join(f"{name!r}: {_brief(entries)}" for name, entries in sorted(known.items())) or "no labels"
        raise MeshError(
            f"the mesh has no {what}; it has {listing}. Use one of these, or mark the region in the mesh "
            "(a physical group in gmsh becomes 'Cell Sets' or 'Face Sets')"
        )
    strata = [dm.getStratumIS(label, value).getIndices() for value in values if dm.getStratumSize(label, value)]
    return np.unique(np.concatenate([np.empty(0, np.int32), *strata])).astype(np.int32)


def labelled_cells(dm: PETSc.DMPlex, mpi: Any, label: str, values: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Cells of this rank with any of the values, counted from 0; collective. Raises as `labelled_points` does."""
    start, end = dm.getHeightStratum(0)
    points = labelled_points(dm, mpi, label, values)
    cells = points[(points >= start) & (points < end)] - np.int32(start)
    if mpi.allreduce(len(cells)) == 0:
        raise MeshError(f"label {label!r} with {_brief(values)} marks no cells; expected a label on cells such as {CELL_LABEL!r}")
    return cells


def labelled_facets(
    dm: PETSc.DMPlex, mpi: Any, exterior: ExteriorFacets, label: str, values: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Positions in the table of exterior facets of those with any of the values; collective. Raises as `labelled_points` does."""
    points = labelled_points(dm, mpi, label, values)
    found = np.flatnonzero(np.isin(exterior.points, points, assume_unique=True))
    if mpi.allreduce(len(found)) == 0:
        raise MeshError(
            f"label {label!r} with {_brief(values)} marks no facet of the boundary; expected a label on exterior facets "
            f"such as {FACET_LABEL!r}: interior facets are not supported"
        )
    return found


def parse_region(region: Region) -> tuple[str, tuple[int, ...]] | None:
    """Splits a region of the boundary into label and values.

    Args:
        region: "boundary", a value or a tuple of values of `FACET_LABEL`, or (label name, value or values).

    Returns:
        The label and its values; None for the whole boundary.

    Raises:
        MeshError: for anything else.
    """
    if isinstance(region, str) and region == "boundary":
        return None
    if _is_int(region):
        return FACET_LABEL, (int(region),)  # type: ignore[arg-type]
    if isinstance(region, tuple | list) and len(region) == 2 and isinstance(region[0], str):
        values = (region[1],) if _is_int(region[1]) else region[1]
        if isinstance(values, tuple | list) and values and all(map(_is_int, values)):
            return region[0], tuple(int(value) for value in values)
    elif isinstance(region, tuple | list) and region and all(map(_is_int, region)):
        return FACET_LABEL, tuple(int(value) for value in region)  # type: ignore[arg-type]
    raise MeshError(
        f"region {region!r}: expected 'boundary', a value or a tuple of values of the label {FACET_LABEL!r}, "
        "or (label name, values)"
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _brief(values: Any, limit: int = 20) -> str:
    shown = ", ".join(map(str, list(values)[:limit]))
    return f"values {shown}" + (" ..." if len(values) > limit else "")
