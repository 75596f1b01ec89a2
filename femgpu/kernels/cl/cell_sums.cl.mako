// Schedule cell with sums in local memory: one cell per work-item, CELLS of them one after the other, everything private but at nodes.
// Values at the nodes of the group's cells are read once; each cell writes its results to places of their own, and each node's are
// added up there before they are added to the vector.
// Index space: group = (cell - first) / (GROUP_SIZE * CELLS), neighbouring items have neighbouring cells; without cells they wait.
// A place is the node's slot, and which of the node's results it is in the upper bits.
#define SLOT(place) ((place) % ${most_slots})
#define RESULT(place) ((place) / ${most_slots})
<% fields = {field.name: field for field in work.fields} %>\
<%def name="load_places()">\
% for entry in plan.lists:
<% n = entry.number %>\
    UNROLL
    for (int b = 0; b < ${entry.num_basis}; ++b) r_places${n}[b] = cell < first + count ? d_places${n}[AT_d_places${n}(cell, b)] : 0;
% endfor
</%def>\
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}];
% endfor
  const int group = (int)get_group_id(0), item = (int)get_local_id(0);
  int cell = first + group * (GROUP_SIZE * CELLS) + item;

  // gather
% for entry in plan.lists:
  ushort r_places${entry.number}[${entry.num_basis}];
% endfor
  {
${load_places()}\
  }
% for entry in plan.lists:
<% n = entry.number %>\
  const int slice${n} = d_slices${n}[group], slices${n} = d_slices${n}[group + 1] - slice${n};
  for (int i = item; i < slices${n}; i += GROUP_SIZE) s_bases${n}[i] = d_bases${n}[slice${n} + i];
  for (int i = item; i < ${slice} * slices${n}; i += GROUP_SIZE) {
    const int slot = ${slice} * slice${n} + i;
% if entry.fields:
    const int offset = d_nodes${n}[slot];
% endif
% for field in (fields[name] for name in entry.fields):
    for (int c = 0; c < ${field.num_comp}; ++c) s_${field.name}[c * ${entry.num_slots} + i] = ${at_node(field, entry)};
% endfor
% if entry.coords:
    for (int d = 0; d < DIM; ++d) s_x[d * ${entry.num_slots} + i] = d_coords[d_vertices${n}[slot] + d];
% endif
  }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);

  for (int k = 0; k < CELLS; ++k) {
    if (cell < first + count) {
<%include file="gather.mako"/>
% for i, row in enumerate(work.rows):
  accum r_f${i}_e[${row.size}];
  UNROLL
  for (int i = 0; i < ${row.size}; ++i) r_f${i}_e[i] = 0;
% endfor

  POINTS_UNROLL
  for (int q = 0; q < NUM_QPTS; ++q) {
<%include file="point.mako"/>
% if work.target == "diagonal":
<%include file="diagonal.mako"/>\
% endif
  }

% for entry in plan.lists:
<% n = entry.number %>\
  UNROLL
  for (int b = 0; b < ${entry.num_basis}; ++b) {
    const int slot = SLOT(r_places${n}[b]), place = s_bases${n}[slot / ${slice}] + RESULT(r_places${n}[b]) * ${slice_row} + slot % ${slice};
    for (int c = 0; c < ${entry.num_comp}; ++c) s_sums${n}[c * ${entry.num_places} + place] = r_f${n}_e[b * ${entry.num_comp} + c];
  }
% endfor
    }
% if plan.cells > 1:
    cell += GROUP_SIZE;
${load_places()}\
% endif
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
% for entry in plan.lists:
<% n = entry.number %>\
  for (int i = item; i < ${slice} * slices${n}; i += GROUP_SIZE) {
    const int slot = ${slice} * slice${n} + i, results = d_counts${n}[slot], offset = d_nodes${n}[slot];
    const int place = s_bases${n}[i / ${slice}] + i % ${slice};
    for (int c = 0; c < (results ? ${entry.num_comp} : 0); ++c) {
% if entry.masked:
      if (${"IS_PRESCRIBED(offset, c)" if entry.num_comp > 1 else "offset < 0"}) continue;
% endif
      accum sum = 0;
      for (int k = 0; k < results; ++k) sum += s_sums${n}[c * ${entry.num_places} + place + k * ${slice_row}];
      atomic_add_scalar(d_out + ${"NODE(offset)" if entry.masked else "offset"} + c, (scalar)sum${" * r_scale" * plan.sums_dots});
% if plan.sums_dots:
      r_dot += (double)sum * ${direction_at_node(entry)};
% endif
    }
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
