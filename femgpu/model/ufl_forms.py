"""Words and operations of the actions of paper 001 on affine simplices, of its algorithm 2 with nothing transformed, by cells.

Paper 001: K. Kulkarni, A. Kloeckner, Code generation for near-roofline finite element actions on GPUs from symbolic variational
forms (2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, inf


@dataclass(frozen=True)
class UFLForm:
    """A form of the paper's appendix A.

    Attributes:
        name: of the form.
        vector: whether functions have as many components as the mesh has dimensions.
        value: whether it takes values of the direction and of the test function.
        gradient: whether it takes their gradients.
        state: whether it takes the gradient of a state, at which it is linearised.
    """

    name: str
    vector: bool = False
    value: bool = False
    gradient: bool = True
    state: bool = False

    def num_comp(self, dim: int) -> int:
        """Components of the functions."""
        return dim if self.vector else 1

    def derivatives(self, dim: int) -> int:
        """Values and derivatives of all components: N^deriv of the paper, the same for all functions of a form."""
        return self.num_comp(dim) * (self.value + dim * self.gradient)

    def flops(self, dim: int, degree: int, points: int) -> int:
        """Operations of a cell by equation (28): a multiplication and an addition for each derivative, point and basis function.

        Of the direction, of the test function, and of the state, which algorithm 2 evaluates in each action like any function that
        it gathers: a kernel that keeps numbers at the points does less and is given as much. What the form does with the
        derivatives at the points, and the geometry, do not count.

        Args:
            dim: of the cells.
            degree: of the elements.
            points: of the rule.
        """
        return 2 * (2 + self.state) * self.derivatives(dim) * points * comb(degree + dim, dim)

    def global_bytes(self, dim: int, degree: int, cells: int, dofs: int, vertices: int, scalar: int = 8, real: int = 8) -> int:
        """The footprint of gather and scatter: each word once, of direction, state and result, offsets of nodes, and geometry.

        That is the positions of the vertices and their offsets in each cell, those of the nodes at degree 1. Neither the zeroing of
        the result nor what an atomic sum reads counts, nor any number that a kernel keeps at the points.

        Args:
            dim: of the cells.
            degree: of the elements.
            cells: how many.
            dofs: length of a vector.
            vertices: how many.
            scalar: bytes of a number in vectors.
            real: bytes of a number in the geometry.
        """
        offsets = comb(degree + dim, dim) + (dim + 1) * (degree > 1)
        return (2 + self.state) * scalar * dofs + 4 * cells * offsets + real * dim * vertices

    def local_bytes(self, dim: int, degree: int, points: int, real: int = 8) -> int:
        """Bytes that a cell reads and writes in local memory by equation (44): tabulations, and derivatives at the points."""
        at_points = self.derivatives(dim) * points
        return real * (at_points * comb(degree + dim, dim) * (2 + self.state) + 2 * at_points)


UFL_FORMS = {
    form.name: form
    for form in (
        UFLForm("mass", value=True, gradient=False),
        UFLForm("poisson"),
        UFLForm("helmholtz", value=True),
        UFLForm("elasticity", vector=True),
        UFLForm("hyperelasticity", vector=True, state=True),
    )
}


def roofline(
    flops: float, moved: float, bandwidth: float, peak: float, local_moved: float = 0, local_bandwidth: float = inf
) -> float:
    """Operations per second that are possible at most, equation (47); without the last two a kernel may read from registers.

    Args:
        flops: operations.
        moved: bytes from and to global memory for them.
        bandwidth: of global memory, bytes per second.
        peak: operations per second.
        local_moved: bytes from and to local memory.
        local_bandwidth: of local memory, bytes per second.
    """
    return flops / max(moved / bandwidth, local_moved / local_bandwidth, flops / peak)
