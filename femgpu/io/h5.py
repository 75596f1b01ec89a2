"""Functions to and from PETSc's HDF5 format, readable on any number of ranks.

The group /femgpu holds what PETSc does not keep beside topology, coordinates, labels, sections and vectors: the names
of the functions, and for each one its degree, continuity and value shape.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from petsc4py import PETSc

from femgpu.element import LagrangeElement
from femgpu.errors import DataError, collective
from femgpu.mesh.inspect import cell_names
from femgpu.spaces import Function, FunctionSpace

MESH_NAME = "mesh"
_GROUP = "/femgpu"
_KINDS = "/femgpu/functions"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# PETSc's default layout, 1.0.0, keeps vertices only: curved coordinates need 2.0.0, parallel loading 3.0.0.
_STORAGE = ("femio_", "dm_plex_view_hdf5_storage_version", "3.0.0")


def write_h5(path: Path, functions: Sequence[Function]) -> None:
    """Writes functions of one mesh, the mesh and its labels; collective.

    Raises:
        DataError: on all ranks, when PETSc has no HDF5, names hold a slash, or the file cannot be written.
    """
    mesh = functions[0].space.mesh
    if slashed := [u.name for u in functions if "/" in u.name]:
        raise DataError(f"function names {slashed}: a slash parts groups in HDF5; expected none: Function(V, name=...)")
    temporary = path.with_name(f".{path.name}.part")
    try:
        with _viewer(temporary, "w", mesh.comm) as viewer:
            dm = mesh.clone_dm()
            dm.setName(MESH_NAME)
            dm.topologyView(viewer)
            dm.coordinatesView(viewer)
            dm.labelsView(viewer)
            _write_numbers(viewer, "coordinates", np.array([mesh.coord_element.degree]))
            _write_numbers(viewer, "names", np.frombuffer("\n".join(u.name for u in functions).encode(), np.uint8))
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


def _write_function(viewer: PETSc.ViewerHDF5, dm: PETSc.DMPlex, u: Function) -> None:
    """Writes the L-vector with a section that constrains nothing, whatever the section of u's own DM does."""
    space = u.space
    kind = [space.element.degree, int(space.element.continuous), *space.value_shape]
    _write_numbers(viewer, u.name, np.array(kind), _KINDS)
    section_dm = space.mesh.clone_dm()
    section_dm.setField(0, space.element.petsc_fe(space.num_comp, space.comm))
    section_dm.createDS()
    section_dm.setName(u.name)
    local = section_dm.createLocalVec()
    local.setArray(u.local_array())  # type: ignore[arg-type]
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
    if comm.getSize() > 1:
        dm.getPartitioner().setFromOptions()
        spread = dm.distribute(overlap=0)
        sf = sf if spread is None else sf.compose(spread)
        dm.setName(MESH_NAME)
    degree = int(_read_numbers(viewer, "coordinates", comm)[0])
    coordinates = dm.getCoordinateDM()
    coordinates.setField(0, LagrangeElement(cell_names(dm, comm.tompi4py())[0], degree).petsc_fe(dm.getDimension(), comm))
    coordinates.createDS()
    return dm, sf


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
