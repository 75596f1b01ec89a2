"""Physical groups of gmsh by their names.

PETSc's reader can name groups by itself, but a group called `depth` or `celltype` would then spoil labels of its own. Here it makes
labels of numbers only, and the names become labels afterwards.
"""

from __future__ import annotations

from pathlib import Path

from petsc4py import PETSc

from femgpu.mesh.regions import BOUNDARY, CELL_LABEL, EDGE_LABEL, FACET_LABEL, RESERVED, VERTEX_LABEL


def gmsh_options(path: Path) -> dict[str, str]:
    """The options under which PETSc reads all groups of a file, without the prefix `dm_plex_gmsh_`.

    Args:
        path: a file of gmsh.
    """
    # By itself PETSc makes tensor prisms, as for cohesive cells, of gmsh's prisms beside tetrahedra.
    options = {"hybrid": "0"}
    with path.open("rb") as stream:
        head = stream.read(64).split()
    # From version 4 on a part of the model names all of its groups, of which PETSc takes the first, and none of points. Before, an
    # element is listed for each of its groups; its second number is no group, which PETSc does not tell apart.
    if head[1:2] and head[1].startswith(b"4"):
        options |= {"multiple_tags": "1", "mark_vertices_strict": "1"}
    return options


def label_names(dm: PETSc.DMPlex, names: list[tuple[int, int, str]]) -> None:
    """Makes a label of each name, with the group's number as its value; not for names that PETSc, UFL or femgpu use otherwise.

    Args:
        dm: the mesh as PETSc read it, with its groups in labels by dimension.
        names: as from `check_gmsh`, the same on all ranks, so that these have the same labels when the mesh is distributed.
    """
    dim = dm.getDimension()
    sets = {0: VERTEX_LABEL, 1: EDGE_LABEL, dim - 1: FACET_LABEL, dim: CELL_LABEL}
    for group_dim, number, name in names:
        if not name or (name in RESERVED and name != BOUNDARY) or group_dim > dim:
            continue
        if not dm.hasLabel(name):
            dm.createLabel(name)
        source = sets[group_dim]
        if dm.hasLabel(source) and dm.getStratumSize(source, number):
            dm.getLabel(name).insertIS(dm.getStratumIS(source, number), number)
