"""Meshes from the command line."""

from __future__ import annotations

from petsc4py import PETSc

from femgpu.errors import MeshError
from femgpu.mesh.box import serial_box
from femgpu.mesh.read import describe, serial_read
from femgpu.mesh.refine import is_curved, refine

# Options that make PETSc refine by itself, at a moment when curved cells would be spoilt.
_OTHER_REFINEMENT = ("dm_refine_pre", "dm_refine_hierarchy", "dm_refine_volume_limit_pre")


def create(comm: PETSc.Comm | None = None) -> PETSc.DMPlex:
    """A mesh from the options -dm_plex_*, -dm_refine and -dm_distribute, as in PETSc; collective.

    Boxes of triangles and tetrahedra are femgpu's own, because PETSc needs a mesh generator for them; everything else is PETSc's.
    Curved meshes stay curved under -dm_refine.

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
        dm = serial_read(options.getString("dm_plex_filename"), comm)
    elif _wants_simplex_box(options):
        dm = _simplex_box(options, comm)
    else:
        dm = PETSc.DMPlex().create(comm)
    if dm.getDimension() > 0 and is_curved(dm):
        return _set_up_curved(dm, options)
    return _set_from_options(dm)


def _set_from_options(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    try:
        dm.setFromOptions()
    except PETSc.Error as error:
        raise MeshError(f"PETSc cannot make the mesh of the options -dm_*: {describe(error)}") from error
    return dm


def _set_up_curved(dm: PETSc.DMPlex, options: PETSc.Options) -> PETSc.DMPlex:
    given = [name for name in _OTHER_REFINEMENT if options.hasName(name)]
    if given:
        raise MeshError(f"-{given[0]} would straighten the curved cells of this mesh; expected -dm_refine")
    if not options.hasName("dm_refine"):
        return _set_from_options(dm)
    levels = options.getInt("dm_refine")
    options.delValue("dm_refine")
    try:
        _set_from_options(dm)
    finally:
        options.setValue("dm_refine", str(levels))
        options.getInt("dm_refine")  # marks it as used again
    for _ in range(levels):
        dm = refine(dm)
    return dm


def _wants_simplex_box(options: PETSc.Options) -> bool:
    elsewhere = ("dm_plex_reference_cell_domain", "dm_plex_boundary_filename")
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
