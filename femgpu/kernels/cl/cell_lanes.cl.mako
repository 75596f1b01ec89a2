<%namespace name="mirrors" file="mirrors.mako"/>\
// Schedule cell with LANES cells per work-item, side by side in vectors, everything private, no barrier.
// Index space: global id = (cell - first) / LANES, rounded up to the work-group. Lanes past the last cell repeat it and write nothing.
<% reals, accums = plan.vector("real"), plan.vector("accum") %>\
<% inputs = [*pointwise_arrays, *([("c", "NUM_CELL_STATE")] if work.num_cell_state else [])] %>\
<% loads = {f"r_{field.name}_e": field.size for field in work.fields} %>\
<% loads |= {side.name("r_x_e"): f"{side.name('NUM_COORD_BASIS')} * DIM" for side in work.sides} if plan.needs_coords else {} %>\
<%def name="lane_of(names, type)">\
% for name in names:
    ${type} *${name} = (${type} *)v${name[1:]} + lane;
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
  const int begin = first + (int)get_global_id(0) * LANES, last = first + count - 1;
  if (begin > last) return;
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
<%block filter="plan.unrolled"><%include file="scatter.mako"/></%block>
  }
}
