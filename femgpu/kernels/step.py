"""What is asked of a plan (`Wish`), and what it consists of (`Step`)."""

from __future__ import annotations

from dataclasses import dataclass

from femgpu.kernels.array import Array


@dataclass(frozen=True)
class Wish:
    """What the options and the mesh ask of a plan.

    Attributes:
        precision: one of `PRECISIONS`.
        geometry: one of `GEOMETRIES`: inverse Jacobians from memory, or rebuilt from coordinates.
        scatter: one of `SCATTERS`: atomic adds into the L-vector, or each cell its own entries.
        parameters: of the schedule that is asked for by name, as (name, value) pairs.
        whole: whether one rank has all cells: of parts of a mesh some neighbouring cells have more nodes than elsewhere.
    """

    precision: str = "double"
    geometry: str = "stored"
    scatter: str = "evector"
    parameters: tuple[tuple[str, int], ...] = ()
    whole: bool = True

    def parameter(self, name: str, default: int) -> int:
        """The value asked for, or the default."""
        return dict(self.parameters).get(name, default)


@dataclass(frozen=True)
class Step:
    """One launch.

    Attributes:
        name: of the kernel function.
        shell: the template that it is rendered from, `cl/<shell>.cl.mako`.
        arrays: the arguments after `first` and `count`, in order.
        local: arrays in local memory, per work-group.
        items: work-items per work-group.
        group_cells: cells of one work-group, or parts of cells.
        parts: parts of a cell that stand as cells, for example the rows of its matrix.
        barriers: per work-group.
        macros: sizes that the shell uses, beyond those of every kernel.
    """

    name: str
    shell: str
    arrays: tuple[Array, ...]
    local: tuple[Array, ...] = ()
    items: int = 64
    group_cells: int = 64
    parts: int = 1
    barriers: int = 0
    macros: tuple[tuple[str, int], ...] = ()

    def global_size(self, count: int) -> int:
        """Work-items to launch for a number of cells."""
        return -(-count * self.parts // self.group_cells) * self.items
