"""The table of what UFL refuses: it does, in these words, and what stands beside it works."""

import re
from pathlib import Path

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import ds, dx, grad, inner

import femgpu
from femgpu.errors import FormError

TEXT = (Path(__file__).parents[2] / "docs" / "ufl.md").read_text()
ROWS = re.findall(r"^\| `(.*?)` \| `(.*?)` \| `(.*?)` \|$", TEXT, re.MULTILINE)


@pytest.fixture(scope="module")
def names():
    dm, far = (femgpu.mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF) for _ in range(2))
    V, U = (femgpu.FunctionSpace(each, "Lagrange", 1) for each in (dm, far))
    u, w, other = femgpu.Function(V), femgpu.Function(V), femgpu.Function(U)

    def on_my_mesh(source):
        f = femgpu.Function(V)
        f.interpolate(source)
        return f

    v, a_thousand = ufl.TestFunction(V), [femgpu.Constant(dm, 1.0) for _ in range(1000)]
    modules = {"femgpu": femgpu, "ufl": ufl, "np": np, "ds": ds, "dx": dx, "grad": grad, "inner": inner}
    return modules | {"dm": dm, "V": V, "u": u, "w": w, "other": other, "v": v, "on_my_mesh": on_my_mesh, "a_thousand": a_thousand}


def test_the_table_is_read():
    assert len(ROWS) == TEXT.count("| `") / 3 == 12


@pytest.mark.parametrize("line, said, instead", ROWS, ids=[row[0] for row in ROWS])
def test_rows(names, line, said, instead):
    with pytest.raises((ValueError, TypeError, RecursionError), match=re.escape(said)):
        eval(line, names)
    femgpu.assemble(eval(instead, names))


def test_zeros_that_reach_femgpu(names):
    u, v, zero = names["u"], names["v"], femgpu.Constant(names["dm"], 0.0)
    for form, said in (
        (zero * v * dx, "does not contain the unknown u"),
        (u * v * dx - u * v * dx, "the form is zero"),
        (inner(grad(u), grad(v)) * dx - inner(grad(u), grad(v)) * dx, "the form is zero"),
    ):
        with pytest.raises(FormError, match=said):
            femgpu.NonlinearProblem(form, u)
