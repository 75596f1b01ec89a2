"""Local refinement of simplices where an indicator is large, by PETSc's transform `refine_sbr`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import MeshError, collective, meet, told
from femgpu.mesh.coordinates import coordinate_degree
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.periods import is_periodic
from femgpu.mesh.user_dm import check_dm

# The label of the cells that are refined; no mesh has it before or after.
_LABEL = "femgpu_adapt"
# What divides an interval until its ends are neighbours among the numbers.
_HALVINGS = 64


def adapt(dm: PETSc.DMPlex, indicator: Any, fraction: float = 0.5) -> PETSc.DMPlex:
    """Refines the fewest cells that have a given fraction of the squared error; collective.

    Cells are marked after Doerfler (SIAM J. Numer. Anal. 33, 1996), and split in two by their longest edges, and again, until all
    of their edges are (Plaza and Carey, Appl. Numer. Math. 32, 2000); neighbours are split as far as it takes to leave no vertex
    inside an edge. Labels follow, cells stay on their ranks. `new.interpolate(old)` takes functions along.

    Args:
        dm: a mesh of triangles or tetrahedra.
        indicator: of each cell its share of the squared error, 0 or more: what assembling against a test function of DG 0
            gives, a Vec; or a Function of DG 0, or an array of this rank's cells in the mesh's order.
        fraction: of the squared error, above 0 and up to 1, that the marked cells have together.

    Returns:
        A new mesh.

    Raises:
        MeshError: on all ranks, for other cells, curved or periodic meshes, and an indicator or fraction that does not fit.
    """
    check_dm(dm)
    mpi = dm.comm.tompi4py()
    meet(mpi)
    mesh = Mesh.of(dm)
    with collective(mpi):
        _check_mesh(mesh)
        squares = _checked(mesh, indicator, fraction)
    least = _threshold(squares, fraction, mpi)
    if least == 0:
        raise MeshError("the indicator is zero everywhere; expected cells with a share of the error")
    start = mesh.dm.getHeightStratum(0)[0]
    cells = np.flatnonzero(squares >= least) + start
    coarse = mesh.dm.clone()
    coarse.createLabel(_LABEL)
    label = coarse.getLabel(_LABEL)
    label.insertIS(PETSc.IS().createGeneral(cells.astype(PETSc.IntType), comm=PETSc.COMM_SELF), 1)
    transform = PETSc.DMPlexTransform().create(comm=dm.comm)
    transform.setDM(coarse)
    transform.setType(PETSc.DMPlexTransformType.REFINESBR)
    transform.setActive(label)
    transform.setUp()
    fine = transform.apply(coarse)
    transform.destroy()
    fine.removeLabel(_LABEL)
    fine.setVecType(petsc_c.vec_type(dm))
    fine.setName(dm.getName())
    return fine


def _check_mesh(mesh: Mesh) -> None:
    names = sorted({block.cell for block in mesh.blocks})
    if names not in (["triangle"], ["tetrahedron"]):
        raise MeshError(
            f"cells of type {' and '.join(names)} cannot be refined locally without hanging nodes; expected triangles or "
            "tetrahedra, or femgpu.mesh.refine(dm), which refines all cells"
        )
    kind = "curved" if coordinate_degree(mesh.dm) > 1 else "periodic" if is_periodic(mesh.dm) else ""
    if kind:
        raise MeshError(
            f"PETSc's local refinement would spoil the coordinates of this {kind} mesh; expected femgpu.mesh.refine(dm)"
        )


def _checked(mesh: Mesh, indicator: Any, fraction: Any) -> npt.NDArray[np.float64]:
    """(num_cells,) the indicator's numbers."""
    if not isinstance(fraction, int | float) or not 0 < fraction <= 1:
        raise MeshError(f"fraction {fraction!r} of the squared error; expected a number above 0, and 1 at most")
    given = getattr(indicator, "vec", indicator)
    try:
        squares = np.array(given.array_r if isinstance(given, PETSc.Vec) else given, np.float64)
    except (TypeError, ValueError) as error:
        raise MeshError(
            f"the indicator is {told(indicator)}; expected a number per cell, as a Vec, a Function or an array"
        ) from error
    if squares.shape != (mesh.num_cells,):
        raise MeshError(
            f"the indicator has the shape {squares.shape}; expected one number for each of this rank's {mesh.num_cells} cells: "
            'femgpu.assemble(h**2 * r**2 * v * dx) with v = ufl.TestFunction(femgpu.FunctionSpace(dm, "DG", 0))'
        )
    if not (np.isfinite(squares) & (squares >= 0)).all():
        raise MeshError("the indicator has entries that are negative or not finite; expected shares of the squared error")
    return squares


def _threshold(squares: npt.NDArray[np.float64], fraction: float, mpi: Any) -> float:
    """The largest number such that the entries of all ranks that are not below have the fraction of the sum; collective."""
    total = mpi.allreduce(float(squares.sum()))
    low, high = 0.0, max(mpi.allgather(float(squares.max(initial=0.0)))) * (1 + 1e-15)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = mpi.allreduce(float(squares[squares >= middle].sum())) >= fraction * total * (1 - 1e-12)
        low, high = (middle, high) if enough else (low, middle)
    # Of the numbers in between there is one entry, or several that are equal.
    above = squares[squares >= low]
    return float(min(mpi.allgather(float(above.min(initial=np.inf)))))
