"""Meshes from the command line."""

from __future__ import annotations

from petsc4py import PETSc

from femgpu.element import reference_cell
from femgpu.errors import MeshError, meet, petsc_words
from femgpu.mesh.box import serial_box
from femgpu.mesh.communicator import communicator
from femgpu.mesh.periods import is_periodic
from femgpu.mesh.read import serial_read
from femgpu.mesh.refine import is_curved, refine

# PETSc's words for the cells of -dm_plex_cell.
_CELL_OPTIONS = {
    "segment": "interval",
    "triangle": "triangle",
    "quadrilateral": "quadrilateral",
    "tetrahedron": "tetrahedron",
    "hexahedron": "hexahedron",
    "triangular_prism": "prism",
}

# Options that make PETSc refine by itself, at a moment when curved and periodic cells would be spoilt.
_OTHER_REFINEMENT = ("dm_refine_pre", "dm_refine_hierarchy", "dm_refine_volume_limit_pre")

# What PETSc does with or after -dm_refine, for which it is left to it; femgpu's keeps the coarser meshes.
_WITH_REFINEMENT = (
    "dm_refine_hierarchy",
    "dm_refine_uniform",
    "dm_refine_remap",
    "dm_coord_map",
    "dm_coarsen",
    "dm_extrude",
    "dm_adapt",
)


def create(comm: PETSc.Comm | None = None) -> PETSc.DMPlex:
    """A mesh from the options -dm_plex_*, -dm_refine and -dm_distribute, as in PETSc; collective.

    Boxes of triangles and tetrahedra are femgpu's own, because PETSc needs a mesh generator for them; so are boxes of prisms
    (-dm_plex_cell triangular_prism) and periodic ones (-dm_plex_box_bd). Everything else is PETSc's. Curved meshes stay curved
    under -dm_refine, and all keep the meshes that they refine, as by `femgpu.mesh.refine`.

    Prisms over a mesh of triangles, and hexahedra over quadrilaterals, come from PETSc's extrusion, with
    `-dm_extrude <layers> -dm_plex_transform_extrude_use_tensor 0 -dm_plex_transform_extrude_thickness <height>` beside the
    options of the plane mesh (without `use_tensor 0` PETSc makes tensor prisms, which have no continuous elements).

    Args:
        comm: a communicator of PETSc or mpi4py, default PETSC_COMM_WORLD.

    Returns:
        The DMPlex, distributed unless -dm_distribute 0.

    Raises:
        MeshError: on all ranks, when the options contradict each other, or the file that they name cannot be read.
    """
    comm = communicator(comm)
    meet(comm.tompi4py())
    options = PETSc.Options()
    if options.hasName("dm_plex_filename"):
        dm = serial_read(options.getString("dm_plex_filename"), comm)
    elif (cell := _own_box(options)) is not None:
        dm = _box(options, cell, comm)
    else:
        dm = PETSc.DMPlex().create(comm)
    if dm.getDimension() > 0 and (is_curved(dm) or is_periodic(dm)):
        given = [name for name in _OTHER_REFINEMENT if options.hasName(name)]
        if given:
            raise MeshError(f"-{given[0]} would spoil the coordinates of this curved or periodic mesh; expected -dm_refine")
        return _refine_by_femgpu(dm, options)
    given = options.getAll()
    plain = not any(name.startswith(_WITH_REFINEMENT) for name in given) and given.get("dm_plex_shape", "box") == "box"
    return _refine_by_femgpu(dm, options) if plain else _set_from_options(dm)


def _set_from_options(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    try:
        dm.setFromOptions()
    except PETSc.Error as error:
        raise MeshError(f"PETSc cannot make the mesh of the options -dm_*: {petsc_words(error)}") from error
    return dm


def _refine_by_femgpu(dm: PETSc.DMPlex, options: PETSc.Options) -> PETSc.DMPlex:
    """As `_set_from_options` with a refinement that is not left to PETSc."""
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


def _own_box(options: PETSc.Options) -> str | None:
    """The cell type of a box that femgpu makes; None where the mesh is PETSc's."""
    elsewhere = ("dm_plex_reference_cell_domain", "dm_plex_boundary_filename")
    if any(options.hasName(name) for name in elsewhere) or options.getString("dm_plex_shape", "box") != "box":
        return None
    dim, simplex = options.getInt("dm_plex_dim", 2), options.getBool("dm_plex_simplex", True)
    cell = {1: "interval", 2: "triangle" if simplex else "quadrilateral", 3: "tetrahedron" if simplex else "hexahedron"}.get(dim)
    if options.hasName("dm_plex_cell"):
        name = options.getString("dm_plex_cell")
        cell = _CELL_OPTIONS.get(name)
        if cell is not None and reference_cell(cell).dim != dim:
            raise MeshError(f"-dm_plex_cell {name} with -dm_plex_dim {dim}: expected -dm_plex_dim {reference_cell(cell).dim}")
    own = cell in ("triangle", "tetrahedron", "prism") or (cell is not None and any(_periodic(options, dim)))
    return cell if own else None


def _periodic(options: PETSc.Options, dim: int) -> list[bool]:
    """Which directions -dm_plex_box_bd makes periodic."""
    kinds = [kind.strip().lower() for kind in options.getString("dm_plex_box_bd", ",".join(["none"] * dim)).split(",")]
    if len(kinds) != dim or not set(kinds) <= {"none", "periodic"}:
        raise MeshError(f"-dm_plex_box_bd {','.join(kinds)}: expected {dim} entries separated by commas, each none or periodic")
    return [kind == "periodic" for kind in kinds]


def _box(options: PETSc.Options, cell: str, comm: PETSc.Comm) -> PETSc.DMPlex:
    dim = reference_cell(cell).dim
    faces = _numbers(options, "dm_plex_box_faces", [4 - dim] * dim, int)
    lower = _numbers(options, "dm_plex_box_lower", [0.0] * dim, float)
    upper = _numbers(options, "dm_plex_box_upper", [1.0] * dim, float)
    return serial_box(faces, cell, lower, upper, comm, _periodic(options, dim))


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
