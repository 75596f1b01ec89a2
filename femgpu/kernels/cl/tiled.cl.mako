<%namespace name="nodes" file="nodes.mako"/>\
// Schedule tiled: a work-group of CELLS cells. An item stands for LANES * VECTORS of them and belongs to one of PARTS parts. First a part
// interpolates the fields to its POINTS points of a pass, from coefficients in local memory and tiles of the tabulations; then, after a
// barrier, it multiplies what all parts left there with its share of the test functions.
// Index space: local id = part * ABREAST + lane. Past the last cell of the launch items repeat it and write nothing.
// Neighbouring items read neighbouring cells from global memory, word w of cell c from s_words[w * ROW + PLACE(c)], neighbouring banks.
<%
SHORT = '_Pragma("unroll")' if plan.unrolls_sums else ""
ONCE = '_Pragma("unroll")' if plan.unrolls_sums and plan.unrolls_points else '_Pragma("unroll 1")' if plan.unroll else ""
SOME = lambda tile: f'_Pragma("unroll {plan.abreast(tile)}")' if plan.unrolls_sums else ""
kept = plan.kept_words
# Where a side's map stands among the words of a cell, and what is tabulated for it, of facets for each of them.
map_at = lambda side: side.number * (work.dim**2 + 1)


def tables(name, number=0):
    side = work.sides[number]
    facet = f"{side.name('facet')} * {plan.words_of(number)} + " if work.facet else ""
    return f"({side.name('d_tables')} + {facet}TILE_{name})"


maps = work.maps and work.affine
coefficients, at = {}, kept
for tile in plan.fields:
    coefficients[tile.name] = at
    at += tile.num_basis * tile.num_comp
points = kept if plan.aliased else at
values, at = {}, 0
for tile in plan.fields:
    values[tile.name] = at
    at += len(tile.kinds) * tile.num_comp
fluxes, at = {}, 0
for tile in plan.rows:
    fluxes[tile.name] = at
    at += len(tile.kinds) * tile.num_comp
%>\
<%
lanes = "" if plan.lanes == 1 else plan.lanes
real, accum = plan.ctype("real"), plan.ctype("accum")
%>\
typedef ${real}${lanes} reals;
typedef ${accum}${lanes} accums;
% if real == accum:
#define TO_accums(x) (x)
% else:
#define TO_accums(x) convert_${accum}${lanes}(x)
% endif
#define LANE(array, i, lane) (((const real *)((array) + (i)))[lane])
// Words of a table into registers, 16 bytes at a time where items run in step.
#if WIDE == 1
#define READ_TABLE(n, from, to) for (int i = 0; i < (n); ++i) (to)[i] = (from)[i];
#elif WIDE == 2
#define READ_TABLE(n, from, to)                                                                   \
  ${SHORT} for (int i = 0; i < (n) / 2; ++i) {                                                    \
    const ${plan.ctype("real")}2 pair = ((TABLE const ${plan.ctype("real")}2 *)(from))[i];                                      \
    (to)[2 * i] = pair.x; (to)[2 * i + 1] = pair.y;                                               \
  }
#else
#define READ_TABLE(n, from, to)                                                                   \
  ${SHORT} for (int i = 0; i < (n) / 4; ++i) {                                                    \
    const ${plan.ctype("real")}4 four = ((TABLE const ${plan.ctype("real")}4 *)(from))[i];                                      \
    (to)[4 * i] = four.x; (to)[4 * i + 1] = four.y; (to)[4 * i + 2] = four.z; (to)[4 * i + 3] = four.w; \
  }
#endif
% if plan.mma:
// Eight parts of four items multiply an 8 x 4 tile of a table with 4 x 8 numbers in local memory: each item brings one number of both,
// and keeps the sums of its own row (point or basis function) and two columns (cells). Rows of words past the last one are multiplied
// with zeros: those of the last take their place. Two tiles that multiply the same numbers are one of 16 x 4 where there are such
// instructions, which take as long.
% if plan.atomics == "ptx":
#define ENTRIES(n) (n)
#define READ_FRAGMENTS(n, from, to) ${SHORT} for (int i = 0; i < (n); ++i) (to)[i] = (from)[i * 32 + item % 32];
#define READ_NUMBERS(name, word, step, begin, end) \
  const real name = s_words[((word) + min((begin) + own, (end) - 1) * (step)) * ROW + 8 * v + part % 8];
#define MULTIPLY(sums, entries, i, name) \
  { \
    double left = sums.x, right = sums.y; \
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" \
        : "+d"(left), "+d"(right) : "d"(entries[i]), "d"(name)); \
    sums.x = left; sums.y = right; \
  }
% if plan.mma == 16:
#define MULTIPLY_TWO(sums, more, entries, i, name) \
  { \
    double left = sums.x, right = sums.y, low = more.x, high = more.y; \
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
        : "+d"(left), "+d"(right), "+d"(low), "+d"(high) : "d"(entries[i]), "d"(entries[(i) + 1]), "d"(name)); \
    sums.x = left; sums.y = right; more.x = low; more.y = high; \
  }
% endif
% else:
// Without such instructions an item reads all it needs by itself.
#define ENTRIES(n) (4 * (n))
#define READ_FRAGMENTS(n, from, to) \
  for (int i = 0; i < 4 * (n); ++i) (to)[i] = (from)[i / 4 * 32 + part % 8 * 4 + i % 4];
#define READ_NUMBERS(name, word, step, begin, end) \
  reals name[4]; \
  for (int i = 0; i < 4; ++i) name[i] = s_own[((word) + min((begin) + i, (end) - 1) * (step)) * (ROW / LANES) + v * ABREAST];
#define MULTIPLY(sums, entries, n, name) \
  for (int i = 0; i < 4; ++i) sums += (entries)[4 * (n) + i] * name[i];
% endif
% if plan.atomics != "ptx" or plan.mma == 8:
#define MULTIPLY_TWO(sums, more, entries, i, name) \
  { MULTIPLY(sums, entries, i, name) MULTIPLY(more, entries, (i) + 1, name) }
% endif
#define BASIS(size, r) ((part / 8 * (size) + (r)) * 8 + part % 8)
% else:
#define BASIS(size, r) (part * (size) + (r))
% endif
// Cell c of the group in the mesh; where its words stand: vector v of item `own` holds the cells (v * LANES + lane) * ABREAST + own.
#define CELL(c) (first + min(base + (c), count - 1))
#define PLACE(c) (((c) / ABREAST / LANES * ABREAST + (c) % ABREAST) * LANES + (c) / ABREAST % LANES)
#define LATTICE
#define AT_POINT(slot, p) (slot)
#define LATTICE_W(p) ${tables("WEIGHTS")}[p]
% if work.facet:
#define TABLE_N ${tables("NORMAL")}
% endif
<%include file="points.cl"/>
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0), part = item / ABREAST, own = item % ABREAST;
  const int base = (int)get_group_id(0) * CELLS;
  __local reals s_all[WORDS * ROW / LANES]; // ${step.local[0].words * plan.itemsize("real")} bytes
  __local real *s_words = (__local real *)s_all;
  __local reals *s_own = s_all + own;
% for side in work.sides if work.facet else ():
  const int ${side.name("facet")} = ${side.name("d_facets")}[AT_${side.name("d_facets")}(CELL(own), 0)];
% endfor

% if maps and plan.geometry == "recomputed":
  // Asked for early, for it is needed late.
% for side in work.sides:
<% corners, count, offsets = map(side.name, ("corners", "NUM_COORD_BASIS", "d_coord_offsets")) %>\
  int ${corners}[${count}];
  ${SHORT} for (int b = 0; b < ${count}; ++b) ${corners}[b] = ${offsets}[AT_${offsets}(CELL(item % CELLS), b)];
% endfor

% endif
  // gather
% for tile in plan.fields:
<%
field = next((field for field in work.fields if field.name == tile.name), None)
comps, reads, coord_offsets = tile.num_comp, plan.reads(tile), work.sides[tile.side].name("d_coord_offsets")
%>\
  for (int turn = item; turn < ${tile.num_basis} * CELLS + item; turn += ${reads} * GROUP_SIZE) {
    // All of them before the first is waited for.
    real values[${reads * comps}];
% if field is None or work.source != "evector":
    int offsets[${reads}];
    ${SHORT} for (int u = 0; u < ${reads}; ++u) {
      const int i = min(turn + u * GROUP_SIZE, ${tile.num_basis} * CELLS - 1), cell = CELL(i % CELLS);
      offsets[u] = ${f"{coord_offsets}[AT_{coord_offsets}(cell, i / CELLS)]" if field is None else nodes.offset(work, field.name, "i / CELLS")};
    }
% endif
    ${SHORT} for (int u = 0; u < ${reads}; ++u) {
      const int i = min(turn + u * GROUP_SIZE, ${tile.num_basis} * CELLS - 1), cell = CELL(i % CELLS);
      ${SHORT} for (int c = 0; c < ${comps}; ++c)
        values[u * ${comps} + c] = ${"d_coords[offsets[u] + c]" if field is None else nodes.value(work, field, "offsets[u]", "i / CELLS")};
    }
    ${SHORT} for (int u = 0; u < ${reads}; ++u) {
      const int i = turn + u * GROUP_SIZE;
      if (i < ${tile.num_basis} * CELLS)
        ${SHORT} for (int c = 0; c < ${comps}; ++c)
          s_words[(${coefficients[tile.name]} + i / CELLS * ${comps} + c) * ROW + PLACE(i % CELLS)] = values[u * ${comps} + c];
    }
  }
% endfor
% if kept:
  for (int turn = 0; turn < CELLS; turn += GROUP_SIZE) {
    const int i = turn + item;
    if (i < CELLS) {
      const int cell = CELL(i);
% for side in work.sides if maps else ():
      {
        __local real *s_kept = s_words + ${map_at(side)} * ROW + PLACE(i);
% if plan.geometry == "stored":
<% geometry = side.name("d_geometry") %>\
        for (int k = 0; k <= DIM * DIM; ++k) s_kept[k * ROW] = ${geometry}[AT_${geometry}(cell, k)];
% else:
<% corners, count, offsets, facets = map(side.name, ("corners", "NUM_COORD_BASIS", "d_coord_offsets", "d_facets")) %>\
% if work.facet:
        const int ${side.name("facet")} = ${facets}[AT_${facets}(cell, 0)];
% endif
        real J[DIM * DIM], inverse[DIM * DIM];
        for (int k = 0; k < DIM * DIM; ++k) J[k] = 0;
        ${SHORT} for (int b = 0; b < ${count}; ++b) {
          const int offset = turn == 0 ? ${corners}[b] : ${offsets}[AT_${offsets}(cell, b)];
          for (int d = 0; d < DIM; ++d)
            for (int k = 0; k < DIM; ++k) J[d * DIM + k] += d_coords[offset + d] * ${tables(side.name("MAP"), side.number)}[b * DIM + k];
        }
        s_kept[DIM * DIM * ROW] = invert(J, inverse);
        for (int k = 0; k < DIM * DIM; ++k) s_kept[k * ROW] = inverse[k];
% endif
      }
% endfor
% if work.num_cell_state:
      for (int k = 0; k < NUM_CELL_STATE; ++k)
        s_words[(${kept} - NUM_CELL_STATE + k) * ROW + PLACE(i)] = d_cell_state[AT_d_cell_state(cell, k)];
% endif
    }
  }
% endif
  barrier(CLK_LOCAL_MEM_FENCE);

% for tile in plan.rows:
  accums r_${tile.name}_b[${tile.size * tile.num_comp} * VECTORS];
  ${SHORT} for (int i = 0; i < ${tile.size * tile.num_comp} * VECTORS; ++i) r_${tile.name}_b[i] = (accums)(0);
% endfor

  for (int pass = 0; pass < PASSES; ++pass) {
    // tabulate: word (kind * components + c) * POINTS + m, of each vector
% for tile in plan.fields:
<% kinds, comps = len(tile.kinds), tile.num_comp %>\
    reals r_${tile.name}_q[${kinds * comps} * POINTS * VECTORS];
    ${SHORT} for (int i = 0; i < ${kinds * comps} * POINTS * VECTORS; ++i) r_${tile.name}_q[i] = (reals)(0);
    {
% if plan.mma:
      TABLE const real *from = ${tables(tile.name)} + (pass * (PARTS / 8) + part / 8) * ${tile.stride};
      ${SOME(tile)} for (int turn = 0; turn < ${tile.turns}; ++turn) {
        real entries[ENTRIES(${tile.width})];
        READ_FRAGMENTS(${tile.width}, from + turn * ${tile.width * 32}, entries)
        ${SHORT} for (int c = 0; c < ${comps}; ++c)
          ${SHORT} for (int v = 0; v < VECTORS; ++v) {
            READ_NUMBERS(value, ${coefficients[tile.name]} + c, ${comps}, 4 * turn, ${tile.num_basis})
<% at = lambda t: f"r_{tile.name}_q[({t} + {t} / POINTS * {(comps - 1)} * POINTS + c * POINTS) * VECTORS + v]" %>\
            ${SHORT} for (int t = 0; t + 1 < ${tile.width}; t += 2) MULTIPLY_TWO(${at("t")}, ${at("(t + 1)")}, entries, t, value)
% if tile.width % 2:
            MULTIPLY(${at(f"{tile.width - 1}")}, entries, ${tile.width - 1}, value)
% endif
          }
      }
% else:
      TABLE const real *from = ${tables(tile.name, tile.side)} + (pass * PARTS + part) * ${tile.stride};
      ${SOME(tile)} for (int b = 0; b < ${tile.num_basis}; ++b) {
        real entries[${tile.width}];
        READ_TABLE(${tile.width}, from + b * ${tile.width}, entries)
        ${SHORT} for (int c = 0; c < ${comps}; ++c)
          ${SHORT} for (int v = 0; v < VECTORS; ++v) {
            const reals value = s_own[(${coefficients[tile.name]} + b * ${comps} + c) * (ROW / LANES) + v * ABREAST];
            ${SHORT} for (int k = 0; k < ${kinds}; ++k)
              ${SHORT} for (int m = 0; m < POINTS; ++m)
                r_${tile.name}_q[((k * ${comps} + c) * POINTS + m) * VECTORS + v] += entries[k * POINTS + m] * value;
          }
      }
% endif
    }
% endfor
% if plan.aliased:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if not plan.unrolls_points:
% for tile in plan.fields:
    ${SHORT} for (int k = 0; k < ${len(tile.kinds) * tile.num_comp}; ++k)
      ${SHORT} for (int m = 0; m < POINTS; ++m)
        ${SHORT} for (int v = 0; v < VECTORS; ++v)
          s_own[((${points} + (part * POINTS + m) * ${plan.point_words} + ${values[tile.name]} + k) * (ROW / LANES) + v * ABREAST)] = r_${tile.name}_q[(k * POINTS + m) * VECTORS + v];
% endfor
% endif

    // pointwise
    ${ONCE} for (int m = 0; m < POINTS; ++m)
      ${ONCE} for (int v = 0; v < VECTORS; ++v)
        ${ONCE} for (int lane = 0; lane < LANES; ++lane) {
    const int q = (pass * PARTS + part) * POINTS + m, place = q;
    const int inside = (v * ABREAST + own) * LANES + lane, cell = CELL((v * LANES + lane) * ABREAST + own);
    __local real *s_point = s_words + (${points} + (part * POINTS + m) * ${plan.point_words}) * ROW + inside;
    if (q < NUM_QPTS) {
% for tile in plan.fields:
    real ${tile.point}[${1 + max(tile.slot(kind, tile.num_comp - 1, work.dim) for kind in tile.kinds)}];
% for k, kind in enumerate(tile.kinds):
% for c in range(tile.num_comp):
% if plan.unrolls_points:
    ${tile.point}[${tile.slot(kind, c, work.dim)}] = LANE(r_${tile.name}_q, (${k * tile.num_comp + c} * POINTS + m) * VECTORS + v, lane);
% else:
    ${tile.point}[${tile.slot(kind, c, work.dim)}] = s_point[${values[tile.name] + k * tile.num_comp + c} * ROW];
% endif
% endfor
% endfor
% endfor
% for tile in plan.rows:
    accum r_${tile.name}_e[${1 + max((tile.slot(kind, tile.num_comp - 1, work.dim) for kind in tile.kinds), default=0)}];
% endfor
% if work.num_cell_state:
    real r_c[NUM_CELL_STATE];
    for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = s_words[(${kept} - NUM_CELL_STATE + i) * ROW + inside];
% endif
% if work.maps:
% for side in work.sides:
<% J_inv, det_J, at = side.name("J_inv"), side.name("det_J"), map_at(side) %>\
    real ${J_inv}[DIM * DIM], ${det_J};
% if work.affine:
    for (int i = 0; i < DIM * DIM; ++i) ${J_inv}[i] = s_words[(${at} + i) * ROW + inside];
    ${det_J} = s_words[(${at} + DIM * DIM) * ROW + inside];
% endif
% endfor
% endif
<%include file="point.mako"/>
% for tile in plan.rows:
% for k, kind in enumerate(tile.kinds):
% for c in range(tile.num_comp):
    s_point[${fluxes[tile.name] + k * tile.num_comp + c} * ROW] = (real)r_${tile.name}_e[${tile.slot(kind, c, work.dim)}];
% endfor
% endfor
% endfor
    }
% if plan.mma:
    else
      for (int i = 0; i < ${plan.flux_words}; ++i) s_point[i * ROW] = 0;
% endif
        }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integrate: word r * components + c of each vector
    {
      const int begin = pass * PARTS * POINTS, points = min(PARTS * POINTS, NUM_QPTS - begin);
% for tile in plan.rows:
<% kinds, comps = len(tile.kinds), tile.num_comp %>\
% if kinds:
% if plan.mma:
      TABLE const real *from_${tile.name} = ${tables(tile.name)} + part / 8 * ${tile.stride} + begin * ${kinds * tile.width * 8};
      ${SOME(tile)} for (int p = 0; p < points; p += 4)
        ${SHORT} for (int k = 0; k < ${kinds}; ++k) {
          real entries[ENTRIES(${tile.width})];
          READ_FRAGMENTS(${tile.width}, from_${tile.name} + (p * ${kinds} + 4 * k) * ${tile.width * 8}, entries)
          ${SHORT} for (int c = 0; c < ${comps}; ++c)
            ${SHORT} for (int v = 0; v < VECTORS; ++v) {
              READ_NUMBERS(flux, ${points} + ${fluxes[tile.name]} + k * ${comps} + c, ${plan.point_words}, p, PARTS * POINTS)
<% at = lambda r: f"r_{tile.name}_b[(({r}) * {comps} + c) * VECTORS + v]" %>\
              ${SHORT} for (int r = 0; r + 1 < ${tile.size}; r += 2) MULTIPLY_TWO(${at("r")}, ${at("r + 1")}, entries, r, flux)
% if tile.size % 2:
              MULTIPLY(${at(f"{tile.size - 1}")}, entries, ${tile.size - 1}, flux)
% endif
            }
        }
% else:
      TABLE const real *from_${tile.name} = ${tables(tile.name, tile.side)} + part * ${tile.stride} + begin * ${kinds * tile.width};
      ${SOME(tile)} for (int p = 0; p < points; ++p)
        ${SHORT} for (int k = 0; k < ${kinds}; ++k) {
          real entries[${tile.width}];
          READ_TABLE(${tile.width}, from_${tile.name} + (p * ${kinds} + k) * ${tile.width}, entries)
          ${SHORT} for (int c = 0; c < ${comps}; ++c)
            ${SHORT} for (int v = 0; v < VECTORS; ++v) {
              const reals flux = s_own[(${points} + p * ${plan.point_words} + ${fluxes[tile.name]} + k * ${comps} + c) * (ROW / LANES) + v * ABREAST];
              ${SHORT} for (int r = 0; r < ${tile.size}; ++r)
                r_${tile.name}_b[(r * ${comps} + c) * VECTORS + v] += TO_accums(entries[r] * flux);
            }
        }
% endif
% endif
% endfor
    }
% if plan.passes > 1:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
  }

  // scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
% for i, (row, tile) in enumerate(zip(work.rows, plan.rows)):
% if plan.scatter == "atomic":
  int offsets${i}[${tile.size} * VECTORS * LANES];
  ${SHORT} for (int r = 0; r < ${tile.size}; ++r)
    ${SHORT} for (int v = 0; v < VECTORS * LANES; ++v) {
      const int cell = CELL(v * ABREAST + own);
      offsets${i}[r * VECTORS * LANES + v] = ${nodes.offset(work, f"test{i}", f"min(BASIS({tile.size}, r), {tile.num_basis - 1})")};
    }
% endif
  ${SHORT} for (int r = 0; r < ${tile.size}; ++r) {
    const int b = BASIS(${tile.size}, r);
    ${SHORT} for (int v = 0; v < VECTORS * LANES; ++v) {
      const int past = base + v * ABREAST + own, cell = first + past;
      if (b < ${tile.num_basis} && past < count)
        ${SHORT} for (int c = 0; c < ${row.num_comp}; ++c) {
          const accum sum = ((const accum *)(r_${tile.name}_b + (r * ${row.num_comp} + c) * VECTORS + v / LANES))[v % LANES];
          ${nodes.add(plan, i, row, f"offsets{i}[r * VECTORS * LANES + v]", "b", "sum")}
% if plan.sums_dots:
          if (d_dots) r_dot += (double)sum * (${direction(i, row)});
% endif
        }
    }
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
