"""The model of paper 004: flops over bytes of a residual of E-vectors, one coefficient value per cell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Beta:
    """Counts per cell, for blocks that have as many cells as items.

    Attributes:
        dim: d.
        num_basis: N_b.
        num_comp: N_c.
        num_qpts: N_q.
        word: bytes of a number.
    """

    dim: int
    num_basis: int
    num_comp: int
    num_qpts: int
    word: int

    @property
    def flops(self) -> int:
        """(2 + (2 + 2d) d) N_bt N_q + 2 d N_c N_q + (2 + 2d) d N_q N_bt with N_bt = N_b N_c."""
        d, rows, points = self.dim, self.num_basis * self.num_comp, self.num_qpts
        return (2 + (2 + 2 * d) * d) * rows * points + 2 * d * self.num_comp * points + (2 + 2 * d) * d * points * rows

    @property
    def bytes(self) -> int:
        """Word times (d^2 + 1) + N_bt + (d + 1) N_q: geometry, coefficients, values at the points."""
        return self.word * (self.dim**2 + 1 + self.num_basis * self.num_comp + (self.dim + 1) * self.num_qpts)

    @property
    def fused_bytes(self) -> float:
        """Least bytes of the same residual between L-vectors, of degree 1 on a box of triangles or of six tetrahedra per cube.

        4-byte offsets and one coefficient value of each cell; coordinates and coefficients of each vertex once, the result three
        times: it is zeroed, read and written.
        """
        d, vertices_per_cell = self.dim, {2: 1 / 2, 3: 1 / 6}[self.dim]
        return 4 * (d + 1) + self.word * (1 + vertices_per_cell * (d + (1 + 3) * self.num_comp))

    @property
    def beta(self) -> float:
        """Flops per byte; 41/22 for P1 triangles with one point in single precision."""
        return self.flops / self.bytes

    def bound(self, bandwidth: float) -> float:
        """Flops per second at a bandwidth in bytes per second."""
        return self.beta * bandwidth
