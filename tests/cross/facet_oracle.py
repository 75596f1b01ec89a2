"""An assembly over facets between two cells that knows neither facets, nor how cells lie at each other.

It finds facets by the vertices that two cells share, places the points of a rule on the first cell's facet, and looks for each of
them in the second cell by Newton's method. Normals come from tangents. Each rank goes through the cells of all ranks.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import ufl
from ufl import avg, dot, grad, inner, jump

import femgpu
from femgpu import Constant
from femgpu.element import default_rule
from femgpu.element.reference import FACET_NAMES
from femgpu.spaces.cell_quantities import CELL_QUANTITIES

# That the rules integrate exactly.
DEGREE = 4


def gathered(space):
    """A space with the cells of all ranks, those of the first rank first, and its dofs by their global numbers; collective."""
    mpi, numbers = space.mesh.mpi, space.numbering.global_of_local
    here = [(block.ids, block.coords[block.coord_dofs], numbers[space.field.offsets[block.index]]) for block in space.mesh.blocks]
    ranks = mpi.allgather(here)
    firsts = np.cumsum([0, *(sum(len(ids) for ids, _, _ in rank) for rank in ranks)])
    blocks, offsets = [], []
    for block in space.mesh.blocks:
        ids, nodes, dofs = (
            np.concatenate([part + first * (number == 0) for part, first in zip(column, firsts, strict=False)])
            for number, column in enumerate(zip(*(rank[block.index] for rank in ranks), strict=True))
        )
        places = np.arange(nodes.shape[0] * nodes.shape[1]).reshape(nodes.shape[:2])
        blocks.append(
            replace(block, ids=ids, coords=nodes.reshape(-1, nodes.shape[2]), coord_dofs=places, affine=np.zeros(len(ids), bool))
        )
        offsets.append(dofs)
    mesh = SimpleNamespace(blocks=blocks, dim=space.mesh.dim)
    return SimpleNamespace(
        mesh=mesh, field=replace(space.field, offsets=tuple(offsets)), num_comp=space.num_comp, num_dofs=space.num_dofs
    )


def all_values(function):
    """The values of a function in a `gathered` space; collective."""
    return np.concatenate(function.space.mesh.mpi.allgather(function.vec.array))


class Side:
    """A cell at some points of a facet.

    Attributes:
        x: (point, dim) the points.
        points: the same on the reference cell.
        inverse: (point, dim, dim) dX_k / dx_d.
    """

    def __init__(self, block, index, points):
        self.block, self.index, self.points = block, index, points
        self.x = block.physical_points(points, np.array([index]))[0]
        self.inverse = np.linalg.inv(block.jacobians(points, np.array([index]))[0])

    def basis(self, field):
        """Values (point, basis), gradients (point, basis, dim) and positions (basis,) of a field's functions."""
        values, gradients = field.elements[self.block.index].tabulate(self.points)
        return values, np.einsum("qbk,qkd->qbd", gradients, self.inverse), field.offsets[self.block.index][self.index]


def find(block, index, x):
    """The points of the reference cell that lie at x."""
    points = np.tile(block.reference.vertices.mean(axis=0), (len(x), 1))
    for _ in range(30):
        there = Side(block, index, points)
        step = np.einsum("qkd,qd->qk", there.inverse, x - there.x)
        points = points + step
        if abs(step).max() < 1e-15:
            break
    assert abs(Side(block, index, points).x - x).max() < 1e-13
    return points


def rule(num_vertices):
    """Points on the facet as weights of its vertices (point, vertex), derivatives of these (point, vertex, direction), and weights.

    Where maps bend, integrands are no polynomials: the rule has to be femgpu's own.
    """
    if num_vertices == 1:
        return np.ones((1, 1)), np.zeros((1, 1, 0)), np.ones(1)
    given = default_rule(FACET_NAMES[num_vertices], DEGREE)
    (s, *more), one, half = (given.points.T + 1) / 2, np.ones(given.num_qpts), 0.5 ** given.points.shape[1]
    if num_vertices == 2:
        return np.stack([1 - s, s], axis=1), np.tile([[-1.0], [1.0]], (len(s), 1, 1)), given.weights * half
    (t,) = more
    if num_vertices == 3:
        slopes = np.tile([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]], (len(s), 1, 1))
        return np.stack([1 - s - t, s, t], axis=1), slopes, given.weights * half
    slopes = np.array([[t - 1, s - 1], [one - t, -s], [t, s], [-t, one - s]]).transpose(2, 0, 1)
    return np.stack([(1 - s) * (1 - t), s * (1 - t), s * t, (1 - s) * t], axis=1), slopes, given.weights * half


def facets(mesh):
    """Both sides of each facet between two cells, the weights of its points, and the first cell's outward normals there."""
    cells = {}
    for block in mesh.blocks:
        nodes = block.physical_points(block.reference.vertices)
        for index, number in enumerate(block.ids):
            for loop in block.reference.loops:
                key = frozenset(tuple(np.round(nodes[index, vertex], 10)) for vertex in loop)
                cells.setdefault(key, []).append((int(number), block, index, loop))
    for found in cells.values():
        if len(found) == 2:
            (_, block, index, loop), (_, other, behind, _) = sorted(found, key=lambda entry: entry[0])
            shapes, slopes, weights = rule(len(loop))
            first = Side(block, index, shapes @ block.reference.vertices[list(loop)])
            tangents = np.einsum("qvt,vk,qdk->qdt", slopes, block.reference.vertices[list(loop)], np.linalg.inv(first.inverse))
            middle = block.physical_points(block.reference.vertices.mean(axis=0)[None], np.array([index]))[0]
            if mesh.dim == 1:
                normals = np.ones((1, 1))
            elif mesh.dim == 2:
                normals = tangents[:, ::-1, 0] * [1, -1]
            else:
                normals = np.cross(tangents[:, :, 0], tangents[:, :, 1])
            lengths = np.linalg.norm(normals, axis=1)
            outward = np.sign(np.einsum("qd,qd->q", normals, first.x - middle))
            yield (
                first,
                Side(other, behind, find(other, behind, first.x)),
                weights * lengths,
                normals * (outward / lengths)[:, None],
            )


def interpolated(space, values, side):
    """Values (point, comp) of a function."""
    basis, _, offsets = side.basis(space.field)
    return basis @ values[offsets[:, None] + np.arange(space.num_comp)]


def volumes(mesh):
    """Of each cell, by block and index."""
    return [CELL_QUANTITIES["CellVolume"](block) for block in mesh.blocks]


def weak_form(V, k, flow):
    """A bilinear form in which both sides differ, all derivatives and inputs occur, and nothing is symmetric."""
    u, v, domain = ufl.TrialFunction(V), ufl.TestFunction(V), V.ufl_domain()
    n, h, x = ufl.FacetNormal(domain), ufl.CellVolume(domain), femgpu.coordinates(V.dm)
    number = Constant(V.dm, 1.3)
    slope = dot(grad(u), flow)
    a = number * avg(k) * inner(jump(u), jump(v)) + k("-") * h("+") * inner(u("+"), v("-")) * (2 + x[0])
    a += dot(flow, n("-")) * inner(slope("+"), v("-")) + k("+") * inner(u("-"), dot(grad(v), flow)("+"))
    return a + h("-") * inner(slope("-"), dot(grad(v), flow)("+")) + dot(n("+"), flow) * inner(avg(u), v("+"))


def oracle(V, k, flow):
    """(num_dofs, num_dofs) the matrix of `weak_form`; collective."""
    V, K, W, k, flow = *(gathered(space) for space in (V, k.space, flow.space)), all_values(k), all_values(flow)
    field, matrix, volume = V.field, np.zeros((V.num_dofs, V.num_dofs)), volumes(V.mesh)
    for first, second, weights, normals in facets(V.mesh):
        (kp, km), (hp, hm) = (
            (of(first), of(second)) for of in (lambda s: interpolated(K, k, s)[:, 0], lambda s: volume[s.block.index][s.index])
        )
        f, x = interpolated(W, flow, first), first.x[:, 0]
        through = np.einsum("qd,qd->q", f, normals)
        (up, gp, ip), (um, gm, im) = first.basis(field), second.basis(field)
        sp, sm = (np.einsum("qbd,qd->qb", slopes, f) for slopes in (gp, gm))

        def term(factor, test, trial, weights=weights):
            return np.einsum("q,qi,qj->ij", weights * factor, test, trial)

        mean = 1.3 * (kp + km) / 2
        blocks = {
            ("+", "+"): term(mean, up, up) + term(0.5 * through, up, up),
            ("+", "-"): term(-mean, up, um) + term(kp, sp, um) + term(hm, sp, sm) + term(0.5 * through, up, um),
            ("-", "+"): term(-mean, um, up) + term(km * hp * (2 + x), um, up) + term(-through, um, sp),
            ("-", "-"): term(mean, um, um),
        }
        for (test, trial), block in blocks.items():
            rows, columns = (ip if side == "+" else im for side in (test, trial))
            for component in range(V.num_comp):
                np.add.at(matrix, (rows[:, None] + component, columns[None] + component), block)
    return matrix
