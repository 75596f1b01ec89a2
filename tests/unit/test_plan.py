"""Plans: their arithmetic, what they refuse, and the programs that they render to.

`FEMGPU_UPDATE_GOLDEN=1 pytest tests/unit/test_plan.py` writes the programs in tests/golden anew; look at the
difference before you keep it.
"""

import math
import os
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from femgpu import runtime
from femgpu.errors import PlanError
from femgpu.kernels import FieldPlan, Plan, RowsPlan, render, vector_kernels
from femgpu.kernels.plan import LEAST_ITEMS
from femgpu.model import Beta

GOLDEN = Path(__file__).parents[1] / "golden"
UPDATE = os.environ.get("FEMGPU_UPDATE_GOLDEN", "0") != "0"


def field(name, array, num_basis, num_comp=1, table=0, offset=0, value=True, gradient=True):
    return FieldPlan(name, array, offset, table, num_basis, num_comp, value, gradient)


def transposed(num_basis=3, num_comp=1, num_qpts=1, **changes):
    """A plan of the residual of Poisson's equation."""
    sizes = dict(
        target="residual",
        schedule="transposed",
        dim=2,
        num_qpts=num_qpts,
        tests=(RowsPlan(0, 0, num_basis, num_comp),),
        table_sizes=(num_basis,),
        coord_table=0,
        fields=(field("u", "u", num_basis, num_comp),),
        writes=frozenset({"f0", "f1"}),
        geometry="affine_stored",
    )
    return Plan(**sizes | changes)


def test_beta_model_of_the_paper():
    beta = Beta(dim=2, num_basis=3, num_comp=1, num_qpts=1, word=4)
    assert Fraction(beta.flops, beta.bytes) == Fraction(41, 22)
    assert beta.bound(220.0) == pytest.approx(410.0)
    assert Fraction(replace(beta, word=8).flops, replace(beta, word=8).bytes) == Fraction(41, 44)


@pytest.mark.parametrize(
    "num_basis, num_comp, num_qpts, block, cells",
    [(3, 1, 1, 3, 3), (3, 1, 3, 3, 3), (6, 1, 4, 12, 12), (4, 3, 8, 24, 8), (3, 2, 4, 12, 6), (10, 1, 14, 70, 70)],
)
def test_a_block_fills_its_items_in_both_phases(num_basis, num_comp, num_qpts, block, cells):
    plan = transposed(num_basis, num_comp, num_qpts, local_limit=10**6)
    assert plan.block_size == math.lcm(num_basis * num_comp, num_qpts) == block
    assert plan.batch_cells == cells
    assert replace(plan, num_blocks=3).batch_cells == 3 * cells
    # An item keeps its point in one phase and its row in the other, and no row waits for a half-filled round.
    assert plan.chunk_items % plan.num_qpts == plan.chunk_items % plan.num_rows == 0
    assert plan.batch_cells * plan.num_rows % plan.chunk_items == 0


def test_small_chunks_stand_side_by_side():
    plan = transposed(num_blocks=4, num_batches=16)
    assert (plan.chunk_items, plan.group_chunks, plan.num_items) == (12, 6, 72)
    assert plan.group_cells == 12 * 16 * 6
    assert replace(plan, num_blocks=64).group_chunks == 1
    assert "4 blocks x 16 batches of 12 cells" in str(plan)


@given(
    num_basis=st.integers(1, 40),
    num_comp=st.integers(1, 3),
    num_qpts=st.integers(1, 40),
    num_blocks=st.integers(1, 200),
    num_batches=st.integers(1, 40),
    staged=st.booleans(),
    num_cells=st.integers(0, 10**7),
    group_limit=st.sampled_from([64, 256, 1024]),
)
def test_plans_fit_the_device_and_cover_the_cells(num_cells, group_limit, **sizes):
    plan = transposed(**sizes, group_limit=group_limit, local_limit=49152)
    assert 1 <= plan.num_items <= plan.group_limit
    assert plan.local_bytes <= plan.local_limit
    assert plan.batch_cells >= 1
    assert plan.num_items >= min(LEAST_ITEMS, plan.chunk_items)
    groups, rest = divmod(plan.global_size(num_cells), plan.num_items)
    assert rest == 0
    assert (groups - 1) * plan.group_cells < num_cells <= groups * plan.group_cells or num_cells == groups == 0


def test_local_memory_counts_what_stands_in_it():
    plan = transposed(6, 2, 4, precision="single")
    staged, fluxes = 6 * 2 + 5, 4 * 2 * (1 + 2)
    assert plan.cell_local_bytes == 4 * (staged + fluxes)
    # Without the barrier that staging brings, a batch must not overwrite the fluxes of the one before.
    assert replace(plan, staged=False).cell_local_bytes == 4 * 2 * fluxes
    assert replace(plan, precision="double").local_bytes == 2 * plan.local_bytes
    assert replace(plan, schedule="cell").local_bytes == 0


def test_bytes_per_cell():
    plan = transposed(precision="single", source="evector", fields=(field("u", "u", 3), field("a0", "a", 1, table=0)))
    assert plan.cell_bytes() == 4 * (3 + 1 + 5 + 3)
    assert replace(plan, source="lvector").cell_bytes() == plan.cell_bytes() + 4 * (3 + 1)
    assert replace(plan, scatter="atomic").cell_bytes() == plan.cell_bytes() + 4 * 3


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"schedule": "tiled"}, "schedule 'tiled': expected one of cell, transposed"),
        ({"target": "jacobian"}, "target 'jacobian': expected one of residual"),
        ({"precision": "half"}, "precision 'half'"),
        ({"geometry": "stored"}, "geometry 'stored': expected one of affine_stored"),
        ({"num_blocks": 0}, "-petscfe_num_blocks 0: expected at least 1"),
        ({"num_batches": -4}, "-petscfe_num_batches -4: expected at least 1"),
        ({"target": "matrix"}, "computes residuals and actions, not a matrix; use schedule cell"),
        (
            {"local_limit": 40},
            "needs 88 bytes of local memory for one cell; the device has 40 .*use -femgpu_schedule cell",
        ),
        ({"schedule": "cell", "group_size": 2048}, "-femgpu_group_size 2048: the device allows 1 to 1024"),
        ({"schedule": "cell", "group_size": 0}, "-femgpu_group_size 0"),
    ],
)
def test_refused_plans(changes, said):
    with pytest.raises(PlanError, match=said):
        transposed(**changes)


# Golden programs

_POISSON = "const real s0 = R(0x1p+0 /* 1.0 */) + u[0] * u[0];\nf0[0] = -x[0];\nf1[0] = s0 * u_x[0];\nf1[1] = s0 * u_x[1];"
_VECTOR = "f0[0] = w[0] * constants[0];\nf0[1] = w[1];\nfor (int i = 0; i < 4; ++i) f1[i] = a[0] * w_x[i];"
_JACOBIAN = "g0[0] = constants[0];\ng3[0] = a[0];\ng3[3] = a[0];"

CASES = {
    "cell_residual_p1_double": (
        transposed(schedule="cell", table_sizes=(3,), num_qpts=3, needs_x=True),
        _POISSON,
        0,
    ),
    "transposed_residual_p1_single_nvidia": (
        transposed(
            gpu=True,
            precision="single",
            scatter="atomic",
            atomics="ptx",
            num_blocks=16,
            num_batches=24,
            staged=False,
            table_sizes=(3, 1),
            fields=(field("u", "u", 3, value=False), field("a0", "a", 1, table=1, gradient=False)),
        ),
        "f0[0] = R(0x1p+2 /* 4.0 */);\nfor (int d = 0; d < dim; ++d) f1[d] = a[0] * u_x[d];",
        1,
    ),
    "transposed_action_q1_vector_mixed": (
        transposed(
            4,
            2,
            4,
            target="action",
            precision="mixed",
            geometry="points_recomputed",
            num_blocks=2,
            num_batches=4,
            fields=(field("w", "w", 4, 2), field("a0", "a", 4, gradient=False)),
        ),
        _VECTOR,
        1,
    ),
    "diagonal_p2_gpu_double": (
        transposed(
            6,
            1,
            3,
            schedule="cell",
            target="diagonal",
            gpu=True,
            scatter="atomic",
            group_size=128,
            table_sizes=(6, 1),
            fields=(field("a0", "a", 1, table=1, gradient=False),),
            writes=frozenset({"g0", "g3"}),
        ),
        _JACOBIAN,
        1,
    ),
    "matrix_q1_double": (
        transposed(
            4,
            1,
            4,
            schedule="cell",
            target="matrix",
            geometry="points_stored",
            fields=(field("a0", "a", 4, gradient=False),),
            writes=frozenset({"g0", "g3"}),
        ),
        _JACOBIAN,
        1,
    ),
    "facet_residual_q2_double": (
        transposed(
            9,
            1,
            3,
            schedule="cell",
            facet=True,
            needs_x=True,
            needs_n=True,
            geometry="points_recomputed",
            table_sizes=(9, 4),
            coord_table=1,
            fields=(field("u", "u", 9, gradient=False),),
            tests=(RowsPlan(0, 0, 9, 1, gradient=False),),
            writes=frozenset({"f0"}),
        ),
        "f0[0] = u[0] * (n[0] * x[0] + n[1] * x[1]);",
        0,
    ),
    "taylor_hood_action_double": (
        transposed(
            schedule="cell",
            target="action",
            num_qpts=6,
            scatter="atomic",
            table_sizes=(6, 3),
            fields=(field("w_velocity", "w", 6, 2, value=False), field("w_pressure", "w", 3, table=1, offset=2, gradient=False)),
            tests=(RowsPlan(0, 0, 6, 2, 0, value=False), RowsPlan(2, 1, 3, 1, 12, gradient=False)),
        ),
        "f0[2] = -(w_x[0] + w_x[3]);\nfor (int i = 0; i < 4; ++i) f1[i] = w_x[i];\nf1[0] -= w[2];\nf1[3] -= w[2];",
        0,
    ),
    "second_derivatives_matrix_q2_double": (
        transposed(
            9,
            1,
            9,
            schedule="cell",
            target="matrix",
            geometry="points_recomputed",
            table_sizes=(9, 4),
            coord_table=1,
            hessian_tables=frozenset({0, 1}),
            fields=(replace(field("u", "u", 9), hessian=True),),
            writes=frozenset({"g3", "g5"}),
        ),
        "g3[0] = u_xx[0];\ng3[3] = u_xx[3];\ng5[0] = u_x[0];",
        0,
    ),
}


def program(plan, body, num_aux):
    # Numbers that print alike everywhere, where those of an element may differ in the last digit.
    return render(plan, body, num_aux, np.arange(plan.table_words)[None] / 64)


@pytest.mark.parametrize("name", CASES)
def test_rendered_program(name):
    plan, body, num_aux = CASES[name]
    text, path = program(plan, body, num_aux), GOLDEN / f"{name}.cl"
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text(), f"{name} changed; if it was meant to, run FEMGPU_UPDATE_GOLDEN=1 pytest {__file__}"


def test_golden_folder_holds_nothing_else():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_rendered_program_is_whole(name):
    plan, body, num_aux = CASES[name]
    # No device but NVIDIA's compiles its instructions; the compiler refuses every name that is not defined.
    text = program(replace(plan, atomics="cas"), body, num_aux)
    assert not re.search(r"\$\{|\bUNDEFINED\b|\bNone\b|\bTrue\b|\bFalse\b|^\s*%", text, re.MULTILINE)
    assert text.count("__kernel") == 1 and f"void {plan.name}(" in text
    assert runtime.current().build(text, name)


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_vector_kernels_are_whole(precision):
    assert runtime.current().build(vector_kernels(precision), "vectors")
