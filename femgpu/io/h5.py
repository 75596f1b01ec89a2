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

from femgpu.element import LagrangeElement
from femgpu.errors import DataError, collective
from femgpu.io.label_names import quote_labels, unquote_labels
from femgpu.mesh import Mesh
from femgpu.mesh.cell_types import cell_names, has_petsc_elements
from femgpu.mesh.periods import is_periodic, set_periods
from femgpu.mesh.restriction import FieldShape, set_fields
from femgpu.spaces import Function, FunctionSpace, SubFunction
from femgpu.spaces.field import copy_nodes

MESH_NAME = "mesh"
_GROUP = "/femgpu"
_KINDS = "/femgpu/functions"
_NUMBERS = "/femgpu/numbers"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# PETSc's default layout, 1.0.0, keeps vertices only: curved coordinates need 2.0.0, parallel loading 3.0.0.
_STORAGE = ("femio_", "dm_plex_view_hdf5_storage_version", "3.0.0")


def write_h5(path: Path, functions: Sequence[Function | SubFunction], numbers: Mapping[str, float] | None = None) -> None:
    """Writes functions of one mesh, the mesh and its labels; collective.

    Args:
        path: the file.
        functions: what to write; fields of mixed functions become functions of their own.
        numbers: what to keep beside them.

    Raises:
        DataError: on all ranks, when PETSc has no HDF5, names hold a slash, or the file cannot be written.
    """
    mesh = functions[0].space.mesh
    if mesh.dm.getCoordinatesLocalized() and not is_periodic(mesh.dm):
        raise DataError("the mesh is periodic and its DM does not say with which periods; set them with dm.setPeriodicity()")
    if slashed := [u.name for u in functions if "/" in u.name]:
        raise DataError(f"function names {slashed}: a slash parts groups in HDF5; expected none: Function(V, name=...)")
    labels = sorted(mesh.labels())
    temporary = path.with_name(f".{path.name}.part")
    with collective(mesh.mpi):
        if mesh.mpi.rank == 0:
            _try_to_create(temporary, path)
    try:
        with _viewer(temporary, "w", mesh.comm) as viewer:
            dm = mesh.clone_dm()
            quote_labels(mesh.label_dm, dm, labels)
            dm.setName(MESH_NAME)
            dm.topologyView(viewer)
            dm.coordinatesView(viewer)
            dm.labelsView(viewer)
            _write_numbers(viewer, "coordinates", _geometry(mesh))
            _write_numbers(viewer, "names", np.frombuffer("\n".join(u.name for u in functions).encode(), np.uint8))
            for name, number in (numbers or {}).items():
                # Integers are what an index set can hold, without a bit lost.
                _write_numbers(viewer, name, np.array([number], np.float64).view(np.int32), _NUMBERS)
            for u in functions:
                _write_function(viewer, dm, u)
        with collective(mesh.mpi):
            if mesh.mpi.rank == 0:
                _rename(temporary, path)
    finally:
        if mesh.mpi.rank == 0:
            temporary.unlink(missing_ok=True)


def read_h5(
    path: str | os.PathLike[str], names: Sequence[str] | None = None, comm: PETSc.Comm | None = None
) -> tuple[PETSc.DMPlex, dict[str, Function]]:
    """Reads what `write` put into an .h5 file, on any number of ranks; collective.

    Args:
        path: the file.
        names: which functions, default all.
        comm: communicator, default PETSC_COMM_WORLD.

    Returns:
        The distributed mesh with its labels, and the functions by name, each in a space of its own on that mesh
        (functions of the same degree, continuity and shape share one).

    Raises:
        DataError: on all ranks, when the file is missing, is not HDF5, was not written by `write`, or lacks a function.
    """
    comm = PETSc.COMM_WORLD if comm is None else comm
    file = Path(path)
    with collective(comm.tompi4py()):
        _check_file(file)
    with _viewer(file, "r", comm) as viewer:
        held = _function_names(viewer, file, comm)
        wanted = held if names is None else list(names)
        if missing := [name for name in wanted if name not in held]:
            raise DataError(f"{str(file)!r} holds no function {', '.join(missing)}; it holds {', '.join(held)}")
        dm, sf = _read_mesh(viewer, comm)
        spaces: dict[tuple[int, ...], FunctionSpace] = {}
        return dm, {name: _read_function(viewer, dm, sf, name, spaces) for name in wanted}


def read_numbers(path: Path, names: Sequence[str], comm: PETSc.Comm) -> dict[str, float]:
    """Reads numbers that `write_h5` kept beside the functions; collective.

    Raises:
        DataError: on all ranks, when the file is missing, is not HDF5, or lacks a number.
    """
    with collective(comm.tompi4py()):
        _check_file(path)
    with _viewer(path, "r", comm) as viewer:
        try:
            found = [_read_numbers(viewer, name, comm, _NUMBERS) for name in names]
        except PETSc.Error as error:
            raise DataError(f"{str(path)!r} holds no {', '.join(names)}; expected a checkpoint of a problem in time") from error
    return {name: float(entry.astype(np.int32).view(np.float64)[0]) for name, entry in zip(names, found, strict=True)}


def _try_to_create(temporary: Path, path: Path) -> None:
    """Fails before PETSc's viewer does, which would leave one behind that nothing can destroy."""
    try:
        temporary.touch()
    except OSError as error:
        raise DataError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _rename(temporary: Path, path: Path) -> None:
    try:
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{str(path)!r} does not exist (working directory {os.getcwd()}); check the path")
    with open(path, "rb") as stream:
        if stream.read(len(_SIGNATURE)) != _SIGNATURE:
            raise DataError(f"{str(path)!r} is not an HDF5 file; expected one that femgpu.write made")


@contextmanager
def _viewer(path: Path, mode: str, comm: PETSc.Comm) -> Iterator[PETSc.ViewerHDF5]:
    """PETSc's HDF5 viewer in its own format; PETSc's errors become DataError."""
    if not PETSc.Sys.hasExternalPackage("hdf5"):
        raise DataError("this PETSc has no HDF5; configure it with --with-hdf5, or write .vtu")
    viewer = None
    prefix, option, version = _STORAGE
    options = PETSc.Options()
    try:
        viewer = PETSc.ViewerHDF5().create(str(path), mode, comm=comm)
        viewer.pushFormat(PETSc.Viewer.Format.HDF5_PETSC)  # type: ignore[arg-type]
        viewer.setOptionsPrefix(prefix)
        options[prefix + option] = version
        yield viewer
    except PETSc.Error as error:
        verb = "write" if mode == "w" else "read"
        raise DataError(f"cannot {verb} {str(path)!r}: PETSc's HDF5 viewer failed: {error}") from error
    finally:
        options.delValue(prefix + option)
        if viewer is not None:
            viewer.destroy()


def _write_function(viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, u: Function | SubFunction) -> None:
    """Writes the L-vector with a section of the one field that constrains nothing, whatever the section of u's own DM does."""
    space = u.space
    kind = [space.field.degree, int(space.field.continuous), *space.value_shape]
    _write_numbers(viewer, u.name, np.array(kind), _KINDS)
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
    kind = tuple(int(entry) for entry in _read_numbers(viewer, name, dm.comm, _KINDS))
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


def _read_mesh(viewer: PETSc.ViewerHDF5, comm: PETSc.Comm) -> tuple[PETSc.DMPlex, PETSc.SF]:
    """The distributed mesh, and the map from the saved numbering of points to it."""
    dm = PETSc.DMPlex().create(comm=comm)
    dm.setName(MESH_NAME)
    sf = dm.topologyLoad(viewer)
    dm.coordinatesLoad(viewer, sf)
    dm.labelsLoad(viewer, sf)
    unquote_labels(dm)
    degree, *periods = _read_numbers(viewer, "coordinates", comm)
    if periods:
        lower, period = np.array(periods, np.int32).view(np.float64).reshape(2, -1)
        set_periods(dm, lower, period)
    if comm.getSize() > 1:
        dm.getPartitioner().setFromOptions()
        spread = dm.distribute(overlap=0)
        sf = sf if spread is None else sf.compose(spread)
        dm.setName(MESH_NAME)
    cells = cell_names(dm, comm.tompi4py())
    if has_petsc_elements(cells):
        coordinates = dm.getCoordinateDM()
        coordinates.setField(0, LagrangeElement(cells[0], int(degree)).petsc_fe(dm.getDimension(), comm))
        coordinates.createDS()
    return dm, sf


def _geometry(mesh: Mesh) -> NDArray[np.int32]:
    """The degree of the coordinates, and behind it the bits of the lower corner and the lengths of periods, if there are any."""
    degree = np.array([max(block.coord_element.degree for block in mesh.blocks)], np.int32)
    if not is_periodic(mesh.dm):
        return degree
    _, lower, period = mesh.dm.getPeriodicity()
    return np.concatenate([degree, np.concatenate([lower, period]).astype(np.float64).view(np.int32)])


def _function_names(viewer: PETSc.ViewerHDF5, path: Path, comm: PETSc.Comm) -> list[str]:
    try:
        codes = _read_numbers(viewer, "names", comm)
    except PETSc.Error as error:
        raise DataError(f"{str(path)!r} has no {_GROUP}/names; expected a file that femgpu.write made") from error
    return codes.astype(np.uint8).tobytes().decode().split("\n")


def _write_numbers(viewer: PETSc.ViewerHDF5, name: str, numbers: NDArray, group: str = _GROUP) -> None:
    comm = viewer.comm
    mine = numbers.astype(PETSc.IntType) if comm.getRank() == 0 else np.empty(0, PETSc.IntType)
    entry = PETSc.IS().createGeneral(mine, comm=comm)  # type: ignore[arg-type]
    entry.setName(name)
    viewer.pushGroup(group)
    entry.view(viewer)
    viewer.popGroup()


def _read_numbers(viewer: PETSc.ViewerHDF5, name: str, comm: PETSc.Comm, group: str = _GROUP) -> NDArray:
    """All numbers of a data set, on all ranks."""
    entry = PETSc.IS().create(comm=comm)
    entry.setName(name)
    viewer.pushGroup(group)
    entry.load(viewer)
    viewer.popGroup()
    return np.concatenate(comm.tompi4py().allgather(entry.getIndices().copy()))
