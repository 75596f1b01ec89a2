"""A look at a gmsh file before PETSc reads it, which crashes on wrong numbers and takes some legal meshes for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from femgpu.errors import MeshError
from femgpu.mesh.gmsh_file import GmshFile, parse
from femgpu.mesh.gmsh_sections import Malformed
from femgpu.mesh.topology import first_repeated

# The highest order that PETSc reads: it does not find its way in the nodes of further ones.
_HIGHEST = {"tetrahedron": 3, "prism": 1, "pyramid": 1}
_FLAT = 1e-12


def check_gmsh(path: Path) -> list[tuple[int, int, str]]:
    """Checks a file of version 2.2 or 4.1, ASCII or binary.

    Args:
        path: the file.

    Returns:
        Dimension, number and name of each physical group that has a name.

    Raises:
        MeshError: when sections, counts or numbers contradict each other; when cells are listed twice, or lie in a plane or on a
            surface other than z = const. (in a line other than y = z = const.); for elements that PETSc cannot read.
    """
    try:
        file = parse(path.read_bytes())
    except Malformed as error:
        remedy = "it may be cut or malformed: write it again, as version 4.1"
        raise MeshError(f"mesh file '{path}' cannot be read: {error}; {remedy}") from None
    if not file.elements:
        raise MeshError(f"mesh file '{path}' has no elements; mesh the geometry before it is saved")
    for kind, _ in file.elements:
        if kind.order > _HIGHEST.get(kind.name, kind.order):
            raise MeshError(
                f"mesh file '{path}' has {kind.name} cells with {kind.num_nodes} nodes, of order {kind.order}, which PETSc cannot "
                f"read; save it with order {_HIGHEST[kind.name]} or less, first-order cells are always read"
            )
    dim = max(kind.dim for kind, _ in file.elements)
    names = sorted({kind.name for kind, _ in file.elements if kind.dim == dim})
    if len(names) > 1 and any(kind.order > 1 for kind, _ in file.elements if kind.dim == dim):
        raise MeshError(
            f"mesh file '{path}' has {' and '.join(names)} cells of order 2 or more, and PETSc reads curved cells of one type "
            "only; save it with first-order cells, or as one type of cells"
        )
    _check_once(file, dim, path)
    if dim < 3:
        _check_flat(file, dim, path)
    return file.names


def _check_once(file: GmshFile, dim: int, path: Path) -> None:
    """PETSc keeps cells that are there twice, and they would count twice."""
    for name in {kind.name for kind, _ in file.elements if kind.dim == dim}:
        cells = np.concatenate([nodes[:, : kind.num_vertices] for kind, nodes in file.elements if kind.name == name])
        twice = first_repeated(cells)
        if twice is not None:
            raise MeshError(
                f"mesh file '{path}' has the {name} {cells[twice].tolist()} twice; expected each cell once: gmsh "
                "repeats cells that belong to several physical groups in version 2.2, not in 4.1 (Mesh.MshFileVersion = 4.1)"
            )


def _check_flat(file: GmshFile, dim: int, path: Path) -> None:
    """PETSc drops the coordinates beyond the dimension of the cells."""
    used = np.unique(np.concatenate([nodes.ravel() for kind, nodes in file.elements if kind.dim == dim]))
    x: npt.NDArray[np.float64] = file.points[np.searchsorted(file.tags, used)]
    extent = np.ptp(x, axis=0)
    if extent[dim:].max() > _FLAT * max(extent.max(), np.abs(x).max()):
        axes, across = ("x", "y and z") if dim == 1 else ("x and y", "z")
        raise MeshError(
            f"mesh file '{path}' has cells of dimension {dim} in a space of dimension 3: {across} spans "
            f"{' and '.join(f'{width:.6g}' for width in extent[dim:])}; expected a mesh in {axes} alone: surfaces and curves in "
            "space are not supported. If the volume is meant, mesh and save it, too"
        )
