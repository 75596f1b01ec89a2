"""Kernels that watch themselves (`-femgpu_debug`) tell of each fault that is planted, whatever the family, and of nothing else."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conformance.bounds import Arithmetic
from conformance.faults import replace_text
from conformance.guarded import Guarded
from conformance.samples import make_problem, make_settings
from conformance.table import MUST
from conformance.trial import Trial, make_task
from petsc4py import PETSc

from femgpu.errors import KernelError
from femgpu.kernels import SCHEDULES, Wish
from femgpu.operators import make_terms
from femgpu.operators.term import Term
from femgpu.operators.work import make_work
from femgpu.runtime import for_comm
from femgpu.runtime.checks import checked

# A plan of each family: schedule, parameters, and what its text says then.
FAMILIES = {
    "cell": ("cell", dict(lanes=1), "cell (64 items)"),
    "cell lanes": ("cell", dict(lanes=4), "items x 4 cells"),
    "transposed": ("transposed", dict(blocks=1), "transposed"),
    "tiled": ("tiled", dict(cells=4, parts=2), "2 parts"),
    "sumfact lanes": ("sumfact", dict(lanes=2), "items x 2 cells"),
    "sumfact items": ("sumfact", dict(items=16, cells=2), "16 items per cell"),
    "pencils": ("sumfact", dict(pencils=2), "pencils"),
    "planes": ("sumfact", dict(planes=2), "planes"),
    "slices": ("sumfact", dict(slices=2), "slices"),
    "gemm": ("gemm", dict(cells=2, items=2), "2 cells of 2 items"),
    "matrix": ("matrix", {}, "matrix"),
}
# Text that leaves local memory unwritten, by family.
UNWRITTEN = {
    "transposed": ("s_out[0] = ", "if (q > 0) s_out[0] = "),
    "tiled": ("* ROW + PLACE(i % CELLS)] = values", "* ROW + PLACE(i % CELLS)] += values"),
    "sumfact items": ("out[r * below] = ", "if (r > 0) out[r * below] = "),
    "pencils": ("(l_fields + (0 + c) * SLAB + at)[r * 1] =", "if (r > 0) (l_fields + (0 + c) * SLAB + at)[r * 1] ="),
    "planes": ("plane[m * ROW + n] = values[", "if (m > 0) plane[m * ROW + n] = values["),
    "slices": ("(plane + l)[r * ROW] = values[r]", "if (l > 0) (plane + l)[r * ROW] = values[r]"),
    "gemm": ("if (inside[i] && HAS(j, 3))", "if (inside[i] && NUMBER(j, 3) > 0)"),
    "matrix": ("s_out[j] = words[j]", "s_out[j] += words[j]"),
}


@pytest.fixture(scope="module")
def runtime():
    return Guarded(for_comm("", PETSc.COMM_SELF.tompi4py()), checks=True)


def trial_of(runtime, family, scatter="atomic"):
    """A family's plan on three cells."""
    name, parameters, text = FAMILIES[family]
    cell = "hexahedron" if family in ("planes", "slices") else "quadrilateral"
    sample = SimpleNamespace(element=(cell, 2), num_comp=1, form="simple", shape="distorted", points="many")
    rng = np.random.default_rng(3)
    problem = make_problem(sample, rng)
    (term,) = make_terms(problem.form, make_settings(sample))
    kind = "matrix" if family == "matrix" else "residual"
    task = make_task(kind, term, problem, Arithmetic("double", lines=MUST[name].lines))
    # Plans are those of a CPU, on a GPU, too.
    work, limits = make_work(term, kind, task.pointwise), replace(runtime.device.limits, unroll=0, mma=0, block=1, group=64)
    (schedule,) = (schedule for schedule in SCHEDULES if schedule.name == name)
    plan = next(iter(schedule.plans(work, limits, Wish(scatter=scatter, parameters=tuple(parameters.items())))))
    assert text in str(plan)
    trial = Trial(runtime, task, plan, range(3))
    # Trials have NaN behind the constants.
    trial._buffers["constants",] = runtime.upload(task.constants)
    return trial


@pytest.mark.parametrize("family", FAMILIES)
def test_faults_in_memory_are_found(runtime, family, monkeypatch):
    """By every family: what nobody has written, what is read past an array's end, what is written there."""
    trial = trial_of(runtime, family)
    trial.launch()
    trial.check()
    state, out = ("vector", "u"), ("out",)
    whole = trial._buffers[state]

    trial._buffers[state] = runtime.empty(whole.size)
    with pytest.raises(KernelError, match=r"kernel \w+-\w+-\w+ \(plan .*; form .* reads entry \d+ of d_u .*nobody has written"):
        trial.application()()

    trial._buffers[state] = runtime.upload(np.ones(2))
    with pytest.raises(KernelError, match=r"reads entry \d+ of d_u \(2 entries of 8 bytes\)"):
        trial.application()()

    trial._buffers[state], trial._buffers[out] = whole, runtime.upload(np.zeros(2))
    with pytest.raises(KernelError, match=r"(reads|writes) entry \d+ of d_out \(2 entries of 8 bytes\)"):
        trial.application()()

    # An index far away, which would end the process.
    find, trial = Term.offsets, trial_of(runtime, family)
    monkeypatch.setattr(Term, "offsets", lambda *given: find(*given) + 10**9)
    with pytest.raises(KernelError, match=r"reads entry 10\d{8} of d_u "):
        trial.application()()


@pytest.mark.parametrize("family", UNWRITTEN)
def test_local_memory_that_nobody_has_written_shows(runtime, family, monkeypatch):
    found = replace_text(monkeypatch.setattr, *UNWRITTEN[family])
    with pytest.raises(KernelError, match=r"has made NaN of numbers, at \d+ entries of d_out0? "):
        trial_of(runtime, family).application()()
    assert found()


def test_what_is_written_behind_a_buffer_shows(runtime, monkeypatch):
    """By a cast, which no index check sees."""
    replace_text(monkeypatch.setattr, "d_out0[AT_d_out0(cell, b * 1 + c)] =", "((__global scalar *)d_out0)[27 + b] =")
    with pytest.raises(KernelError, match=r"has written \d+ words behind the end of d_out0 \(27 entries of 8 bytes\)"):
        trial_of(runtime, "cell", "evector").application()()


def test_accesses_are_told_apart():
    source = """
    #define TABLE(q) (d_t + (q) * 3)
    // d_x[ in a comment
    __kernel __attribute__((reqd_work_group_size(4, 1, 1)))
    void f(const int n, __global const float *restrict d_x, __global const int *d_map, __global double4 *d_y,
           __global const float *d_t) {
      __local float s_a[2 * N], s_b[3];
      d_y[d_map[n] + 1].x = d_x[n] == d_x[n + 1] ? TABLE(n)[2] : 0;
      d_y[n] = d_y[0];
      atomic_add(d_y + g(n, 1), 3);
    }"""
    program = checked(source)
    kernel = program.text[program.text.index("__kernel") :]
    for text in (
        "__global long *d_debug)",
        "POISON_LOCAL(s_a) POISON_LOCAL(s_b) barrier(",
        "d_y[ READ_AT(d_y, d_map[ READ_AT(d_map, n)] + 1)].x = d_x[ READ_AT(d_x, n)] == d_x[ READ_AT(d_x, n + 1)]",
        "d_y[ WRITE_AT(d_y, n)] = d_y[ READ_AT(d_y, 0)];",
        "atomic_add(d_y + READ_AT(d_y, g(n, 1)), 3);",
    ):
        assert text in kernel, text
    assert "(d_t + BEGIN_AT(d_t, (q) * 3))" in program.text
    assert [(a.position, a.name, a.itemsize, a.ctype, a.written) for a in program.arguments["f"]] == [
        (1, "d_x", 4, "float", False),
        (2, "d_map", 4, "int", False),
        (3, "d_y", 32, "double", True),
        (4, "d_t", 4, "float", False),
    ]
