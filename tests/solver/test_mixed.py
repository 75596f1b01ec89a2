"""Spaces of several fields: parts, conditions on them, fieldsplit by name."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import div, dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, mesh
from femgpu.errors import DataError, FormError

SCHUR = dict(
    ksp_type="fgmres",
    ksp_rtol=1e-10,
    pc_type="fieldsplit",
    pc_fieldsplit_type="schur",
    pc_fieldsplit_schur_fact_type="upper",
    pc_fieldsplit_schur_precondition="self",
    fieldsplit_velocity_ksp_type="cg",
    fieldsplit_velocity_ksp_rtol=1e-12,
    fieldsplit_velocity_pc_type="jacobi",
    fieldsplit_pressure_ksp_type="gmres",
    fieldsplit_pressure_ksp_rtol=1e-8,
    fieldsplit_pressure_pc_type="none",
)
LU = dict(pc_type="lu", pc_factor_mat_solver_type="petsc", pc_factor_shift_type="nonzero", ksp_rtol=1e-12)


def taylor_hood(dm=None):
    dm = mesh.box((4, 3), cell="triangle") if dm is None else dm
    return MixedSpace({"velocity": FunctionSpace(dm, "Lagrange", 2, shape=2), "pressure": FunctionSpace(dm, "Lagrange", 1)})


def stokes(W, prefix):
    """A channel with its parabolic flow: u = y (1 - y), p = 2 (1 - x), both in the space."""
    w = Function(W, "w")
    u, p = ufl.split(w)
    v, q = ufl.TestFunctions(W)
    F = (inner(grad(u), grad(v)) - p * div(v) - q * div(u)) * dx
    bcs = [
        DirichletBC(W.sub("velocity"), lambda x: np.stack([x[1] * (1 - x[1]), 0 * x[0]]), "boundary"),
        DirichletBC(W.sub("pressure"), lambda x: 2 * (1 - x[0]), 2),
    ]
    return w, NonlinearProblem(F, w, bcs=bcs, options_prefix=prefix)


def error(w):
    x = ufl.SpatialCoordinate(w.space.ufl_domain())
    flow = ufl.as_vector([x[1] * (1 - x[1]), 0])
    from femgpu import assemble

    difference = w.sub("velocity") - flow
    return assemble(inner(difference, difference) * dx) + assemble((w.sub("pressure") - 2 * (1 - x[0])) ** 2 * dx)


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("pmat", ["assembled", "none", "multigrid"])
def test_fieldsplit_by_name(set_options, pmat):
    """Blocks of a matrix-free Jacobian are such themselves, which femgpu.PMG takes."""
    set_options("schur_", **SCHUR, femgpu_pmat="assembled" if pmat == "assembled" else "none")
    if pmat == "multigrid":
        set_options("schur_", fieldsplit_velocity_pc_type="python", fieldsplit_velocity_pc_python_type="femgpu.PMG")
    w, problem = stokes(taylor_hood(), "schur_")
    problem.solve()
    assert error(w) < 1e-14
    splits = problem.snes.getKSP().getPC().getFieldSplitSubKSP()
    assert [ksp.getOptionsPrefix() for ksp in splits][:2] == ["schur_fieldsplit_velocity_", "schur_fieldsplit_pressure_"]
    kinds = {"assembled": ("seqaij", "mpiaij"), "none": ("python",), "multigrid": ("python",)}[pmat]
    assert splits[0].getOperators()[1].getType() in kinds


def test_blocks_of_the_jacobian(set_options):
    set_options("blocks_", **LU)
    W = taylor_hood()
    w, problem = stokes(W, "blocks_")
    problem.linearise(w.vec)
    names, sets, _ = W.dm.createFieldDecomposition()
    assert names == ["velocity", "pressure"]
    whole = problem.snes.getJacobian()[1]
    direction = whole.createVecRight()
    direction.setRandom()
    out = direction.duplicate()
    problem.jacobian.mult(direction, out)
    for rows in sets:
        total = 0
        for columns in sets:
            block = problem.jacobian.createSubMatrix(rows, columns)
            result = block.createVecLeft()
            block.mult(direction.getSubVector(columns), result)
            expected = whole.createSubMatrix(rows, columns) * direction.getSubVector(columns)
            assert np.allclose(result.array, expected.array, rtol=0, atol=1e-13)
            total = total + result.array
        assert np.allclose(total, out.getSubVector(rows).array, rtol=0, atol=1e-13)


@pytest.mark.parallel([1, 3])
def test_parts(set_options):
    W = taylor_hood()
    w = Function(W, "w")
    w.sub("pressure").interpolate(lambda x: x[0] + 2 * x[1])
    w.sub("velocity").interpolate(lambda x: np.stack([x[0] * x[1], -x[1]]))
    pressure, velocity = w.sub("pressure").collapse(), w.sub("velocity").collapse()
    assert pressure.name == "pressure" and pressure.space.num_dofs + velocity.space.num_dofs == W.num_dofs
    other = Function(W, "other")
    other.sub("velocity").interpolate(velocity)
    other.sub("pressure").interpolate(pressure)
    assert (other.vec - w.vec).norm(PETSc.NormType.INFINITY) == 0
    assert w.sub("velocity") is w.sub("velocity")


def test_refusals():
    W = taylor_hood()
    w = Function(W, "w")
    with pytest.raises(FormError, match="velocity, pressure"):
        w.sub("temperature")
    with pytest.raises(DataError, match=r"interpolate into each: w.sub\('velocity'\), w.sub\('pressure'\)"):
        w.interpolate(1.0)
    with pytest.raises(DataError, match="sub\\('velocity'\\)"):
        DirichletBC(W, 0.0)
    with pytest.raises(DataError, match="MixedSpace"):
        Function(W.sub("velocity"))
    with pytest.raises(FormError, match="several meshes"):
        MixedSpace({"one": FunctionSpace(mesh.box((1, 1), cell="triangle"), "CG", 1), "two": FunctionSpace(W.dm, "CG", 1)})
    with pytest.raises(FormError, match="mapping of names"):
        MixedSpace([FunctionSpace(W.dm, "CG", 1)])
    with pytest.raises(FormError, match="field name 'a b'"):
        MixedSpace({"a b": FunctionSpace(W.dm, "CG", 1)})
