"""Faults of the schedules that work line by line (sumfact, gemm), each with a bake-off problem on a grid that ought to notice."""

from conformance.mutant import of_grids, text


def anisotropic_frames(setattr):
    from femgpu.kernels.schedules.sumfact_lattices import SumfactLatticePlan

    setattr(SumfactLatticePlan, "expanded", property(lambda plan: "frame"))


GRID_MUTANTS = {
    "what two cells add is stored": of_grids(text("if (stores && l % 3 > 0 &&", "if (stores &&"), "sumfact:planes=3"),
    "what is to be added is stored": of_grids(text("const int stores = d_stores &&", "const int stores ="), "sumfact:pencils=3"),
    "odd parts of a line are forgotten": of_grids(text("sum + difference;", "sum;"), "sumfact:pencils=3"),
    "stored numbers are not copied": of_grids(
        text("*(to) = *(from)", "*(to) = 0"), "sumfact:pencils=3,copies=1", "bp1", "unrolled", qdata="store"
    ),
    "middle of a line is forgotten": of_grids(text("even[1] = values[1];", "even[1] = 0;"), "sumfact:pencils=3", "bp5"),
    "a line's values are those of its first point": of_grids(
        text("= value_w[0 + n];", "= value_w[0];"), "sumfact:pencils=3", "bp1", "unrolled"
    ),
    "a line's slopes are those of its first component": of_grids(
        text("= slope_w[4 + n];", "= slope_w[0 + n];"), "sumfact:pencils=2", "bp6", "unrolled", degree=3
    ),
    "fluxes along a line are forgotten": of_grids(
        text("slope_f0[0 + n] =", "slope_f0[0] ="), "sumfact:pencils=2", "bp5", "unrolled", degree=3
    ),
    "what is loaded ahead is the first point's": of_grids(
        text("= ahead[n * NUM_STATE + i];", "= ahead[i];"), "sumfact:pencils=3", "bp1", "unrolled", qdata="store"
    ),
    "what is loaded for the next point is this one's": of_grids(
        text("(n + 1)", "(n + 0)"), "sumfact:pencils=3", "bp3", "unrolled", qdata="store"
    ),
    "planes of stored numbers overlap": of_grids(
        text("q / 16 * 96", "q / 16 * 80"), "sumfact:pencils=2", "bp5", "unrolled", degree=3, qdata="store"
    ),
    "all components of a cell are the first": of_grids(text("part = number % 3", "part = 0"), "sumfact:planes=3", "bp4"),
    "last components of a launch are not added": of_grids(
        text("if (past < count * 3)", "if (past < count)"), "sumfact:slices=3", "bp4"
    ),
    "coefficients of the map along the wrong axes": of_grids(text("yr[d] = map[6]", "yr[d] = map[5]"), "sumfact:planes=3"),
    "determinant along a row lacks its square": of_grids(text("out[2] += normal_r * c_r[d];", ""), "sumfact:planes=3", "bp1"),
    "columns of the determinant in the wrong order": of_grids(
        text("determinant_along(along, across, across_r, xt, xrt", "determinant_along(along, xt, xrt, across, across_r"),
        "sumfact:slices=3",
        "bp1",
    ),
    "adjugate along a row lacks its square": of_grids(
        text("out[6 + d] = b_r[i] * c_r[j] - b_r[j] * c_r[i];", "out[6 + d] = 0;"), "sumfact:slices=2", "bp3 skew", degree=3
    ),
    "columns of the adjugate in the wrong order": of_grids(
        text("adjugate_along(along, across, across_r, xt, xrt", "adjugate_along(along, xt, xrt, across, across_r"),
        "sumfact:slices=2",
        "bp3 skew",
        degree=3,
    ),
    "columns in the frame in the wrong order": of_grids(
        text("frame_along(along, across, across_r, xt, xrt", "frame_along(along, xt, xrt, across, across_r"), "sumfact:planes=3"
    ),
    "a frame turns the orientation round": of_grids(
        text("out[13] = signed_length;", "out[13] = -signed_length;"),
        "sumfact:planes=3",
    ),
    "a frame is not orthonormal": of_grids(
        text("x[2] - along[2] * reflected;", "x[2] - along[1] * reflected;"), "sumfact:pencils=3"
    ),
    "a frame for a function that is not isotropic": of_grids(anisotropic_frames, "sumfact:planes=3", "bp3 skew"),
    "derivatives from the nodes are whole": of_grids(
        text("(partial + l)[r * 4] = sum;", "(partial + l)[r * 4] = 0;"), "sumfact:planes=3"
    ),
    "odd parts of derivatives from the nodes are even ones": of_grids(
        text("* odd1[m];", "* even1[m];"), "sumfact:slices=2", degree=4
    ),
    "the last plane of nodes is the one before": of_grids(text("(min(item, 2))", "min(item, 1)"), "sumfact:planes=3"),
    "neighbouring items are all of a cell": of_grids(
        text("(int)get_local_id(0) % CELLS;", "(int)get_local_id(0) / ITEMS;"), "sumfact:slices=8", "bp5", "unrolled"
    ),
    "a slice forgets what comes along its rows": of_grids(text("(at)[r * 1] = back[r];", "(at)[r * 1] = 0;"), "sumfact:slices=3"),
    "fluxes are not divided by the determinant": of_grids(
        text("TABLE_W(q) * inverse_det,", "TABLE_W(q),"), "sumfact:pencils=3", "bp3 skew"
    ),
    "derivatives are not divided by the determinant": of_grids(text("*= inverse_det;", "*= 1;"), "sumfact:pencils=3", "bp30 skew"),
    "fluxes in a frame are not divided": of_grids(text("* map_along[13] * inverse_det,", "* map_along[13],"), "sumfact:pencils=3"),
    "derivatives in a frame are not divided": of_grids(
        text("map_along[12], inverse_det,", "map_along[12], 1,"), "sumfact:planes=3", "bp30"
    ),
    "columns of a matrix instruction": of_grids(
        text("id - quarter + m % 4]", "id - quarter + (m + 1) % 4]"), "gemm:mma=1", "bp3", "unrolled"
    ),
    "rows of a matrix instruction": of_grids(
        text("(2 * quarter + j % 2) * 4", "(quarter + 4 * (j % 2)) * 4"), "gemm:mma=1", "bp5", "unrolled"
    ),
    "derivatives in the place of values": of_grids(text("* SLAB] = (accum)", "* 0] = (accum)"), "gemm"),
    "numbers stored at the points of another line": of_grids(
        text("const size_t q = PLACE(origin", "const size_t q = PLACE(0 * origin"), "gemm:mma=1", "bp1", "unrolled", qdata="store"
    ),
    "a line that begins at another item's number": of_grids(text("+ quarter * 1);", "+ 0 * 1);"), "gemm:mma=1", "bp1", "unrolled"),
    "odd parts of lines are even ones": of_grids(
        text("odd[j * TILE + i] = near - far", "odd[j * TILE + i] = near + far"), "gemm:mma=1", "bp1", "unrolled", degree=9
    ),
    "what is in the middle of a line is two numbers": of_grids(
        text("((n) + 1 - (j) % 2) / 2)", "((n) + 1) / 2)"), "gemm:mma=1", "bp5", "unrolled", degree=8
    ),
    "both ends of a line are its begin": of_grids(
        text("at[TILE + i] = at[i] - 2 * quarter", "at[TILE + i] = at[i] - quarter"), "gemm:mma=1", "bp1", "unrolled", degree=9
    ),
    "derivatives are the same from both ends": of_grids(
        text("= odds[0 * TILE + i] - evens[0 * TILE + i];", "= evens[0 * TILE + i] - odds[0 * TILE + i];"),
        "gemm:mma=1",
        "bp5",
        "unrolled",
        degree=8,
    ),
    "components share what is stored for the first": of_grids(
        text("part = number % 3", "part = 0"), "sumfact:pencils=3", "bp2", "unrolled", degree=5, qdata="store"
    ),
    "all items of a line are at its first point": of_grids(
        text("turn = item / LINES;", "turn = 0;"), "sumfact:pencils=2,shared=1", "bp4", "unrolled"
    ),
    "points are shared with items of another line": of_grids(
        text("g = item % LINES % N, h = item % LINES / N, at", "at"), "sumfact:pencils=2,shared=1", "bp6", "unrolled", degree=3
    ),
    "a line too many": of_grids(
        text("inside[i] = LINE(turn, i) < CELLS", "inside[i] = LINE(turn, i) <= CELLS"), "gemm:cells=3,items=5,tile=2"
    ),
}
