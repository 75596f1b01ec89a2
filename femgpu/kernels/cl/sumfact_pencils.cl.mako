<%namespace name="lines" file="lines.mako"/>\
<%namespace name="nodes" file="nodes.mako"/>\
// Schedule sumfact, ITEMS work-items for each of the CELLS cells of a work-group. Between barriers an item takes lines of the
// lattices, which stand in local memory: it reads a line into its registers, multiplies it by a 1D matrix and writes it back, so that
// each number crosses local memory once per direction, and what it keeps along its points not at all. Lines of nodes come from global
// memory and go there by registers alone.
// Index space: local id = (cell, item) or (item, cell). Past the last cell of the launch items repeat it and write nothing.
<%
last, along = work.dim - 1, plan.along
names = ("i", "j", "k")[: work.dim]
strides = ("1", "ROW", "PLANE")[: work.dim]
between = [axis for axis in range(last) if axis != along]
place_of = plan.place_of
derived = [sums for sums in plan.lattices if plan.derives(sums)]
if plan.shares_points:
    first_point, points, fluxes = "turn", "l_points", "l_fluxes"
    # On CPUs, whose loops are not unrolled, as many rounds for all items of a group: PoCL 3.1 was wrong where some had more.
    end, guard = (plan.q1d, "") if plan.unroll else (f"{plan.q1d} + turn", f" if (n < {plan.q1d})")
    each_point = f"for (int n = turn; n < {end}; n += {plan.sharers}){guard}"
else:
    first_point, points, fluxes = "0", "l_fields", "l_rows"
    each_point = f"for (int n = 0; n < {plan.q1d}; ++n)"
%>\
#define LATTICE
% if plan.shares_points:
#define LINES (ITEMS / ${plan.sharers})
% endif
#define AT_POINT(slot, p) (slot)
// a + x b at a point of a line
#define ALONG(x, a, b) ((a) + (x) * (b))
// Loops over numbers of a line, which stand in registers where all of them are unrolled.
#define SHORT${' _Pragma("unroll")' if plan.unroll else ""}
#define LONG${f' _Pragma("unroll {plan.points_together}")' if plan.unroll else ""}
% if not plan.shares_points:
#define COMPONENTS${' _Pragma("unroll")' if plan.unrolls_components else ' _Pragma("unroll 1")' if plan.unroll else ""}
% endif
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
<%def name="read(n, axis, line, values)">SHORT for (int r = 0; r < ${n}; ++r) ${values}[r] = (${line})[r * ${strides[axis]}];</%def>\
<%def name="write(n, axis, values, line)">SHORT for (int r = 0; r < ${n}; ++r) (${line})[r * ${strides[axis]}] = ${values}[r];</%def>\
## Before what is done for each component of a line, or for the item's own, if there is one.
<%def name="each(comps)">\
% if not plan.shares_points:
COMPONENTS for (int c = 0; c < ${comps}; ++c) \
% elif comps < plan.sharers:
if (c < ${comps}) \
% endif
</%def>\
## Whether an item has a line along a direction: `done` are at the points, others at the nodes.
<%def name="line(axis, sums, done)">\
${" && ".join(f"{item} < {sums.sizes.q1d if other in done else sums.sizes.p1d}" for item, other in plan.across(axis))}\
</%def>\
<%def name="has_points()">${" && ".join(f"{item} < {plan.q1d}" for item, _ in plan.across(last))}</%def>\
<%def name="start(axis)">${" + ".join(f"{item} * {strides[other]}" for item, other in plan.across(axis))}</%def>\
## The derivative along the last direction of what stands in `values`, into its slot.
<%def name="derive_last(sums, values)">\
% if plan.keeps_lines:
    ${lines.derive(plan, values, plan.kept_line(sums, "slope"))}
% else:
    {
      real slope[${plan.q1d}];
      ${lines.derive(plan, values, "slope")}
      ${write(plan.q1d, last, "slope", f"l_fields + {plan.slot(sums, 'c', last)} * SLAB + at")}
    }
% endif
</%def>\
## What is stored at point n of the item's line, from memory.
<%def name="load_stored(n, target)">\
SHORT for (int i = 0; i < NUM_STATE; ++i) ${target} = ${plan.word("d_state", plan.state_word("i", n))};</%def>\
<%include file="points.cl"/>
<%include file="map_along.mako"/>\
#undef TABLE_W
#define TABLE_W(q) (plane_weight * LINE_W[n])
% if plan.copies:
// Copies an entry to local memory for the item that asks for it, which a device with such instructions does not wait for until
// AWAIT_COPIES.
% if plan.atomics == "ptx":
<% size = next(plan.itemsize(array.ctype) for array in plan.cell_local if array.name == "s_state") %>\
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], ${size};" ::"r"((uint)(size_t)(to)), "l"(from) : "memory")
#define AWAIT_COPIES asm volatile("cp.async.wait_all;" ::: "memory")
% else:
#define COPY(to, from) *(to) = *(from)
#define AWAIT_COPIES
% endif
% endif
__kernel${sized}
void ${step.name}(${arguments}) {
${nodes.cell(plan)}\
% if plan.shares_points:
  const int c = item % ${plan.sharers}, g = item / ${plan.sharers} % N, h = item / (${plan.sharers} * N); // its component, and
  // places in the directions across its lines
% else:
  const int g = item % N, h = item / N; // places in the directions across its lines
% endif
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}]; // ${plan.itemsize(array.ctype) * array.words} bytes
% endfor
% for array in plan.cell_local:
  __local ${array.ctype} *${array.name.replace("s_", "l_", 1)} = ${array.name} + own * ${array.words};
% endfor
% if plan.shares_slots:
  __local accum *l_fields = l_slots, *l_rows = l_slots;
% endif
% if plan.shares_points:
  __local real *l_points = l_fields;
  __local accum *l_fluxes = l_rows;
  l_fields += c * ${plan.strides[-1]}, l_rows += c * ${plan.strides[-1]};
% endif
% for ctype, group in (("real", plan.lattices), ("accum", plan.rows)):
% for sums in group:
% for what in plan.kept(sums):
  ${ctype} ${what}_${sums.name}[${sums.sizes.num_comp * plan.q1d}]; // along the item's line of points
% endfor
% endfor
% endfor

  const int inside = ${has_points()}; // has a line of points
% if plan.asked:
  // a line of the device's cache at a time
  const int later = cell + ${plan.cells_ahead};
  if (later < first + count) {
% for array in plan.asked:
<% step_of = 128 // plan.itemsize(array.ctype) %>\
    for (int i = item * ${step_of}; i < ${array.words}; i += ITEMS * ${step_of})
      asm volatile("prefetch.global.L2 [%0];" ::"l"(${array.name} + AT_${array.name}(later, i)));
% endfor
  }
% endif
% if plan.copies:
<% word = plan.state_word("i") %>\
  if (inside)
    SHORT for (int n = 0; n < ${plan.q1d}; ++n)
      SHORT for (int i = 0; i < NUM_STATE; ++i) COPY(l_state + ${word}, d_state + AT_d_state(cell, ${word}));
% elif plan.loads_ahead:
  // What is stored at the points arrives while nodes are on their way to these.
  real ahead[${plan.q1d} * NUM_STATE];
  if (inside)
    SHORT for (int n = 0; n < ${plan.q1d}; ++n)
      ${load_stored("n", "ahead[n * NUM_STATE + i]")}
% endif

  // gather
% if plan.needs_coords:
${nodes.coord_offsets(plan)}\
% endif
% for sums, field in zip(plan.lattices, work.fields):
% if sums.orders and work.source != "evector":
  int ${field.name}_offsets[${sums.sizes.p1d}];
  if (${line(along, sums, ())})
    SHORT for (int n = 0; n < ${sums.sizes.p1d}; ++n) ${field.name}_offsets[n] = ${nodes.offset(work, field.name, place_of(along, sums.sizes.p1d))};
% endif
% endfor
% if plan.needs_coords:
${nodes.coord_values(plan)}\
% endif
% for sums, field in zip(plan.lattices, work.fields):
<% p, q, comps = sums.sizes.p1d, sums.sizes.q1d, field.num_comp %>\
% if sums.orders:
  if (${line(along, sums, ())}) {
    const int at = ${start(along)};
    ${each(comps)}{
      real nodes[${p}];
      SHORT for (int n = 0; n < ${p}; ++n) nodes[n] = ${nodes.value(work, field, f"{field.name}_offsets[n]", place_of(along, p))};
% if sums.sizes.collocated:
      const real *values = nodes;
% else:
      real values[${q}];
      ${lines.interpolate(plan, sums, "nodes", "values")}
% endif
% if along == last and "value" in plan.kept(sums):
      SHORT for (int r = 0; r < ${q}; ++r) ${plan.kept_line(sums, "value")}[r] = values[r];
% endif
% if along != last or sums in derived or not plan.keeps_lines:
      ${write(q, along, "values", f"l_fields + {plan.slot(sums, 'c')} * SLAB + at")}
% endif
% if along == last and sums in derived:
${derive_last(sums, "values")}\
% endif
    }
  }
% endif
% endfor
% if plan.needs_coords:
${nodes.keep_coords(plan)}\
% endif
  barrier(CLK_LOCAL_MEM_FENCE);

  // tabulate
% if plan.maps_once:
  if (item == 0) {
    real J[DIM * DIM], inverse[DIM * DIM];
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) {
        real sum = 0;
        for (int n = 0; n < NUM_COORD_BASIS; ++n) sum += LINE_MAP[n * DIM + k] * l_x[d * NUM_COORD_BASIS + n];
        J[d * DIM + k] = sum;
      }
    l_map[DIM * DIM] = invert(J, inverse);
    for (int i = 0; i < DIM * DIM; ++i) l_map[i] = inverse[i];
  }
% endif
<%include file="multilinear.mako"/>\
<%
stages = along != last and between and plan.interpolates
%>\
% for axis in between if stages else ():
% for sums in plan.lattices:
% if along != last and sums.orders and not sums.sizes.collocated:
  if (${line(axis, sums, (along,))})
    ${each(sums.sizes.num_comp)}{
      real before[${sums.sizes.p1d}], after[${sums.sizes.q1d}];
      __local real *at = l_fields + ${plan.slot(sums, "c")} * SLAB + ${start(axis)};
      ${read(sums.sizes.p1d, axis, "at", "before")}
      ${lines.interpolate(plan, sums, "before", "after")}
      ${write(sums.sizes.q1d, axis, "after", "at")}
    }
% endif
% endfor
% endfor
% if stages or (plan.maps_once or plan.multilinear) and not derived:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
  const int at = ${start(last)};
% if along != last:
% for sums in plan.lattices:
% if sums.orders and (sums in derived or plan.keeps_lines or not sums.sizes.collocated):
  if (inside)
    ${each(sums.sizes.num_comp)}{
      real before[${sums.sizes.p1d}];
      __local real *to = l_fields + ${plan.slot(sums, "c")} * SLAB + at;
      ${read(sums.sizes.p1d, last, "to", "before")}
% if sums.sizes.collocated:
      const real *values = before;
% else:
      real values[${sums.sizes.q1d}];
% if plan.tabulates(sums):
      real slope[${plan.q1d}];
      ${lines.tabulate(plan, sums, "before", "values", "slope")}
      ${write(plan.q1d, last, "slope", f"l_fields + {plan.slot(sums, 'c', last)} * SLAB + at")}
% else:
      ${lines.interpolate(plan, sums, "before", "values")}
% endif
% if sums in derived or not plan.keeps_lines:
      ${write(sums.sizes.q1d, last, "values", "to")}
% endif
% endif
% if "value" in plan.kept(sums):
      SHORT for (int r = 0; r < ${sums.sizes.q1d}; ++r) ${plan.kept_line(sums, "value")}[r] = values[r];
% endif
% if sums in derived and not plan.tabulates(sums):
${derive_last(sums, "values")}\
% endif
    }
% endif
% endfor
% if derived and plan.interpolates:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% endif
% for axis in range(last) if derived else ():
  if (inside) {
    const int from = ${start(axis)};
% for sums in derived:
    ${each(sums.sizes.num_comp)}{
      real values[${plan.q1d}], slope[${plan.q1d}];
      ${read(plan.q1d, axis, f"l_fields + {plan.slot(sums, 'c')} * SLAB + from", "values")}
      ${lines.derive(plan, "values", "slope")}
      ${write(plan.q1d, axis, "slope", f"l_fields + {plan.slot(sums, 'c', axis)} * SLAB + from")}
    }
% endfor
  }
% endfor
% if derived:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

% if plan.copies:
  AWAIT_COPIES;
% endif
% if plan.shares_points:
  const int turn = item / LINES; // first of its points
  {
  const int g = item % LINES % N, h = item % LINES / N, at = ${start(last)}, inside = ${has_points()};
% endif
  if (inside) {
    const real plane_weight = ${" * ".join(f"LINE_W[{item}]" for item, _ in plan.across(last))};
<%include file="line_map.mako"/>\
% if plan.loads_next:
    real stored[NUM_STATE], coming[NUM_STATE];
    ${load_stored(first_point, "coming[i]")}
% endif
    ${"SHORT" if plan.keeps_lines else "LONG"} ${each_point} {
      const int place = ${place_of(last, plan.q1d)}, q = place;
% if plan.loads_next:
      SHORT for (int i = 0; i < NUM_STATE; ++i) stored[i] = coming[i];
      if (n + ${plan.sharers} < ${plan.q1d})
        ${load_stored(f"n + {plan.sharers}", "coming[i]")}
% endif
% for sums in plan.lattices:
      real r_${sums.name}_e[${plan.slots(sums)}];
% for i, number in plan.at_point(sums, points):
      r_${sums.name}_e[${i}] = ${number};
% endfor
% endfor
<%include file="line_point.mako"/>\
% for sums in plan.rows:
      accum r_${sums.name}_e[${plan.slots(sums)}];
% endfor
% if work.num_cell_state:
      real r_c[NUM_CELL_STATE];
      for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = d_cell_state[AT_d_cell_state(cell, i)];
% endif
% if work.maps:
      real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
      for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
      det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% elif work.affine:
      for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = l_map[i];
      det_J = l_map[DIM * DIM];
% endif
% endif
<%include file="point.mako"/>
% for sums in plan.rows:
% for i, number in plan.at_point(sums, fluxes):
      ${number} = r_${sums.name}_e[${i}];
% endfor
% endfor
    }
  }
% if plan.shares_points:
  }
% endif

  // integrate
% if any(map(plan.derives, plan.rows)):
  barrier(CLK_LOCAL_MEM_FENCE);
% for axis in range(last):
  if (inside) {
    const int from = ${start(axis)};
% for sums in filter(plan.derives, plan.rows):
    ${each(sums.sizes.num_comp)}{
      accum flux[${plan.q1d}], back[${plan.q1d}];
      __local accum *line = l_rows + ${plan.slot(sums, "c", axis)} * SLAB + from;
      ${read(plan.q1d, axis, "line", "flux")}
      ${lines.derive_back(plan, "flux", "back")}
      ${write(plan.q1d, axis, "back", "line")}
    }
% endfor
  }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
## What the rows have at the points of the item's line, summed over values and derivatives.
<%def name="sum_line(sums)">\
      accum sums[${plan.q1d}];
% if plan.keeps_lines and plan.derives(sums):
      ${lines.derive_back(plan, plan.kept_line(sums, "slope"), "sums")}
      SHORT for (int n = 0; n < ${plan.q1d}; ++n)
        sums[n] += ${" + ".join([f"{plan.kept_line(sums, 'value')}[n]"] * plan.values(sums) + [f"l_rows[{plan.slot(sums, 'c', axis)} * SLAB + at + n * {strides[last]}]" for axis in range(last)])};
% elif plan.keeps_lines and plan.values(sums):
      SHORT for (int n = 0; n < ${plan.q1d}; ++n) sums[n] = ${plan.kept_line(sums, "value")}[n];
% elif plan.derives(sums):
      accum flux[${plan.q1d}];
      ${read(plan.q1d, last, f"l_rows + {plan.slot(sums, 'c', last)} * SLAB + at", "flux")}
% if not plan.tabulates(sums):
      ${lines.derive_back(plan, "flux", "sums")}
% endif
      SHORT for (int n = 0; n < ${plan.q1d}; ++n)
        sums[n] ${"=" if plan.tabulates(sums) else "+="} ${" + ".join(f"l_rows[{plan.slot(sums, 'c', axis)} * SLAB + at + n * {strides[last]}]" for axis in [*[None] * plan.values(sums), *range(last)])};
% elif plan.values(sums):
      ${read(plan.q1d, last, f"l_rows + {plan.slot(sums, 'c')} * SLAB + at", "sums")}
% else:
      SHORT for (int n = 0; n < ${plan.q1d}; ++n) sums[n] = 0;
% endif
</%def>\
% if along != last:
% for sums in plan.rows:
  if (inside)
    ${each(sums.sizes.num_comp)}{
      __local accum *to = l_rows + ${plan.slot(sums, "c")} * SLAB + at;
${sum_line(sums)}\
% if sums.sizes.collocated:
      ${write(plan.q1d, last, "sums", "to")}
% else:
      accum nodes[${sums.sizes.p1d}];
% if plan.tabulates(sums):
      ${lines.tabulate_back(plan, sums, "sums", "flux", "nodes")}
% else:
      ${lines.gather_back(plan, sums, "sums", "nodes")}
% endif
      ${write(sums.sizes.p1d, last, "nodes", "to")}
% endif
    }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% for axis in between:
% for sums in plan.rows:
% if not sums.sizes.collocated:
  if (${line(axis, sums, (along,))})
    ${each(sums.sizes.num_comp)}{
      accum before[${sums.sizes.q1d}], after[${sums.sizes.p1d}];
      __local accum *at = l_rows + ${plan.slot(sums, "c")} * SLAB + ${start(axis)};
      ${read(sums.sizes.q1d, axis, "at", "before")}
      ${lines.gather_back(plan, sums, "before", "after")}
      ${write(sums.sizes.p1d, axis, "after", "at")}
    }
% endif
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% endfor
% endif

  // scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
% for i, (sums, row) in enumerate(zip(plan.rows, work.rows)):
<% p, comps = sums.sizes.p1d, row.num_comp %>\
  if (past < ${nodes.end(work)} && ${line(along, sums, ())}) {
% if plan.scatter == "atomic":
    int offsets[${p}];
    SHORT for (int n = 0; n < ${p}; ++n) offsets[n] = ${nodes.offset(work, f"test{i}", place_of(along, p))};
% endif
% if plan.stores_inside:
    const int stores = d_stores${"".join(f" && {item} > 0 && {item} < {p - 1}" for item, _ in plan.across(along))};
% endif
    ${each(comps)}{
% if along == last:
${sum_line(sums)}\
      const accum *nodes = sums;
% else:
      accum sums[${sums.sizes.q1d}];
      const int from = ${start(along)};
      ${read(sums.sizes.q1d, along, f"l_rows + {plan.slot(sums, 'c')} * SLAB + from", "sums")}
% if sums.sizes.collocated:
      const accum *nodes = sums;
% else:
      accum nodes[${p}];
      ${lines.gather_back(plan, sums, "sums", "nodes")}
% endif
% endif
% if plan.sums_dots:
      if (d_dots)
        SHORT for (int n = 0; n < ${p}; ++n) r_dot += (double)nodes[n] * (${nodes.value(work, row.direction(i), "offsets[n]", place_of(along, p))});
% endif
      SHORT for (int n = 0; n < ${p}; ++n) {
        ${nodes.add(plan, i, row, "offsets[n]", place_of(along, p), "nodes[n]", f"n > 0 && n < {p - 1}")}
      }
    }
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
