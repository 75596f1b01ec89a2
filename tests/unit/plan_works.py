"""Works and plans that tests of plans and of their programs begin with."""

import math
from dataclasses import fields

import numpy as np

from femgpu.element import Factors, Tensor
from femgpu.kernels import FieldWork, RowsWork, Table, Work
from femgpu.kernels.schedules import (
    CellPlan,
    MatrixPlan,
    SumfactPlan,
    TiledPlan,
    TransposedPlan,
)


def field(name, array, num_basis, num_comp=1, table=0, offset=0, value=True, gradient=True, vector=None, masked=False):
    return FieldWork(name, vector or name, array, offset, table, num_basis, num_comp, value, gradient, masked=masked)


def residual(num_basis=3, num_comp=1, num_qpts=1, **changes):
    """The residual of Poisson's equation."""
    sizes = dict(
        target="residual",
        cell="triangle",
        dim=2,
        num_qpts=num_qpts,
        rows=(RowsWork(0, 0, num_basis, num_comp),),
        tables=(Table(num_basis),),
        coord_table=0,
        fields=(field("u", "u", num_basis, num_comp),),
        writes=frozenset({"f0", "f1"}),
    )
    return Work(**sizes | changes)


def transposed(num_basis=3, num_comp=1, num_qpts=1, plan=TransposedPlan, **changes):
    """A plan; changes of the work and of the plan."""
    names = {entry.name for entry in fields(Work)}
    work = {name: changes.pop(name) for name in list(changes) if name in names}
    return plan(residual(num_basis, num_comp, num_qpts, **work), **changes)


def cell(*sizes, **changes):
    """The same for schedule cell."""
    return transposed(*sizes, **{"plan": CellPlan} | changes)


def matrix(*sizes, **changes):
    """The same for schedule matrix."""
    return transposed(*sizes, plan=MatrixPlan, **{"target": "matrix", "writes": frozenset({"g0", "g3"})} | changes)


def tensor(dim, q1d, *sizes):
    """1D factors of elements with these numbers of basis functions per direction; numbers that print alike everywhere."""

    def line(rows, columns):
        return np.arange(1.0, rows * columns + 1).reshape(rows, columns) / 64

    def lattice(count):
        return np.arange(count**dim).reshape((count,) * dim).T.ravel()

    factors = [Factors(line(1, n)[0], *[line(q1d, n)] * 3, *[line(2, n)] * 3, lattice(n)) for n in sizes]
    return Tensor("hexahedron", line(1, q1d)[0], line(1, q1d)[0], line(q1d, q1d), tuple(factors), np.arange(q1d**dim)[None])


def tiled(*sizes, **changes):
    """The same for schedule tiled."""
    return transposed(*sizes, plan=TiledPlan, **changes)


def sumfact(dim, q1d, *sizes, plan=SumfactPlan, **changes):
    """A plan of schedule sumfact for the first of several elements."""
    tables = tuple(Table(n**dim) for n in sizes)
    return transposed(sizes[0] ** dim, 1, q1d**dim, plan=plan, dim=dim, tables=tables, tensor=tensor(dim, q1d, *sizes), **changes)


def diffusion(degree, num_qpts, num_comp=1, **changes):
    """The action of a Laplacian on tetrahedra."""
    n = math.comb(degree + 3, 3)
    sizes = dict(cell="tetrahedron", dim=3, target="action", tables=(Table(n), Table(4)), coord_table=1, writes=frozenset({"f1"}))
    rows, fields = (RowsWork(0, 0, n, num_comp, value=False),), (field("w", "w", n, num_comp, value=False),)
    return residual(n, num_comp, num_qpts, **sizes | {"fields": fields, "rows": rows} | changes)
