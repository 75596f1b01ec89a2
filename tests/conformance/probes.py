"""Forms and data by which a sum in single precision shows in mixed precision, against the bounds of `bounds`.

Single precision at the points is wrong by some roundings of the sum, whatever the number of points, and a sum of random numbers in
single precision hardly by more. Here one point, or one of the cells around a vertex, contributes almost everything, and each of the
many others a bit less than what the last place of that still feels: in single precision all of them together are lost, which is as
many roundings as there are others; in double precision nothing is.
"""

import math
from dataclasses import dataclass

import numpy as np
import ufl
from petsc4py import PETSc
from random_meshes import random_cells
from ufl import dx, grad, inner

from femgpu import Constant, Function, FunctionSpace
from femgpu.element import default_rule, reference_cell
from femgpu.forms import functional, lower_form
from femgpu.mesh.box import from_cell_list
from femgpu.operators import twin
from femgpu.operators.division import make_terms
from femgpu.options import Settings

# Degrees of rules with many points.
DEGREES = {"interval": 127, "triangle": 22, "quadrilateral": 19, "tetrahedron": 13, "hexahedron": 9, "prism": 10}
# What stands first is a little more than one, of which half a unit in the last place is 2^-24.
FIRST, OTHERS = 1.02, 0.95 * 2.0**-24


@dataclass(frozen=True)
class Probe:
    """A form and its vectors.

    Attributes:
        form: the lowered form, linear in its unknown.
        vectors: L-vectors of state, direction and coefficients by name.
        others: numbers that a sum in single precision loses, each almost half of a unit in the last place.
        energy: the functional of which the form is the derivative, lowered.
    """

    form: object
    vectors: dict
    others: int
    energy: object = None


def points_probe(cell, kind, place, rng, num_cells=5):
    """A sum over the points of each cell.

    Args:
        cell: type of the cells.
        kind: "value", the mass matrix with a density, or "gradient", the stiffness matrix with one.
        place: the number of the point that contributes most: 0 or -1, for sums that go up or down.
        rng: random numbers.
        num_cells: how many cells.
    """
    dm = random_cells(cell, num_cells, rng, "affine")
    V = FunctionSpace(dm, "DG", 1)
    local = Function(FunctionSpace(dm, "DG", 1, shape=(V.mesh.dim,)), "local")
    nodes = V.element.nodes
    set_nodes(local, nodes)
    rule = default_rule(cell, DEGREES[cell])
    point = rule.points[place]
    number = int(np.abs(V.element.tabulate(point[None])[0]).argmax())
    nearest = np.sort(np.linalg.norm(rule.points - point, axis=1))[1]
    distance = sum((local[i] - float(point[i])) ** 2 for i in range(len(point)))
    most, other = Constant(dm, 1.0), Constant(dm, 1.0)
    density = ufl.conditional(ufl.lt(distance, float(nearest / 2) ** 2), most, other / profile(cell, kind, local, nodes[number]))
    u = Function(V)
    integrands = [inner(u, v) if kind == "value" else inner(grad(u), grad(v)) for v in (ufl.TestFunction(V), u)]
    residual, energy = (density * integrand * dx(V.ufl_domain(), degree=rule.degree) for integrand in integrands)
    form = lower_form(residual, u)
    # The residual's row is the matrix's entry on the diagonal.
    set_nodes(u, np.eye(len(nodes))[number])
    vectors = {"u": u.local_array(), "w": u.local_array()} | coefficients(form)
    found = np.abs(contributions(form, vectors)[0, :, number])
    rest = np.delete(found, np.arange(len(found))[place])
    most.value, other.value = FIRST / found[place], OTHERS / rest.max()
    return Probe(form, vectors, float(rest.sum() / rest.max()), functional(energy))


def cells_probe(place, num_cells=64):
    """A sum over the cells around a vertex; `place` is the number of the cell that contributes most, 0 or -1."""
    angles = 2 * math.pi * np.arange(num_cells) / num_cells
    points = np.r_[np.zeros((1, 2)), np.c_[np.cos(angles), np.sin(angles)]]
    ring = 1 + np.arange(num_cells)
    cells = np.c_[np.zeros(num_cells, int), ring, np.roll(ring, -1)].astype(np.int32)
    dm = from_cell_list("triangle", cells, points, PETSc.COMM_SELF)
    V = FunctionSpace(dm, "Lagrange", 1)
    density = Function(FunctionSpace(dm, "DG", 0), "density")
    u, v = Function(V), ufl.TestFunction(V)
    form = lower_form(density * inner(u, v) * dx(V.ufl_domain(), degree=2), u)
    values = np.full(num_cells, OTHERS)
    values[place] = FIRST
    # By symmetry every cell contributes a third of its area.
    density.vec.setArray(values * 3 / (math.sin(2 * math.pi / num_cells) / 2))
    u.vec.set(1.0)
    vectors = {"u": u.local_array(), "w": u.local_array()} | coefficients(form)
    return Probe(form, vectors, num_cells - 1)


def set_nodes(function, values):
    """Gives every cell's nodes the same values (num_basis,) or (num_basis, num_comp)."""
    field = function.space.field
    local = np.zeros(function.space.num_local)
    local[field.offsets[0][:, :, None] + np.arange(field.num_comp)] = values.reshape(len(values), -1)
    function.set_local(local)


def profile(cell, kind, local, node):
    """About how the weight times the square of a vertex's basis function, or of its gradient, goes over the cell."""
    dim = len(node)
    flat = {"interval": 0, "quadrilateral": 0, "hexahedron": 0, "prism": 2}.get(cell, dim)
    gauss = math.prod((ufl.sqrt(1 - local[i] ** 2) for i in range(flat, dim)), start=1.0)
    # The function is a product over the intervals and the simplex that the cell is one of: squares of each and of its slope.
    squares = [((1 + float(node[i]) * local[i]) / 2) ** 2 for i in range(flat, dim)]
    slopes = [0.25] * len(squares)
    if flat:
        corners = np.unique(reference_cell(cell).vertices[:, :flat], axis=0)
        target = np.linalg.norm(corners - node[:flat], axis=1).argmin()
        plane = np.linalg.solve(np.c_[np.ones(flat + 1), corners], np.eye(flat + 1)[target])
        squares.append(sum((float(plane[i + 1]) * local[i] for i in range(flat)), float(plane[0])) ** 2)
        slopes.append(float(plane[1:] @ plane[1:]))
    if kind == "value":
        return gauss * math.prod(squares, start=1.0)
    return gauss * sum(slope * math.prod(squares[:i] + squares[i + 1 :], start=1.0) for i, slope in enumerate(slopes))


def coefficients(form):
    return {f"a{i}": function.local_array() for i, function in enumerate(form.coefficients)}


def contributions(form, vectors):
    """What each point contributes to each row of the residual, (num_cells, num_qpts, num_rows)."""
    (term,) = make_terms(form, Settings())
    constants = np.concatenate([np.ravel(constant.value) for constant in form.constants])
    points = twin.Points(term)
    outputs = points.evaluate(term.integral.residual, vectors, constants)
    values, gradients, _ = points.basis(term.element(term.rows[0]), second=False)
    if "f0" in outputs:
        return np.einsum("eq,eqb,eq->eqb", points.weights, values, outputs["f0"][..., 0])
    return np.einsum("eq,eqbd,eqd->eqb", points.weights, gradients, outputs["f1"][..., 0, :])
