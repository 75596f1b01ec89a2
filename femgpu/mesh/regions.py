"""Regions: the points of a DMPlex that labels mark, by value or by the name of the label, as bulk arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import MeshError, meet, whole_arrays
from femgpu.mesh.geometry import chunks
from femgpu.mesh.shared_points import shared_points
from femgpu.mesh.topology import cone_places, point_types

# A name, a value of a default label, several of one kind, or (label, value or values).
Region = str | int | tuple[str, ...] | tuple[int, ...] | tuple[str, Any]

BOUNDARY = "boundary"
CELL_LABEL = "Cell Sets"
FACET_LABEL = "Face Sets"
EDGE_LABEL = "Edge Sets"
VERTEX_LABEL = "Vertex Sets"
_INTERNAL_LABELS = {"depth", "celltype", "dim"}
# What no region can be called: PETSc's labels, and words of UFL and femgpu.
RESERVED = _INTERNAL_LABELS | {CELL_LABEL, FACET_LABEL, EDGE_LABEL, VERTEX_LABEL, BOUNDARY, "everywhere", "otherwise", "."}


class Part(NamedTuple):
    """Points with some values of a label.

    Attributes:
        label: name of the label, or `BOUNDARY` for the facets of the whole boundary.
        values: the values; None for all.
    """

    label: str
    values: tuple[int, ...] | None = None


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
    facet = petsc_c.cones(dm, start, end)
    single, chart = np.bincount(facet, minlength=last) == 1, dm.getChart()[0]
    single[first:last] &= ~shared[first - chart : last - chart]
    # In chunks: indices become 64 bit wide where numpy takes them.
    where = np.concatenate([part.start + np.flatnonzero(single[facet[part]]) for part in chunks(len(facet))])
    where = where[np.argsort(facet[where], kind="stable")]
    cells, places = cone_places(point_types(dm, start, end), where)
    return ExteriorFacets(facet[where], cells.astype(np.int32), places.astype(np.int32))


def labels(dm: PETSc.DMPlex, mpi: Any) -> dict[str, list[int]]:
    """The labels of the mesh and their values over all ranks; collective."""
    here = {}
    for i in range(dm.getNumLabels()):
        name = dm.getLabelName(i)
        if name not in _INTERNAL_LABELS:
            here[name] = [int(value) for value in dm.getLabelIdIS(name).getIndices() if dm.getStratumSize(name, value)]
    meet(mpi)
    merged: dict[str, set[int]] = {}
    for table in mpi.allgather(here):
        for name, values in table.items():
            merged.setdefault(name, set()).update(values)
    return {name: sorted(values) for name, values in merged.items()}


def region_points(
    dm: PETSc.DMPlex, mpi: Any, exterior: ExteriorFacets, region: Region, label: str = FACET_LABEL
) -> npt.NDArray[np.int32]:
    """Points of this rank in a region; collective.

    Args:
        dm: the DMPlex.
        mpi: its mpi4py communicator.
        exterior: its exterior facets.
        region: see `parse_region`.
        label: the label whose values plain numbers are.

    Returns:
        (num,) sorted unique points, int32.

    Raises:
        MeshError: on all ranks, for what is no region, or when no rank has the label or one of the values.
    """
    known = labels(dm, mpi)
    found = [np.empty(0, np.int32)]
    for part in parse_region(region, label):
        if part.label == BOUNDARY and part.values is None:
            _check_boundary(dm, mpi, exterior, known)
            found.append(exterior.points)
            continue
        _check_part(part, known)
        values = known[part.label] if part.values is None else part.values
        found += [dm.getStratumIS(part.label, value).getIndices() for value in values if dm.getStratumSize(part.label, value)]
    return np.unique(np.concatenate(found)).astype(np.int32)


def _check_part(part: Part, known: dict[str, list[int]]) -> None:
    missing = [value for value in part.values or () if value not in known.get(part.label, ())]
    if part.label in known and not missing:
        return
    if part.label in known:
        what = f"value {', '.join(map(str, missing))} in label {part.label!r}"
    else:
        what = f"{'region' if part.values is None else 'label'} {part.label!r}"
    listing = "; ".join(f"{name!r}: {_brief(entries)}" for name, entries in sorted(known.items())) or "no labels"
    raise MeshError(
        f"the mesh has no {what}; it has {listing}. Use one of these, or mark the region: by a physical group in gmsh (its name "
        "counts, and its number in 'Cell Sets' or 'Face Sets'), or by femgpu.mesh.mark(dm, name, where)"
    )


def _check_boundary(dm: PETSc.DMPlex, mpi: Any, exterior: ExteriorFacets, known: dict[str, list[int]]) -> None:
    """Refuses the word for the whole boundary where the mesh calls another part of it so."""
    if BOUNDARY not in known:
        return
    strata = [dm.getStratumIS(BOUNDARY, value).getIndices() for value in known[BOUNDARY] if dm.getStratumSize(BOUNDARY, value)]
    marked = np.unique(np.concatenate([np.empty(0, np.int32), *strata]))
    first, last = dm.getHeightStratum(1)
    if mpi.allreduce(int(not np.array_equal(marked[(marked >= first) & (marked < last)], exterior.points))):
        raise MeshError(
            f"{BOUNDARY!r} stands for the whole boundary, but the mesh has a label {BOUNDARY!r} that marks other facets; write "
            f"{(BOUNDARY, tuple(known[BOUNDARY]))} for these, or rename the label"
        )


def labelled_cells(dm: PETSc.DMPlex, mpi: Any, points: npt.NDArray[np.int32], region: Region) -> npt.NDArray[np.int32]:
    """Those of a region's points that are cells, counted from 0; collective.

    Raises:
        MeshError: on all ranks, when there are none.
    """
    start, end = dm.getHeightStratum(0)
    cells = points[(points >= start) & (points < end)] - np.int32(start)
    if mpi.allreduce(len(cells)) == 0:
        raise MeshError(f"the region {region!r} marks no cells; expected a label on cells such as {CELL_LABEL!r}")
    return cells


def labelled_facets(mpi: Any, exterior: ExteriorFacets, points: npt.NDArray[np.int32], region: Region) -> npt.NDArray[np.int64]:
    """Positions in the table of exterior facets of those among a region's points; collective.

    Raises:
        MeshError: on all ranks, when there are none; but the whole boundary may be empty, as that of a periodic box.
    """
    found = np.flatnonzero(np.isin(exterior.points, points, assume_unique=True))
    if mpi.allreduce(len(found)) == 0 and region != BOUNDARY:
        raise MeshError(
            f"the region {region!r} marks no facet of the boundary; expected a label on exterior facets such as {FACET_LABEL!r}: "
            "integrals over facets between two cells are written dS"
        )
    return found


def parse_region(region: Region, label: str = FACET_LABEL) -> tuple[Part, ...]:
    """Splits a region into labels and values.

    Args:
        region: "boundary", the name of a label (all of its values), a value of the default label, a tuple of several names or of
            several values, or (label name, value or values).
        label: the default label.

    Returns:
        The parts that the region is the union of.

    Raises:
        MeshError: for anything else.
    """
    if isinstance(region, str) and region:
        return (Part(region),)
    if _is_int(region):
        return (Part(label, (int(region),)),)  # type: ignore[arg-type]
    if isinstance(region, tuple | list) and region:
        if all(map(_is_int, region)):
            return (Part(label, tuple(map(int, region))),)  # type: ignore[arg-type]
        if all(isinstance(entry, str) and entry for entry in region):
            return tuple(Part(str(name)) for name in region)
        if len(region) == 2 and isinstance(region[0], str):
            values = (region[1],) if _is_int(region[1]) else region[1]
            if isinstance(values, tuple | list) and values and all(map(_is_int, values)):
                return (Part(str(region[0]), tuple(map(int, values))),)
    raise MeshError(
        f"region {region!r}: expected 'boundary', a region's name, a value of the label {label!r}, a tuple of several names or "
        "values, or (label name, values)"
    )


def choose(where: Callable[..., Any], points: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which points a user's function of x chooses.

    Args:
        where: function of x (dim, num_points); returns (num_points,) booleans, or one for all.
        points: (num_points, dim).

    Returns:
        (num_points,).

    Raises:
        MeshError: when it is no function, or returns anything else.
    """
    if not callable(where):
        raise MeshError(f"a region is chosen by {where!r}; expected a function of x, for example lambda x: x[0] < 1e-9")
    with whole_arrays("the function that chooses a region", MeshError):
        chosen = np.asarray(where(np.ascontiguousarray(points.T)))
    if chosen.dtype != bool or chosen.shape not in ((), (len(points),)):
        raise MeshError(
            f"the function that chooses a region returned {chosen.dtype} of shape {chosen.shape}; expected booleans of shape "
            f"{(len(points),)}, one per point, for example lambda x: x[0] < 1e-9"
        )
    return np.broadcast_to(chosen, (len(points),))


def copy_labels(source: PETSc.DMPlex, target: PETSc.DMPlex, names: Mapping[str, str]) -> None:
    """Copies labels from a DM to one with the same points.

    Args:
        source: the DM.
        target: the other, a clone or the DM itself.
        names: of the labels there and here, in one order on all ranks; a rank may lack some.
    """
    for name, new in names.items():
        if not target.hasLabel(new):
            target.createLabel(new)
        label = target.getLabel(new)
        for value in source.getLabelIdIS(name).getIndices() if source.hasLabel(name) else ():
            label.insertIS(source.getStratumIS(name, value), value)


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _brief(values: Any, limit: int = 20) -> str:
    shown = ", ".join(map(str, list(values)[:limit]))
    return ("value " if len(values) == 1 else "values ") * bool(len(values)) + (shown or "empty") + " ..." * (len(values) > limit)
