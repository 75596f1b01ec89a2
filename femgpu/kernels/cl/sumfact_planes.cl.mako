<%namespace name="lines" file="lines.mako"/>\
<%namespace name="nodes" file="nodes.mako"/>\
<%namespace name="planes" file="planes.mako"/>\
// Schedule sumfact on hexahedra, ITEMS work-items for each of the CELLS cells of a work-group. An item has a plane of points, across the
// second axis, in its registers, where it contracts the other two directions. For the second axis it takes a plane across the
// third, by way of local memory, and so do the nodes unless they are the points. Which direction an axis is says `plan.axes`.
// Index space: local id = (cell, item). Past the last cell of the launch items repeat it and write nothing.
<%
q = plan.q1d
fields = [(sums, field) for sums, field in zip(plan.lattices, work.fields) if sums.orders]
derived = [sums for sums in plan.lattices if plan.derives(sums)]
derived_rows = [sums for sums in plan.rows if plan.derives(sums)]
groups = (("fields", "real", plan.lattices), ("rows", "accum", plan.rows))
def slot(sums, axis=None):
    comps = sums.sizes.num_comp
    return "c" if axis is None else f"({comps + plan.axes[axis]} + 3 * c)"
%>\
#define LATTICE
#define AT_POINT(slot, p) (slot)
// a + x b at a point of a line, whose place x compilers know
#define ALONG(x, a, b) ((x) == 0 ? (a) : (a) + (x) * (b))
#define SHORT${' _Pragma("unroll")' if plan.unroll else ""}
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
#define PLACES ${q * q}
## What the rows have at the points of the item's plane, summed over values and derivatives.
<%def name="collect(sums)">\
      accum sums[PLACES];
      SHORT for (int l = 0; l < PLACES; ++l) sums[l] = ${f"r_{sums.name}_q[c * PLACES + l]" if plan.values(sums) else "0"};
% if plan.derives(sums):
      {
        const __local accum *plane = l_rows + (${plan.first(sums)} + c) * SLAB + item * ROW;
        SHORT for (int l = 0; l < PLACES; ++l) sums[l] += plane[l / ${q} * PLANE + l % ${q}];
      }
      ${planes.multiply(plan, q, q, q, f"{plan.backwards}_D", True, (f"(r_{sums.name}_q + {slot(sums, 0)} * PLACES)", 1, q), ("sums", 1, q), "accum", True)}
% if not plan.tabulates(sums):
      ${planes.multiply(plan, q, q, q, f"{plan.backwards}_D", True, (f"(r_{sums.name}_q + {slot(sums, 2)} * PLACES)", q, 1), ("sums", q, 1), "accum", True)}
% endif
% endif
</%def>\
<%include file="points.cl"/>
<%include file="map_along.mako"/>\
#undef TABLE_W
#define TABLE_W(q) ${"R(1)" if plan.weighs_lines else "(LINE_W[i] * LINE_W[k] * item_weight)"}
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
% for _, kind, group in groups:
% for sums in group:
  ${kind} r_${sums.name}_q[${plan.slots(sums)} * PLACES];
% endfor
% endfor
  const int inside = item < ${q};

  // gather
  // All items load, those without nodes what others do: compilers load in a branch what is used there, and wait at it for what they have
  // loaded before.
% if plan.needs_coords:
${nodes.coord_offsets(plan)}\
% endif
% for sums, field in fields:
<% p = sums.sizes.p1d %>\
% if work.source != "evector":
  int ${field.name}_offsets[${p * p}];
  SHORT for (int l = 0; l < ${p * p}; ++l) ${field.name}_offsets[l] = ${nodes.offset(work, field.name, plan.node(p, f"min(item, {p - 1})"))};
% endif
% endfor
% if plan.needs_coords:
${nodes.coord_values(plan)}\
% endif
% for sums, field in fields:
<% p = sums.sizes.p1d %>\
  SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
    real nodes[${p * p}];
    SHORT for (int l = 0; l < ${p * p}; ++l) nodes[l] = ${nodes.value(work, field, f"{field.name}_offsets[l]", plan.node(p, f"min(item, {p - 1})"))};
% if not plan.turns:
    SHORT for (int l = 0; l < PLACES; ++l) r_${sums.name}_q[c * PLACES + l] = nodes[l];
% else:
    // Items without nodes fill planes that nobody reads.
    __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * PLANE;
% if sums.sizes.collocated:
    ${planes.move(q, q, q, "ROW", "plane", "nodes", True)}
% else:
    real partial[${p * q}], values[PLACES];
    ${planes.multiply(plan, q, p, p, f"LINE_B{sums.sizes.table}", False, ("nodes", 1, p), ("partial", 1, q), "real")}
    ${planes.multiply(plan, q, p, q, f"LINE_B{sums.sizes.table}", False, ("partial", q, 1), ("values", q, 1), "real")}
    ${planes.move(q, q, q, "ROW", "plane", "values", True)}
% endif
% endif
  }
% endfor
% if plan.needs_coords:
${nodes.keep_coords(plan)}\
% endif
% if plan.turns or plan.needs_coords:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

  // tabulate
<%include file="plane_vertices.mako"/>\
% if plan.turns and any(sums.orders for sums in plan.lattices):
  if (inside) {
% for sums in plan.lattices:
% if sums.orders:
<% p = sums.sizes.p1d %>\
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * ROW;
% if sums.sizes.collocated:
      ${planes.move(q, q, q, "PLANE", "plane", f"(r_{sums.name}_q + c * PLACES)", False)}
% else:
      real nodes[${p * q}];
      ${planes.move(q, p, q, "PLANE", "plane", "nodes", False)}
% if plan.tabulates(sums):
      SHORT for (int l = 0; l < ${q}; ++l) {
        ${lines.tabulate(plan, sums, "(nodes + l)", f"(r_{sums.name}_q + c * PLACES + l)", f"(r_{sums.name}_q + {slot(sums, 2)} * PLACES + l)", q)}
      }
% else:
      ${planes.multiply(plan, q, p, q, f"LINE_B{sums.sizes.table}", False, ("nodes", q, 1), (f"(r_{sums.name}_q + c * PLACES)", q, 1), "real")}
% endif
% endif
    }
% endif
% endfor
  }
% endif
% if derived:
  if (inside) {
% for sums in derived:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * ROW;
      ${planes.move(q, q, q, "PLANE", "plane", f"(r_{sums.name}_q + c * PLACES)", True)}
    }
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (inside) {
% for sums in derived:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * PLANE;
      real values[PLACES], slopes[PLACES];
      ${planes.move(q, q, q, "ROW", "plane", "values", False)}
      ${planes.multiply(plan, q, q, q, "LINE_D", False, ("values", q, 1), ("slopes", q, 1), "real")}
      ${planes.move(q, q, q, "ROW", "plane", "slopes", True)}
    }
% endfor
  }
% endif
% if derived or plan.multilinear:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

  if (inside) {
% if not plan.weighs_lines:
    const real item_weight = LINE_W[item];
% endif
% for sums in derived:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local real *plane = l_fields + (${plan.first(sums)} + c) * SLAB + item * ROW;
      ${planes.move(q, q, q, "PLANE", "plane", f"(r_{sums.name}_q + {slot(sums, 1)} * PLACES)", False)}
      ${planes.multiply(plan, q, q, q, "LINE_D", False, (f"(r_{sums.name}_q + c * PLACES)", 1, q), (f"(r_{sums.name}_q + {slot(sums, 0)} * PLACES)", 1, q), "real")}
% if not plan.tabulates(sums):
      ${planes.multiply(plan, q, q, q, "LINE_D", False, (f"(r_{sums.name}_q + c * PLACES)", q, 1), (f"(r_{sums.name}_q + {slot(sums, 2)} * PLACES)", q, 1), "real")}
% endif
    }
% endfor
<%include file="plane_map.mako"/>\
    SHORT for (int k = 0; k < ${q}; ++k) {
<%include file="plane_row.mako"/>\
      SHORT for (int i = 0; i < ${q}; ++i) {
        const int place = ${plan.along_axes(q, 'i', 'item', 'k')}, q = place;
% for sums in plan.lattices:
        real r_${sums.name}_e[${plan.slots(sums)}];
% if sums.orders:
        SHORT for (int l = 0; l < ${plan.slots(sums)}; ++l) r_${sums.name}_e[l] = r_${sums.name}_q[l * PLACES + k * ${q} + i];
% endif
% endfor
<%include file="plane_point.mako"/>\
% for sums in plan.rows:
% for begin, end in plan.written(sums):
        SHORT for (int l = ${begin}; l < ${end}; ++l) r_${sums.name}_q[l * PLACES + k * ${q} + i] = r_${sums.name}_e[l];
% endfor
% endfor
      }
    }
  }

  // integrate
% if derived_rows:
  if (inside) {
% for sums in derived_rows:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local accum *plane = l_rows + (${plan.first(sums)} + c) * SLAB + item * ROW;
      ${planes.move(q, q, q, "PLANE", "plane", f"(r_{sums.name}_q + {slot(sums, 1)} * PLACES)", True)}
    }
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (inside) {
% for sums in derived_rows:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      __local accum *plane = l_rows + (${plan.first(sums)} + c) * SLAB + item * PLANE;
      accum flux[PLACES], back[PLACES];
      ${planes.move(q, q, q, "ROW", "plane", "flux", False)}
      ${planes.multiply(plan, q, q, q, f"{plan.backwards}_D", True, ("flux", q, 1), ("back", q, 1), "accum")}
      ${planes.move(q, q, q, "ROW", "plane", "back", True)}
    }
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
% if plan.turns:
% for sums in plan.rows:
<% p = sums.sizes.p1d %>\
  if (inside)
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
${collect(sums)}\
      __local accum *to = l_rows + (${plan.first(sums)} + c) * SLAB + item * ROW;
% if sums.sizes.collocated:
      ${planes.move(q, q, q, "PLANE", "to", "sums", True)}
% else:
      accum partial[${p * q}];
% if plan.tabulates(sums):
      SHORT for (int l = 0; l < ${q}; ++l) {
        ${lines.tabulate_back(plan, sums, "(sums + l)", f"(r_{sums.name}_q + {slot(sums, 2)} * PLACES + l)", "(partial + l)", q)}
      }
% else:
      ${planes.multiply(plan, p, q, q, f"{plan.backwards}_B{sums.sizes.table}", True, ("sums", q, 1), ("partial", q, 1), "accum")}
% endif
      ${planes.move(q, p, q, "PLANE", "to", "partial", True)}
% endif
    }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% for i, (sums, row) in enumerate(zip(plan.rows, work.rows)):
<% p = sums.sizes.p1d %>\
  if (item < ${p}) {
    SHORT for (int c = 0; c < ${row.num_comp}; ++c) {
% if not plan.turns:
${collect(sums)}\
% else:
      const __local accum *plane = l_rows + (${plan.first(sums)} + c) * SLAB + item * PLANE;
      accum sums[${p * p}];
% if sums.sizes.collocated:
      ${planes.move(q, q, q, "ROW", "plane", "sums", False)}
% else:
      accum partial[PLACES], lines[${p * q}];
      ${planes.move(q, q, q, "ROW", "plane", "partial", False)}
      ${planes.multiply(plan, p, q, q, f"{plan.backwards}_B{sums.sizes.table}", True, ("partial", q, 1), ("lines", q, 1), "accum")}
      ${planes.multiply(plan, p, q, p, f"{plan.backwards}_B{sums.sizes.table}", True, ("lines", 1, q), ("sums", 1, p), "accum")}
% endif
% endif
${planes.scatter(plan, work, i, sums, row)}\
    }
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
