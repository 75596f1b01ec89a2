"""Meshes over the ranks."""

from __future__ import annotations

from petsc4py import PETSc


def distribute(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    """Spreads a mesh over the ranks without overlap, with the partitioner of `-petscpartitioner_type`; collective."""
    if dm.getComm().getSize() > 1 and not dm.isDistributed():
        dm.getPartitioner().setFromOptions()
        dm.distribute(overlap=0)
    return dm
