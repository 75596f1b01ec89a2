"""Plants faults and shows that the conformance tests see them: `python tests/conformance/mutants.py [name ...]`.

Each fault comes with the smallest sample of the tests that ought to notice. The sample must pass without the fault and fail with
it; a fault that changes nothing in what is built counts as not caught. Without names all faults are planted. Exits with the number
of those that were not caught.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from conformance.grid_mutants import GRID_MUTANTS  # noqa: E402
from conformance.mutant import (  # noqa: E402
    Mutant,
    cells,
    of_modes,
    of_operators,
    of_plans,
    of_sums,
    points,
    text,
)


def no_zeroing(setattr):
    from femgpu.runtime import Runtime

    setattr(Runtime, "zero", lambda runtime, buffer, num_bytes, first=0: None)


def modal(wrong):
    """Other tables of coefficients: what `wrong` makes of weights and tables."""

    def plant(setattr):
        from femgpu.operators import application

        right = application.modal_tables
        setattr(application, "modal_tables", lambda *given: wrong(*right(*given)))

    return plant


def reread_first_node(setattr):
    """In items without registers, whose loops over points are not unrolled."""
    from femgpu.kernels.schedules import CellSumsPlan, cell_plan

    setattr(cell_plan, "_REGISTER_BYTES", 0)
    setattr(CellSumsPlan, "unrolls_points", False)
    again = "((volatile __local real *)s_u)[c * slots0 + SLOT(r_places0[{}])]"
    return text(again.format("b"), again.format("0"))(setattr)


def slots_before(setattr):
    """In lists by numpy."""
    from femgpu.operators import lists

    right = lists.np.put_along_axis
    setattr(lists.np, "put_along_axis", lambda array, where, slots, axis: right(array, where, np.maximum(slots, 1) - 1, axis))


def stale_state(setattr):
    from femgpu.operators import FormOperator

    setattr(FormOperator, "base_changed", lambda operator: None)


def stale_constants(setattr):
    from femgpu.operators.inputs import Inputs

    update = Inputs.update

    def once(inputs):
        if not hasattr(inputs, "seen"):
            inputs.seen = update(inputs)
        return False

    setattr(Inputs, "update", once)


def marks_of_first_component(setattr):
    """A node counts as prescribed by its component 0 alone."""
    from femgpu.operators import arrays

    def offsets(self, term, field, masked, layout):
        found = term.offsets(field)
        if masked and self.prescribed is not None:
            found = np.where(self.prescribed[found] != 0, ~found, found)
        return layout.pack(found).astype(np.int32)

    setattr(arrays.CellArrays, "_offsets", offsets)


def dense_tail(setattr):
    """The cells of a last block that is not full stand as near as those of a full one."""
    from femgpu.kernels import Layout

    pack = Layout.pack

    def near(layout, array, permutation=None):
        packed, rest = pack(layout, array, permutation), len(array) % layout.block
        if rest and layout.together == 1:
            start = (len(array) - rest) * array.shape[1]
            packed[start : start + rest * array.shape[1]] = array[-rest:].T.ravel()
        return packed

    setattr(Layout, "pack", near)


def late_segments(setattr):
    """Sums read the entries of the second field of each term one word late."""
    from femgpu.operators.sums import Segments

    make = Segments.__init__

    def late(segments, *arguments):
        make(segments, *arguments)
        segments.starts |= {(term, i): start + 1 for (term, i), start in segments.starts.items() if i == 1}

    setattr(Segments, "__init__", late)


# Draws of a sample that a fault may hide from, in a suite that draws some hundred; what is said of one that hides from all.
DRAWS = 32
_PASSES = "passes"
_NEVER = "the fault was never built in"

# Where items of schedule transposed have a cell each.
ONE_POINT = dict(element=("triangle", 1), points="one", geometry="stored", num_comp=2)
# Launches that zero what they add to, whose vectors do not end where four floats do.
ZEROING = dict(element=("quadrilateral", 2), schedule="cell:sums=8", limits="unrolled", scatter="atomic", precision="single")
MUTANTS = GRID_MUTANTS | {
    "mixed accumulates in float": Mutant(text("typedef ACCUM accum;", "typedef REAL accum;"), points),
    "cells are added in float": Mutant(
        text("accum sum = 0;\n  for (int k = d_starts", "real sum = 0;\n  for (int k = d_starts"), cells
    ),
    "last batch that is full lacks a cell": of_plans(
        text(
            "clamp(count - past, 0, CELLS)",
            "clamp(count - past == CELLS ? CELLS - 1 : count - past, 0, CELLS)",
        )
    ),
    "weight of the last point": of_plans(
        text("#define TABLE_W(q) d_tables[q]", "#define TABLE_W(q) (d_tables[q] * ((q) == NUM_QPTS - 1 ? R(1.0001) : R(1)))")
    ),
    "a basis function is dropped": of_plans(
        text(
            "for (int b = 0; b < num_basis; ++b)\n    for (int c = 0; c < num_comp; ++c) ADD_PRODUCT(value[c]",
            "for (int b = 0; b < num_basis - 1; ++b)\n    for (int c = 0; c < num_comp; ++c) ADD_PRODUCT(value[c]",
        )
    ),
    "inverse Jacobian transposed": of_plans(text("reference[k] * J_inv[k * DIM + d]", "reference[k] * J_inv[d * DIM + k]")),
    "inverse Jacobian transposed in second derivatives": of_plans(
        text("h[k * DIM + l] * J_inv[l * DIM + j]", "h[k * DIM + l] * J_inv[j * DIM + l]"), form="second"
    ),
    "geometry of the first point everywhere": of_plans(
        text("AT_d_geometry(cell, q * (DIM * DIM + 1) + i)", "AT_d_geometry(cell, i)"), element=("quadrilateral", 2)
    ),
    "curvature of the map is forgotten": of_plans(
        text("subtract_map(1, gradient", "if (0) subtract_map(1, gradient"),
        element=("quadrilateral", 2),
        form="second",
        kind="matrix",
    ),
    "half of a diagonal's mixed products": of_plans(
        text("(k < l ? tensor[l * DIM + k] : R(0))", "R(0)"), element=("hexahedron", 2), kind="diagonal"
    ),
    "tables of the first facet for all, in tiles": of_plans(
        text("const int facet = d_facets[AT_d_facets(CELL(own), 0)]", "const int facet = 0"), form="boundary"
    ),
    "the first cell's map for both, in tiles": of_plans(
        text("other_J_inv[i] = s_words[(5 + i)", "other_J_inv[i] = s_words[(0 + i)"), form="between", shape="affine"
    ),
    "squares of the first component only": of_plans(
        text("r_f0_e[AT_POINT(slot, place)]", "r_f0_e[AT_POINT(slot - c, place)]"), num_comp=2, kind="diagonal"
    ),
    "diagonal instead of what stands beside it": of_plans(
        text("+ (c + 1) % ", "+ (c + 0) % "), element=("hexahedron", 2), num_comp=2, kind="diagonal", shift=1
    ),
    "matrix transposed": of_plans(
        text(
            "(row + v * row_step) * NUM_ROWS + column + t * column_step",
            "(column + t * column_step) * NUM_ROWS + row + v * row_step",
        ),
        form="all",
        kind="matrix",
    ),
    "tile past the last basis function": of_plans(text("if (v < num_test && t < num_trial)", ""), kind="matrix"),
    "tables of the first pass in all": of_plans(text("const int q = start + p;", "const int q = p;"), kind="matrix", points="many"),
    "part of a cell too few": of_plans(
        text("first + past, cells = min(CELLS,", "first + past, cells = min(CELLS - 1,"), kind="matrix"
    ),
    "prescribed row written": of_plans(
        text("if (offset >= 0) atomic_add_scalar(d_out + offset,", "atomic_add_scalar(d_out + NODE(offset),"),
        scatter="atomic",
        masked=True,
    ),
    "direction not zeroed": of_plans(
        text("offset < 0 ? R(0) : (real)d_w[offset]", "(real)d_w[NODE(offset)]"), kind="action", masked=True
    ),
    "mask of single components ignored in rows": of_plans(
        text("if (!IS_PRESCRIBED(offset, c)) atomic", "if (offset >= 0) atomic"), num_comp=2, scatter="atomic", masked=True
    ),
    "mask of single components ignored in the direction": of_plans(
        text("IS_PRESCRIBED(offset, c) ? R(0)", "offset < 0 ? R(0)"), kind="action", num_comp=2, masked=True
    ),
    "marks by component 0 alone": of_plans(marks_of_first_component, kind="action", num_comp=2, masked=True),
    "first ignored": of_plans(
        text("const int cell = first + (int)get_global_id(0)", "const int cell = (int)get_global_id(0)"), limits="unrolled"
    ),
    "first ignored by transposed": of_plans(text("const int begin = first + past", "const int begin = past")),
    "an item's cell is the next of transposed": of_plans(
        text("number = first + min(past + min(item,", "number = first + min(past + 1 + min(item,"), **ONE_POINT
    ),
    "a vector of words is its first one": of_plans(text("= words.s1;", "= words.s0;"), source="evector", **ONE_POINT),
    "another determinant of a stored inverse": of_plans(text("across * (x * x + y * y)", "across * (x * x - y * y)"), **ONE_POINT),
    "the second row across the first on its other side": of_plans(
        text("along * y + across * x", "along * y - across * x"), **ONE_POINT
    ),
    "an item's row is the first of transposed": of_plans(
        text("const int b0 = item", "const int b0 = 0 * item"), element=("triangle", 1)
    ),
    "the last polynomial is forgotten": of_modes(
        modal(lambda weights, tables: (np.where(np.arange(weights.size) < weights.size - 1, weights, 0), tables))
    ),
    "coefficients are wrong in the thirteenth digit": of_modes(
        modal(lambda weights, tables: (weights * (1 + 5e-13), tables)), form="stiffness"
    ),
    "the diagonal of triangular tables is left out": of_modes(text("if (b >= q)", "if (b > q)"), form="values", limits="unrolled"),
    "differences of coefficients are sums": of_modes(text("= one - other;", "= one + other;"), form="values", limits="unrolled"),
    "even derivatives alone": of_modes(text("even - parts[0]", "even"), form="stiffness", limits="unrolled"),
    "odd fluxes are even": of_modes(text("flux[0] - flux[1]", "flux[0] + flux[1]"), form="stiffness", limits="unrolled"),
    "a group's first place twice": of_sums(text("places.s1", "places.s0")),
    "a group's sums lack a result": of_sums(text("result < results;", "result < results - 1;")),
    "a group's sums are written where prescribed": of_sums(text("if (!results || offset < 0)", "if (!results)"), masked=True),
    "a group's components are prescribed alike": of_sums(
        text("if (!results || IS_PRESCRIBED(offset, c))", "if (!results || offset < 0)"), masked=True, num_comp=2
    ),
    "a group's last components are not added": of_sums(text("k < 2 * ", "k < "), num_comp=2),
    "a group's direction where prescribed": of_sums(text("offset < 0 ? R(0) : (real)d_w", "(real)d_w"), masked=True),
    "a group's vertices are those of slots": of_sums(text("s_x[d * ", "s_x[0 * "), element=("triangle", 1)),
    "a vector's first number twice": of_sums(
        text("= vector0.s1;", "= vector0.s0;"), element=("triangle", 1), num_comp=2, precision="single", limits="unrolled"
    ),
    "vectors behind those of other nodes": of_sums(
        text("s_values0_0 + 4 * slots0", "s_values0_0 + 2 * slots0"),
        element=("triangle", 1),
        num_comp=3,
        precision="single",
        limits="unrolled",
    ),
    "values that are read again are the first node's": of_sums(
        reread_first_node, element=("triangle", 2), limits="unrolled", places="once"
    ),
    "a group's first nodes are read for all": of_sums(
        text("const uint i = begin + k * GROUP_SIZE,", "const uint i = begin,"), element=("triangle", 2)
    ),
    "an item's first cell for all": of_sums(text("r_turns0[turn];", "r_turns0[0];")),
    "vertices of the nodes before": of_sums(text("scale0 = d_vertices0 ? 1 : 2", "scale0 = 1"), element=("triangle", 1)),
    "a node's results without bound": of_sums(text("past %= MOST_RESULTS;", "")),
    "the first of a cell's places for all": of_sums(
        text("places /= ", "places -= places % "), element=("triangle", 1), places="rows"
    ),
    "a node's results in one place": of_sums(text("past << 16 : 0", "0 : 0"), places="rows"),
    "a row's nodes without bound": of_sums(text("past %= MOST_RESULTS;", ""), places="rows"),
    "an item's first node for all": of_sums(text("offset = r_nodes0[k],", "offset = r_nodes0[0],"), places="kept"),
    "an item's first component for all": of_sums(
        text("const int i = item / 2 + k *", "const int i = item / 2 + 0 * k *"), num_comp=2, places="kept"
    ),
    "rows of groups with more nodes": of_sums(
        text("(s_nodes[0] + SLICE - 1)", "min(s_nodes[0], SLICE)"), element=("triangle", 3), places="short"
    ),
    "lists of the first cells for all": of_sums(text("(first + (int)get_group_id(0) * CELLS)", "((int)get_group_id(0) * CELLS)")),
    "slots of the slice before": of_sums(text("rows += ROWS", "rows += i == 0 ? 0 : ROWS"), element=("triangle", 2)),
    "a group's last cell": of_sums(text("item, count - 1)", "item, max(count - 2, 0))")),
    "a row for two results": of_sums(text("s_words[slot] &= ~(0x10000u << row);", "")),
    "stored sums of the node before": of_sums(
        text("* group + i) * 1 + c] = ", "* group + max(i - 1, 0)) * 1 + c] = "), scatter="evector"
    ),
    "a group's first component is stored for all": of_sums(
        text("* group + i) * 2 + c] = ", "* group + i) * 2] = "), num_comp=2, scatter="evector"
    ),
    "sums begin anywhere": of_sums(text("s_sums0[i * 1 + c] = 0;", ";"), places="lanes", scatter="evector"),
    "cells of the next item, too": of_sums(text("min((group + 1) * CELLS, count)", "count"), places="lanes", scatter="evector"),
    "places of an item's first cell": of_sums(
        text("AT_d_places0(cell, 0)", "AT_d_places0(begin, 0)"), places="lanes", scatter="evector"
    ),
    "components of a node in one place": of_sums(
        text("* 2 + c] += r_f0", "* 2] += r_f0"), num_comp=2, places="lanes", scatter="evector"
    ),
    "an item's sums are added where prescribed": of_sums(text("if (!(offset < 0)) ", ""), places="lanes", masked=True),
    "an item's direction where prescribed": of_sums(
        text("offset < 0 ? R(0) : (real)d_w", "(real)d_w"), places="lanes", masked=True
    ),
    "the slot before": of_sums(slots_before, places="lanes"),
    "a cell too many": of_plans(text("if (cell >= first + count) return;", "if (cell > first + count) return;")),
    "a cell too few": of_plans(text("if (cell >= first + count) return;", "if (cell >= first + count - 1) return;")),
    "blocks begin a cell late": of_plans(text("((uint)(cell) / 32)", "(max((cell) - 1, 0) / 32)"), limits="blocks"),
    "last block packed more densely": of_plans(dense_tail, limits="blocks"),
    "state of the point before": of_plans(
        text("d_state[AT_d_state(cell, q * NUM_STATE + i)];", "d_state[AT_d_state(cell, (q > 0 ? q - 1 : q) * NUM_STATE + i)];"),
        kind="stored",
        form="all",
    ),
    "state of the cell before in transposed": of_plans(
        text("d_state[AT_d_state(begin + cell,", "d_state[AT_d_state(begin + max(cell - 1, 0),"), kind="stored", form="all"
    ),
    "cell state read as point state": of_plans(
        text(
            "r_c[i] = d_cell_state[AT_d_cell_state(cell, i)]", "r_c[i] = d_cell_state[(cell * NUM_QPTS / 2) * NUM_CELL_STATE + i]"
        ),
        kind="stored pulled",
        form="stiffness",
    ),
    "E-vector of the second field misplaced": of_operators(late_segments, form="fields"),
    "facet normal's sign": of_plans(
        text("n[d] += J_inv[k * DIM + d] * N[k]", "n[d] -= J_inv[k * DIM + d] * N[k]"), form="facets", num_comp=1
    ),
    "facet of the neighbour": of_plans(text("d_facets[AT_d_facets(cell, 0)]", "d_facets[AT_d_facets(first, 0)]"), form="facets"),
    "facet of the neighbour in the second cell": of_plans(
        text("d_other_facets[AT_d_other_facets(cell, 0)]", "d_other_facets[AT_d_other_facets(first, 0)]"), form="between"
    ),
    "map of the first cell in the second": of_plans(
        text("r_other_u_e, other_J_inv,", "r_other_u_e, J_inv,"), form="between", element=("triangle", 1)
    ),
    "map of the first cell in the second one's columns": of_plans(
        text("*trial_J = trial_other ? other_J_inv", "*trial_J = trial_other ? J_inv"), form="between", kind="matrix"
    ),
    "diagonal without what both cells share": of_operators(
        text("if (d_test1_offsets[AT_d_test1_offsets(cell, t)] ==", "if (-9 =="), form="between"
    ),
    "constants of double in float": of_plans(
        text("#define R(x) ((real)(x))", "#define R(x) ((real)(float)(x))"), limits="unrolled"
    ),
    "cells side by side past the last one": of_plans(
        text("lane < LANES && begin + lane <= last; ++lane", "lane < LANES; ++lane"), element=("quadrilateral", 1)
    ),
    "cells side by side in schedule cell past the last one": of_plans(
        text("lane < LANES && begin + lane <= last; ++lane", "lane < LANES; ++lane")
    ),
    "map of the first cell in those beside it": of_plans(text("AT_d_geometry(cell1,", "AT_d_geometry(cell0,")),
    "last cell of a vector too few": of_plans(
        text("const int cell = min(begin + lane, last);", "const int cell = min(begin + lane, max(last - 1, begin));")
    ),
    "flux of the lane beside": of_plans(text("f1)[i * LANES + lane]", "f1)[i * LANES + (lane ^ 1)]")),
    "a direction's sum overwrites another's": of_plans(text("adds ? target", "0 ? target"), element=("quadrilateral", 2)),
    "weight of the lattice's last point": of_plans(
        text(
            "#define TABLE_W(q) LATTICE_W(place)",
            "#define TABLE_W(q) (LATTICE_W(place) * (place + 1 < NUM_QPTS ? R(1) : R(1.0001)))",
        ),
        element=("hexahedron", 1),
    ),
    "second derivatives without their symmetry": of_plans(
        text("min(k, l)) * DIM + max(k, l)", "k) * DIM + l"), element=("quadrilateral", 2), form="second"
    ),
    "curvature of the map is forgotten in rows": of_plans(
        text("pull_back_map(J_inv, flux_xx + c", "if (0) pull_back_map(J_inv, flux_xx + c"),
        element=("quadrilateral", 2),
        form="test second",
    ),
    "curvature of the map is forgotten in rows of matrices": of_plans(
        text("-= J_inv[k * DIM + m] * sum", "-= 0 * J_inv[k * DIM + m] * sum"),
        element=("quadrilateral", 2),
        form="test second",
        kind="matrix",
    ),
    "half of mixed derivatives in rows": of_plans(
        text("(k < l ? f2[(c * DIM + l) * DIM + k] : R(0))", "R(0)"), element=("quadrilateral", 2), form="test second"
    ),
    "coordinates of an affine cell by another's table": of_plans(
        text("LINE_MAP[b * DIM + k]", "LINE_MAP[b * DIM + (k + 1) % DIM]"),
        element=("quadrilateral", 2),
        shape="affine",
        geometry="recomputed",
    ),
    "marks of a node's first component": of_operators(
        text("if (!IS_PRESCRIBED(f0_offsets[l], part))", "if (!IS_PRESCRIBED(f0_offsets[l], 0))"),
        element=("hexahedron", 2),
        form="stiffness",
        num_comp=3,
        points="many",
        schedule="sumfact:planes=3",
        scatter="atomic",
        geometry="recomputed",
    ),
    "tiles of the first pass in all": of_plans(text("+ (pass * PARTS + part) *", "+ part *"), points="many"),
    "last point of a pass": of_plans(text("points = min(PARTS * POINTS, NUM_QPTS - begin)", "points = PARTS * POINTS - 1")),
    "coefficients of a neighbour's cell": of_plans(
        text("+ PLACE(i % CELLS)] = values", "+ PLACE((i + 1) % CELLS)] = values"), element=("tetrahedron", 2)
    ),
    "last cell of a group that is not full": of_plans(text("&& past < count)", "&& past < count - 1)")),
    "points and basis functions of a matrix instruction": of_plans(
        text("i / 4 * 32 + part % 8 * 4 + i % 4", "i / 4 * 32 + i % 4 * 8 + part % 8"), element=("tetrahedron", 2)
    ),
    "gather_sum assigns": of_operators(text("(adds ? *out : 0) + (scalar)sum", "(scalar)sum")),
    "gather_sum writes prescribed rows": of_operators(text("if (IS_PRESCRIBED(d_nodes[node], c)) return;", ""), num_comp=2),
    "missing zeroing": of_operators(no_zeroing),
    "launches leave their last zeros": of_operators(text("i < num_zeros; i += zeroing * items", "i < 0;"), **ZEROING),
    "launches begin to zero too late": of_operators(text("(uint i = id; i < stop;", "(uint i = id + 1; i < stop;"), **ZEROING),
    "stale state": of_operators(stale_state, form="all", qdata="store"),
    "stale constants": of_operators(stale_constants, form="all"),
}


def caught(name, seed):
    """Whether a fault is seen by a test that passes without it, within a few draws of the sample; a sentence about what happened.

    Not every draw can show every fault: a range that begins at the first cell hides that `first` is ignored, and facets are none of
    the business of some schedules.
    """
    for draw in range(DRAWS):
        seen, why = _drawn(MUTANTS[name], [seed, draw])
        if seen or why not in (_PASSES, _NEVER):
            break
    return seen, why


def _drawn(mutant, seed):
    """The same for one draw."""
    mutant.check(SimpleNamespace(**mutant.sample), np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patch:
        planted = mutant.plant(patch.setattr)
        try:
            mutant.check(SimpleNamespace(**mutant.sample), np.random.default_rng(seed))
        except AssertionError as error:
            if planted is not None and not planted():
                return False, "fails, but the fault was never built in"
            return True, " ".join(str(error).split())[:150]
        return False, _PASSES if planted is None or planted() else _NEVER


def main(names):
    seed = int(os.environ.get("FEMGPU_TEST_SEED", "0")) or np.random.SeedSequence().entropy % 2**32
    print(f"FEMGPU_TEST_SEED={seed}")
    missed = 0
    for name in names or MUTANTS:
        seen, why = caught(name, seed)
        missed += not seen
        print(f"{'caught' if seen else 'NOT caught':10}  {name}: {why}", flush=True)
    return missed


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
