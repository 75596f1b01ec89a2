"""Functions to and from PETSc's HDF5 format, readable on any number of ranks.

The group /femgpu holds what PETSc does not keep beside topology, coordinates, labels, sections and vectors: the names
of the functions, for each one its degree, family, symmetry and value shape, and numbers that a caller wants kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from petsc4py import PETSc

from femgpu.errors import DataError, file_path
from femgpu.io.h5_layout import MeshLayout
from femgpu.io.h5_writer import replacing
from femgpu.mesh.communicator import communicator
from femgpu.mesh.h5_file import GROUP, check_h5, h5_viewer, is_own, read_integers
from femgpu.mesh.h5_mesh import dm_for_file, geometry_numbers, read_mesh
from femgpu.mesh.restriction import FieldShape, set_fields
from femgpu.spaces import Function, FunctionSpace, SubFunction
from femgpu.spaces.field import copy_nodes

_KINDS = f"{GROUP}/functions"
_NUMBERS = f"{GROUP}/numbers"
# Files hold their numbers, larger by three for symmetric tensors.
_FAMILIES = ("DG", "Lagrange", "P+B")
# Names stand several times in paths, which PETSc cuts.
_NAME_BYTES = 255


def write_h5(path: Path, functions: Sequence[Function | SubFunction], numbers: Mapping[str, float] | None = None) -> None:
    """Writes functions of one mesh, the mesh and its labels, and checksums of it all; collective.

    Args:
        path: the file.
        functions: what to write; fields of mixed functions become functions of their own.
        numbers: what to keep beside them.

    Raises:
        DataError: on all ranks, when names cannot stand in such files, or the file cannot be written.
    """
    mesh = functions[0].space.mesh
    mesh.update()
    dm = dm_for_file(mesh)
    for u in functions:
        if not set("/\n\0").isdisjoint(u.name) or u.name == "." or len(u.name.encode()) > _NAME_BYTES:
            raise DataError(
                f"function name {u.name!r} cannot stand in an .h5 file; expected one without slashes and line breaks, other than "
                f"'.', of at most {_NAME_BYTES} bytes: Function(V, name=...)"
            )
    coordinates = "coordinates"
    while coordinates in [u.name for u in functions]:
        coordinates += "_"
    with replacing(path, mesh.mpi) as writer:
        layout = MeshLayout(writer, mesh, dm)
        layout.write(coordinates)
        writer.write_first(f"{GROUP}/coordinates", geometry_numbers(mesh))
        names = "\n".join(u.name for u in functions).encode()
        writer.write_first(f"{GROUP}/names", np.frombuffer(names, np.uint8).astype(np.int32))
        for name, number in (numbers or {}).items():
            # Integers are what an index set can hold, without a bit lost.
            writer.write_first(f"{_NUMBERS}/{name}", np.array([number], np.float64).view(np.int32))
        for u in functions:
            _write_function(layout, u)


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
        (functions of the same degree, family and shape share one).

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
def _reading(path: Path, comm: PETSc.Comm) -> Iterator[PETSc.ViewerHDF5]:
    """A viewer of a file that femgpu wrote; collective."""
    check_h5(path, comm.tompi4py())
    with h5_viewer(path, comm) as viewer:
        if not is_own(viewer):
            raise DataError(f"{str(path)!r} has no group {GROUP}; expected a file that femgpu.write made")
        yield viewer


def _write_function(layout: MeshLayout, u: Function | SubFunction) -> None:
    """Writes the L-vector with a section of the one field that constrains nothing, whatever the section of u's own DM does."""
    space, mesh = u.space, layout.mesh
    number = _FAMILIES.index(space.field.family) + len(_FAMILIES) * space.field.symmetric
    kind = [space.field.degree, number, *space.value_shape]
    layout.writer.write_first(f"{_KINDS}/{u.name}", np.array(kind, np.int32))
    section_dm = mesh.clone_dm()
    [offsets], num_local = set_fields(mesh, section_dm, [_shape(u)])
    values = np.zeros(num_local)
    copy_nodes(u.local_array(), space.field.offsets, values, offsets, space.num_comp)
    local, vec = section_dm.createLocalVec(), section_dm.createGlobalVec()
    local.setArray(values)  # type: ignore[arg-type]
    section_dm.localToGlobal(local, vec)
    layout.write_field(u.name, u.name, section_dm, vec)


def _read_function(
    viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, sf: PETSc.SF, name: str, spaces: dict[tuple[int, ...], FunctionSpace]
) -> Function:
    kind = tuple(int(entry) for entry in read_integers(viewer, name, dm.comm, _KINDS))
    degree, number, *shape = kind
    if kind not in spaces:
        symmetric, family = divmod(number, len(_FAMILIES))
        spaces[kind] = FunctionSpace(dm, _FAMILIES[family], degree, tuple(shape), bool(symmetric))
    u = Function(spaces[kind], name=name)
    space = u.space
    [offsets], _ = set_fields(space.mesh, space.mesh.clone_dm(), [_shape(u)])
    values = np.zeros(space.num_local)
    copy_nodes(_read_local(viewer, dm, sf, name), offsets, values, space.field.offsets, space.num_comp)
    u.set_local(values)
    return u


def _shape(u: Function | SubFunction) -> FieldShape:
    """The field in a section of its own, numbered along the points as files are."""
    field = u.space.field
    return FieldShape(u.name, field.degree, field.continuous, u.space.num_comp, field.bubble)


def _read_local(viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, sf: PETSc.SF, name: str) -> NDArray[np.float64]:
    """(num_local,) values; the section that is read is numbered along the points."""
    section_dm = dm.clone()
    section_dm.setName(name)
    _, local_sf = dm.sectionLoad(viewer, section_dm, sf)
    local = section_dm.createLocalVec()
    local.setName(name)
    dm.localVectorLoad(viewer, section_dm, local_sf, local)
    return np.array(local.array_r, np.float64)
