"""Workloads ex12 and petsc: flops and bytes that are counted, kernels that are checked before they are timed."""

import csv
import itertools
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from femgpu import runtime
from femgpu.bench import ex12, petsc_residual
from femgpu.bench.ex12_report import Case, Result
from femgpu.bench.residual import Timing
from femgpu.cli import main
from femgpu.errors import DataError
from femgpu.model import Beta

# Norms of the residual of the workload petsc on 384 cells by points, of one rank, where PETSc's and those of all schedules agree.
NORMS = {4: 0.317225442209, 14: 0.317211965278}
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler cc, which builds PETSc's pointwise functions")


class Counted(float):
    """A number that counts the additions and multiplications that it takes part in."""

    count = 0

    def _counted(self, result):
        Counted.count += 1
        return Counted(result)

    def __add__(self, other):
        return self._counted(float(self) + float(other))

    def __mul__(self, other):
        return self._counted(float(self) * float(other))


def paper_residual(dim, num_basis, num_comp, num_qpts, flux):
    """Phases of paper 004 on a cell: each basis function's gradient is mapped where it is used."""
    some = iter(map(Counted, np.random.default_rng(1).random(10000)))
    axes, functions = range(dim), list(itertools.product(range(num_basis), range(num_comp)))
    inverse, tables = [[next(some) for _ in axes] for _ in axes], {}
    for q, b in itertools.product(range(num_qpts), range(num_basis)):
        tables[q, b] = next(some), [next(some) for _ in axes]

    def gradient(q, b, axis):
        total = Counted(0)
        for other in axes:
            total = total + inverse[other][axis] * tables[q, b][1][other]
        return total

    result = {function: Counted(0) for function in functions}
    for q in range(num_qpts):
        values, gradients = [Counted(0)] * num_comp, [[Counted(0)] * dim for _ in range(num_comp)]
        for b, c in functions:
            coefficient = next(some)
            values[c] = values[c] + tables[q, b][0] * coefficient
            for axis in axes:
                gradients[c][axis] = gradients[c][axis] + gradient(q, b, axis) * coefficient
        fluxes, (weight, nu) = flux(gradients), (next(some), next(some))
        fluxes = [[component * nu * weight for component in row] for row in fluxes]
        for b, c in functions:
            for axis in axes:
                result[b, c] = result[b, c] + gradient(q, b, axis) * fluxes[c][axis]


def strain(gradients):
    axes = range(len(gradients))
    return [[(gradients[i][j] + gradients[j][i]) * 0.5 for j in axes] for i in axes]


@pytest.mark.parametrize("dim, num_basis, num_qpts", [(2, 3, 1), (3, 4, 1), (2, 6, 3)])
@pytest.mark.parametrize("vector", [False, True])
def test_flops_are_those_of_the_papers_algorithm(dim, num_basis, num_qpts, vector):
    """All but the symmetric part of the gradient, an addition and a multiplication for each entry, and the load."""
    comps = dim if vector else 1
    Counted.count = 0
    paper_residual(dim, num_basis, comps, num_qpts, strain if vector else lambda gradients: gradients)
    symmetric = 2 * dim * comps * num_qpts if vector else 0
    assert Counted.count == Beta(dim, num_basis, comps, num_qpts, 8).flops + symmetric


def test_bytes_and_goals():
    """Those of a table that was made by hand, on triangles; on tetrahedra 7 / 6 numbers per cell besides the coefficient's."""
    beta = Beta(2, 3, 1, 1, 4)
    assert (beta.fused_bytes, replace(beta, word=8).fused_bytes) == (28, 44)
    assert Beta(3, 4, 1, 1, 4).fused_bytes == pytest.approx(4 * 4 + 4 * (1 + 7 / 6))
    assert Beta(2, 3, 2, 1, 8).fused_bytes == 4 * 3 + 8 * (1 + 10 / 2)
    assert Case("triangle", "poisson", "single", 0, []).goals == (1e13, 1e13)
    own, model = Case("triangle", "poisson", "double", 0, []).goals
    assert own == pytest.approx(1e13 * 28 / 44) and model == pytest.approx(0.5e13)
    assert Case("tetrahedron", "poisson", "single", 0, []).goals[1] == pytest.approx(1e13 * (206 / 72) / (82 / 44))
    assert Case("tetrahedron", "elasticity", "double", 0, []).beta == Beta(3, 4, 3, 1, 8)


@pytest.mark.parametrize("cell, problem, precision", [("triangle", "poisson", "single"), ("tetrahedron", "elasticity", "double")])
def test_bench_of_ex12(capsys, tmp_path, monkeypatch, cell, problem, precision):
    monkeypatch.setattr(ex12, "BATCHES", (16,))
    monkeypatch.setattr(ex12, "_PLANS", 1)
    given = ["--cell", cell, "--problems", problem, "--precision", precision, "--cells", "300", "--blocks", "4"]
    assert main(["bench", "ex12", *given, "--out", str(tmp_path)]) == 0
    assert f"{problem}, {cell}, {precision}, " in capsys.readouterr().out
    files = {path.suffix: path for path in tmp_path.iterdir()}
    assert set(files) == {".csv", ".json", ".png"}
    with files[".csv"].open() as stream:
        rows = list(csv.DictReader(stream))
    record = json.loads(files[".json"].read_text())
    assert {"commit", *record["timings"][0]} == rows[0].keys() and record["commit"] == rows[0]["commit"]
    kinds = {(row["what"], row["schedule"], row["geometry"]) for row in rows}
    schedules, ways = ("cell", "tiled", "transposed"), ("stored", "recomputed")
    assert kinds >= {(what, schedule, way) for what in ("evector", "fused") for schedule in schedules for way in ways}
    for row in rows:
        # The plain kernel's own sums may come out in another kernel to the last bit.
        assert (row["what"] == "fused" or float(row["error"]) > 0) and float(row["error"]) < (
            1e-4 if precision == "single" else 1e-12
        )
        per_byte = float(row["flops"]) / float(row["model_bytes"])
        assert float(row["bound_GFs"]) == pytest.approx(per_byte * float(row["copy_GBs"]), rel=1e-3)
    assert main(["bench", "ex12", "--cell", "hexahedron", "--out", str(tmp_path)]) == 1
    assert "bench ex12 --cell hexahedron: expected triangle, tetrahedron" in capsys.readouterr().err


def test_wrong_kernels_are_not_timed():
    ((bench, _),) = ex12._benches(["triangle"], ["poisson"], 100)
    settings = replace(bench.problem.settings, schedule="cell:lanes=1")
    plans = {what: bench.plan(what, settings) for what in ("evector", "fused")}
    for what, plan in plans.items():
        assert bench.time(what, plan, 0).error < 1e-12
        text = bench._program(plan)
        # The last cells are left out.
        bench._programs[plan] = text.replace("const int cell =", "if (get_global_id(0) + 3 > count) return;\n  const int cell =", 1)
        assert bench._programs[plan] != text
        with pytest.raises(DataError, match="differs"):
            bench.time(what, plan, 0)


@needs_compiler
@pytest.mark.parallel([1, 2])
def test_bench_beside_petsc(capsys, tmp_path, monkeypatch):
    """femgpu's residuals and PETSc's have one norm, which does not depend on the number of ranks."""
    monkeypatch.setattr(petsc_residual, "_SECONDS", 0.0)
    monkeypatch.setattr(petsc_residual, "_CALLS", 2)
    monkeypatch.setattr(petsc_residual, "SCHEDULES", ("cell", "transposed"))
    ranks = petsc_residual.ranks_in_words(MPI.COMM_WORLD.size)
    assert main(["bench", "petsc", "--cells", "400", "--out", str(tmp_path)]) == 0
    if MPI.COMM_WORLD.rank:
        return
    assert f"PETSc, {ranks}" in capsys.readouterr().out
    (path,) = tmp_path.glob(f"petsc-*-{ranks.replace(' ', '-')}.json")
    timings = json.loads(path.read_text())["timings"]
    assert [t["points"] for t in timings] == ([4] * 3 + [14] * 3 if MPI.COMM_WORLD.size == 1 else [4, 14])
    assert all(t["cells"] == 384 and t["best_ms"] > 0 for t in timings)
    np.testing.assert_allclose([t["norm"] for t in timings], [NORMS[t["points"]] for t in timings], rtol=1e-11)


@needs_compiler
def test_residuals_that_differ_are_an_error(monkeypatch):
    """The load of PETSc's functions is another one."""
    monkeypatch.setattr(petsc_residual, "_SECONDS", 0.0)
    monkeypatch.setattr(petsc_residual, "SCHEDULES", ("cell",))
    monkeypatch.setattr(petsc_residual, "_POINTWISE", petsc_residual._POINTWISE.replace("-(x[0] + x[1])", "-(x[0] - x[1])"))
    with pytest.raises(DataError, match="norms of one residual"):
        petsc_residual.run(str(runtime.current().device), 48)


def test_bench_beside_petsc_wants_a_compiler(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bench", "petsc", "--out", str(tmp_path)]) == 1
    assert "there is no `cc`; install one" in capsys.readouterr().err


@pytest.mark.parametrize("device, has", [("[0] NVIDIA H200 (NVIDIA CUDA)", True), ("[0] pthread-cpu", False)])
def test_goals_of_fused_kernels_are_those_of_one_device(device, has):
    timing = Timing("fused", "cell", "a plan", 0, 0, "stored", 1000, 15, 1e-3, 1e-3, 82, 51, 48, 0.0)
    result = Result(device, 1e12, [Case("triangle", "poisson", "single", 500, [timing])])
    (row,) = result.rows()
    assert result.has_goals == has == np.isfinite(row["goal_GFs"]) == ("in proportion of bytes" in result.text())
    assert "nan" not in result.text()
