<%namespace name="mirrors" file="mirrors.mako"/>\
// Schedule cell with LANES cells per work-item, side by side in vectors, everything private, no barrier.
% if plan.lists:
// An item is a work-group and has CELLS cells, LANES after LANES: what is at their nodes is read once, and added up there.
// Index space: global id = (cell - first) / CELLS, rounded up. Lanes past the last cell repeat it and add nothing.
#define SLOT(place) (place)
% else:
// Index space: global id = (cell - first) / LANES, rounded up to the work-group. Lanes past the last cell repeat it and write nothing.
% endif
<% reals, accums = plan.vector("real"), plan.vector("accum") %>\
<% inputs = [*pointwise_arrays, *([("c", "NUM_CELL_STATE")] if work.num_cell_state else [])] %>\
<% loads = {f"r_{field.name}_e": field.size for field in work.fields} %>\
<% loads |= {side.name("r_x_e"): f"{side.name('NUM_COORD_BASIS')} * DIM" for side in work.sides} if plan.needs_coords else {} %>\
<%def name="lane_of(names, type)">\
% for name in names:
    ${type} *${name} = (${type} *)v${name[1:]} + lane;
% endfor
</%def>\
## The places of a cell's nodes in the lists.
<%def name="places_of(cell)">\
% for entry in plan.lists:
    __global const ushort *r_places${entry.number} = d_places${entry.number} + AT_d_places${entry.number}(${cell}, 0);
% endfor
</%def>\
## What is read at nodes, number by number, and zeros for their sums; slots without a node have one all the same, which nobody reads.
<%def name="gather_nodes()">\
  const int group = (int)get_group_id(0), last = first + min((group + 1) * CELLS, count) - 1;
  __local real s_local[${step.local[0].words}];
<% local = "s_local" %>\
% for entry in plan.lists:
<% n, arrays = entry.number, [(f"s_{field.name}", field.num_comp) for field in work.fields if field.name in entry.fields] %>\
  const int slots${n} = ${slice} * slices${n};
% for name, comps in [*arrays, (f"s_sums{n}", entry.num_comp)]:
  __local real *${name} = ${local};
<% local = f"{name} + {comps} * slots{n}" %>\
% endfor
% endfor
% for entry in plan.lists:
<% n = entry.number %>\
  for (int i = 0; i < slots${n}; ++i) {
    const int offset = d_nodes${n}[slots${n} * group + i];
% for field in (field for field in work.fields if field.name in entry.fields):
    for (int c = 0; c < ${field.num_comp}; ++c) s_${field.name}[c * slots${n} + i] = ${at_node(field, entry)};
% endfor
    for (int c = 0; c < ${entry.num_comp}; ++c) s_sums${n}[i * ${entry.num_comp} + c] = 0;
  }
% endfor
</%def>\
<%def name="scatter_nodes()">\
% for entry in plan.lists:
<% n, comps = entry.number, entry.num_comp %>\
% if plan.scatter == "evector":
  for (int i = 0; i < slots${n} * ${comps}; ++i) d_out${n}[(size_t)slots${n} * ${comps} * group + i] = (scalar)s_sums${n}[i];
% else:
  for (int i = 0; i < slots${n}; ++i) {
    const int offset = d_nodes${n}[slots${n} * group + i];
    if (!d_counts${n}[slots${n} * group + i]) continue;
    for (int c = 0; c < ${comps}; ++c)
      ${f"if (!({'offset < 0' if comps == 1 else 'IS_PRESCRIBED(offset, c)'})) " * entry.masked}atomic_add_scalar(d_out + ${"NODE(offset)" if entry.masked else "offset"} + c, (scalar)s_sums${n}[i * ${comps} + c]);
  }
% endif
% endfor
</%def>\
// The pointwise function of each of them.
<%block filter="plan.unrolled">\
inline void ${plan.pointwise}(${', '.join(f'const {reals} *v_{name}' for name, _ in inputs)}, __global const real *constants, ${', '.join(f'{reals} *v_{name}' for name in outputs)}) {
  for (int lane = 0; lane < LANES; ++lane) {
% for name, size in inputs:
    real ${name}[${size}];
    for (int i = 0; i < ${size}; ++i) ${name}[i] = ((const real *)v_${name})[i * LANES + lane];
% endfor
    ${declare_outputs}
    pointwise(${', '.join(name for name, _ in inputs)}, constants, ${', '.join(outputs)});
% for name in outputs:
    for (int i = 0; i < (int)(sizeof(${name}) / sizeof(real)); ++i) ((real *)v_${name})[i * LANES + lane] = ${name}[i];
% endfor
  }
}
</%block>\

% if plan.mirrored:
${mirrors.tables(plan)}\
% endif
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
% if plan.lists:
${gather_nodes()}  for (int begin = first + group * CELLS; begin <= last; begin += LANES) {
% else:
  const int begin = first + (int)get_global_id(0) * LANES, last = first + count - 1;
  if (begin > last) return;
% endif
% for lane in range(plan.lanes):
  const int cell${lane} = min(begin + ${lane}, last);
% endfor
% for name, size in loads.items():
  ${reals} v${name[1:]}[${size}];
% endfor
% for i, row in enumerate(work.rows):
  ${accums} v_f${i}_e[${row.size}];
% endfor

  // gather
  for (int lane = 0; lane < LANES; ++lane) {
    const int cell = min(begin + lane, last);
${lane_of(loads, "real")}\
${places_of("cell")}\
<%block filter="plan.unrolled"><%include file="load.mako"/></%block>
  }

<%block filter="plan.adapted">\
  {
% for name in loads:
    const real *${name} = v${name[1:]};
% endfor
% for i, row in enumerate(work.rows):
    accum *r_f${i}_e = v_f${i}_e;
    UNROLL
    for (int i = 0; i < ${row.size}; ++i) r_f${i}_e[i] = 0;
% endfor
% if plan.mirrored:
${mirrors.fold(plan)}\
% endif
% if work.num_cell_state:
    real r_c[NUM_CELL_STATE];
    for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = ${plan.word("d_cell_state", "i")};
% endif
% if work.maps:
    real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = ${plan.word("d_geometry", "i")};
    det_J = ${plan.word("d_geometry", "DIM * DIM")};
% elif work.affine:
    det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${work.coord_table}, 0), r_x_e, J_inv);
% endif
% endif
% for parity, points in plan.points:
  for (int q = ${points.start}; q < ${points.stop}; ++q) {
<%include file="point.mako" args="parity=parity"/>
  }
% endfor
% if plan.mirrored:
${mirrors.unfold(plan)}\
% endif
  }
</%block>\

  for (int lane = 0; lane < LANES && begin + lane <= last; ++lane) {
    const int cell = begin + lane;
${lane_of(loads, "const real")}\
${lane_of([f"r_f{i}_e" for i in range(len(work.rows))], "const accum")}\
% if plan.lists:
${places_of("cell")}\
<%block filter="plan.unrolled">\
% for entry in plan.lists:
<% n, comps = entry.number, entry.num_comp %>\
  UNROLL
  for (int b = 0; b < ${entry.num_basis}; ++b)
    for (int c = 0; c < ${comps}; ++c) s_sums${n}[SLOT(r_places${n}[b]) * ${comps} + c] += r_f${n}_e[${plan.place(entry.num_basis, comps, "b", "c")}];
% endfor
</%block>\
% else:
<%block filter="plan.unrolled"><%include file="scatter.mako"/></%block>
% endif
  }
% if plan.lists:
  }
${scatter_nodes()}\
% endif
}
