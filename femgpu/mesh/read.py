"""Meshes from files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from petsc4py import PETSc

from femgpu.errors import DataError, MeshError, collective, file_path, petsc_words
from femgpu.mesh.communicator import communicator
from femgpu.mesh.distribute import distribute
from femgpu.mesh.gmsh_check import check_gmsh
from femgpu.mesh.gmsh_names import gmsh_options, label_names
from femgpu.mesh.h5_file import check_h5, h5_viewer, is_own
from femgpu.mesh.h5_mesh import read_mesh
from femgpu.mesh.reorder import reorder
from femgpu.options import flag

_GMSH_SUFFIXES = (".msh", ".msh2", ".msh4")
_EXPECTED = "expected a mesh that PETSc reads, such as .msh of gmsh or .h5 of PETSc"
_FOR_VIEWERS = (".vtu", ".pvtu", ".pvd")


def read(path: str | os.PathLike[str], comm: PETSc.Comm | None = None) -> PETSc.DMPlex:
    """Reads a mesh file that PETSc knows by its suffix, and distributes it; collective.

    Physical groups of gmsh become values of the labels "Cell Sets", "Face Sets", "Edge Sets" and "Vertex Sets", by dimension; each
    name becomes a label of its own with these points, which is what `DirichletBC(V, 0, "left")`, `ds("left")` and `dx("steel")` ask
    for. Names are read from .msh files, those of points from version 4 of the format on; names of labels that PETSc itself uses
    ("depth", "celltype", "dim") are left out. Files of gmsh are of version 2.2 or 4.1, ASCII or binary, and plane meshes lie in
    planes z = const.

    An .h5 that `femgpu.write` made gives the mesh that its functions live on, with labels and periods; `femgpu.io.read_h5` reads
    the functions with it.

    Cells keep the order of the file, unless `-femgpu_reorder_mesh` asks for that of `femgpu.mesh.reorder`.

    Args:
        path: the file.
        comm: a communicator of PETSc or mpi4py, default PETSC_COMM_WORLD.

    Returns:
        The DMPlex.

    Raises:
        MeshError: on all ranks, when the file is missing, empty, malformed, damaged or of an unknown format; when a file of gmsh
            holds a surface or curve in space, or a cell twice.
        DataError: when the path is none.
    """
    return distribute(serial_read(path, communicator(comm)))


def serial_read(path: str | os.PathLike[str], comm: PETSc.Comm) -> PETSc.DMPlex:
    """As `read`, but the mesh stays where PETSc's reader puts it: on the first rank, for most formats."""
    name, mpi = str(file_path(path)), comm.tompi4py()
    with collective(mpi):
        if mpi.rank == 0:
            _check_path(Path(name))
    if name.endswith(".h5") and (dm := _read_own_h5(Path(name), comm)) is not None:
        return dm
    names = _check_file(name, mpi)
    dm = _read(name, comm)
    label_names(dm, names)
    return reorder(dm) if flag("femgpu_reorder_mesh") else dm


def _read_own_h5(path: Path, comm: PETSc.Comm) -> PETSc.DMPlex | None:
    """The mesh of a file that femgpu wrote; None for other HDF5 files; collective."""
    try:
        check_h5(path, comm.tompi4py())
        with h5_viewer(path, comm) as viewer:
            return read_mesh(viewer, comm)[0] if is_own(viewer) else None
    except DataError as error:
        raise MeshError(f"mesh file {error}") from error


def _check_file(name: str, mpi: Any) -> list[tuple[int, int, str]]:
    """Refuses a file that PETSc cannot read, and returns the names of its physical groups; collective.

    PETSc's readers work on the first rank and leave the others waiting for ever when it fails. So on several ranks the
    first one reads the file by itself before all of them do.

    Args:
        name: path of the file.
        mpi: an mpi4py communicator.

    Raises:
        MeshError: on all ranks.
    """
    names: list[tuple[int, int, str]] = []
    with collective(mpi):
        if mpi.rank == 0:
            if name.endswith(_GMSH_SUFFIXES):
                names = check_gmsh(Path(name))
            if mpi.size > 1:
                _read(name, PETSc.COMM_SELF).destroy()
    return mpi.bcast(names)


def _check_path(path: Path) -> None:
    if not path.exists():
        raise MeshError(f"mesh file '{path}' does not exist; expected a path relative to {os.getcwd()}, or an absolute one")
    if not path.is_file():
        raise MeshError(f"mesh file '{path}' is not a file; {_EXPECTED}")
    if path.suffix in _FOR_VIEWERS:
        raise MeshError(
            f"mesh file '{path}' is for ParaView and the like, and cannot be read back; expected the .h5 that femgpu.write makes "
            "of the same functions"
        )
    if not os.access(path, os.R_OK):
        raise MeshError(f"mesh file '{path}' may not be read; expected read permission")
    if path.stat().st_size == 0:
        raise MeshError(f"mesh file '{path}' is empty; write it again")


def _read(name: str, comm: PETSc.Comm) -> PETSc.DMPlex:
    try:
        with _gmsh_options(name):
            dm = PETSc.DMPlex().createFromFile(name, interpolate=True, comm=comm)
    except PETSc.Error as error:
        raise MeshError(f"PETSc cannot read mesh file {name!r}: {petsc_words(error)}; {_EXPECTED}") from error
    if dm.getDimension() < 1:
        raise MeshError(f"mesh file {name!r} holds no cells; expected a mesh of dimension 1, 2 or 3")
    return dm


@contextmanager
def _gmsh_options(name: str) -> Iterator[None]:
    """Sets PETSc's options for files of gmsh where the user did not."""
    options = PETSc.Options()
    wanted = gmsh_options(Path(name)) if name.endswith(_GMSH_SUFFIXES) else {}
    own = {f"dm_plex_gmsh_{key}": value for key, value in wanted.items() if not options.hasName(f"dm_plex_gmsh_{key}")}
    for key, value in own.items():
        options.setValue(key, value)
    try:
        yield
    finally:
        for key in own:
            options.delValue(key)
