"""Meshes from the command line."""

from __future__ import annotations

from petsc4py import PETSc

from femgpu.errors import MeshError
from femgpu.mesh.box import serial_box
from femgpu.mesh.read import check_file, describe


def create(comm: PETSc.Comm | None = None) -> PETSc.DMPlex:
    """A mesh from the options -dm_plex_*, -dm_refine and -dm_distribute, as in PETSc; collective.

    Boxes of triangles and tetrahedra are femgpu's own, because PETSc needs a mesh generator for them; everything else is PETSc's.

    Args:
        comm: communicator, default PETSC_COMM_WORLD.

    Returns:
        The DMPlex, distributed unless -dm_distribute 0.

    Raises:
        MeshError: on all ranks, when the options contradict each other, or the file that they name cannot be read.
    """
    comm = PETSc.COMM_WORLD if comm is None else comm
    options = PETSc.Options()
    if options.hasName("dm_plex_filename"):
        check_file(options.getString("dm_plex_filename"), comm.tompi4py())
    dm = _simplex_box(options, comm) if _wants_simplex_box(options) else PETSc.DMPlex().create(comm)
    try:
        dm.setFromOptions()
    except PETSc.Error as error:
        raise MeshError(f"PETSc cannot make the mesh of the options -dm_*: {describe(error)}") from error
    return dm


def _wants_simplex_box(options: PETSc.Options) -> bool:
    elsewhere = ("dm_plex_filename", "dm_plex_reference_cell_domain", "dm_plex_boundary_filename")
    if any(options.hasName(name) for name in elsewhere) or options.getString("dm_plex_shape", "box") != "box":
        return False
    return options.getBool("dm_plex_simplex", True) and options.getInt("dm_plex_dim", 2) in (2, 3)


def _simplex_box(options: PETSc.Options, comm: PETSc.Comm) -> PETSc.DMPlex:
    dim = options.getInt("dm_plex_dim", 2)
    if any(kind.strip() != "none" for kind in options.getString("dm_plex_box_bd", "none").lower().split(",")):
        raise MeshError(
            "-dm_plex_box_bd: periodic boxes of triangles or tetrahedra are not supported; expected none, or -dm_plex_simplex 0"
        )
    faces = _numbers(options, "dm_plex_box_faces", [4 - dim] * dim, int)
    lower = _numbers(options, "dm_plex_box_lower", [0.0] * dim, float)
    upper = _numbers(options, "dm_plex_box_upper", [1.0] * dim, float)
    return serial_box(faces, "triangle" if dim == 2 else "tetrahedron", lower, upper, comm)


def _numbers(options: PETSc.Options, name: str, default: list, kind: type) -> list:
    if not options.hasName(name):
        return default
    text = options.getString(name)
    try:
        values = [kind(entry) for entry in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(default):
        raise MeshError(f"-{name} {text}: expected {len(default)} numbers separated by commas, for -dm_plex_dim {len(default)}")
    return values
