"""Functions to and from PETSc's HDF5 format, readable on any number of ranks.

The group /femgpu holds what PETSc does not keep beside topology, coordinates, labels, sections and vectors: the names
of the functions, for each one its degree, continuity and value shape, and numbers that a caller wants kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import DataError, collective, file_errors, file_path
from femgpu.io.files import reserve
from femgpu.mesh import Mesh
from femgpu.mesh.checksums import append_checksums
from femgpu.mesh.communicator import communicator
from femgpu.mesh.h5_file import GROUP, check_h5, h5_viewer, is_own, read_integers, write_integers
from femgpu.mesh.h5_mesh import dm_for_file, read_mesh, write_mesh
from femgpu.mesh.restriction import FieldShape, set_fields
from femgpu.spaces import Function, FunctionSpace, SubFunction
from femgpu.spaces.field import copy_nodes

_KINDS = f"{GROUP}/functions"
_NUMBERS = f"{GROUP}/numbers"
# Names stand several times in paths, which PETSc cuts.
_NAME_BYTES = 255


def write_h5(path: Path, functions: Sequence[Function | SubFunction], numbers: Mapping[str, float] | None = None) -> None:
    """Writes functions of one mesh, the mesh and its labels, and checksums of it all; collective.

    Args:
        path: the file.
        functions: what to write; fields of mixed functions become functions of their own.
        numbers: what to keep beside them.

    Raises:
        DataError: on all ranks, when PETSc has no HDF5, names cannot stand in such files, or the file cannot be written.
    """
    mesh = functions[0].space.mesh
    mesh.update()
    dm = dm_for_file(mesh)
    for u in functions:
        if "/" in u.name or u.name == "." or len(u.name.encode()) > _NAME_BYTES:
            raise DataError(
                f"function name {u.name!r} cannot stand in an .h5 file; expected one without slashes, other than '.', of at most "
                f"{_NAME_BYTES} bytes: Function(V, name=...)"
            )
    with _replacing(path, _bytes_at_most(dm, functions), mesh) as viewer:
        write_mesh(viewer, mesh, dm)
        write_integers(viewer, "names", np.frombuffer("\n".join(u.name for u in functions).encode(), np.uint8))
        for name, number in (numbers or {}).items():
            # Integers are what an index set can hold, without a bit lost.
            write_integers(viewer, name, np.array([number], np.float64).view(np.int32), _NUMBERS)
        for u in functions:
            _write_function(viewer, dm, u)


def read_h5(
    path: str | os.PathLike[str], names: Sequence[str] | None = None, comm: PETSc.Comm | None = None
) -> tuple[PETSc.DMPlex, dict[str, Function]]:
    """Reads what `write` put into an .h5 file, on any number of ranks; collective.

    Args:
        path: the file.
        names: which functions, default all.
        comm: a communicator of PETSc or mpi4py, default PETSC_COMM_WORLD.

    Returns:
        The distributed mesh with its labels, and the functions by name, each in a space of its own on that mesh
        (functions of the same degree, continuity and shape share one).

    Raises:
        DataError: on all ranks, when the file is missing, is not HDF5, is damaged, was not written by `write`, or lacks a
            function.
    """
    if names is not None and (not isinstance(names, list | tuple | set) or not all(isinstance(name, str) for name in names)):
        raise DataError(f"names of type {type(names).__name__}; expected a list of names: mesh, functions = read_h5(path, ['u'])")
    comm = communicator(comm)
    file = file_path(path)
    with _reading(file, comm) as viewer:
        held = read_integers(viewer, "names", comm).astype(np.uint8).tobytes().decode().split("\n")
        wanted = held if names is None else list(names)
        if missing := [name for name in wanted if name not in held]:
            raise DataError(f"{str(file)!r} holds no function {', '.join(missing)}; it holds {', '.join(held)}")
        dm, sf = read_mesh(viewer, comm)
        spaces: dict[tuple[int, ...], FunctionSpace] = {}
        return dm, {name: _read_function(viewer, dm, sf, name, spaces) for name in wanted}


def read_numbers(path: Path, names: Sequence[str], comm: PETSc.Comm) -> dict[str, float]:
    """Reads numbers that `write_h5` kept beside the functions; collective.

    Raises:
        DataError: on all ranks, when the file is missing, is not HDF5, is damaged, or lacks a number.
    """
    with _reading(path, comm) as viewer:
        try:
            found = [read_integers(viewer, name, comm, _NUMBERS) for name in names]
        except PETSc.Error as error:
            raise DataError(f"{str(path)!r} holds no {', '.join(names)}; expected a checkpoint of a problem in time") from error
    return {name: float(entry.astype(np.int32).view(np.float64)[0]) for name, entry in zip(names, found, strict=True)}


@contextmanager
def _replacing(path: Path, num_bytes: int, mesh: Mesh) -> Iterator[PETSc.ViewerHDF5]:
    """A viewer of a temporary file beside `path`, which becomes `path` when the block succeeds; collective.

    HDF5 does not outlive a full disk: it crashes when it closes the file, or some ranks wait for others. So the room is reserved
    before. HDF5 gives back what it cuts off, when it makes a file and when it closes one: the file is made, lengthened, and then
    opened to add to it.

    Args:
        path: the file.
        num_bytes: its size at most.
        mesh: whose ranks write it.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        _reserve(temporary, path, num_bytes, mesh)
        with h5_viewer(temporary, "w", mesh.comm):
            pass
        _reserve(temporary, path, num_bytes, mesh)
        with h5_viewer(temporary, "a", mesh.comm) as viewer:
            yield viewer
        append_checksums(temporary, mesh.mpi)
        with collective(mesh.mpi), file_errors(path, "write"):
            if mesh.mpi.rank == 0:
                os.replace(temporary, path)
    finally:
        if mesh.mpi.rank == 0:
            temporary.unlink(missing_ok=True)


def _reserve(temporary: Path, path: Path, num_bytes: int, mesh: Mesh) -> None:
    with collective(mesh.mpi), file_errors(path, "write"):
        if mesh.mpi.rank == 0:
            reserve(temporary, num_bytes)


def _bytes_at_most(dm: PETSc.DMPlex, functions: Sequence[Function | SubFunction]) -> int:
    """An upper bound of the size of the file; collective.

    Measured: besides numbers, entries of cones with their orientations, and of labels, there are five integers in each section for
    each point of the mesh, and 4 kB for each stratum of a label, 30 kB for a function, 50 kB for the rest in groups and heads.
    """
    mpi = dm.comm.tompi4py()
    start, end = dm.getChart()
    labels = {name: dm.getLabel(name) for name in map(dm.getLabelName, range(dm.getNumLabels()))}
    strata = {
        (name, value): label.getStratumSize(value) for name, label in labels.items() for value in label.getValueIS().getIndices()
    }
    coordinates = [vec for vec in (dm.getCoordinatesLocal(), dm.getCellCoordinatesLocal()) if vec]
    reals = sum(vec.getLocalSize() for vec in coordinates) + sum(u.space.num_local for u in functions)
    sections = len(coordinates) + len(functions)
    integers = 5 * sections * (end - start) + 2 * len(petsc_c.cones(dm, start, end)) + sum(strata.values())
    num_strata = len(set().union(*mpi.allgather(set(strata))))
    heads = 50_000 + 30_000 * len(functions) + 4_000 * num_strata
    return int(1.25 * (mpi.allreduce(8 * reals + 4 * integers) + heads))


@contextmanager
def _reading(path: Path, comm: PETSc.Comm) -> Iterator[PETSc.ViewerHDF5]:
    """A viewer of a file that femgpu wrote; collective."""
    check_h5(path, comm.tompi4py())
    with h5_viewer(path, "r", comm) as viewer:
        if not is_own(viewer):
            raise DataError(f"{str(path)!r} has no group {GROUP}; expected a file that femgpu.write made")
        yield viewer


def _write_function(viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, u: Function | SubFunction) -> None:
    """Writes the L-vector with a section of the one field that constrains nothing, whatever the section of u's own DM does."""
    space = u.space
    kind = [space.field.degree, int(space.field.continuous), *space.value_shape]
    write_integers(viewer, u.name, np.array(kind), _KINDS)
    section_dm = space.mesh.clone_dm()
    shape = FieldShape(u.name, space.field.degree, space.field.continuous, space.num_comp)
    [offsets], num_local = set_fields(space.mesh, section_dm, [shape])
    section_dm.setName(u.name)
    values = np.zeros(num_local)
    copy_nodes(u.local_array(), space.field.offsets, values, offsets, space.num_comp)
    local = section_dm.createLocalVec()
    local.setArray(values)  # type: ignore[arg-type]
    local.setName(u.name)
    dm.sectionView(viewer, section_dm)
    dm.localVectorView(viewer, section_dm, local)


def _read_function(
    viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, sf: PETSc.SF, name: str, spaces: dict[tuple[int, ...], FunctionSpace]
) -> Function:
    kind = tuple(int(entry) for entry in read_integers(viewer, name, dm.comm, _KINDS))
    degree, continuous, *shape = kind
    if kind not in spaces:
        spaces[kind] = FunctionSpace(dm, "Lagrange" if continuous else "DG", degree, shape=tuple(shape))
    u = Function(spaces[kind], name=name)
    u.set_local(_read_local(viewer, dm, sf, name))
    return u


def _read_local(viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, sf: PETSc.SF, name: str) -> NDArray[np.float64]:
    """(num_local,) values; sections are numbered along the points, so this is the L-vector of an equal space here."""
    section_dm = dm.clone()
    section_dm.setName(name)
    _, local_sf = dm.sectionLoad(viewer, section_dm, sf)
    local = section_dm.createLocalVec()
    local.setName(name)
    dm.localVectorLoad(viewer, section_dm, local_sf, local)
    return np.array(local.array_r, np.float64)
