"""The user's own DM behind a mesh: known again when it comes back, and not kept alive."""

from __future__ import annotations

import weakref
from typing import Any

from petsc4py import PETSc

from femgpu.errors import MeshError, alive, told
from femgpu.mesh.coordinates import coordinate_degree


def check_dm(dm: Any) -> None:
    """Refuses what is no DM, and one that was destroyed, which crashes at any use.

    Raises:
        MeshError: saying what it is.
    """
    if not isinstance(dm, PETSc.DM):
        raise MeshError(f"a mesh is {told(dm)}; expected a PETSc.DMPlex: `space.dm` of a function space is one")
    alive(dm, "the DM of the mesh")


class UserDM:
    """The DM that a mesh was read from.

    The mesh sits on that DM as an attribute: keeping the DM here would be a cycle that nothing collects. So only its handle is
    known, and a weak reference to the Python object that was seen last.

    Args:
        dm: the DM.
    """

    def __init__(self, dm: PETSc.DMPlex):
        self.see(dm)
        self._degree = coordinate_degree(dm)

    def see(self, dm: PETSc.DMPlex) -> None:
        """Takes note of the Python object of this DM."""
        self._object, self._handle = weakref.ref(dm), dm.handle

    def forget(self) -> None:
        """The DM is gone: its handle means another one from now on."""
        self._handle = None

    def is_same(self, dm: PETSc.DMPlex) -> bool:
        """Whether a DM is the user's, and not a clone for a space."""
        return dm.handle == self._handle

    def has_other_element(self, dm: PETSc.DMPlex) -> bool:
        """Whether a DM is the user's with coordinates of another degree than at first."""
        return self.is_same(dm) and coordinate_degree(dm) != self._degree

    def alive(self) -> PETSc.DMPlex | None:
        """The DM, while the user holds it."""
        dm = self._object()
        return dm if dm is not None and self.is_same(dm) else None
