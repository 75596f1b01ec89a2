"""The table of what UFL refuses: it does, in these words, and what stands beside it works."""

import re
from pathlib import Path

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import ds, dx, grad, inner

import femgpu
from femgpu.errors import FemgpuError, FormError

TEXT = (Path(__file__).parents[2] / "docs" / "ufl.md").read_text()
ROWS, HABITS, _ = (
    re.findall(r"^\| `(.*?)` \| `(.*?)` \| `(.*?)` \|$", part, re.MULTILINE)
    for part in re.split("# Coming from DOLFINx|# What is taken", TEXT)
)
TAKEN = re.findall(r"^\| `(.*?)` \| [^`].*\|$", TEXT.split("# What is taken")[1], re.MULTILINE)


@pytest.fixture(scope="module")
def names():
    dm, far = (femgpu.mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF) for _ in range(2))
    V, U = (femgpu.FunctionSpace(each, "Lagrange", 1) for each in (dm, far))
    u, w, other = femgpu.Function(V), femgpu.Function(V), femgpu.Function(U)

    def on_my_mesh(source):
        f = femgpu.Function(V)
        f.interpolate(source)
        return f

    femgpu.mesh.mark(dm, "left", lambda x: x[0] < 1e-9)
    v, a_thousand = ufl.TestFunction(V), [femgpu.Constant(dm, 1.0) for _ in range(1000)]
    modules = {"femgpu": femgpu, "ufl": ufl, "np": np, "ds": ds, "dx": dx, "grad": grad, "inner": inner}
    return modules | {"dm": dm, "V": V, "u": u, "w": w, "other": other, "v": v, "on_my_mesh": on_my_mesh, "a_thousand": a_thousand}


def test_the_table_is_read():
    assert (len(ROWS), len(HABITS), len(TAKEN)) == (18, 13, 17) and TEXT.count("\n| `") == 48


@pytest.mark.parametrize("line, said, instead", ROWS, ids=[row[0] for row in ROWS])
def test_rows(names, line, said, instead):
    with pytest.raises((ValueError, TypeError, RecursionError), match=re.escape(said)):
        eval(line, names)
    femgpu.assemble(eval(instead, names))


@pytest.mark.parametrize("line, said, instead", HABITS, ids=[row[0] for row in HABITS])
def test_habits(names, line, said, instead, tmp_path):
    V, u, v = (names[name] for name in ("V", "u", "v"))
    W, trial = femgpu.FunctionSpace(names["dm"], "Lagrange", 1, shape=2), ufl.TrialFunction(V)
    forms = {"F": u * v * dx, "a": trial * v * dx, "L": v * dx, "bcs": [femgpu.DirichletBC(V, 0.0)]}
    names = names | forms | {"W": W, "M": femgpu.MixedSpace({"velocity": W, "pressure": V}), "path": tmp_path / "u.vtu"}
    with pytest.raises((FemgpuError, AttributeError), match=re.escape(said)) as caught:
        exec(line, names)
    assert len(str(caught.value)) < 220
    exec(instead, names)


def test_taken():
    """Each line is tested by a field of its own, so that all of them become two programs."""
    dm = femgpu.mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF)
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    M, u = femgpu.MixedSpace({f"line_{i}": V for i in range(len(TAKEN))}), femgpu.Function(V)
    u.interpolate(lambda x: 1 + x[0] + x[1] ** 2)
    names = {"ufl": ufl, "ds": ds, "dx": dx, "grad": grad, "div": ufl.div, "u": u, "mesh": V.ufl_domain()}
    names |= {"near": {"quadrature_rule": "vertex"}, "dS": ufl.dS, "n": ufl.FacetNormal(V.ufl_domain())}
    lines = [eval(line, names | {"v": v}) for line, v in zip(TAKEN, ufl.TestFunctions(M), strict=True)]
    values = femgpu.assemble(sum(lines[1:], lines[0])).array_r
    for line, field in zip(TAKEN, M.fields, strict=True):
        assert np.abs(values[field.dofs(0)]).max() > 1e-3, line


def test_zeros_that_reach_femgpu(names):
    u, v, zero = names["u"], names["v"], femgpu.Constant(names["dm"], 0.0)
    for form, said in (
        (zero * v * dx, "does not contain the unknown u"),
        (u * v * dx - u * v * dx, "the form is zero"),
        (inner(grad(u), grad(v)) * dx - inner(grad(u), grad(v)) * dx, "the form is zero"),
    ):
        with pytest.raises(FormError, match=said):
            femgpu.NonlinearProblem(form, u)
