<%namespace name="nodes" file="nodes.mako"/>\
// Schedule sumfact on hexahedra, ITEMS work-items for each of the CELLS cells of a work-group. An item has a plane across the second
// direction: numbers at the points of the first and, while it goes from row to row of the points of the third, at the nodes of the
// third. For the second direction it takes a plane across the third, by way of local memory, as it does to load and add.
// Index space: local id = (cell, item). Past the last cell of the launch items repeat it and write nothing.
<%
q = plan.q1d
derived = [sums for sums in plan.lattices if plan.derives(sums)]
derived_rows = [sums for sums in plan.rows if plan.derives(sums)]
groups = (("fields", "real", plan.lattices), ("rows", "accum", plan.rows))
def plane_of(sums):
    return f"(r_{sums.name}_plane + c * {sums.sizes.p1d * q})"
%>\
#define LATTICE
#define AT_POINT(slot, p) (slot)
#define SHORT${' _Pragma("unroll")' if plan.unroll else ""}
#define LONG${' _Pragma("unroll 1")' if plan.unroll else ""}
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
#define PLACES ${q * q}
## target[(r, l)] (+)= sum_m matrix[r, m] source[(m, l)] for all lines l of a plane: the strides of a line and between lines
<%def name="multiply(rows, columns, lines, matrix, transposed, source, target, type, adds=False)">\
<% (name, along, across), (into, to, over) = source, target %>\
SHORT for (int l = 0; l < ${lines}; ++l)
          SHORT for (int r = 0; r < ${rows}; ++r) {
            ${type} sum = 0;
            SHORT for (int m = 0; m < ${columns}; ++m)
              sum += (${type})${matrix}[${f"m * {rows} + r" if transposed else f"r * {columns} + m"}] * ${name}[m * ${along} + l * ${across}];
            ${into}[r * ${to} + l * ${over}] ${"+=" if adds else "="} sum;
          }\
</%def>\
## An item's plane across the second or the third direction, between registers and local memory.
<%def name="move(first, second, line, plane, local, private, into_local)">\
SHORT for (int m = 0; m < ${second}; ++m)
          SHORT for (int n = 0; n < ${first}; ++n) ${f"{local}[m * {plane} + n] = {private}[m * {line} + n]" if into_local else f"{private}[m * {line} + n] = {local}[m * {plane} + n]"};\
</%def>\
## What the rows have on the item's plane, at the nodes of the third direction.
<%def name="collect(sums)">\
<% first, comps, p = plan.first(sums), sums.sizes.num_comp, sums.sizes.p1d %>\
      accum *sums = ${plane_of(sums)};
% if sums in derived_rows:
      {
        const __local accum *plane = l_rows + (${first + comps} + c) * SLAB + item * ROW;
% if sums.sizes.collocated:
        SHORT for (int l = 0; l < PLACES; ++l) sums[l] += plane[l / ${q} * PLANE + l % ${q}];
% else:
        accum slopes[PLACES];
        ${move(q, q, q, "PLANE", "plane", "slopes", False)}
        ${multiply(p, q, q, f"LINE_B{sums.sizes.table}", True, ("slopes", q, 1), ("sums", q, 1), "accum", True)}
% endif
      }
% endif
% if sums.sizes.collocated and sums.orders:
      {
        const __local accum *plane = l_rows + (${first} + c) * SLAB + item * ROW;
        SHORT for (int l = 0; l < PLACES; ++l) sums[l] += plane[l / ${q} * PLANE + l % ${q}];
      }
% endif
</%def>\
<%def name="scatter(i, sums, row, place, values)">\
<% p = sums.sizes.p1d %>\
      if (past < count) {
        SHORT for (int l = 0; l < ${p * p}; ++l) {
% if plan.scatter == "atomic":
          const int offset = ${nodes.offset(work, f"test{i}", place)};
% endif
          ${nodes.add(plan, i, row, "offset", place, f"{values}[l]")}
        }
% if plan.sums_dots:
        if (d_dots)
          SHORT for (int l = 0; l < ${p * p}; ++l) {
            const int b = ${place};
            r_dot += (double)${values}[l] * (${direction(i, row)});
          }
% endif
      }
</%def>\
<%include file="points.cl"/>
#undef TABLE_W
#define TABLE_W(q) (LINE_W[i] * LINE_W[k] * item_weight)
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0) % ITEMS, own = (int)get_local_id(0) / ITEMS;
  const int past = (int)get_group_id(0) * CELLS + own, cell = first + min(past, count - 1);
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}]; // ${plan.itemsize(array.ctype) * array.words} bytes
% endfor
% for array in plan.cell_local:
  __local ${array.ctype} *${array.name.replace("s_", "l_", 1)} = ${array.name} + own * ${array.words};
% endfor
% if plan.shares_slots:
  __local accum *l_fields = l_slots, *l_rows = l_slots;
% endif
% for _, kind, group in groups:
% for sums in group:
  ${kind} r_${sums.name}_plane[${sums.sizes.num_comp * sums.sizes.p1d * q}];
% endfor
% endfor
  const int inside = item < ${q};

  // gather
% for sums, field in zip(plan.lattices, work.fields):
<% p = sums.sizes.p1d %>\
% if sums.orders:
  if (item < ${p}) {
<% place = f"(l + {p * p} * item)" if plan.turns else f"(l % {p} + {p} * item + l / {p} * {p * p})" %>\
% if work.source != "evector":
    int offsets[${p * p}];
    SHORT for (int l = 0; l < ${p * p}; ++l) offsets[l] = ${nodes.offset(work, field.name, place)};
% endif
    SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
      real nodes[${p * p}];
      SHORT for (int l = 0; l < ${p * p}; ++l) nodes[l] = ${nodes.value(work, field, "offsets[l]", place)};
% if not plan.turns:
      SHORT for (int l = 0; l < PLACES; ++l) ${plane_of(sums)}[l] = nodes[l];
% else:
      __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * PLANE;
% if sums.sizes.collocated:
      ${move(q, q, q, "ROW", "plane", "nodes", True)}
% else:
      real partial[${p * q}], values[PLACES];
      ${multiply(q, p, p, f"LINE_B{sums.sizes.table}", False, ("nodes", 1, p), ("partial", 1, q), "real")}
      ${multiply(q, p, q, f"LINE_B{sums.sizes.table}", False, ("partial", q, 1), ("values", q, 1), "real")}
      ${move(q, q, q, "ROW", "plane", "values", True)}
% endif
% endif
    }
  }
% endif
% endfor
% if plan.needs_coords:
  EACH(i, NUM_COORD_BASIS)
    for (int d = 0; d < DIM; ++d) l_x[d * NUM_COORD_BASIS + i] = d_coords[d_coord_offsets[AT_d_coord_offsets(cell, i)] + d];
% endif
% if plan.turns or plan.needs_coords:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

  // tabulate
<%include file="multilinear.mako"/>\
  if (inside) {
% for sums in plan.lattices:
% if sums.orders:
<% p = sums.sizes.p1d %>\
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * ROW;
% if plan.turns:
      ${move(q, p, q, "PLANE", "plane", plane_of(sums), False)}
% endif
% if sums.sizes.collocated and not plan.turns:
      ${move(q, q, q, "PLANE", "plane", plane_of(sums), True)}
% elif sums in derived and not sums.sizes.collocated:
      real values[PLACES];
      ${multiply(q, p, q, f"LINE_B{sums.sizes.table}", False, (plane_of(sums), q, 1), ("values", q, 1), "real")}
      ${move(q, q, q, "PLANE", "plane", "values", True)}
% endif
    }
% endif
% endfor
  }
% if derived or plan.multilinear:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if derived:
  if (inside) {
% for sums in derived:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      const __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * PLANE;
      __local real *slope = l_fields + (${plan.first(sums) + sums.sizes.num_comp} + c) * SLAB + item * PLANE;
      real values[PLACES], slopes[PLACES];
      ${move(q, q, q, "ROW", "plane", "values", False)}
      ${multiply(q, q, q, "LINE_D", False, ("values", q, 1), ("slopes", q, 1), "real")}
      ${move(q, q, q, "ROW", "slope", "slopes", True)}
    }
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

  if (inside) {
    const real item_weight = LINE_W[item];
% for sums in plan.rows:
    SHORT for (int l = 0; l < ${sums.sizes.num_comp * sums.sizes.p1d * q}; ++l) r_${sums.name}_plane[l] = 0;
% endfor
    LONG for (int k = 0; k < ${q}; ++k) {
% for sums in plan.lattices:
<% comps, p, first = sums.sizes.num_comp, sums.sizes.p1d, plan.first(sums) %>\
      real r_${sums.name}_row[${plan.slots(sums) * q}];
% if sums.orders:
      SHORT for (int c = 0; c < ${comps}; ++c) {
        const __local real *values = l_fields + (${first} + c) * SLAB + item * ROW + k * PLANE;
        SHORT for (int i = 0; i < ${q}; ++i) {
% if sums.sizes.collocated or sums in derived:
          r_${sums.name}_row[c * ${q} + i] = values[i];
% else:
          real sum = 0;
          SHORT for (int m = 0; m < ${p}; ++m) sum += LINE_B${sums.sizes.table}[k * ${p} + m] * ${plane_of(sums)}[m * ${q} + i];
          r_${sums.name}_row[c * ${q} + i] = sum;
% endif
        }
% if sums in derived:
        const __local real *slopes = l_fields + (${first + comps} + c) * SLAB + item * ROW + k * PLANE;
        SHORT for (int i = 0; i < ${q}; ++i) {
          real sum0 = 0, sum2 = 0;
          SHORT for (int m = 0; m < ${q}; ++m) sum0 += LINE_D[i * ${q} + m] * r_${sums.name}_row[c * ${q} + m];
          SHORT for (int m = 0; m < ${p}; ++m) sum2 += LINE_D${sums.sizes.table}[k * ${p} + m] * ${plane_of(sums)}[m * ${q} + i];
          r_${sums.name}_row[(${comps} + 3 * c) * ${q} + i] = sum0;
          r_${sums.name}_row[(${comps + 1} + 3 * c) * ${q} + i] = slopes[i];
          r_${sums.name}_row[(${comps + 2} + 3 * c) * ${q} + i] = sum2;
        }
% endif
      }
% endif
% endfor
% for sums in plan.rows:
      accum r_${sums.name}_row[${plan.slots(sums) * q}];
% endfor
% if plan.coords_line:
      // Along the row x = x0 + r xr; dx/ds = y0 + r yr; dx/dt = z0 + r zr.
      const real s = LINE_X[item], t = LINE_X[k];
      real x0[DIM], xr[DIM], y0[DIM], yr[DIM], z0[DIM], zr[DIM];
      SHORT for (int d = 0; d < DIM; ++d) {
        const __local real *map = l_map + 8 * d;
        z0[d] = map[4] + s * map[6], zr[d] = map[5] + s * map[7];
        y0[d] = map[2] + t * map[6], yr[d] = map[3] + t * map[7];
        x0[d] = map[0] + s * map[2] + t * z0[d], xr[d] = map[1] + s * map[3] + t * zr[d];
      }
% endif
      SHORT for (int i = 0; i < ${q}; ++i) {
        const int place = i + ${q} * item + ${q * q} * k, q = RULE(place);
% for sums in plan.lattices:
        real r_${sums.name}_e[${plan.slots(sums)}];
% if sums.orders:
        SHORT for (int l = 0; l < ${plan.slots(sums)}; ++l) r_${sums.name}_e[l] = r_${sums.name}_row[l * ${q} + i];
% endif
% endfor
% if plan.coords_line:
        real r_x_e[DIM * (1 + DIM)];
        SHORT for (int d = 0; d < DIM; ++d) {
          r_x_e[d] = x0[d] + LINE_X[i] * xr[d];
          r_x_e[DIM + d * DIM] = xr[d];
          r_x_e[DIM + d * DIM + 1] = y0[d] + LINE_X[i] * yr[d];
          r_x_e[DIM + d * DIM + 2] = z0[d] + LINE_X[i] * zr[d];
        }
% endif
% for sums in plan.rows:
        accum r_${sums.name}_e[${plan.slots(sums)}];
% endfor
% if work.num_cell_state:
        real r_c[NUM_CELL_STATE];
        for (int l = 0; l < NUM_CELL_STATE; ++l) r_c[l] = d_cell_state[AT_d_cell_state(cell, l)];
% endif
% if work.maps:
        real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
        for (int l = 0; l < DIM * DIM; ++l) J_inv[l] = d_geometry[AT_d_geometry(cell, l)];
        det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% endif
% endif
<%include file="point.mako"/>
% for sums in plan.rows:
% for begin, end in plan.written(sums):
        SHORT for (int l = ${begin}; l < ${end}; ++l) r_${sums.name}_row[l * ${q} + i] = r_${sums.name}_e[l];
% endfor
% endfor
      }
% for sums in plan.rows:
% if sums.orders:
<% comps, p, first = sums.sizes.num_comp, sums.sizes.p1d, plan.first(sums) %>\
      SHORT for (int c = 0; c < ${comps}; ++c) {
        SHORT for (int i = 0; i < ${q}; ++i) {
          accum sum = ${f"r_{sums.name}_row[c * {q} + i]" if plan.values(sums) else "0"};
% if sums in derived_rows:
          SHORT for (int m = 0; m < ${q}; ++m) sum += (accum)LINE_D[m * ${q} + i] * r_${sums.name}_row[(${comps} + 3 * c) * ${q} + m];
          const accum flux = r_${sums.name}_row[(${comps + 2} + 3 * c) * ${q} + i];
          SHORT for (int m = 0; m < ${p}; ++m) ${plane_of(sums)}[m * ${q} + i] += (accum)LINE_D${sums.sizes.table}[k * ${p} + m] * flux;
          l_rows[(${first + comps} + c) * SLAB + item * ROW + k * PLANE + i] = r_${sums.name}_row[(${comps + 1} + 3 * c) * ${q} + i];
% endif
% if sums.sizes.collocated:
          l_rows[(${first} + c) * SLAB + item * ROW + k * PLANE + i] = sum;
% else:
          SHORT for (int m = 0; m < ${p}; ++m) ${plane_of(sums)}[m * ${q} + i] += (accum)LINE_B${sums.sizes.table}[k * ${p} + m] * sum;
% endif
        }
      }
% endif
% endfor
    }
  }

  // integrate
% if derived_rows:
  barrier(CLK_LOCAL_MEM_FENCE);
  if (inside) {
% for sums in derived_rows:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local accum *plane = l_rows + (${plan.first(sums) + sums.sizes.num_comp} + c) * SLAB + item * PLANE;
      accum flux[PLACES], back[PLACES];
      ${move(q, q, q, "ROW", "plane", "flux", False)}
      ${multiply(q, q, q, "LINE_D", True, ("flux", q, 1), ("back", q, 1), "accum")}
      ${move(q, q, q, "ROW", "plane", "back", True)}
    }
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if plan.sums_dots:
  double r_dot = 0;
% endif
% for i, (sums, row) in enumerate(zip(plan.rows, work.rows)):
<% p = sums.sizes.p1d %>\
% if not plan.turns:
  if (inside)
    SHORT for (int c = 0; c < ${row.num_comp}; ++c) {
${collect(sums)}\
${scatter(i, sums, row, f"(l % {p} + {p} * item + l / {p} * {p * p})", "sums")}\
    }
% else:
  if (inside)
    SHORT for (int c = 0; c < ${row.num_comp}; ++c) {
${collect(sums)}\
      __local accum *to = l_rows + (${plan.first(sums)} + c) * SLAB + item * ROW;
      ${move(q, p, q, "PLANE", "to", "sums", True)}
    }
% endif
% endfor
% if plan.turns:
  barrier(CLK_LOCAL_MEM_FENCE);
% for i, (sums, row) in enumerate(zip(plan.rows, work.rows)):
<% p = sums.sizes.p1d %>\
  if (item < ${p})
    SHORT for (int c = 0; c < ${row.num_comp}; ++c) {
      const __local accum *plane = l_rows + (${plan.first(sums)} + c) * SLAB + item * PLANE;
      accum partial[PLACES];
      ${move(q, q, q, "ROW", "plane", "partial", False)}
% if sums.sizes.collocated:
${scatter(i, sums, row, f"(l + {p * p} * item)", "partial")}\
% else:
      accum lines[${p * q}], sums[${p * p}];
      ${multiply(p, q, q, f"LINE_B{sums.sizes.table}", True, ("partial", q, 1), ("lines", q, 1), "accum")}
      ${multiply(p, q, p, f"LINE_B{sums.sizes.table}", True, ("lines", 1, q), ("sums", 1, p), "accum")}
${scatter(i, sums, row, f"(l + {p * p} * item)", "sums")}\
% endif
    }
% endfor
% endif
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
