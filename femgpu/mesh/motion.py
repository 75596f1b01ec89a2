"""Moving meshes: the one place that knows which vectors hold a mesh's coordinates, and when they changed.

The user's DM, the mesh's own and those of the spaces each have a local vector of coordinates, often the same one. The user's has a
global one, too, which PETSc makes of it and does not look at again. A change of any of them is a change of the mesh: it reaches the
arrays of the mesh, and the other vectors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import MeshError, collective, meet
from femgpu.mesh import geometry
from femgpu.mesh.block import Block
from femgpu.mesh.coordinates import vectors
from femgpu.mesh.user_dm import UserDM

_Floats = npt.NDArray[np.float64]


class Motion:
    """The coordinates of a mesh as they change.

    Args:
        dm: the mesh's own DM.
        user_dm: the user's.
        blocks: the cells; their coordinates and masks of affine cells are changed in place.
        mpi: the mesh's mpi4py communicator.

    Attributes:
        moves: how often the coordinates have changed; the same on all ranks.
        bends: how often cells that were affine ceased to be: then all cells of their type count as not affine, for good.
        followers: called on all ranks after each move.
    """

    def __init__(self, dm: PETSc.DMPlex, user_dm: UserDM, blocks: Sequence[Block], mpi: Any):
        self.moves = self.bends = 0
        self.followers: list[Callable[[], None]] = []
        self._dm, self._user_dm, self._mpi = dm, user_dm, mpi
        self._blocks, self._coords = blocks, blocks[0].coords
        self._clones: list[weakref.ref[PETSc.DMPlex]] = []
        self._num_vertices = dm.getCoordinatesLocal().getLocalSize() // dm.getDimension()
        # Kept: to ask for it is collective, and some rank may have lost the DM.
        self._global = (user_dm.alive() or dm).getCoordinates()
        # The state in which each vector was read, by PETSc's number of the object, which never comes back.
        self._seen: dict[int, int] = {}
        self._see()

    def watch(self, dm: PETSc.DMPlex) -> None:
        """Coordinates changed on this clone of the mesh's own DM count too, as long as it lives."""
        self._clones = [*(clone for clone in self._clones if clone() is not None), weakref.ref(dm)]
        for vec in vectors(dm):
            self._seen.setdefault(vec.getId(), vec.stateGet())

    def update(self) -> bool:
        """Reads the coordinates again where they have changed; collective, and cheap where they have not.

        Returns:
            Whether they have.

        Raises:
            MeshError: when cells are inverted now, or coordinates are of another element; the mesh keeps what it had.
        """
        if not meet(self._mpi, self.touched()):
            return False
        image = self._image()
        with collective(self._mpi):
            values = self._values(image)
        moved = meet(self._mpi, not np.array_equal(values, self._coords))
        if moved:
            self._accept(values)
        self._share()
        if moved:
            self.moves += 1
            for follow in self.followers:
                follow()
        return moved

    def touched(self) -> bool:
        """Whether this rank has written to a vector of coordinates since the last `update`, maybe what was there."""
        return any(self._is_new(vec) for vec in self._vectors())

    def _holders(self) -> list[PETSc.DMPlex]:
        dms = (self._user_dm.alive(), self._dm, *(clone() for clone in self._clones))
        return [dm for dm in dms if dm is not None and dm.handle]

    def _vectors(self) -> list[PETSc.Vec]:
        return [self._global, *(vec for holder in self._holders() for vec in vectors(holder))]

    def _see(self) -> None:
        self._seen = {vec.getId(): vec.stateGet() for vec in self._vectors()}

    def _image(self) -> list[PETSc.Vec]:
        """A local vector of the global one, if that was written to; collective."""
        if not meet(self._mpi, self._is_new(self._global)):
            return []
        image = self._dm.getCoordinateDM().createLocalVec()
        self._dm.getCoordinateDM().globalToLocal(self._global, image)
        return [image]

    def _changed(self, kind: int) -> list[PETSc.Vec]:
        """The vectors of the nodes (0) or of cells across a period (1) that were written to since they were read."""
        found = [vec for holder in self._holders() for vec in vectors(holder)[kind : kind + 1]]
        return [vec for vec in found if self._is_new(vec)]

    def _is_new(self, vec: PETSc.Vec) -> bool:
        """Whether a vector was written to since it was read; nothing of it is looked at."""
        return self._seen.get(vec.getId()) != vec.stateGet()

    def _values(self, image: list[PETSc.Vec]) -> _Floats:
        """(num_nodes, dim) what the vectors that changed agree on, that of `_image` too."""
        dim = self._coords.shape[1]
        parts = np.split(self._coords.copy(), [self._num_vertices])
        moved = []
        for kind, part in enumerate(parts):
            old = found = part.ravel()
            for vec in [*self._changed(kind), *(image if kind == 0 else [])]:
                values = vec.array_r
                if values.size != old.size:
                    raise MeshError(
                        f"the coordinates of a DM have {values.size} numbers, {old.size} when its mesh was read; expected "
                        "coordinates of the same degree: give a DM curved coordinates before the first space is made on it"
                    )
                if np.array_equal(values, old):
                    continue  # somebody asked for write access, and did not write
                if found is not old and not np.array_equal(values, found):
                    raise MeshError(
                        "the coordinates of a mesh were changed in two ways, on two of its DMs; expected one change: move the DM "
                        "that the spaces were made on, or the dm of one space"
                    )
                found = values
            moved.append(found is not old)
            parts[kind] = found.reshape(-1, dim)
        if len(parts[1]) and moved == [True, False]:
            raise MeshError(
                "the vertices of a periodic mesh were moved, the coordinates of its cells across the period were not; expected "
                "both: change dm.getCellCoordinatesLocal() alike"
            )
        return np.concatenate(parts)

    def _accept(self, values: _Floats) -> None:
        """Takes new coordinates if they are legal; collective."""
        arrays = [self._coords, *(block.affine for block in self._blocks)]
        before = [array.copy() for array in arrays]
        try:
            self._coords[...] = values
            with collective(self._mpi):
                geometry.check_finite(self._coords)
            bent = meet(self._mpi, any(bool((block.affine & ~block.affine_now()).any()) for block in self._blocks))
            for block in self._blocks:
                # Even those that still are: else a motion that bends some cells more at each step divides the terms anew each time.
                block.affine[...] &= not bent or block.always_affine
            with collective(self._mpi):
                for block in self._blocks:
                    block.check_orientation()
        except MeshError:
            for array, old in zip(arrays, before, strict=True):
                array[...] = old
            raise
        self.bends += bent

    def _share(self) -> None:
        """Gives all DMs the coordinates of the mesh, and those with a local vector of their own forget global ones; collective."""
        common = self._dm.getCoordinatesLocal()
        for dm in self._holders():
            vertices, *cells = vectors(dm)
            _set(vertices, self._coords[: self._num_vertices])
            if vertices.handle != common.handle:
                dm.setCoordinatesLocal(vertices)
            for vec in cells:
                _set(vec, self._coords[self._num_vertices :])
                dm.setCellCoordinatesLocal(vec)
        user_dm = self._user_dm.alive()
        if not meet(self._mpi, user_dm is None) and user_dm is not None:
            self._global = user_dm.getCoordinates()
        self._dm.getCoordinateDM().localToGlobal(common, self._global)
        self._see()


def _set(vec: PETSc.Vec, values: _Floats) -> None:
    if not np.array_equal(vec.array_r, values.ravel()):
        vec.setArray(values.ravel())
