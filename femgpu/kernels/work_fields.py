"""The fields that a kernel interpolates, and those of the test function."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldWork:
    """One field that is interpolated at the points.

    Attributes:
        name: of its arguments: `d_<name>` (vector) and `d_<name>_offsets`.
        vector: whose vector it is read from: `u`, `w`, `a0`, ...
        array: the pointwise array that receives the values (`u`, `w`, `a`); gradients go to `<array>_x`, Hessians to `<array>_xx`.
        offset: first component within that array.
        table: number of the tabulation it uses.
        num_basis, num_comp: basis functions per cell, and components.
        value, gradient, hessian: whether values, gradients, second derivatives are needed.
        masked: whether entries may be prescribed, which are read as zero.
        side: 1 for the second cell of a facet, else 0.
        nodes: number of its nodes' offsets: fields and rows with the same one have the same offsets, but for marks; -1: unknown.
    """

    name: str
    vector: str
    array: str
    offset: int
    table: int
    num_basis: int
    num_comp: int
    value: bool = True
    gradient: bool = True
    hessian: bool = False
    masked: bool = False
    side: int = 0
    nodes: int = -1

    @property
    def size(self) -> int:
        """Coefficients per cell."""
        return self.num_basis * self.num_comp


@dataclass(frozen=True)
class RowsWork:
    """Rows of one field of the test function, which are columns of element matrices too.

    Attributes:
        offset: first component among those of the test space.
        table: number of its tabulation.
        num_basis, num_comp: basis functions per cell, and components.
        first_row: its first row among those of a cell.
        value, gradient, hessian: whether an output multiplies its values, gradients, second derivatives.
        masked: whether rows may be prescribed, which are not written.
        beside: name of a field with the same offsets, which the kernel reads anyway; empty: there is none.
        num_parts: points of the mesh that carry its nodes in a cell.
        side: 1 for the second cell of a facet, else 0.
        twin: number of the rows of the same field in the other cell, where the cells share some of its nodes; -1: none.
        nodes, continuous: number of its nodes' offsets, as of fields; whether cells share nodes.
    """

    offset: int
    table: int
    num_basis: int
    num_comp: int
    first_row: int = 0
    value: bool = True
    gradient: bool = True
    hessian: bool = False
    masked: bool = False
    beside: str = ""
    num_parts: int = 1
    side: int = 0
    twin: int = -1
    nodes: int = -1
    continuous: bool = True

    @property
    def size(self) -> int:
        """Rows per cell."""
        return self.num_basis * self.num_comp

    def direction(self, number: int) -> FieldWork:
        """The direction in these rows, by their own offsets, if they are those of field `number`."""
        return FieldWork(f"test{number}", "w", "w", self.offset, self.table, self.num_basis, self.num_comp, masked=self.masked)
