"""The programs that plans render to.

`FEMGPU_UPDATE_GOLDEN=1 pytest tests/unit/test_rendered_programs.py` writes the programs in tests/golden anew; look at the
difference before you keep it.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_works import cell, diffusion, field, matrix, sumfact, tiled, transposed

from femgpu import runtime
from femgpu.element import LagrangeElement, mirror_of
from femgpu.kernels import RowsWork, Symmetry, Table, render, vector_kernels
from femgpu.kernels.schedules import (
    CellLanesPlan,
    CellLaneSumsPlan,
    CellSumsPlan,
    GemmPlan,
    SumfactGroupPlan,
    SumfactPencilPlan,
    SumfactPlanePlan,
    SumfactSlicePlan,
    TiledPlan,
)

GOLDEN = Path(__file__).parents[1] / "golden"
UPDATE = os.environ.get("FEMGPU_UPDATE_GOLDEN", "0") != "0"

_POISSON = "const real s0 = R(0x1p+0 /* 1.0 */) + u[0] * u[0];\nf0[0] = -x[0];\nf1[0] = s0 * u_x[0];\nf1[1] = s0 * u_x[1];"
_VECTOR = "f0[0] = w[0] * constants[0];\nf0[1] = w[1];\nfor (int i = 0; i < 4; ++i) f1[i] = a[0] * w_x[i];"
_JACOBIAN = "g0[0] = constants[0];\ng3[0] = a[0];\ng3[3] = a[0];"

CASES = {
    "cell_residual_p1_double": (cell(num_qpts=3, reads=frozenset({"x"})), _POISSON),
    "transposed_residual_p1_single_nvidia": (
        transposed(
            unroll=3072,
            precision="single",
            scatter="atomic",
            atomics="ptx",
            num_blocks=16,
            num_batches=24,
            num_aux=1,
            tables=(Table(3), Table(1)),
            fields=(field("u", "u", 3, value=False), field("a0", "a", 1, table=1, gradient=False)),
        ),
        "f0[0] = R(0x1p+2 /* 4.0 */);\nfor (int d = 0; d < dim; ++d) f1[d] = a[0] * u_x[d];",
    ),
    "transposed_action_q1_vector_mixed": (
        transposed(
            4,
            2,
            4,
            target="action",
            precision="mixed",
            geometry="recomputed",
            affine=False,
            num_blocks=2,
            num_batches=4,
            num_aux=1,
            fields=(field("w", "w", 4, 2, masked=True), field("a0", "a", 4, gradient=False)),
        ),
        _VECTOR,
    ),
    "cell_sums_rows_gpu_single": (
        cell(
            precision="single",
            plan=CellSumsPlan,
            group_size=128,
            turns=3,
            slots=256,
            unroll=3072,
            block=32,
            scatter="atomic",
            atomics="ptx",
            geometry="recomputed",
            coord_table=0,
            fields=(replace(field("u", "u", 3), nodes=0),),
            rows=(RowsWork(0, 0, 3, 1, masked=True, nodes=0),),
        ),
        _POISSON,
    ),
    "cell_sums_vectors_gpu_single": (
        cell(
            3,
            2,
            plan=CellSumsPlan,
            precision="single",
            group_size=64,
            unroll=3072,
            block=32,
            scatter="atomic",
            atomics="ptx",
            geometry="recomputed",
            coord_table=0,
            fields=(replace(field("u", "u", 3, 2), nodes=0),),
            rows=(RowsWork(0, 0, 3, 2, masked=True, nodes=0),),
        ),
        _VECTOR,
    ),
    "cell_sums_action_p2_vector_gpu_double": (
        cell(
            6,
            2,
            target="action",
            plan=CellSumsPlan,
            group_size=64,
            unroll=3072,
            block=32,
            scatter="atomic",
            atomics="ptx",
            geometry="recomputed",
            num_aux=1,
            tables=(Table(6), Table(3)),
            coord_table=1,
            fields=(replace(field("w", "w", 6, 2, masked=True), nodes=0), field("a0", "a", 3, table=1, gradient=False)),
            rows=(RowsWork(0, 0, 6, 2, masked=True, nodes=0),),
        ),
        _VECTOR,
    ),
    "combinations_action_p3_gpu_double": (
        cell(
            10,
            target="action",
            num_qpts=10,
            modes=3,
            symmetry=Symmetry(((0, mirror_of(LagrangeElement("triangle", 3))),), (0, 6, 10), (1, 0), False),
            unroll=3072,
            block=32,
            scatter="atomic",
            atomics="ptx",
            geometry="stored",
            tables=(Table(10), Table(3)),
            coord_table=1,
            fields=(field("w", "w", 10),),
            rows=(RowsWork(0, 0, 10, 1),),
        ),
        "f0[0] = w[0];\nfor (int i = 0; i < 2; ++i) f1[i] = w_x[i];",
    ),
    "diagonal_p2_gpu_double": (
        cell(
            6,
            1,
            3,
            target="diagonal",
            unroll=3072,
            block=32,
            scatter="atomic",
            group_size=128,
            num_aux=1,
            tables=(Table(6), Table(1), Table(3)),
            coord_table=2,
            fields=(field("a0", "a", 1, table=1, gradient=False),),
            rows=(RowsWork(0, 0, 6, 1, masked=True),),
            writes=frozenset({"g0", "g3"}),
        ),
        _JACOBIAN,
    ),
    "matrix_q1_double": (
        matrix(
            4,
            1,
            4,
            affine=False,
            num_aux=1,
            fields=(field("a0", "a", 4, gradient=False),),
            tile_rows=4,
            tile_columns=2,
            cells=8,
            points=4,
        ),
        _JACOBIAN,
    ),
    "entries_p1_fields_gpu_double": (
        matrix(
            3,
            2,
            1,
            scatter="atomic",
            atomics="ptx",
            block=32,
            fields=(),
            rows=(RowsWork(0, 0, 3, 1, num_parts=3), RowsWork(1, 0, 3, 1, 3, num_parts=3)),
            couples=frozenset({(0, 0), (0, 1)}),
            place="ushort",
            fresh=True,
            tile_rows=3,
            tile_columns=1,
            cells=8,
        ),
        "g0[0] = 1;\ng0[1] = 1;",
    ),
    "between_residual_p1_p2_double": (
        cell(
            dim=2,
            num_qpts=2,
            facet=True,
            affine=False,
            geometry="recomputed",
            fields=(field("u", "u", 3), replace(field("other_u", "u", 6, table=1, offset=1, vector="u"), side=1)),
            rows=(RowsWork(0, 0, 3, 1), RowsWork(1, 1, 6, 1, first_row=3, side=1)),
            tables=(Table(3), Table(6, side=1), Table(3, side=1)),
            other_coord_table=2,
            reads=frozenset({"n"}),
        ),
        "f0[0] = u[1] * n[0];\nf1[2] = u_x[0];",
    ),
    "facet_residual_q2_double": (
        cell(
            9,
            1,
            3,
            facet=True,
            reads=frozenset({"x", "n"}),
            geometry="recomputed",
            affine=False,
            tables=(Table(9), Table(4)),
            coord_table=1,
            fields=(field("u", "u", 9, gradient=False),),
            rows=(RowsWork(0, 0, 9, 1, gradient=False),),
            writes=frozenset({"f0"}),
        ),
        "f0[0] = u[0] * (n[0] * x[0] + n[1] * x[1]);",
    ),
    "taylor_hood_action_double": (
        cell(
            target="action",
            num_qpts=6,
            scatter="atomic",
            tables=(Table(6), Table(3)),
            coord_table=1,
            fields=(
                field("w_velocity", "w", 6, 2, value=False, vector="w", masked=True),
                field("w_pressure", "w", 3, table=1, offset=2, gradient=False, vector="w", masked=True),
            ),
            rows=(
                RowsWork(0, 0, 6, 2, 0, value=False, masked=True, beside="w_velocity"),
                RowsWork(2, 1, 3, 1, 12, gradient=False, masked=True, beside="w_pressure"),
            ),
        ),
        "f0[2] = -(w_x[0] + w_x[3]);\nfor (int i = 0; i < 4; ++i) f1[i] = w_x[i];\nf1[0] -= w[2];\nf1[3] -= w[2];",
    ),
    "second_derivatives_matrix_q2_double": (
        matrix(
            9,
            1,
            9,
            geometry="recomputed",
            affine=False,
            tables=(Table(9, second=True), Table(4, second=True)),
            coord_table=1,
            fields=(replace(field("u", "u", 9), hessian=True),),
            writes=frozenset({"g3", "g5"}),
            tile_rows=5,
            tile_columns=2,
            points=3,
        ),
        "g3[0] = u_xx[0];\ng3[3] = u_xx[3];\ng5[0] = u_x[0];",
    ),
    "stored_geometry_action_q1_gpu_double": (
        cell(
            4,
            1,
            4,
            target="action",
            reference=True,
            affine=False,
            unroll=3072,
            block=32,
            scatter="atomic",
            num_state=3,
            num_cell_state=1,
            fields=(field("w", "w", 4, value=False),),
            rows=(RowsWork(0, 0, 4, 1, value=False, beside="w"),),
            writes=frozenset({"f1"}),
        ),
        "f1[0] = c[0] * (s[0] * w_x[0] + s[1] * w_x[1]);\nf1[1] = c[0] * (s[1] * w_x[0] + s[2] * w_x[1]);",
    ),
    "cell_lanes_action_p2_double": (
        cell(
            6,
            2,
            3,
            plan=CellLanesPlan,
            target="action",
            scatter="atomic",
            num_cell_state=1,
            fields=(field("w", "w", 6, 2, masked=True),),
            rows=(RowsWork(0, 0, 6, 2, masked=True, beside="w"),),
            group_size=4,
        ),
        "f0[0] = c[0] * w[0];\nfor (int i = 0; i < 4; ++i) f1[i] = w_x[i];",
    ),
    "cell_lane_sums_residual_p2_double": (
        cell(
            6,
            1,
            3,
            plan=CellLaneSumsPlan,
            scatter="evector",
            geometry="recomputed",
            fields=(replace(field("u", "u", 6), nodes=0),),
            rows=(RowsWork(0, 0, 6, 1, nodes=0),),
        ),
        "f0[0] = u[0];\nfor (int i = 0; i < 2; ++i) f1[i] = u_x[i];",
    ),
    "sumfact_action_q2_lanes_double": (
        sumfact(
            2,
            3,
            3,
            2,
            target="action",
            coord_table=1,
            affine=False,
            geometry="recomputed",
            scatter="atomic",
            fields=(field("w", "w", 9, masked=True),),
            rows=(RowsWork(0, 0, 9, 1, masked=True, beside="w"),),
            lanes=4,
            group_size=16,
        ),
        "f0[0] = w[0];\nfor (int i = 0; i < 2; ++i) f1[i] = w_x[i];",
    ),
    "sumfact_group_action_q2_affine_double": (
        sumfact(
            3,
            3,
            3,
            2,
            plan=SumfactGroupPlan,
            target="action",
            coord_table=1,
            geometry="recomputed",
            fields=(field("w", "w", 27, value=False),),
            rows=(RowsWork(0, 0, 27, 1, value=False, beside="w"),),
            writes=frozenset({"f1"}),
            items=9,
            cells=4,
        ),
        "for (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "sumfact_group_diagonal_q1_vector_double": (
        sumfact(
            3,
            3,
            2,
            plan=SumfactGroupPlan,
            target="diagonal",
            affine=False,
            fields=(field("a0", "a", 8, gradient=False),),
            num_aux=1,
            rows=(RowsWork(0, 0, 8, 3, masked=True),),
            writes=frozenset({"g0", "g1", "g3"}),
            items=9,
            cells=3,
        ),
        "for (int i = 0; i < 9; i += 4) g0[i] = a[0];\ng1[0] = 1;\nfor (int i = 0; i < 81; i += 40) g3[i] = 1;",
    ),
    "sumfact_pencils_action_q2_gauss_double": (
        sumfact(
            3,
            4,
            3,
            2,
            plan=SumfactPencilPlan,
            target="action",
            coord_table=1,
            affine=False,
            geometry="recomputed",
            scatter="atomic",
            fields=(field("w", "w", 27),),
            rows=(RowsWork(0, 0, 27, 1, beside="w"),),
            derivatives=2,
            unroll=2048,
            cells=8,
        ),
        "f0[0] = w[0];\nfor (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "sumfact_planes_action_q2_gauss_double": (
        sumfact(
            3,
            4,
            3,
            2,
            plan=SumfactPlanePlan,
            target="action",
            coord_table=1,
            affine=False,
            scatter="atomic",
            fields=(field("w", "w", 27),),
            rows=(RowsWork(0, 0, 27, 1, beside="w"),),
            derivatives=2,
            unroll=2048,
            cells=8,
        ),
        "f0[0] = w[0];\nfor (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "sumfact_planes_action_q2_weighed_double": (
        sumfact(
            3,
            4,
            3,
            2,
            plan=SumfactPlanePlan,
            target="action",
            coord_table=1,
            affine=False,
            geometry="recomputed",
            scatter="atomic",
            fields=(field("w", "w", 27, value=False),),
            rows=(RowsWork(0, 0, 27, 1, value=False, beside="w"),),
            derivatives=2,
            unroll=2048,
            cells=8,
        ),
        "for (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "sumfact_slices_action_q2_gauss_double": (
        sumfact(
            3,
            4,
            3,
            2,
            plan=SumfactSlicePlan,
            target="action",
            coord_table=1,
            affine=False,
            geometry="recomputed",
            scatter="atomic",
            fields=(field("w", "w", 27),),
            rows=(RowsWork(0, 0, 27, 1, beside="w"),),
            derivatives=2,
            unroll=2048,
            cells=8,
        ),
        "f0[0] = w[0];\nfor (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "gemm_action_q2_gauss_matrix_instructions_double": (
        sumfact(
            3,
            4,
            3,
            2,
            plan=GemmPlan,
            target="action",
            coord_table=1,
            affine=False,
            geometry="recomputed",
            scatter="atomic",
            atomics="ptx",
            fields=(field("w", "w", 27),),
            rows=(RowsWork(0, 0, 27, 1, beside="w"),),
            unroll=2048,
            cells=4,
            items=32,
            tile=2,
            mma=16,
        ),
        "f0[0] = w[0];\nfor (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "gemm_residual_q1_vector_double": (
        sumfact(
            2,
            2,
            2,
            plan=GemmPlan,
            fields=(field("u", "u", 4, 2),),
            rows=(RowsWork(0, 0, 4, 2),),
            scatter="evector",
            cells=4,
            items=2,
            tile=4,
        ),
        "for (int i = 0; i < 4; ++i) f1[i] = u_x[i];",
    ),
    "tiled_action_p2_vector_gpu_single": (
        tiled(
            6,
            2,
            3,
            target="action",
            precision="single",
            scatter="atomic",
            atomics="ptx",
            unroll=2048,
            block=32,
            num_aux=1,
            tables=(Table(6), Table(3)),
            coord_table=1,
            fields=(field("w", "w", 6, 2, masked=True), field("a0", "a", 3, table=1, gradient=False)),
            rows=(RowsWork(0, 0, 6, 2, masked=True, beside="w"),),
            cells=64,
            lanes=2,
            parts=4,
        ),
        _VECTOR,
    ),
    "tiled_action_p4_matrix_instructions_double": (
        TiledPlan(
            diffusion(4, 24),
            geometry="recomputed",
            scatter="atomic",
            atomics="ptx",
            unroll=2048,
            block=32,
            cells=16,
            lanes=2,
            vectors=2,
            parts=16,
            mma=16,
        ),
        "for (int i = 0; i < 3; ++i) f1[i] = w_x[i];",
    ),
    "tiled_diagonal_p3_vector_double": (
        TiledPlan(
            diffusion(3, 14, 2, target="diagonal", fields=(), writes=frozenset({"g0", "g2", "g3"}), shift=1),
            geometry="recomputed",
            scatter="atomic",
            atomics="ptx",
            unroll=2048,
            block=32,
            cells=32,
            parts=2,
            points=2,
        ),
        "for (int i = 0; i < 4; ++i) g0[i] = R(1);\nfor (int i = 0; i < 36; ++i) g3[i] = R(1);",
    ),
    "state_p1_double": (
        cell(
            num_qpts=3,
            target="state",
            reference=True,
            reads=frozenset({"K", "det"}),
            num_state=1,
            num_cell_state=1,
            rows=(),
            writes=frozenset({"s", "c"}),
        ),
        "s[0] = weight[0] * det[0] * u[0];\nc[0] = K[0] * K[3] - K[1] * K[2];",
    ),
}


def program(plan, body):
    # Numbers that print alike everywhere, where those of an element may differ in the last digit.
    return render(plan, body, np.arange(plan.words_of())[None] / 64)


@pytest.mark.parametrize("name", CASES)
def test_rendered_program(name):
    text, path = program(*CASES[name]), GOLDEN / f"{name}.cl"
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text(), f"{name} changed; if it was meant to, run FEMGPU_UPDATE_GOLDEN=1 pytest {__file__}"


def test_golden_folder_holds_nothing_else():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_rendered_program_is_whole(name):
    plan, body = CASES[name]
    # No device but NVIDIA's compiles its instructions; the compiler refuses every name that is not defined.
    text = program(replace(plan, atomics="cas"), body)
    assert not re.search(r"\$\{|\bUNDEFINED\b|\bNone\b|\bTrue\b|\bFalse\b|^\s*%", text, re.MULTILINE)
    assert text.count("__kernel") == 1 and f"void {plan.steps()[0].name}(" in text
    assert runtime.current().build(text, name)


@pytest.mark.parametrize("name", CASES)
def test_rendered_program_for_nvidia_is_whole(name):
    """But for the instructions themselves."""
    plan, body = CASES[name]
    text = program(replace(plan, atomics="ptx"), body)
    assert runtime.current().build(re.sub(r"\basm( volatile)?\(.*?\);", ";", text, flags=re.DOTALL), name)


def test_tiles_are_unrolled_by_powers_of_two():
    """NVIDIA's compiler forgets the end of loops over points that are unrolled by three (docs/notes.md)."""
    plans = [TiledPlan(diffusion(2, 11), unroll=2048, cells=width, vectors=width, parts=4) for width in range(1, 17)]
    texts = [program(plan, "f1[0] = w_x[0];") for plan in plans]
    assert {int(count) for text in texts for count in re.findall(r"unroll (\d+)", text)} == {1, 2, 4}


@pytest.mark.parametrize(("nodes", "rolled"), [(3, 0), (6, 7)])
def test_loops_that_registers_do_not_hold_are_left_alone(nodes, rolled):
    """A GPU's compiler unrolls all of them otherwise, for minutes."""
    plan = sumfact(3, nodes, nodes, 2, coord_table=1, unroll=2048, fields=(field("u", "u", nodes**3),))
    assert plan.fits_registers == (not rolled)
    assert program(plan, "f0[0] = u[0];").count('_Pragma("unroll 1") for') == rolled


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_vector_kernels_are_whole(precision):
    assert runtime.current().build(vector_kernels(precision), "vectors")
