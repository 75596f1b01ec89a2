"""Mixed precision adds in double precision, and the bounds notice where it does not."""

import numpy as np
import pytest
from conformance.bounds import Arithmetic, Bounds, diagonal, local_vector
from conformance.faults import replace_text
from conformance.guarded import Guarded
from conformance.probes import cells_probe, points_probe
from conformance.samples import Problem
from conformance.table import MUST
from conformance.trial import Trial, make_task

from femgpu import runtime
from femgpu.kernels import SCHEDULES, Wish
from femgpu.operators import FormOperator, make_terms
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime import for_comm

TARGETS = ("residual", "action", "diagonal", "matrix")


def ratios(probe, schedule, targets, scatter="gather"):
    """The largest error of each target in units of its bound."""
    arithmetic, space = Arithmetic("mixed", lines=MUST[schedule].lines), probe.form.space
    settings = Settings(schedule=schedule, precision="mixed", scatter=scatter, geometry="stored")
    operator = FormOperator(probe.form, settings, for_comm("", space.mesh.mpi))
    operator.update()
    for name, vector in (("u", "u"), ("base", "u"), ("w", "w")):
        operator.runtime.write(getattr(operator, name), probe.vectors[vector])
    constants = operator.form.constant_values()
    (term,) = operator.terms
    bounds = Bounds(term, arithmetic)
    found = {}
    for target in targets:
        pointwise = getattr(term.integral, target if target in ("residual", "action") else "jacobian")
        make = bounds.element_vectors if target in ("residual", "action") else bounds.element_matrices
        result = make(pointwise, probe.vectors, constants)
        if target == "matrix":
            (got,) = operator.matrices()
        else:
            getattr(operator, target)()
            got = operator.runtime.read(operator.out, np.empty(space.num_local))
            part = diagonal(result, term) if target == "diagonal" else result
            result = local_vector(space, [(term, part)], arithmetic)
        found[target] = result.worst(got)
    return found


@pytest.mark.parametrize("kind", ["value", "gradient"])
@pytest.mark.parametrize("cell", ["quadrilateral", "tetrahedron"])
def test_points_are_added_in_double_precision(cell, kind, rng, monkeypatch):
    """Right kernels stay within the bounds; the same with sums in single precision do not."""
    probe = points_probe(cell, kind, 0, rng)
    served = {name: must for name, must in MUST.items() if cell in must.cells}
    cases = {name: [target for target in TARGETS if target in must.targets] for name, must in served.items()}
    for schedule, targets in cases.items():
        found = ratios(probe, schedule, targets)
        assert all(ratio <= 1 for ratio in found.values()), found
    replace_text(monkeypatch.setattr, "typedef ACCUM accum;", "typedef REAL accum;")
    # gemm sums ten points along one direction, then ten such sums, and so do the pencils of sumfact on a GPU: what is lost so is no
    # more than the bounds allow.
    blind = ("gemm", "sumfact") if runtime.current().device.limits.unroll else ("gemm",)
    for schedule, targets in (case for case in cases.items() if case[0] not in blind):
        found = ratios(probe, schedule, targets)
        assert not any(ratio <= 1 for ratio in found.values()), found


def check_functional(probe):
    """The energy of every cell, by every schedule that serves it."""
    form = probe.energy
    (term,) = make_terms(form, Settings())
    vectors = {f"a{i}": function.local_array() for i, function in enumerate(form.coefficients)}
    task = make_task("functional", term, Problem(form, vectors, form.constant_values()), Arithmetic("mixed"))
    runtime = Guarded(for_comm("", probe.form.space.mesh.mpi))
    for schedule in SCHEDULES:
        work = make_work(term, "functional", task.pointwise)
        if MUST[schedule.name].must(work, 1):
            plan = next(iter(schedule.plans(work, runtime.device.limits, Wish("mixed"))))
            trial = Trial(runtime, task, plan, range(term.num_cells))
            trial.launch()
            trial.check()


def test_functionals_are_added_in_double_precision(rng, monkeypatch):
    probe = points_probe("tetrahedron", "value", 0, rng)
    check_functional(probe)
    replace_text(monkeypatch.setattr, "typedef ACCUM accum;", "typedef REAL accum;")
    with pytest.raises(AssertionError, match="an entry is wrong"):
        check_functional(probe)


@pytest.mark.parametrize("cell", ["interval", "triangle", "hexahedron", "prism"])
@pytest.mark.parametrize("place", [0, -1])
def test_points_of_every_cell_are_added_in_double_precision(cell, place, rng):
    """Whether the largest comes first or last."""
    found = ratios(points_probe(cell, "value", place, rng), "cell", ("action",))
    assert all(ratio <= 1 for ratio in found.values()), found


def test_cells_are_added_in_double_precision(monkeypatch):
    for scatter in ("gather", "atomic"):
        found = ratios(cells_probe(0), "cell", ("residual", "diagonal"), scatter)
        assert all(ratio <= 1 for ratio in found.values()), found
    replace_text(monkeypatch.setattr, "accum sum = 0;\n  for (int k = d_starts", "real sum = 0;\n  for (int k = d_starts")
    found = ratios(cells_probe(0), "cell", ("residual",))
    assert all(ratio > 1 for ratio in found.values()), found
