"""Nodal Lagrange bases in PETSc's dof order.

PETSc does not say where its nodes are; the functionals of its dual space do. The basis is basix's orthonormal polynomials
times the inverse of their values at those nodes; on tensor cells products of such bases on the interval.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from math import comb

import basix
import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element.lattice import find_lattice, lattice_places
from femgpu.element.orthonormal import tabulate_orthonormal
from femgpu.element.reference import TENSOR_CELLS, ReferenceCell, reference_cell
from femgpu.errors import FormError

# Values of basis functions below are rounding: at the nodes those of degree 8 are wrong by 1.4e-15.
_ZERO = 1e-14


@dataclass(frozen=True)
class LagrangeElement:
    """A scalar Lagrange element; vector-valued spaces repeat it per component.

    Degree 0 has one node at the barycentre and is discontinuous.

    Attributes:
        cell: name of the reference cell.
        degree: polynomial degree, in each variable on tensor cells and in total on simplices; on prisms, the products of
            both.
        continuous: whether neighbouring cells share nodes.
        custom_nodes: positions of the nodes where they are not those of PetscFECreateLagrange (coordinates read from a file have
            equispaced nodes); empty otherwise. Made by `of_fe`.
        bubble: whether there is a node at the barycentre, too, whose function is the bubble (dim + 1)^(dim + 1) times the product
            of the barycentric coordinates; triangles and tetrahedra of degrees whose functions do not contain it.
    """

    cell: str
    degree: int
    continuous: bool = True
    custom_nodes: tuple[tuple[float, ...], ...] = ()
    bubble: bool = False

    def __post_init__(self) -> None:
        reference_cell(self.cell)
        if self.degree < 0:
            raise FormError(f"Lagrange degree {self.degree}: expected at least 0")
        if self.degree == 0:
            object.__setattr__(self, "continuous", False)
        dim = self.reference.dim
        if self.bubble and not (self.continuous and self.reference.is_simplex and self.degree <= dim > 1):
            raise FormError(
                f"bubbles beside degree {self.degree} on {self.cell} cells: expected degree 1 or 2 on triangles, 1 to 3 on "
                f"tetrahedra; higher degrees, and degree 2 on other cells, do without: take 'Lagrange', {max(2, self.degree)}"
            )

    @property
    def polynomial_degree(self) -> int:
        """The least degree of full polynomials that contain the functions."""
        return self.reference.dim + 1 if self.bubble else self.degree

    @property
    def family(self) -> str:
        """What FunctionSpaces of such elements are called."""
        return "P+B" if self.bubble else "Lagrange" if self.continuous else "DG"

    @property
    def map_degree(self) -> int:
        """The degree of det J on cells whose coordinates are of this element."""
        reference = reference_cell(self.cell)
        return reference.dim * (self.degree - 1) if reference.is_simplex else reference.dim * self.degree - 1

    @classmethod
    def of_fe(cls, cell: str, fe: PETSc.FE) -> LagrangeElement:
        """The element that a given PetscFE stands for, wherever its nodes are.

        Args:
            cell: name of the reference cell.
            fe: a Lagrange element with any number of components.

        Raises:
            FormError: when the PetscFE is not a nodal element of full degree.
        """
        degree = fe.getBasisSpace().getDegree()[0]
        continuous = fe.getDualSpace().getLagrangeContinuity()
        element = cls(cell, degree, continuous)
        nodes = _read_nodes(fe.getDualSpace(), fe.getNumComponents(), element.reference.dim)
        if nodes.shape != element.nodes.shape:
            raise FormError(
                f"a PetscFE of degree {degree} with {len(nodes)} nodes per {cell}; expected a Lagrange element with "
                f"{element.num_basis} nodes: create it with PetscFECreateLagrange"
            )
        if np.allclose(nodes, element.nodes, rtol=0, atol=1e-12):
            return element
        return cls(cell, degree, continuous, tuple(map(tuple, nodes.tolist())))

    @property
    def reference(self) -> ReferenceCell:
        """The reference cell."""
        return reference_cell(self.cell)

    @property
    def num_basis(self) -> int:
        """Number of basis functions."""
        return len(self.nodes)

    @property
    def nodes(self) -> npt.NDArray[np.float64]:
        """(num_basis, dim) positions of the nodes in PETSc's dof order, read-only."""
        return _nodes(self)

    @property
    def product(self) -> tuple[LagrangeElement, npt.NDArray[np.int32]] | None:
        """The element on the interval whose products the basis functions are, None where they are none.

        With it, its nodes increasing, the number in PETSc's order of the function at each place of the lattice, (num_basis,):
        function[i + p1d (j + p1d k)](x, y, z) = l_i(x) l_j(y) l_k(z).
        """
        return _product(self)

    def tabulate(self, points: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Values and gradients of the basis functions.

        A function is exactly zero on the vertices, edges and faces that lack its node.

        Args:
            points: (num_qpts, dim) points of the reference cell.

        Returns:
            B, shape (num_qpts, num_basis), and D, shape (num_qpts, num_basis, dim).
        """
        values = _tabulate(self, np.asarray(points, np.float64).reshape(-1, self.reference.dim), 1)
        values[0][np.abs(values[0]) < _ZERO] = 0
        return np.ascontiguousarray(values[0]), np.ascontiguousarray(np.moveaxis(values[1:], 0, 2))

    def hessians(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Second derivatives of the basis functions.

        Args:
            points: (num_qpts, dim) points of the reference cell.

        Returns:
            (num_qpts, num_basis, dim, dim), symmetric in the last two axes.
        """
        dim = self.reference.dim
        values = _tabulate(self, np.asarray(points, np.float64).reshape(-1, dim), 2)
        out = np.empty((*values.shape[1:], dim, dim))
        for i, j in itertools.product(range(dim), repeat=2):
            order = np.bincount([i, j], minlength=dim)
            out[:, :, i, j] = values[basix.index(*map(int, order))]
        return out

    def facet_nodes(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Numbers of the nodes that lie on each facet, facets in PETSc's cone order; increasing, dtype int32."""
        return self.entity_nodes()[1 : 1 + len(self.reference.facets)]

    def entity_nodes(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Numbers of the nodes in or on each part of the cell, parts in the order of `ReferenceCell.entities`; as `facet_nodes`."""
        parts = [set(part) for part in self.reference.entities]
        where = self.reference.entity_of(self.nodes)
        return tuple(np.flatnonzero([parts[part] <= whole for part in where]).astype(np.int32) for whole in parts)

    def petsc_fe(self, num_comp: int = 1, comm: PETSc.Comm | None = None) -> PETSc.FE:
        """The PetscFE whose dofs this element describes.

        Args:
            num_comp: number of components.
            comm: communicator of the DM that it is for; default PETSC_COMM_SELF.

        Returns:
            A new PetscFE; collective on comm.

        Raises:
            FormError: for an element with custom nodes or a bubble, or on prisms: PETSc numbers those wrongly without saying so.
        """
        if self.cell == "prism":
            raise FormError(f"a prism element of degree {self.degree} has no PetscFE; use mesh.set_fields for its section")
        if self.custom_nodes or self.bubble:
            raise FormError(f"a {self.cell} element of degree {self.degree} with nodes of its own has no PetscFE to create")
        reference = self.reference
        comm = PETSc.COMM_SELF if comm is None else comm
        fe = PETSc.FE().createLagrange(reference.dim, num_comp, reference.is_simplex, self.degree, -1, comm=comm)
        return fe if self.continuous or self.degree == 0 else _discontinuous(fe, num_comp, comm)


def _discontinuous(fe: PETSc.FE, num_comp: int, comm: PETSc.Comm) -> PETSc.FE:
    dual = fe.getDualSpace().duplicate()
    dual.setLagrangeContinuity(False)
    dual.setUp()
    broken = PETSc.FE().create(comm=comm)
    broken.setType(PETSc.FE.Type.BASIC)
    broken.setNumComponents(num_comp)
    broken.setBasisSpace(fe.getBasisSpace())
    broken.setDualSpace(dual)
    broken.setUp()
    broken.setQuadrature(fe.getQuadrature())
    broken.setFaceQuadrature(fe.getFaceQuadrature())
    return broken


@cache
def _nodes(element: LagrangeElement) -> npt.NDArray[np.float64]:
    if element.custom_nodes:
        nodes = np.array(element.custom_nodes)
    elif element.bubble:
        nodes = np.concatenate([element.reference.vertices.mean(axis=0)[None], replace(element, bubble=False).nodes])
    elif element.cell == "prism":
        nodes = _prism_nodes(element)
    else:
        nodes = _read_nodes(_dual_space(element), 1, element.reference.dim)
    nodes.flags.writeable = False
    return nodes


def _prism_nodes(element: LagrangeElement) -> npt.NDArray[np.float64]:
    """(num_basis, 3) products of the nodes of triangle and interval, in closure order as those of other cells."""
    triangle = LagrangeElement("triangle", element.degree, element.continuous).nodes
    interval = LagrangeElement("interval", element.degree, element.continuous).nodes
    nodes = np.concatenate([np.tile(triangle, (len(interval), 1)), np.repeat(interval, len(triangle), axis=0)], axis=1)
    return nodes[np.argsort(element.reference.entity_of(nodes), kind="stable")]


def _dual_space(element: LagrangeElement) -> PETSc.DualSpace:
    """PETSc's, without the basis that a PetscFE has by inverting a matrix, which takes half a minute for hexahedra of degree 15."""
    reference = element.reference
    linear = PETSc.FE().createLagrange(reference.dim, 1, reference.is_simplex, 1, -1, comm=PETSc.COMM_SELF)
    dual = linear.getDualSpace().duplicate()
    dual.setOrder(element.degree)
    dual.setLagrangeContinuity(element.continuous or element.degree == 0)
    dual.setUp()
    return dual


def _read_nodes(dual: PETSc.DualSpace, num_comp: int, dim: int) -> npt.NDArray[np.float64]:
    """(num_basis, dim) points of the functionals of component 0."""
    points = [dual.getFunctional(i).getData()[0] for i in range(0, dual.getDimension(), num_comp)]
    return np.array(points, np.float64).reshape(-1, dim)


@cache
def _product(element: LagrangeElement) -> tuple[LagrangeElement, npt.NDArray[np.int32]] | None:
    grid = find_lattice(element.nodes) if element.cell in TENSOR_CELLS else None
    if grid is None:
        return None
    grid[1].flags.writeable = False
    return line_element(grid[0]), grid[1]


def line_element(nodes: npt.NDArray[np.float64]) -> LagrangeElement:
    """The element on the interval with given nodes (p1d,), in this order."""
    return LagrangeElement("interval", len(nodes) - 1, True, tuple((node,) for node in nodes.tolist()))


def _tabulate(element: LagrangeElement, points: npt.NDArray[np.float64], num_deriv: int) -> npt.NDArray[np.float64]:
    """(num_derivatives, num_points, num_basis) basis functions and their derivatives in the order of `basix.index`."""
    dim = points.shape[1]
    if dim == 1 or element.product is None:
        return tabulate_orthonormal(element.cell, element.polynomial_degree, points, num_deriv) @ _coefficients(element)
    # Products of 1D ones take less time than the inverse of a large matrix, and have a tenth of its rounding.
    line, lattice = element.product
    factors = [_tabulate(line, points[:, d : d + 1], num_deriv) for d in range(dim)]
    places = lattice_places(line.num_basis, dim)
    out = np.empty((comb(dim + num_deriv, dim), len(points), len(lattice)))
    for order in itertools.product(range(num_deriv + 1), repeat=dim):
        if sum(order) <= num_deriv:
            parts = [factor[n][:, place] for factor, n, place in zip(factors, order, places.T, strict=True)]
            out[basix.index(*order)][:, lattice] = np.prod(parts, axis=0)
    return out


@cache
def _coefficients(element: LagrangeElement) -> npt.NDArray[np.float64]:
    """(num_orthonormal, num_basis) coefficients of the nodal basis functions in basix's orthonormal polynomials."""
    if element.bubble:
        # Both are combinations of the functions of the bubble's degree, of which the first is the bubble itself.
        full = LagrangeElement(element.cell, element.polynomial_degree)
        values = np.eye(full.num_basis, element.num_basis)
        values[1:, 1:] = replace(element, bubble=False).tabulate(full.nodes[1:])[0]
        coefficients = _coefficients(full) @ values
    else:
        coefficients = np.linalg.inv(tabulate_orthonormal(element.cell, element.polynomial_degree, element.nodes, 0)[0])
    coefficients.flags.writeable = False
    return coefficients
