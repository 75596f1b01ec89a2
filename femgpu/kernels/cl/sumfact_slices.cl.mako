<%namespace name="lines" file="lines.mako"/>\
<%namespace name="nodes" file="nodes.mako"/>\
<%namespace name="planes" file="planes.mako"/>\
// Schedule sumfact on hexahedra, ITEMS work-items for each of the CELLS cells of a work-group. An item has a plane across the second axis
// at the points and one across the third at the nodes, where it takes what the second direction is to give, too. Planes stand in local
// memory, but for a row or a few lines at a time: loops over rows stay loops, which saves registers and instructions.
// Index space: local id = (cell, item) or (item, cell). Past the last cell of the launch items repeat it and write nothing.
<%
q = plan.q1d
fields = [(sums, field) for sums, field in zip(plan.lattices, work.fields) if sums.orders]
derived, derived_rows = ([sums for sums in group if plan.derives(sums)] for group in (plan.lattices, plan.rows))
%>\
#define LATTICE
#define AT_POINT(slot, p) (slot)
// a + x b at a point of a line, whose place x compilers know
#define ALONG(x, a, b) ((x) == 0 ? (a) : (a) + (x) * (b))
#define SHORT${' _Pragma("unroll")' if plan.unroll else ""}
#define ROWS${' _Pragma("unroll 1")' if plan.unroll else ""}
#define LINES${' _Pragma("unroll 3")' if plan.unroll else ""}
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
<%def name="read(n, step, line, values)">SHORT for (int r = 0; r < ${n}; ++r) ${values}[r] = (${line})[r * ${step}];</%def>\
<%def name="write(n, step, values, line)">SHORT for (int r = 0; r < ${n}; ++r) (${line})[r * ${step}] = ${values}[r];</%def>\
<%include file="points.cl"/>
<%include file="map_along.mako"/>\
#undef TABLE_W
#define TABLE_W(q) ${"R(1)" if plan.weighs_lines else "(LINE_W[i] * row_weight)"}
__kernel${sized}
void ${step.name}(${arguments}) {
${nodes.cell(plan)}\
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}]; // ${plan.itemsize(array.ctype) * array.words} bytes
% endfor
% for array in plan.cell_local:
  __local ${array.ctype} *${array.name.replace("s_", "l_", 1)} = ${array.name} + own * ${array.words};
% endfor
% if plan.shares_slots:
  __local accum *l_fields = l_slots, *l_rows = l_slots;
% endif

  // gather
% if plan.needs_coords:
${nodes.coord_offsets(plan)}\
% endif
% for sums, field in fields:
<% p = sums.sizes.p1d %>\
% if work.source != "evector":
  int ${field.name}_offsets[${p * p}];
  if (item < ${p})
    SHORT for (int l = 0; l < ${p * p}; ++l) ${field.name}_offsets[l] = ${nodes.offset(work, field.name, plan.node(p))};
% endif
% endfor
% if plan.needs_coords:
${nodes.coord_values(plan)}\
% endif
% for sums, field in fields:
<% p = sums.sizes.p1d %>\
  if (item < ${p}) {
    SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
      __local real *plane = l_fields + ${plan.slab_of(sums, "c")} * SLAB + item * PLANE;
      real nodes[${p * p}];
      SHORT for (int l = 0; l < ${p * p}; ++l) nodes[l] = ${nodes.value(work, field, f"{field.name}_offsets[l]", plan.node(p))};
% if sums.sizes.collocated:
      const real *partial = nodes;
% else:
      real partial[${p * q}];
      SHORT for (int l = 0; l < ${p}; ++l) {
        ${lines.interpolate(plan, sums, f"(nodes + l * {p})", f"(partial + l * {q})")}
      }
% endif
      SHORT for (int l = 0; l < ${q}; ++l) {
        real line[${p}];
        ${read(p, q, "partial + l", "line")}
% if sums.sizes.collocated:
        const real *values = line;
% else:
        real values[${q}];
        ${lines.interpolate(plan, sums, "line", "values")}
% endif
        ${write(q, "ROW", "values", "plane + l")}
% if plan.derives(sums) and plan.collocated:
        real slope[${q}];
        ${lines.derive(plan, "values", "slope")}
        ${write(q, "ROW", "slope", "plane + SLAB + l")}
% endif
      }
    }
  }
% endfor
% if plan.needs_coords:
${nodes.keep_coords(plan)}\
% endif
  barrier(CLK_LOCAL_MEM_FENCE);

  // tabulate
% if plan.multilinear:
<%include file="plane_vertices.mako"/>\
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
  if (item < ${q}) {
% if any(not sums.sizes.collocated or plan.derives(sums) for sums, _ in fields):
    LINES for (int l = 0; l < ${q}; ++l) {
% for sums, field in fields:
<% p = sums.sizes.p1d %>\
      SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
        __local real *at = l_fields + ${plan.slab_of(sums, "c")} * SLAB + item * ROW + l;
        real line[${p}];
        ${read(p, "PLANE", "at", "line")}
% if sums.sizes.collocated:
        const real *values = line;
% else:
        real values[${q}];
% if not plan.derives(sums):
        ${lines.interpolate(plan, sums, "line", "values")}
% endif
% endif
% if plan.derives(sums):
        real slope[${q}];
% if plan.tabulates(sums):
        ${lines.tabulate(plan, sums, "line", "values", "slope")}
% else:
        ${lines.derive(plan, "values", "slope")}
% endif
        ${write(q, "PLANE", "slope", "at + 2 * SLAB")}
% endif
% if not sums.sizes.collocated:
        ${write(q, "PLANE", "values", "at")}
% endif
      }
% endfor
    }
% endif
  }
% if derived and not plan.collocated:
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < ${q})
    LINES for (int l = 0; l < ${q}; ++l) {
% for sums in derived:
      SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
        __local real *at = l_fields + ${plan.slab_of(sums, "c")} * SLAB + item * PLANE + l;
        real values[${q}], slope[${q}];
        ${read(q, "ROW", "at", "values")}
        ${lines.derive(plan, "values", "slope")}
        ${write(q, "ROW", "slope", "at + SLAB")}
      }
% endfor
    }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
  if (item < ${q}) {
% if not plan.weighs_lines:
    const real item_weight = LINE_W[item];
% endif
<%include file="plane_map.mako"/>\
    ROWS for (int k = 0; k < ${q}; ++k) {
% if not plan.weighs_lines:
      const real row_weight = item_weight * LINE_W[k];
% endif
      const int row = item * ROW + k * PLANE;
<%include file="plane_row.mako"/>\
% for sums, field in fields:
      real r_${sums.name}_q[${plan.slots(sums) * q}];
      SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
        const __local real *at = l_fields + ${plan.slab_of(sums, "c")} * SLAB + row;
        ${read(q, 1, "at", f"(r_{sums.name}_q + c * {q})")}
% if plan.derives(sums):
        ${lines.derive(plan, f"(r_{sums.name}_q + c * {q})", f"(r_{sums.name}_q + {plan.derivative(sums, 0)} * {q})")}
        ${read(q, 1, "at + SLAB", f"(r_{sums.name}_q + {plan.derivative(sums, 1)} * {q})")}
        ${read(q, 1, "at + 2 * SLAB", f"(r_{sums.name}_q + {plan.derivative(sums, 2)} * {q})")}
% endif
      }
% endfor
% for sums in plan.rows:
      accum r_${sums.name}_q[${plan.slots(sums) * q}]${"" if sums.orders else " = {0}"};
% endfor
      SHORT for (int i = 0; i < ${q}; ++i) {
        const int place = ${plan.along_axes(q, 'i', 'item', 'k')}, q = place;
% for sums in plan.lattices:
        real r_${sums.name}_e[${plan.slots(sums)}];
% if sums.orders:
        SHORT for (int l = 0; l < ${plan.slots(sums)}; ++l) r_${sums.name}_e[l] = r_${sums.name}_q[l * ${q} + i];
% endif
% endfor
<%include file="plane_point.mako"/>\
% for sums in plan.rows:
% for begin, end in plan.written(sums):
        SHORT for (int l = ${begin}; l < ${end}; ++l) r_${sums.name}_q[l * ${q} + i] = r_${sums.name}_e[l];
% endfor
% endfor
      }
% for sums in plan.rows:
      SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
        __local accum *at = l_rows + ${plan.slab_of(sums, "c")} * SLAB + row;
% if plan.derives(sums):
        accum back[${q}];
        ${lines.derive_back(plan, f"(r_{sums.name}_q + {plan.derivative(sums, 0)} * {q})", "back")}
% if plan.values(sums):
        SHORT for (int i = 0; i < ${q}; ++i) back[i] += r_${sums.name}_q[c * ${q} + i];
% endif
        ${write(q, 1, "back", "at")}
        ${write(q, 1, f"(r_{sums.name}_q + {plan.derivative(sums, 1)} * {q})", "at + SLAB")}
        ${write(q, 1, f"(r_{sums.name}_q + {plan.derivative(sums, 2)} * {q})", "at + 2 * SLAB")}
% else:
        ${write(q, 1, f"(r_{sums.name}_q + c * {q})", "at")}
% endif
      }
% endfor
    }
  }

  // integrate
% if derived_rows and not plan.collocated:
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < ${q})
    LINES for (int l = 0; l < ${q}; ++l) {
% for sums in derived_rows:
      SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
        __local accum *at = l_rows + ${plan.slab_of(sums, "c")} * SLAB + SLAB + item * PLANE + l;
        accum flux[${q}], back[${q}];
        ${read(q, "ROW", "at", "flux")}
        ${lines.derive_back(plan, "flux", "back")}
        ${write(q, "ROW", "back", "at")}
      }
% endfor
    }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if derived_rows or not plan.collocated:
  if (item < ${q})
    LINES for (int l = 0; l < ${q}; ++l) {
% for sums in plan.rows:
<% p = sums.sizes.p1d %>\
      SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
        __local accum *at = l_rows + ${plan.slab_of(sums, "c")} * SLAB + item * ROW + l;
        accum line[${q}];
        ${read(q, "PLANE", "at", "line")}
% if plan.derives(sums):
        accum flux[${q}];
        ${read(q, "PLANE", "at + 2 * SLAB", "flux")}
% if not plan.collocated:
        SHORT for (int r = 0; r < ${q}; ++r) line[r] += at[SLAB + r * PLANE];
% endif
% if not plan.tabulates(sums):
        accum back[${q}];
        ${lines.derive_back(plan, "flux", "back")}
        SHORT for (int r = 0; r < ${q}; ++r) line[r] += back[r];
% endif
% endif
% if sums.sizes.collocated:
        ${write(q, "PLANE", "line", "at")}
% else:
        accum nodes[${p}];
% if plan.tabulates(sums):
        ${lines.tabulate_back(plan, sums, "line", "flux", "nodes")}
% else:
        ${lines.gather_back(plan, sums, "line", "nodes")}
% endif
        ${write(p, "PLANE", "nodes", "at")}
% endif
      }
% endfor
    }
% endif
  barrier(CLK_LOCAL_MEM_FENCE);

  // scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
% for i, (sums, row) in enumerate(zip(plan.rows, work.rows)):
<% p = sums.sizes.p1d %>\
  if (item < ${p}) {
    SHORT for (int c = 0; c < ${row.num_comp}; ++c) {
      const __local accum *plane = l_rows + ${plan.slab_of(sums, "c")} * SLAB + item * PLANE;
      accum partial[${p * q}];
      SHORT for (int l = 0; l < ${q}; ++l) {
        accum line[${q}];
        ${read(q, "ROW", "plane + l", "line")}
% if plan.derives(sums) and plan.collocated:
        accum flux[${q}], back[${q}];
        ${read(q, "ROW", "plane + SLAB + l", "flux")}
        ${lines.derive_back(plan, "flux", "back")}
        SHORT for (int r = 0; r < ${q}; ++r) line[r] += back[r];
% endif
% if sums.sizes.collocated:
        ${write(q, q, "line", "partial + l")}
% else:
        accum nodes[${p}];
        ${lines.gather_back(plan, sums, "line", "nodes")}
        ${write(p, q, "nodes", "partial + l")}
% endif
      }
% if sums.sizes.collocated:
      const accum *sums = partial;
% else:
      accum sums[${p * p}];
      SHORT for (int l = 0; l < ${p}; ++l) {
        ${lines.gather_back(plan, sums, f"(partial + l * {q})", f"(sums + l * {p})")}
      }
% endif
${planes.scatter(plan, work, i, sums, row)}\
    }
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
